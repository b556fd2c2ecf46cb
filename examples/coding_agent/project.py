"""What kind of project a repository holds: how to install what it needs, test it, and serve it. Plain decisions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from dataclasses import dataclass

PORT = 8000
#: Where the usual package indexes are.
INDEXES = ("pypi.org", "files.pythonhosted.org", "registry.npmjs.org")

#: Where what is installed goes, and what running it leaves.
INSTALLED = ("/.venv/", "node_modules/", "__pycache__/", ".pytest_cache/", "*.egg-info/", "")

_VENV = "python3 -m venv .venv"
_PIP = ".venv/bin/python -m pip install --quiet --disable-pip-version-check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Lines for a shell in the repository; empty means that there is nothing to do.

    Attributes:
        kind: For people.
        install: Installs what it needs.
        test: Runs its tests.
        serve: Starts the development server on ``$PORT``.
    """

    kind: str
    install: str
    test: str
    serve: str


def recognise(files: Collection[str], contents: dict[str, str]) -> Project:
    """Tell how to work on a repository.

    Args:
        files: Names of what its top directory holds.
        contents: What stands in ``Procfile`` and ``package.json``, where they exist.
    """
    if "package.json" in files:
        return _node(files, contents)
    if _PYTHON & set(files):
        return _python(files, contents)
    return Project(kind="plain files", install="", test="", serve=_served(contents) or _STATIC)


_PYTHON = {"requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "tests", "conftest.py", "pytest.ini"}
_STATIC = "python3 -m http.server $PORT --bind 127.0.0.1"


def _python(files: Collection[str], contents: dict[str, str]) -> Project:
    wanted = "-r requirements.txt" if "requirements.txt" in files else ""
    if {"pyproject.toml", "setup.py"} & set(files):
        wanted = f"{wanted} --editable .".strip()
    serve = _served(contents) or _STATIC
    return Project(
        kind="Python",
        install=f"{_VENV} && {_PIP} pytest {wanted}".rstrip(),
        test=".venv/bin/python -m pytest -q",
        serve=f"PATH=$PWD/.venv/bin:$PATH; {serve}",
    )


def _node(files: Collection[str], contents: dict[str, str]) -> Project:
    scripts = _scripts(contents.get("package.json", ""))
    script = next((name for name in ("dev", "start") if name in scripts), None)
    install = "npm ci" if "package-lock.json" in files else "npm install"
    return Project(
        kind="Node.js",
        install=f"{install} --no-audit --no-fund",
        test="npm test --silent" if "test" in scripts else "",
        serve=_served(contents) or (f"npm run {shlex.quote(script)}" if script else _STATIC),
    )


def _scripts(text: str) -> dict[str, object]:
    """Return the scripts of a package.json; none of one that can't be read."""
    try:
        told = json.loads(text)
    except ValueError:
        return {}
    scripts = told.get("scripts") if isinstance(told, dict) else None
    return scripts if isinstance(scripts, dict) else {}


def _served(contents: dict[str, str]) -> str:
    """Return the ``web`` line of a Procfile."""
    for line in contents.get("Procfile", "").splitlines():
        name, colon, command = line.partition(":")
        if colon and name.strip() == "web":
            return command.strip()
    return ""
