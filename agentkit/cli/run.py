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
from typing import Any

from agentkit.cli.output import fail
from agentkit.errors import ConfigurationError
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
        target = load(options.target)
    except ConfigurationError:
        raise
    except Exception as error:  # the user's module runs here
        traceback.print_exception(error.with_traceback(_own_frames(error)), limit=-20)
        return fail(f"{options.target.partition(':')[0]} raised {type(error).__name__} while it was imported")
    asyncio.run(_serve(target, options.target))
    return 0


def load(target: str) -> Any:
    """Import what ``MODULE:NAME`` names.

    Raises:
        ConfigurationError: There is no such module or name; what the module itself raises comes through.
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
            raise ConfigurationError(f"{module_name} needs {error.name}, which is not installed") from error
        message = f"there is no module {module_name!r} here or among the installed ones (folder: {os.getcwd()})"
        raise ConfigurationError(message) from error
    for name in path.split("."):
        if not hasattr(found, name):
            known = sorted(key for key, value in vars(found).items() if isinstance(value, Runtime))
            hint = f"; it has {', '.join(known)}" if known else ""
            raise ConfigurationError(f"{module_name!r} has no {path!r}{hint}")
        found = getattr(found, name)
    return found


async def _serve(target: Any, name: str) -> None:
    if not isinstance(target, Runtime) and callable(target):
        target = target()
        if inspect.isawaitable(target):
            target = await target
    if not isinstance(target, Runtime):
        raise ConfigurationError(f"{name} is {type(target).__name__}, not a Runtime nor a function that returns one")
    async with target:
        logging.getLogger("agentkit").info("ready; Ctrl+C or SIGTERM stops")
        await target.run()


def _own_frames(error: BaseException) -> Any:
    """Return the traceback from the user's first frame on."""
    frames = error.__traceback__
    while frames is not None and (
        "importlib" in frames.tb_frame.f_code.co_filename or frames.tb_frame.f_code.co_filename == __file__
    ):
        frames = frames.tb_next
    return frames or error.__traceback__
