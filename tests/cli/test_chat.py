"""``agentkit chat`` as people and scripts use it: in a pipe, in a terminal, and across ``kill -9``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import pytest

from agentkit import Agent
from agentkit.cli import main
from agentkit.testing import FakeClock, ManualRuntime

CHAT = [sys.executable, "-m", "agentkit.cli", "chat", "--timezone", "Europe/Berlin"]


def chatted(folder: Path, text: str | bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    """Return how a chat that was fed a text from a pipe ended."""
    given = text.encode() if isinstance(text, str) else text
    command = [*CHAT, "--store", f"sqlite:///{folder}/chat.db", *options]
    return subprocess.run(command, input=given, capture_output=True, check=False, timeout=60)


def until(output: IO[bytes], text: bytes) -> bytes:
    """Read lines until one has a text in it."""
    while text not in (line := output.readline()):
        assert line, f"the output ended before {text!r}"
    return line


@pytest.mark.timeout(60)
def test_a_conversation_in_a_pipe(tmp_path: Path) -> None:
    """Answers in order, then reminders for as long as it lingers; no prompt."""
    done = chatted(tmp_path, "in 1 second tell me to stretch\nlist\n", "--linger", "2.5")

    lines = done.stdout.decode().splitlines()
    assert (done.returncode, done.stderr) == (0, b"")
    assert lines[0].startswith(f"Reminders are kept in {tmp_path}/chat.db; times are in Europe/Berlin.")
    assert lines[2] == "Scheduled #1 stretch"
    assert lines[4].startswith("#1 stretch - next ")
    assert lines[5].endswith("] Reminder: stretch")


def test_json_lines(tmp_path: Path) -> None:
    """Only replies and reminders, one object a line."""
    done = chatted(tmp_path, "in 1 second tell me to stretch\n", "--linger", "2.5", "--json")

    reply, reminder = (json.loads(line) for line in done.stdout.splitlines())
    assert reply["type"] == "reply"
    assert (reminder["type"], reminder["text"], reminder["note"]) == ("reminder", "stretch", "")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"list", id="no line end"),
        pytest.param(b"\xff\xfe\x00list\r\n\n\n", id="no utf-8"),
        pytest.param(b"x" * 300_000 + b"\nlist\n", id="a long line"),
        pytest.param(b"in 5 min \x1b[2Jlook\n/quit\nlist\n", id="control sequences"),
    ],
)
def test_any_input_in_a_pipe(tmp_path: Path, given: bytes) -> None:
    """It ends well, with nothing on standard error and no control sequence on standard output."""
    done = chatted(tmp_path, given)

    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\x1b" not in done.stdout


@pytest.mark.timeout(90)
def test_a_reminder_survives_kill_9(tmp_path: Path) -> None:
    """Made in a process that is killed, it comes in the next one; due meanwhile, it says how late it is."""
    command = [*CHAT, "--store", f"sqlite:///{tmp_path}/chat.db", "--linger", "60"]
    with talking(command) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b"in 1 second tell me to stretch\n")
        first.stdin.flush()
        until(first.stdout, b"Scheduled #1 stretch")
        until(first.stdout, b"once, on ")
        first.send_signal(signal.SIGKILL)
        first.wait()

    with talking(command) as second:
        assert second.stdout is not None
        line = until(second.stdout, b"Reminder: ")
        second.send_signal(signal.SIGTERM)
        code = second.wait(timeout=30)

    assert b"Reminder: stretch" in line
    assert code == 0


async def test_jobs_of_another_program_are_left_alone(tmp_path: Path) -> None:
    """A store may be shared with a bot of the user's, whatever its class is called."""

    class ReminderBot(Agent):
        async def make(self) -> None:
            await self.schedule(0.1, self.remind)

        async def remind(self) -> None:
            """Never run here."""

    start = datetime(2026, 1, 1, tzinfo=UTC)
    async with ManualRuntime(ReminderBot, store=f"sqlite:///{tmp_path}/chat.db", clock=FakeClock(start)) as runtime:
        await runtime.get(ReminderBot, "me").make()

    done = chatted(tmp_path, "list\n", "--linger", "0.5")

    assert done.stdout.decode().splitlines()[-1] == "Nothing is scheduled."
    async with ManualRuntime(ReminderBot, store=f"sqlite:///{tmp_path}/chat.db", clock=FakeClock(start)) as runtime:
        assert len(await runtime.get(ReminderBot, "me").list_schedules()) == 1


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "x", ""])
def test_linger_is_a_number_of_seconds(capsys: pytest.CaptureFixture[str], seconds: str) -> None:
    """Anything else is a wrong call."""
    code = main(["chat", "--linger", seconds])

    assert code == 2
    assert "is no number of seconds" in capsys.readouterr().err


@contextmanager
def talking(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a chat, and make sure that it is gone and its pipes are closed."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.mark.timeout(60)
@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_a_terminal_has_a_prompt_and_is_set_back(tmp_path: Path) -> None:
    """A reminder that fires while a line is typed leaves the line as it was; Ctrl+C ends with the terminal in order."""
    import pty
    import termios

    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    command = [*CHAT, "--store", f"sqlite:///{tmp_path}/chat.db"]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"}, start_new_session=True
    )
    try:
        shown = seen(master, "> ")
        os.write(master, b"in 1 second tell me to stretch\n")
        shown += seen(master, "once, on")
        os.write(master, b"every weekday at 9 se")
        shown += seen(master, "Reminder: stretch")
        os.write(master, b"nd the report\n")
        shown += seen(master, "Scheduled #1 send the report")
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=30)
        after = termios.tcgetattr(slave)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)

    assert code == 0
    assert after == before


def seen(terminal: int, text: str) -> str:
    """Read a terminal until a text has appeared."""
    found, deadline = "", time.monotonic() + 30
    while text not in found:
        assert time.monotonic() < deadline, found
        found += os.read(terminal, 4096).decode("utf-8", "replace")
    return found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--timezone", "Mars/Base"), "time zone 'Mars/Base' is unknown"),
        (("--name", ""), "agent name '' is empty"),
        (("--store", "nonsense://x"), "write sqlite:///bots.db"),
        (("--store", "sqlite:////dev/null/x.db"), "check the path"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], message: str,
) -> None:  # fmt: skip
    """Exit code 1 and a message, no traceback."""
    monkeypatch.setenv("AGENTKIT_STORE", f"sqlite:///{tmp_path}/chat.db")
    with (tmp_path / "nothing").open("w+") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code = main(["chat", *arguments])

    printed = capsys.readouterr().err
    assert code == 1
    assert message in printed
    assert printed.count("\n") == 1


@pytest.mark.timeout(60)
def test_a_store_in_use(tmp_path: Path) -> None:
    """A second chat on one store is told so."""
    with talking([*CHAT, "--store", f"sqlite:///{tmp_path}/chat.db", "--linger", "60"]) as first:
        assert first.stdout is not None
        until(first.stdout, b"Say what")
        done = chatted(tmp_path, "list\n")

    assert done.returncode == 1
    assert b"is in use by another agentkit process" in done.stderr
    assert b"Traceback" not in done.stderr
