"""Serve the agents of a runtime until SIGINT or SIGTERM.

TARGET is MODULE:NAME, where NAME is a Runtime, or a function (plain or async) that returns one:

  agentkit run bots:runtime

The module is looked for in the current folder first. On a signal running jobs get their time to finish; a second
signal cuts that short.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace
from types import TracebackType
from typing import Any

from agentkit.cli.output import fail
from agentkit.errors import AgentKitError, ConfigurationError
from agentkit.runtime import Runtime


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("target", metavar="MODULE:NAME", help="where the runtime is, such as bots:runtime")
    parser.add_argument("--verbose", "-v", action="store_true", help="log every event")
    parser.add_argument("--quiet", "-q", action="store_true", help="log warnings and errors only")


def run(options: Namespace) -> int:
    """Serve; returns the exit code once a signal has come and everything is drained."""
    level = logging.DEBUG if options.verbose else logging.WARNING if options.quiet else logging.INFO
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("agentkit").setLevel(level)
    sys.path.insert(0, os.getcwd())
    try:
        return asyncio.run(_serve(options.target))
    except _UserCodeError as failed:
        error = failed.error
        if isinstance(error, SyntaxError):
            error = error.with_traceback(None)
        traceback.print_exception(error.with_traceback(_own_frames(error.__traceback__)))
        return fail(f"{options.target}: {failed.what} raised {type(error).__name__}")


class _UserCodeError(Exception):
    """The user's module or function raised; the reader wants its traceback, without ours."""

    def __init__(self, what: str, error: Exception) -> None:
        self.what = what
        self.error = error
        super().__init__(what)


def load(target: str) -> Any:
    """Import what ``MODULE:NAME`` names.

    Raises:
        ConfigurationError: There is no such module or name.
    """
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        raise ConfigurationError(f"{target!r} is not MODULE:NAME; write bots:runtime for `runtime` in bots.py")
    if module_name.endswith(".py") or "/" in module_name:
        dotted = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise ConfigurationError(f"{module_name!r} is a file; name the module, as in {dotted}:{path}")
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"module {module_name!r} imports {error.name!r}, which is not installed"
            ) from error
        message = f"there is no module {module_name!r} here or among the installed ones (folder: {os.getcwd()})"
        raise ConfigurationError(message) from error
    except Exception as error:
        raise _UserCodeError("importing the module", error) from error
    for name in path.split("."):
        if not hasattr(found, name):
            known = sorted(key for key, value in vars(found).items() if isinstance(value, Runtime))
            hint = f"; it has {', '.join(known)}" if known else ""
            raise ConfigurationError(f"{module_name!r} has no {path!r}{hint}")
        found = getattr(found, name)
    return found


async def _serve(target: str) -> int:
    runtime = await _runtime(load(target), target)
    async with runtime:
        logging.getLogger("agentkit").info("ready; Ctrl+C or SIGTERM stops")
        await runtime.run()
    return 0


async def _runtime(found: Any, target: str) -> Runtime:
    """Return the runtime that was named, or that the function named returns."""
    if callable(found) and not isinstance(found, Runtime | type):
        try:
            found = found()
            if inspect.isawaitable(found):
                found = await found
        except AgentKitError:
            raise
        except Exception as error:
            raise _UserCodeError("the function", error) from error
    if not isinstance(found, Runtime):
        kind = "a class" if isinstance(found, type) else f"of type {type(found).__name__}"
        raise ConfigurationError(f"{target} is {kind}; name a Runtime, or a function that returns one")
    return found


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the user's first frame on."""
    own = frames
    while own is not None and (
        own.tb_frame.f_code.co_filename == __file__ or "importlib" in own.tb_frame.f_code.co_filename
    ):
        own = own.tb_next
    return own or frames
