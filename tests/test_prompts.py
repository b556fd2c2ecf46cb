"""Prompts: where they are found, and that nothing in them is left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentkit.errors import ConfigurationError
from agentkit.prompts import Prompt, load_prompt, read_prompt

FOLDER = Path(__file__).parent.parent / "prompts"
NAMES = sorted(path.stem for path in FOLDER.glob("*.md"))


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_loads(name: str) -> None:
    """Each has a version and a text."""
    prompt = load_prompt(name)

    assert prompt.version >= 1
    assert prompt.text == read_prompt(name, FOLDER).text
    assert "<!--" not in prompt.text


def test_a_missing_value_is_an_error() -> None:
    """The message names it."""
    prompt = Prompt(name="greet", version=1, text="Hello {{name}} of {{town}}")

    with pytest.raises(ConfigurationError, match=r"missing values \['town'\]"):
        prompt.fill(name="Ada")


def test_an_unused_value_is_an_error() -> None:
    """A value without a placeholder is a mistake of the caller or of the prompt."""
    prompt = Prompt(name="greet", version=1, text="Hello")

    with pytest.raises(ConfigurationError, match=r"without a placeholder \['name'\]"):
        prompt.fill(name="Ada")


def test_a_value_is_never_a_placeholder() -> None:
    """What a user wrote stays as it is, whatever it looks like."""
    prompt = Prompt(name="echo", version=1, text="{{first}} {{second}} {not one}")

    assert prompt.fill(first="{{second}}", second=r"\g<0>") == r"{{second}} \g<0> {not one}"


def test_an_unknown_prompt_and_one_without_a_version(tmp_path: Path) -> None:
    """Both say what is wrong."""
    (tmp_path / "bare.md").write_text("Hello")

    with pytest.raises(ConfigurationError, match="no prompt 'nothing'"):
        load_prompt("nothing")
    with pytest.raises(ConfigurationError, match="version"):
        read_prompt("bare", tmp_path)
