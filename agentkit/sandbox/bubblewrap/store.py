"""The state directory of the bubblewrap engine: what there is of each instance, snapshot and volume.

```text
instances/NAME/record.json      what it is; without one it doesn't exist
               keeper.json      the process that waits for its end, of the last start
               inner.json       its first process and its watchdog
               status           what the main process ended with; empty while it runs
               etc/, disk/, buckets/
snapshots/ID/record.json, disk.tar
          .ID-…                 being made or deleted, by somebody who holds .lock
volumes/STORE/NAME/
locks/NAME                      locked while an instance is made, started or removed, by whatever process
```
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentkit.clock import from_ms
from agentkit.errors import SandboxError
from agentkit.sandbox.bubblewrap.launch import identity_of
from agentkit.sandbox.bubblewrap.processes import Identity, Inner, inner_of, is_alive
from agentkit.sandbox.engine import EXIT_ASKED, MANAGED, SNAPSHOT, Instance, SavedImage

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_KILLED = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What an instance is, for as long as it exists.

    Attributes:
        name: The engine's name for it.
        labels: All that it was given.
        created_at_ms: When.
        image: The directory with its system files; empty means this machine's.
        uid: The host's number of its user.
        gid: The host's number of its group.
        buckets: Paths inside of directories that live as long as it does, and no snapshot holds.
        volumes: Names of its volumes.
    """

    name: str
    labels: Mapping[str, str]
    created_at_ms: int
    image: str
    uid: int
    gid: int
    buckets: list[str]
    volumes: list[str]


