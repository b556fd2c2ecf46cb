"""A Docker daemon of the tests' own, which they may stop and kill, in a network namespace of its own (trap T22)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import docker

_START = 60


def obstacle() -> str | None:
    """Return why a daemon can't be started here, or None."""
    if os.geteuid() != 0:
        return "a daemon of the tests' own takes root"
    missing = [program for program in ("containerd", "dockerd", "unshare") if shutil.which(program) is None]
    return f"there is no {missing[0]}" if missing else None


class OwnDocker:
    """One daemon with its data, started and stopped at will; its containerd runs on beside it, as on a real machine.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, folder: Path) -> None:
        self.url = f"unix://{folder}/socket"
        self._folder = folder
        self._containerd: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        """Start it and wait until it answers."""
        folder = self._folder
        if self._containerd is None:
            places = ["--root", f"{folder}/containerd", "--state", f"{folder}/state", "--address", f"{folder}/c.sock"]
            self._containerd = self._run("containerd", *places)
            self._wait(self._containerd, (folder / "c.sock").exists)
        places = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
        network = ["--bridge", "none", "--iptables=false", "--host", self.url, "--containerd", f"{folder}/c.sock"]
        self._process = self._run("unshare", "--net", "dockerd", *places, *network, *options)
        self._wait(self._process, self._answers)

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with open(self._folder / "log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def _wait(self, process: subprocess.Popen[bytes], is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _START
        while not is_there():
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it, politely or not, and wait for its end."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(_START)
        self._process = None

    def restart(self, how: signal.Signals, *options: str) -> None:
        """End it and start it again on the same data."""
        self.stop(how)
        self.start(*options)

    def close(self) -> None:
        """End everything."""
        if self._process is not None:
            self.stop()
        if self._containerd is not None:
            self._containerd.terminate()
            self._containerd.wait(_START)

    @contextlib.contextmanager
    def client(self) -> Iterator[docker.DockerClient]:
        """Give the library's client for it."""
        client = docker.DockerClient(self.url, version="auto", timeout=120)
        try:
            yield client
        finally:
            client.close()

    def load(self, image: str) -> None:
        """Copy an image's files from the machine's own daemon."""
        source = docker.from_env(timeout=120)
        try:
            container = source.api.create_container(image, ["true"])["Id"]
            try:
                with self.client() as target:
                    target.api.import_image_from_stream(source.api.export(container), repository=image)
            finally:
                source.api.remove_container(container)
        finally:
            source.close()

    def holds(self) -> dict[str, list[str]]:
        """Return all that is there: containers, images and volumes."""
        with self.client() as client:
            return {
                "containers": [container["Names"][0] for container in client.api.containers(all=True)],
                "images": sorted(
                    str(tag) for image in client.api.images(all=True) for tag in image["RepoTags"] or ["?"]
                ),
                "volumes": [volume["Name"] for volume in client.api.volumes()["Volumes"] or ()],
            }

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(f"{self._folder}/socket")
            except OSError:
                return False
        try:
            with self.client() as client:
                return bool(client.ping())
        except (docker.errors.DockerException, OSError):
            return False


@contextlib.contextmanager
def own_docker() -> Iterator[OwnDocker]:
    """Give a folder and a daemon that hasn't been started, and clear both away."""
    # Short, since a socket's path may have only so many letters.
    folder = Path(tempfile.mkdtemp(prefix="agentkit-docker-"))
    daemon = OwnDocker(folder)
    try:
        yield daemon
    finally:
        daemon.close()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{folder}/"):
                subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
        shutil.rmtree(folder, ignore_errors=True)
