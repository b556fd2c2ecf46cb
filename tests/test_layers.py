"""The package keeps to its layers, and the check that says so notices what it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import layers

LAYERS = """
    agentkit
    top
    left | right
    one two
"""
DOORS = {"outside": ("left/door.py",)}


@pytest.fixture
def found(tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    """Return what the check says about a package of the given files."""
    for name, text in request.param.items():
        path = tmp_path / "agentkit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return layers.violations(tmp_path, layers=LAYERS, doors=DOORS)


def test_package_keeps_to_its_layers() -> None:
    """Every import inside agentkit points down, and every outside library comes in by its door."""
    root = Path(__file__).parent.parent

    found = layers.violations(root)

    assert found == []


@pytest.mark.parametrize(
    "found",
    [
        pytest.param({"top.py": "from agentkit.left.part import a"}, id="down"),
        pytest.param({"one.py": "import agentkit.two"}, id="beside"),
        pytest.param({"left/part.py": "from agentkit.left.other import a"}, id="within a part"),
        pytest.param({"left/part.py": "from .other import a\nfrom ..one import b"}, id="relative"),
        pytest.param({"left/__init__.py": "from .part import a"}, id="relative in a package"),
        pytest.param({"__init__.py": "from agentkit.top import a"}, id="the package itself"),
        pytest.param({"left/door.py": "import outside.part"}, id="by its door"),
        pytest.param({"one.py": "import json, os.path"}, id="standard library"),
        pytest.param(
            {"one.py": "import typing\nif typing.TYPE_CHECKING:\n    import agentkit.top, outside"},
            id="for the type checker",
        ),
    ],
    indirect=True,
)
def test_allowed_import(found: list[str]) -> None:
    """An import that points down or stays within its part is fine."""
    assert found == []


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param({"one.py": "\nimport agentkit.top"}, "agentkit/one.py:2: 'one' may not", id="up"),
        pytest.param({"left/a.py": "import agentkit.right"}, "'left' may not import agentkit.right", id="sideways"),
        pytest.param({"left/a.py": "from ..right import b"}, "import agentkit.right", id="relative"),
        pytest.param({"left/__init__.py": "from .. import top", "top.py": ""}, "import agentkit.top", id="module"),
        pytest.param({"top.py": "from agentkit import A"}, "'agentkit' does not stand below", id="the package"),
        pytest.param({"one.py": "def f():\n    import agentkit.top"}, "one.py:2:", id="inside a function"),
        pytest.param({"left/a.py": "import outside"}, "only be imported in left/door.py", id="past the door"),
        pytest.param({"one.py": "import stranger"}, "'stranger' comes from outside", id="without a door"),
        pytest.param({"new.py": ""}, "'new' has no layer; give it one in LAYERS", id="without a layer"),
        pytest.param(
            {"one.py": "if TYPE_CHECKING:\n    pass\nelse:\n    import agentkit.top"},
            "one.py:4:",
            id="the other branch",
        ),
    ],
    indirect=["found"],
)
def test_forbidden_import(found: list[str], expected: str) -> None:
    """An import that breaks a rule is named with its place and the rule."""
    assert len(found) == 1
    assert expected in found[0]


def test_runs_as_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints nothing and returns 0 when all is well."""
    exit_code = layers.main()

    assert (exit_code, capsys.readouterr().out) == (0, "")
