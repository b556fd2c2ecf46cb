"""The runner as it is sent: readable to the oldest Python it promises, small, and of the standard library alone."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from agentkit.sandbox.guest import ProcessPlan
from agentkit.sandbox.runner.bundle import RunnerSettings, runner_bundle, runner_command
from tests.sandbox.local_runner import Place, a_guest, content, run

INSIDE = Path(__file__).parent.parent.parent / "agentkit/sandbox/inside"
MODULES = sorted(INSIDE.glob("*.py"))


def imports(tree: ast.AST) -> set[str]:
    """Return the names of all modules that are imported, in type checks too."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_is_for_an_old_python_and_needs_nothing_else(path: Path) -> None:
    """Its syntax is that of 3.8, and it imports the standard library and its neighbours."""
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))

    outside = {name for name in imports(tree) if not name.startswith("agentkit.sandbox.inside")}

    assert {name.partition(".")[0] for name in outside} <= sys.stdlib_module_names


def test_bundle_has_every_module_after_those_it_imports() -> None:
    """None is forgotten, and each finds its neighbours."""
    bundle = json.loads(runner_bundle(RunnerSettings(), "name")[10:])
    names = [name for name, _ in bundle["modules"]]

    assert {name.rpartition(".")[2] for name in names[3:]} == {path.stem for path in MODULES} - {
        "__init__",
        "bootstrap",
    }
    for position, (_, source) in enumerate(bundle["modules"]):
        # At its top: what a function imports may come later.
        needed = re.findall(r"^from (agentkit\.sandbox\.inside\.\w+) import", source, re.MULTILINE)
        assert set(needed) <= set(names[:position])


def test_bundle_and_command_are_small() -> None:
    """They go over the channel each time one is opened; the command fits into any argument list."""
    assert len(runner_bundle(RunnerSettings(), "name")) < 150_000
    assert sum(len(word) for word in runner_command()) < 10_000


def python_of(version: str) -> str | None:
    """Return a Python of this machine, if it has one of that version."""
    installed = [
        shutil.which(f"python{version}"),
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"),
    ]
    for candidate in installed:
        if (
            candidate is not None
            and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            return str(candidate)
    return None


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"])
async def test_runner_runs_on(version: str, tmp_path: Path) -> None:
    """Every Python that is on this machine carries out a call of each kind."""
    python = python_of(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    (tmp_path / "python3").symlink_to(python)
    place = Place(tmp_path, None, path=f"{tmp_path}:/usr/bin:/bin")

    async with a_guest(place) as guest:
        copied = await run(guest, place.command("cat", stdin=b"through"))
        limited = await run(
            guest, place.command("sh", "-c", "setsid sleep 60 & sleep 60", timeout=timedelta(seconds=0.2))
        )
        await guest.write(str(tmp_path / "tree/file"), content(b"content"))
        packed = [part async for part in guest.pack(str(tmp_path / "tree"))]
        await guest.unpack(str(tmp_path / "copy"), content(*packed))
        await guest.start_process(ProcessPlan(name="one", argv=("sh", "-c", "exit 3"), cwd="/"))
        code = await guest.wait_process("one")
        told = await run(guest, place.command("python3", "-c", "import sys; print(sys.version_info[:2])"))

    assert told.stdout == f"({version.replace('.', ', ')})\n"
    assert (copied.stdout, limited.exit.timed_out, code) == ("through", True, 3)
    assert (tmp_path / "copy/tree/file").read_bytes() == b"content"
