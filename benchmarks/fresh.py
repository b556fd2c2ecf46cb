"""Runs a function in a process of its own: one that returns a value, or a worker that is killed in the end."""

from __future__ import annotations

import importlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks import event_log
from benchmarks.event_log import Event
from benchmarks.processes import cpu_seconds, resident_bytes

ROOT = Path(__file__).resolve().parent.parent
_RESULT = "RESULT "
_LOG_NAME = "events.log"


class MeasurementError(Exception):
    """A measurement's process failed; the message carries the end of what it printed."""


def run_fresh(target: str, folder: Path, *, timeout: float = 180.0, **arguments: Any) -> Any:
    """Return what ``module:function`` returns for the arguments, in a process that works in ``folder``."""
    ended = subprocess.run(
        _command(target, arguments),
        env=_environment(folder),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    for line in ended.stdout.splitlines():
        if line.startswith(_RESULT):
            return json.loads(line.removeprefix(_RESULT))
    raise MeasurementError(f"{target}: {(ended.stderr or ended.stdout)[-800:]}")


class Worker:
    """A process that serves until the block is left, which kills it.

    Attributes:
        launched_at: When it was started, in seconds since the epoch.
    """

    def __init__(self, target: str, folder: Path, **arguments: Any) -> None:
        self._log = folder / _LOG_NAME
        self._errors = (folder / "worker.log").open("ab")
        self.launched_at = time.time()
        self._process = subprocess.Popen(
            _command(target, arguments),
            env=_environment(folder),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill it and what it started (its process group is its own)."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def events(self, tag: str) -> list[Event]:
        """Return what it, and workers before it in the same folder, have recorded."""
        return event_log.events(self._log, tag)

    def wait(self, tag: str, count: int, timeout: float, *, step: float = 0.01) -> list[Event]:
        """Wait for so many events of a tag; returns what there is when the time is up."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self._process.poll() is None:
            found = self.events(tag)
            if len(found) >= count:
                return found
            time.sleep(step)
        return self.events(tag)

    @property
    def memory(self) -> int:
        """Resident bytes of it and its children."""
        return resident_bytes(self._process.pid, children=True)

    @property
    def cpu_seconds(self) -> float:
        """Processor time of it and its children so far."""
        return cpu_seconds(self._process.pid)


def forget_events(folder: Path) -> None:
    """Start a new log of events."""
    (folder / _LOG_NAME).unlink(missing_ok=True)


def _command(target: str, arguments: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.fresh", target, json.dumps(arguments)]


def _environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, event_log.VARIABLE: str(folder / _LOG_NAME)}


def main() -> None:
    """Run ``module:function`` with arguments given as JSON, and print its result."""
    logging.disable(logging.WARNING)
    module, _, name = sys.argv[1].partition(":")
    result = getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))
    print(_RESULT + json.dumps(result), flush=True)
    # Peers wait for their threads at exit; everything timed is committed.
    os._exit(0)


if __name__ == "__main__":
    main()
