"""Where the command line begins: finds the command, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Final

#: Exit codes that scripts may rely on.
DONE: Final = 0
FAILED: Final = 1
WRONGLY_CALLED: Final = 2
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

COMMANDS: Final = {
    "run": "serve the agents of your runtime until SIGINT or SIGTERM",
    "chat": "talk to a reminder bot in the terminal",
    "parse": "show how a sentence is understood",
    "agents": "list the agents of a store",
    "schedules": "list what is scheduled, and when it runs next",
    "history": "list the runs that ended, with their errors",
    "cancel": "delete a schedule of a store that no process serves",
    "pause": "let a schedule rest",
    "resume": "let a paused schedule run again",
    "run-now": "let a schedule run once, whatever its time",
    "requeue": "bring the job of a failed run back",
    "sandboxes": "list the sandboxes of a store; stop, destroy, or clear away what was left behind",
    "doctor": "check what is installed and reachable, and say how to fix the rest",
}
_MODULES: Final = dict.fromkeys(("cancel", "pause", "resume", "run-now", "requeue"), "change")
_EPILOG: Final = """\
exit codes: 0 done, 1 could not be done, 2 wrongly called, 130 interrupted
`agentkit COMMAND --help` describes a command. The store is --store, else $AGENTKIT_STORE, else sqlite:///agentkit.db.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Args:
        arguments: Without the program's name; None means those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    _never_fail_to_print()
    chosen = next((argument for argument in given if not argument.startswith("-")), None)
    module = import_module(f"agentkit.cli.{_MODULES.get(chosen, chosen)}") if chosen in COMMANDS else None
    parser = _parser(chosen, module)
    try:
        options = parser.parse_args(given)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else WRONGLY_CALLED
    if options.version:
        print(_version())
        return DONE
    if module is None:
        parser.print_help(sys.stderr)
        return WRONGLY_CALLED
    return _guarded(module.run, options)


def _parser(chosen: str | None, module: ModuleType | None) -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentkit",
        usage="agentkit [--help] [--version] COMMAND ...",
        description=_description(),
        epilog=_EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(dest="command", prog="agentkit", metavar="COMMAND", help=SUPPRESS)
    for name, summary in COMMANDS.items():
        is_chosen = name == chosen and module is not None
        command = commands.add_parser(
            name,
            description=(module.__doc__ if is_chosen and module else summary),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if is_chosen and module:
            module.add_arguments(command)
        command.add_argument("--version", action="store_true", default=SUPPRESS, help=SUPPRESS)
    return parser


def _description() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name.ljust(width)}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(["Durable agents: they remember, and wake when something is due.", "", "commands:", *lines])


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"agentkit {version('agentkit')}"
    except PackageNotFoundError:
        return "agentkit (not installed: run from its source)"


def _guarded(run: Callable[[Namespace], int], options: Namespace) -> int:
    """Run a command; a user's mistake becomes one line, never a traceback."""
    from agentkit.cli.output import fail
    from agentkit.errors import AgentKitError

    try:
        code = run(options)
        print(end="", flush=True)
    except AgentKitError as error:
        return fail(str(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left. Python flushes once more at exit, which would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    return code


def _never_fail_to_print() -> None:
    """Let a terminal that lacks a character show a question mark instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