class InstanceFolder:
    """One instance's directory; every method blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.disk = path / "disk"
        self.settings = path / "etc"
        self.buckets = path / "buckets"
        self.keeper = path / "keeper.json"
        self.inner = path / "inner.json"
        self.status = path / "status"
        self._record = path / "record.json"

    def record(self) -> Record | None:
        """Return what it is, or None if there is none."""
        found = _read(self._record)
        return None if found is None else Record(**found)

    def write_record(self, record: Record) -> None:
        """Let it exist."""
        _write(self._record, asdict(record))

    def forget(self) -> None:
        """Let it not exist any more."""
        self._record.unlink(missing_ok=True)

    def forget_run(self) -> None:
        """Forget the last start."""
        for path in (self.keeper, self.inner, self.status):
            path.unlink(missing_ok=True)

    def keeper_identity(self) -> Identity | None:
        """Return the process that waits for its end, of the last start, or None if it was never started."""
        found: Identity | None = _read(self.keeper)
        return found

    def living(self) -> list[Identity]:
        """Return those processes of its last start that tell whether it goes on; it does while there is one."""
        first = (_read(self.inner) or {}).get("first")
        return [process for process in (self.keeper_identity(), first) if process is not None and is_alive(process)]

    def find_inner(self) -> Inner | None:
        """Return what holds it together, or None while that isn't there (any more)."""
        found = _read(self.inner)
        if found is not None:
            inner = Inner(**found)
            return inner if is_alive(inner.main) else None
        keeper = self.keeper_identity()
        looked_up = None if keeper is None or not is_alive(keeper) else inner_of(int(keeper[0]))
        if looked_up is not None:
            _write(self.inner, asdict(looked_up))
        return looked_up

    def exit_code(self) -> int | None:
        """Return what its main process ended with; None if it runs, or never did."""
        keeper = self.keeper_identity()
        if keeper is None or self.living():
            return None
        with suppress(FileNotFoundError, ValueError):
            return int(self.status.read_text())
        # Whoever should have noted it was killed, or the machine went down with it.
        code = _KILLED if keeper[2] == identity_of(os.getpid())[2] else EXIT_ASKED
        self.status.write_text(str(code))
        return code

    def instance(self, record: Record) -> Instance:
        """Return what an engine tells of it."""
        exit_code = self.exit_code()
        stopped_at = None
        if exit_code is not None:
            stopped_at = from_ms(self.status.stat().st_mtime_ns // 1_000_000)
        return Instance(
            name=record.name,
            is_running=exit_code is None and self.keeper_identity() is not None,
            labels=record.labels,
            exit_code=exit_code,
            created_at=from_ms(record.created_at_ms),
            stopped_at=stopped_at,
        )


class StateDirectory:
    """See the module; every method blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make(self) -> None:
        """Make it, for this user alone."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        for name in ("instances", "snapshots", "volumes", "locks"):
            (self.path / name).mkdir(exist_ok=True)

    @contextmanager
    def lock(self, name: str) -> Iterator[int]:
        """Be the only one who makes, starts or removes an instance; gives the descriptor that holds the lock."""
        self.make()
        path = self.path / "locks" / _checked(name)
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                # Whoever held it before may have removed the file.
                with suppress(FileNotFoundError):
                    if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                        yield descriptor
                        return
            finally:
                os.close(descriptor)

    def unlock_for_good(self, name: str) -> None:
        """Remove the lock's file, while holding it: there is no such instance any more."""
        (self.path / "locks" / _checked(name)).unlink(missing_ok=True)

    def instance(self, name: str) -> InstanceFolder:
        """Return the directory of an instance, which may not be there."""
        return InstanceFolder(self.path / "instances" / _checked(name))

    def instances(self) -> list[tuple[InstanceFolder, Record]]:
        """Return all instances that exist."""
        folders = [InstanceFolder(path) for path in _entries(self.path / "instances")]
        return [(folder, record) for folder in folders if (record := folder.record()) is not None]

    def volume(self, store: str, name: str) -> Path:
        """Return the directory of a volume, which may not be there."""
        return self.path / "volumes" / hashlib.sha256(store.encode()).hexdigest()[:24] / _checked(name)

    # snapshots

    def snapshot_disk(self, snapshot: str) -> Path | None:
        """Return the archive of a snapshot's disk, or None if there is no such snapshot."""
        path = self._snapshot(snapshot)
        return path / "disk.tar" if (path / "record.json").exists() else None

    def snapshot_image(self, snapshot: str) -> str:
        """Return the directory with a snapshot's system files; empty means this machine's."""
        return str((_read(self._snapshot(snapshot) / "record.json") or {}).get("image", ""))

    @contextmanager
    def new_snapshot(self, snapshot: str, image: str, labels: Mapping[str, str], now_ms: int) -> Iterator[Path]:
        """Give the path for the archive of a new snapshot, which exists when the block ends well."""
        with self._changing_snapshots():
            hidden = self._hidden(snapshot)
            hidden.mkdir()
            try:
                yield hidden / "disk.tar"
                record = {"labels": {**labels, SNAPSHOT: snapshot}, "saved_at_ms": now_ms, "image": image}
                _write(hidden / "record.json", record)
                _sync(hidden)
                os.rename(hidden, self._snapshot(snapshot))
            finally:
                shutil.rmtree(hidden, ignore_errors=True)

    def saved(self) -> list[SavedImage]:
        """Return all snapshots that labels say are ours."""
        found = []
        for path in _entries(self.path / "snapshots"):
            if not path.name.startswith(".") and (record := _read(path / "record.json")) is not None:
                found.append(_saved_image(path, record))
        return [image for image in found if image.labels.get(MANAGED) == "1"]

    def saved_one(self, snapshot: str) -> SavedImage:
        """Return a snapshot that is known to exist."""
        path = self._snapshot(snapshot)
        return _saved_image(path, _read(path / "record.json") or {})

    def delete_saved(self, snapshot: str) -> bool:
        """Delete a snapshot; False if there was none."""
        with self._changing_snapshots():
            hidden = self._hidden(snapshot)
            try:
                os.rename(self._snapshot(snapshot), hidden)
            except FileNotFoundError:
                return False
            shutil.rmtree(hidden)
            return True

    @contextmanager
    def _changing_snapshots(self) -> Iterator[None]:
        """Make or delete snapshots in the block; what others have left halfway, who were killed, is removed first."""
        self.make()
        with (self.path / "snapshots" / ".lock").open("w") as file:
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for path in _entries(self.path / "snapshots"):
                    if path.name.startswith(".") and path.name != ".lock":
                        shutil.rmtree(path)
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def _hidden(self, snapshot: str) -> Path:
        return self.path / "snapshots" / f".{_checked(snapshot)}-{os.urandom(8).hex()}"

    def _snapshot(self, snapshot: str) -> Path:
        return self.path / "snapshots" / _checked(snapshot)


def _saved_image(path: Path, record: Mapping[str, Any]) -> SavedImage:
    size = (path / "disk.tar").stat().st_size
    return SavedImage(id=path.name, labels=record["labels"], size=size, saved_at=from_ms(record["saved_at_ms"]))


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SandboxError(f"the engine bubblewrap takes names of letters, digits, '_', '.' and '-', got {name!r}")
    return name


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None


def _write(path: Path, value: Any) -> None:
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
