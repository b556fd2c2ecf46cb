"""Shows a person what the agent does: a line a step, a line a detail, and a summary at the end."""

from __future__ import annotations

import asyncio
import time

from rich.console import Console
from rich.panel import Panel
from rich.status import Status
from rich.text import Text

from agentkit.plain_text import one_line, several_lines
from examples.coding_agent.agent import Progress

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_ENDS = {True: ("passed", "green"), False: ("failed", "red"), None: ("none that I know how to run", "yellow")}


class ConsoleWatcher:
    """The agent's ``Watcher`` on a terminal; everything from a sandbox is shown as text, never obeyed as control.

    Attributes:
        is_through: Set once the agent is finished, or has given up.
    """

    def __init__(self, console: Console) -> None:
        self.is_through = asyncio.Event()
        self._console = console
        self._began = time.monotonic()
        self._status: Status | None = None

    def step(self, text: str) -> None:
        """See ``Watcher``."""
        passed = f"{time.monotonic() - self._began:6.1f} s"
        self._console.print(Text.assemble((passed, "dim"), "  ", (one_line(text), "bold")))
        self.waiting(text)

    def detail(self, text: str) -> None:
        """See ``Watcher``."""
        for line in several_lines(text).splitlines():
            self._console.print(Text.assemble("            ", (line[:400], "dim")), soft_wrap=True)

    def finished(self) -> None:
        """See ``Watcher``."""
        self.is_through.set()

    def waiting(self, text: str) -> None:
        """Show in the last line, on a terminal, what goes on."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(Text(one_line(text)))

    def close(self) -> None:
        """Take the last line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def show_outcome(console: Console, progress: Progress) -> None:
    """Print what came of it."""
    result = progress.result
    console.rule("What changed")
    for line in several_lines(result.diff).splitlines() or ["nothing"]:
        # Never wrapped: what is printed is a patch.
        console.print(Text(line, style=_COLOURS.get(line[:1], "")), soft_wrap=True)
    if result.tests_passed is not None:
        console.rule("The tests at the end")
        console.print(Text(several_lines(result.tests).strip()[-3_000:]))
    told, colour = _ENDS[result.tests_passed]
    lines = [
        Text.assemble("Tests: ", (told, colour)),
        Text(f"Files changed: {result.diff.count('diff --git ')}"),
        Text(f"Development server answered {len(result.page)} times, before and after the break"),
        Text(f"The model's run: {result.ended}"),
    ]
    if result.report:
        lines += [Text(""), Text(several_lines(result.report))]
    console.print(Panel(Text("\n").join(lines), title="Done", border_style=colour))
