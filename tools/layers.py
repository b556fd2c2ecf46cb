"""Check that imports inside agentkit point down its layers, and that each outside library has one door.

Run as ``python -m tools.layers``. Imports inside functions count; those under ``if TYPE_CHECKING:`` don't.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

PACKAGE = "agentkit"

# From the top down: a part may import what stands below it, and its neighbours unless a | divides them.
# `agentkit` is what `import agentkit` runs. A new module at the top of the package goes here.
LAYERS = """
    testing
    cli
    server
    agentkit
    runtime
    memory_watch
    hosting alarm_service wakeups
    agent
    assistant
    harness | sandbox | schedules
    stub
    lifecycle side_tasks tracked_work
    host
    capability
    storage
    jobs
    state
    store
    options tasks telemetry stop_signals
    context clock errors events ids retry retry_after model_settings json_value plain_text prompts
"""

# Which files may import a library from outside, as paths below agentkit/.
DOORS = {
    "aiosqlite": ("store/sqlite.py", "store/private.py"),
    "croniter": ("schedules/cron.py",),
    "dateutil": ("schedules/recurrence.py",),
    "boto3": ("sandbox/buckets/client.py",),
    "botocore": ("sandbox/buckets/client.py",),
    "docker": (
        "sandbox/docker_engine.py",
        "sandbox/docker/*",
    ),
    "h11": ("sandbox/network/*",),
    "hypothesis": ("testing/*",),
    "instructor": ("schedules/parser/model.py",),
    "mcp": ("harness/mcp_tools.py",),
    "opentelemetry": ("telemetry.py",),
    "openai": ("harness/openai_model.py", "schedules/parser/endpoint.py"),
    "psycopg": ("store/postgres.py",),
    "pydantic": ("*",),
    "pytest": ("testing/*",),
    "pytest_asyncio": ("testing/*",),
    "requests": (
        "sandbox/docker_engine.py",
        "sandbox/docker/*",
    ),
    "starlette": ("server/*",),
    "typing_extensions": ("agent.py",),
    "urllib3": (
        "sandbox/docker_engine.py",
        "sandbox/docker/*",
    ),
    "uvicorn": ("server/*",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a part stands: its layer, counted from the bottom, and its group within that layer."""

    layer: int
    group: int

    def may_import(self, other: Place) -> bool:
        """Return whether an import from here to there points down, or to a neighbour of the same group."""
        return other.layer < self.layer or other == self


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One imported module, by its full dotted name, and the line that imports it."""

    module: str
    line: int


def places(layers: str) -> dict[str, Place]:
    """Return where each part of the table stands."""
    rows = [row for row in layers.splitlines() if row.strip()]
    return {
        part: Place(layer=layer, group=group)
        for layer, row in enumerate(reversed(rows))
        for group, names in enumerate(row.split("|"))
        for part in names.split()
    }


def violations(root: Path, *, layers: str = LAYERS, doors: Mapping[str, tuple[str, ...]] = DOORS) -> list[str]:
    """Return one line for every import that breaks the rules, in file order.

    Args:
        root: The folder that holds ``agentkit/``.
        layers: A table like ``LAYERS``.
        doors: A table like ``DOORS``.
    """
    table = places(layers)
    found = []
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = path.relative_to(root / PACKAGE).as_posix()
        part = _part(_module(path, root))
        if part not in table:
            found.append(f"{PACKAGE}/{name}: {part!r} has no layer; give it one in LAYERS of tools/layers.py")
            continue
        for imported in _imports(path, root):
            reason = _objection(imported, part, name, table=table, doors=doors)
            if reason is not None:
                found.append(f"{PACKAGE}/{name}:{imported.line}: {reason}")
    return found


def _objection(
    imported: Import,
    part: str,
    name: str,
    *,
    table: Mapping[str, Place],
    doors: Mapping[str, tuple[str, ...]],
) -> str | None:
    """Return why an import is not allowed, or None when it is."""
    library = imported.module.partition(".")[0]
    if library == PACKAGE:
        target = _part(imported.module)
        if target == part or target not in table or table[part].may_import(table[target]):
            return None
        return f"{part!r} may not import {imported.module}: {target!r} does not stand below it"
    if library in sys.stdlib_module_names:
        return None
    if library not in doors:
        return f"{library!r} comes from outside and has no door; give it one in DOORS of tools/layers.py"
    if not any(fnmatch(name, door) for door in doors[library]):
        return f"{library!r} may only be imported in {' and '.join(doors[library])}"
    return None


def _part(module: str) -> str:
    """Return the part a module belongs to: the name after ``agentkit``, if there is one."""
    return module.split(".")[1] if "." in module else PACKAGE


def _module(path: Path, root: Path) -> str:
    """Return the dotted name of a file."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(path: Path, root: Path) -> Iterator[Import]:
    """Yield what a file imports when it runs, at the top or inside its functions."""
    package = _module(path, root).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node in _running(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module=alias.name, line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(module=_imported_name(base, alias.name, root), line=node.lineno)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is below it, without the bodies only a type checker reads."""
    yield node
    children: Iterator[ast.AST] | list[ast.stmt] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
        children = node.orelse
    for child in children:
        yield from _running(child)


def _imported_name(base: str, name: str, root: Path) -> str:
    """Return what ``from base import name`` imports: a module of ours, or else a name out of ``base``."""
    path = root.joinpath(*base.split("."), name)
    is_module = path.with_suffix(".py").is_file() or path.is_dir()
    return f"{base}.{name}" if is_module else base


def main() -> int:
    """Print what breaks the rules and return the exit code."""
    found = violations(Path(__file__).parent.parent)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
