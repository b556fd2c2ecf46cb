"""What the inside of a bubblewrap sandbox looks like, as arguments for bubblewrap.

The system's own files are read-only, this machine's or those of a directory with another Linux. What a sandbox may
change lies in a few directories of its disk; nothing else of the host can be seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentkit.sandbox.spec import HOME, WORKSPACE

#: Of the host's root: programs and libraries.
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix")
#: Of the host's /etc: what programs need and everybody may know.
_SETTINGS = (
    *(
        "alternatives",
        "ca-certificates",
        "ca-certificates.conf",
        "debian_version",
        "fonts",
        "ld.so.cache",
        "ld.so.conf",
    ),
    *("ld.so.conf.d", "localtime", "magic", "mime.types", "os-release", "pki/tls/certs", "pki/ca-trust/extracted"),
    *("protocols", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"),
)
#: Of an image's root: all but these, which are ours to provide.
_OWN = frozenset(("dev", "home", "media", "mnt", "proc", "run", "sys", "tmp", "workspace"))
_MEMORY_SIZE = 64 << 20
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

#: The directories of a disk, and where each appears; what else is inside can't be changed.
DISK = {"home": HOME, "workspace": WORKSPACE, "tmp": "/tmp", "var-tmp": "/var/tmp"}
_SHARED = frozenset(("tmp", "var-tmp"))


def disk_modes() -> dict[str, int]:
    """Return the directories of a new disk and their permissions."""
    return {name: 0o1777 if name in _SHARED else 0o755 for name in DISK}


@dataclass(slots=True)
class Stage:
    """Where bubblewrap, running as another user than ours, finds directories that are ours alone.

    Root shows them to it below ``at``, in a mount namespace made for that; for everybody else they are where they are.

    Attributes:
        at: A directory of the host's that is hidden by that, or None if nothing needs to be shown.
        places: Paths below ``at``, and what they show.
    """

    at: str | None
    places: dict[str, str] = field(default_factory=dict)

    def show(self, directory: Path) -> str:
        """Return the path by which bubblewrap reaches a directory."""
        if self.at is None:
            return str(directory)
        for path, source in self.places.items():
            if source == str(directory):
                return path
        path = f"{self.at}/{len(self.places)}"
        self.places[path] = str(directory)
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A directory of the host that appears inside."""

    source: Path
    path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is seen inside.

    Attributes:
        uid: The user's number inside.
        gid: The group's number inside.
        disk: Holds the directories of ``DISK``.
        settings: Holds what of /etc is made for the sandbox; unused with an image.
        image: A directory with another Linux, or None for this machine's.
        shown: Volumes, mounts, buckets.
        has_network: The network is the host's.
    """

    uid: int
    gid: int
    disk: Path
    settings: Path
    image: Path | None
    shown: tuple[Shown, ...] = ()
    has_network: bool = False


def view_arguments(view: View, stage: Stage) -> list[str]:
    """Return bubblewrap's arguments for an instance."""
    arguments = [*isolation(view.uid, view.gid, has_network=view.has_network), "--new-session", "--hostname", "sandbox"]
    arguments += _directories(view)
    arguments += _image(view.image, stage) if view.image is not None else [*_host(), *_host_settings(view, stage)]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    # What lies in memory is bounded, since the memory of a sandbox isn't.
    arguments += ["--perms", "1777", "--size", str(_MEMORY_SIZE), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    arguments += ["--perms", "0755", "--size", str(_MEMORY_SIZE), "--tmpfs", "/run"]
    disk = stage.show(view.disk)
    for name, path in DISK.items():
        if view.image is None or name != "var-tmp" or (view.image / "var/tmp").is_dir():
            arguments += ["--bind", f"{disk}/{name}", path]
    for one in sorted(view.shown, key=lambda one: one.path):
        arguments += ["--ro-bind" if one.read_only else "--bind", stage.show(one.source), one.path]
    arguments += ["--remount-ro", "/", "--clearenv", "--setenv", "PATH", PATH, "--setenv", "HOME", HOME]
    return [*arguments, "--chdir", WORKSPACE]


def tool_arguments(shown: Mapping[str, Path], stage: Stage) -> list[str]:
    """Return bubblewrap's arguments for a program of the host's that works on directories of a sandbox.

    It sees nothing but those and the system, whatever links they hold, and may read and change every file in them.
    """
    arguments = [*isolation(0, 0, has_network=False), "--cap-add", "CAP_DAC_OVERRIDE", *_host(), "--dev", "/dev"]
    for path, source in shown.items():
        arguments += ["--bind", stage.show(source), path]
    return [*arguments, "--clearenv", "--setenv", "PATH", PATH, "--setenv", "LC_ALL", "C", "--chdir", "/"]


def isolation(uid: int, gid: int, *, has_network: bool) -> list[str]:
    """Return the arguments that part a sandbox from everything."""
    network = [] if has_network else ["--unshare-net"]
    return [
        *("--unshare-user", "--uid", str(uid), "--gid", str(gid), "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", *network, "--die-with-parent", "--cap-drop", "ALL"),
    ]


def _host() -> Iterator[str]:
    for name in _SYSTEM:
        yield from _as_it_is(Path("/") / name, f"/{name}", f"/{name}")


def _as_it_is(path: Path, source: str, target: str) -> tuple[str, ...]:
    """Return the arguments for one entry of a root directory."""
    if path.is_symlink():
        return ("--symlink", os.readlink(path), target)
    return ("--ro-bind", source, target) if path.exists() else ()


def _host_settings(view: View, stage: Stage) -> Iterator[str]:
    for name in _SETTINGS:
        # Where it leads, since it may lie outside of what is seen.
        source = os.path.realpath(f"/etc/{name}")
        if os.path.exists(source):
            yield from ("--ro-bind", source, f"/etc/{name}")
    if view.has_network and os.path.exists("/etc/resolv.conf"):
        yield from ("--ro-bind", os.path.realpath("/etc/resolv.conf"), "/etc/resolv.conf")
    settings = stage.show(view.settings)
    for name in settings_files(view.uid, view.gid):
        yield from ("--ro-bind", f"{settings}/{name}", f"/etc/{name}")


def _image(image: Path, stage: Stage) -> Iterator[str]:
    shown = stage.show(image)
    for entry in sorted(image.iterdir()):
        if entry.name not in _OWN:
            yield from _as_it_is(entry, f"{shown}/{entry.name}", f"/{entry.name}")


def _directories(view: View) -> Iterator[str]:
    for path in ("/etc", "/home", "/mnt", "/opt", "/root", "/srv", "/var"):
        if view.image is None or path == "/home":
            yield from ("--perms", "0700" if path == "/root" else "0755", "--dir", path)


def settings_files(uid: int, gid: int) -> dict[str, str]:
    """Return the files of /etc that are made for a sandbox."""
    user = f"agent:x:{uid}:{gid}::{HOME}:/bin/sh\n" if uid else ""
    group = f"agent:x:{gid}:\n" if gid else ""
    return {
        "passwd": f"root:x:0:0:root:/root:/bin/sh\n{user}nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
        "group": f"root:x:0:\n{group}nogroup:x:65534:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "hostname": "sandbox\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }
