"""The point of agentkit in twenty seconds: a reminder made in a process that is then killed comes on time in the next.

Run with ``make demo``. It starts the real command line, ``agentkit chat``, on a temporary store.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

REQUESTS = ("in 10 seconds tell me to stretch", "every weekday at 9 send the report")
DELAY = 10.0
#: The machine may be busy.
PATIENCE = 12.0


class Chat:
    """``agentkit chat`` in a process of its own, with what it printed so far."""

    def __init__(self, store: Path) -> None:
        command = [sys.executable, "-m", "agentkit.cli", "chat", "--store", f"sqlite:///{store}", "--linger", "60"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self.heard = threading.Condition()
        assert self.process.stdout is not None
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, output: IO[str]) -> None:
        for line in output:
            print(f"    {line}", end="", flush=True)
            with self.heard:
                self.lines.append(line.strip())
                self.heard.notify_all()

    def say(self, text: str) -> None:
        print(f"  > {text}", flush=True)
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died; the missing answer tells
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()

    def wait_for(self, is_it: Callable[[str], bool], timeout: float) -> bool:
        with self.heard:
            return self.heard.wait_for(lambda: any(is_it(line) for line in self.lines), timeout)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def tell(text: str) -> None:
    print(f"\n{text}", flush=True)


def show(store: Path) -> float | None:
    """Play the scene; return how many seconds after its time the reminder came, or None if it did not."""
    tell("1. A reminder bot in a process of its own. Two requests in plain words:")
    chat = Chat(store)
    try:
        chat.wait_for(lambda line: line.startswith("Say what"), PATIENCE)
        chat.say(REQUESTS[0])
        is_made = chat.wait_for(lambda line: line.startswith("once, on"), PATIENCE)
        due_at = time.monotonic() + DELAY
        chat.say(REQUESTS[1])
        is_made = chat.wait_for(lambda line: line.startswith("next:"), PATIENCE) and is_made
        tell(f"2. kill -9 {chat.process.pid}: no goodbye, no clean-up. Nothing is left but the file {store.name}.")
    finally:
        chat.end(signal.SIGKILL)
    if not is_made:
        return None
    time.sleep(3)
    tell("3. Three seconds later another process opens the same file. We only ask what it knows, and wait:")
    chat = Chat(store)
    try:
        chat.wait_for(lambda line: line.startswith("Say what"), PATIENCE)
        chat.say("list")
        has_come = chat.wait_for(lambda line: "Reminder: stretch" in line, DELAY + PATIENCE)
        came_at = time.monotonic()
    finally:
        chat.end(signal.SIGTERM)
    return came_at - due_at if has_come else None


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="agentkit-demo-") as folder:
        late = show(Path(folder) / "reminders.db")
    if late is None:
        tell("The reminder did not come. That is a bug; please report it with the output above.")
        return 1
    tell(
        f"The reminder that the killed process had made came on time (within {max(late, 0.0) + 0.05:.1f} s),\n"
        "and the weekday report is still scheduled. Talk to the bot yourself: agentkit chat"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
