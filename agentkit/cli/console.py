"""The two ends of a chat: lines that come in without blocking the event loop, and lines that are shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Final

_PROMPT: Final = "> "
_CHUNK: Final = 65_536
#: A longer line is cut: the chat refuses it anyway, and it need not fill the memory first.
_LONGEST_LINE: Final = 100_000


class Console:
    """Standard input and output as a chat uses them: with a prompt in a terminal, plain in a pipe.

    Attributes:
        is_terminal: People type here, and read what is shown.
    """

    def __init__(self, *, as_json: bool = False) -> None:
        streams = (sys.stdin, sys.stdout)
        self.is_terminal = not as_json and all(stream is not None and stream.isatty() for stream in streams)
        self._as_json = as_json
        self._is_prompting = False
        self._typed: Callable[[], str] = str
        self._saved: Any = None

    def __enter__(self) -> Console:
        """Note how the terminal is set."""
        if self.is_terminal:
            with contextlib.suppress(ImportError, OSError):
                import termios

                self._saved = termios.tcgetattr(sys.stdin.fileno())
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        """Set the terminal as it was: the thread that reads a line may still have it in its own mode."""
        if self._is_prompting:
            print(flush=True)
        if self._saved is not None:
            import termios

            termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, self._saved)

    # --- showing

    def note(self, text: str) -> None:
        """Show something about the chat itself."""
        if not self._as_json:
            self._show(text)

    def reply(self, text: str) -> None:
        """Show an answer."""
        self._show(json.dumps({"type": "reply", "text": text}) if self._as_json else text)

    def reminder(self, text: str, *, at: str, note: str) -> None:
        """Show a reminder that fired."""
        if self._as_json:
            self._show(json.dumps({"type": "reminder", "text": text, "at": at, "note": note}))
            return
        late = f" ({note})" if note else ""
        bell = "\a" if self.is_terminal else ""
        self._show(f"{bell}[{at}] Reminder: {text}{late}")

    def _show(self, text: str) -> None:
        if not self._is_prompting:
            print(text, flush=True)
            return
        # A line is being typed: put the text above it, and the line as it stood below.
        line = _PROMPT + self._typed()
        rows_above = len(line) // shutil.get_terminal_size().columns
        up = f"\x1b[{rows_above}A" if rows_above else ""
        print(f"\r{up}\x1b[J{text}\n{line}", end="", flush=True)

    # --- reading

    async def lines(self) -> AsyncIterator[str]:
        """Yield lines until the input ends.

        They are read in a daemon thread, which can't be stopped and ends with the process.
        """
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        wanted = threading.Semaphore(0)

        def give(line: str | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                loop.call_soon_threadsafe(queue.put_nowait, line)

        read = self._read_terminal if self.is_terminal else _read_pipe
        threading.Thread(target=read, args=(give, wanted), name="agentkit-chat-input", daemon=True).start()
        while True:
            self._is_prompting = self.is_terminal
            wanted.release()
            line = await queue.get()
            self._is_prompting = False
            if line is None:
                return
            yield line

    def _read_terminal(self, give: Callable[[str | None], None], wanted: threading.Semaphore) -> None:
        """Read lines with editing and a history, where Python has readline."""
        with contextlib.suppress(ImportError):
            import readline

            self._typed = readline.get_line_buffer
        while True:
            wanted.acquire()
            try:
                give(input(_PROMPT))
            except EOFError:
                give(None)
                return
            except UnicodeDecodeError:
                give("")


def _read_pipe(give: Callable[[str | None], None], wanted: threading.Semaphore) -> None:
    """Read lines from the descriptor itself: a lock of ``sys.stdin`` held at exit would abort the process."""
    buffer, is_cut = b"", False
    while chunk := _chunk():
        *whole, buffer = (buffer + chunk).split(b"\n")
        for line in whole:
            wanted.acquire()
            give(_decoded(line))
        if len(buffer) > _LONGEST_LINE:
            buffer, is_cut = buffer[:_LONGEST_LINE], True
    if buffer and not is_cut:
        wanted.acquire()
        give(_decoded(buffer))
    wanted.acquire()
    give(None)


def _chunk() -> bytes:
    """Return what comes next; nothing at the end, and where there is no input at all."""
    try:
        return b"" if sys.stdin is None else os.read(sys.stdin.fileno(), _CHUNK)
    except OSError:
        return b""


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
