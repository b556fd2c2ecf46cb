"""Check what is installed and reachable, and say how to fix the rest. The exit code is 1 if the core doesn't work."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from agentkit.cli.local_zone import local_zone
from agentkit.cli.output import print_json
from agentkit.cli.store_option import add_json, add_store, location_of, view
from agentkit.errors import AgentKitError, ConfigurationError
from agentkit.plain_text import one_line

# Upserts and window functions came with 3.24 and 3.25, `returning` with 3.35.
_OLDEST_SQLITE: Final = (3, 35, 0)
_OLDEST_PYTHON: Final = (3, 11)
_CORE: Final = ("pydantic", "croniter", "python-dateutil", "aiosqlite")
# The module that uses an extra, and the libraries it brings; extras of modules that aren't there yet are left out.
_EXTRAS: Final = {
    "model": ("agentkit.schedules.parser.model", ("instructor", "openai")),
    "docker": ("agentkit.sandbox", ("docker",)),
    "server": ("agentkit.server", ("starlette", "uvicorn")),
    "postgres": ("agentkit.store.postgres", ("psycopg",)),
}
_MARKS: Final = {"ok": "ok  ", "missing": "-   ", "warning": "warn", "failed": "FAIL"}
#: Less room than this and commits may soon fail.
_LITTLE_ROOM: Final = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing looked at.

    Attributes:
        state: ``missing`` is something optional; only ``failed`` makes the exit code 1.
        fix: What to do about it; empty if nothing.
    """

    name: str
    state: Literal["ok", "missing", "warning", "failed"]
    found: str
    fix: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's options."""
    add_store(parser)
    add_json(parser)


def run(options: Namespace) -> int:
    """Print the checks; returns the exit code."""
    checks = [*_python(), *_libraries(), *_zones(), *_extras(), *_model(), *_sandboxes(), *_store(options.store)]
    if options.json:
        print_json([asdict(check) for check in checks])
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            print(f"{_MARKS[check.state]}  {check.name.ljust(width)}  {one_line(check.found)}")
            if check.fix:
                print(f"{'':{width + 6}}  {one_line(check.fix)}")
    return 1 if any(check.state == "failed" for check in checks) else 0


def _python() -> Iterator[Check]:
    found = ".".join(str(part) for part in sys.version_info[:3])
    is_new = sys.version_info >= _OLDEST_PYTHON
    yield Check(
        name="Python",
        state="ok" if is_new else "failed",
        found=f"{found} ({sys.executable})",
        fix="" if is_new else "install Python 3.11 or newer",
    )
    is_new = sqlite3.sqlite_version_info >= _OLDEST_SQLITE
    yield Check(
        name="SQLite",
        state="ok" if is_new else "failed",
        found=sqlite3.sqlite_version,
        fix="" if is_new else "use a Python built with SQLite 3.35 or newer",
    )


def _libraries() -> Iterator[Check]:
    for name in ("agentkit", *_CORE):
        found = _installed(name)
        fix = "" if found else f"pip install {name}" if name != "agentkit" else "pip install . in a clone of agentkit"
        yield Check(
            name=name,
            state="ok" if found else "warning" if name == "agentkit" else "failed",
            found=found or "not installed",
            fix=fix,
        )


def _zones() -> Iterator[Check]:
    from zoneinfo import TZPATH, available_timezones

    count, packaged = len(available_timezones()), _installed("tzdata")
    systems = next((path for path in TZPATH if Path(path).is_dir()), None)
    source = f"the system's ({systems})" if systems else f"tzdata {packaged}"
    spare = f", tzdata {packaged} behind it" if systems and packaged else ""
    yield Check(
        name="time zones",
        state="ok" if count else "failed",
        found=f"{count} zones: {source}{spare}; this machine is set to {local_zone()}",
        fix="" if count else "pip install tzdata",
    )


def _extras() -> Iterator[Check]:
    for extra, (module, names) in _EXTRAS.items():
        if find_spec(module) is None:
            continue
        found = {name: _installed(name) for name in names}
        absent = [name for name, number in found.items() if not number]
        if absent:
            fix = f"only if you need it: pip install 'agentkit[{extra}]'"
            yield Check(name=f"extra {extra}", state="missing", found=f"without {', '.join(absent)}", fix=fix)
        else:
            shown = ", ".join(f"{name} {number}" for name, number in found.items())
            yield Check(name=f"extra {extra}", state="ok", found=shown)


def _model() -> Iterator[Check]:
    """Say what the environment tells of a model; neither the key nor a password in the URL is shown."""
    from agentkit.model_settings import is_reachable, settings_for

    named = os.environ.get("AGENTKIT_MODEL")
    if not is_reachable():
        found = "OPENAI_API_KEY and OPENAI_BASE_URL are not set"
        fix = "only if a language model should read what the rules can't: set OPENAI_API_KEY"
        yield Check(name="model", state="missing", found=found, fix=fix)
        return
    try:
        settings = settings_for(named or "unnamed")
    except ConfigurationError as error:
        yield Check(name="model", state="warning", found=str(error), fix="correct OPENAI_BASE_URL")
        return
    key = "OPENAI_API_KEY is set" if settings.api_key else "without a key"
    yield Check(
        name="model",
        state="ok",
        found=f"{named or 'none named'}, at {settings.place}, {key}",
        fix="" if named else "name one with --model NAME, or set AGENTKIT_MODEL",
    )


def _sandboxes() -> Iterator[Check]:
    """Try each engine for sandboxes; none of them is needed."""
    from agentkit.cli.engines import looked_at

    for engine in looked_at():
        yield Check(name=engine.name, state="ok" if engine.works else "missing", found=engine.found, fix=engine.fix)


def _store(url: str | None) -> Iterator[Check]:
    try:
        location = location_of(url)
    except AgentKitError as error:
        yield Check(name="store", state="failed", found=str(error), fix="correct --store or AGENTKIT_STORE")
        return
    if location == ":memory:":
        yield Check(name="store", state="ok", found="in memory: gone when its process ends")
        return
    path = Path(location)
    if not path.exists():
        yield _folder(path)
        return
    yield _file(url, path)
    yield _room(path)


def _file(url: str | None, path: Path) -> Check:
    try:
        with view(url) as viewer:
            result, agents = viewer.quick_check(), len(viewer.agents())
    except AgentKitError as error:
        return Check(
            name="store", state="failed", found=str(error), fix="restore it from a backup, or choose another path"
        )
    if result != "ok":
        fix = "stop what serves it, copy the file, and try `sqlite3 FILE .recover`"
        return Check(name="store", state="failed", found=f"{path} is damaged: {result}", fix=fix)
    if path.stat().st_mode & 0o077:
        found = f"{path}: {agents} agents, quick_check ok; others of this machine can read it"
        return Check(name="store", state="warning", found=found, fix=f"chmod 600 {path}")
    return Check(name="store", state="ok", found=f"{path}: {agents} agents, quick_check ok")


def _folder(path: Path) -> Check:
    folder = next(parent for parent in path.parents if parent.exists())
    if os.access(folder, os.W_OK):
        return Check(name="store", state="ok", found=f"{path} doesn't exist yet; the first runtime makes it")
    return Check(name="store", state="failed", found=f"{path} can't be made", fix=f"check the permissions of {folder}")


def _room(path: Path) -> Check:
    free = shutil.disk_usage(path.parent).free
    is_little = free < _LITTLE_ROOM
    found = f"{free / 1e9:,.1f} GB free in {path.parent}"
    fix = "make room: a store that can't be written stops" if is_little else ""
    return Check(name="disk", state="warning" if is_little else "ok", found=found, fix=fix)


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
