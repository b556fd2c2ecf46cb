"""Prompt texts, one Markdown file each: found in the wheel or the checkout, filled, and nothing left open."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from agentkit.errors import ConfigurationError

_FIRST_LINE: Final = re.compile(r"<!-- version: ([1-9]\d*) -->\n")
_PLACEHOLDER: Final = re.compile(r"\{\{([a-z_]+)\}\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A prompt's text, with named places such as ``{{now}}``.

    Attributes:
        name: The file's, without ``.md``.
        version: Grows with every change, which is a change of behaviour.
        text: Without the line that names the version.
    """

    name: str
    version: int
    text: str

    def fill(self, **values: str) -> str:
        """Return the text with every placeholder replaced; what a value contains is never one.

        Raises:
            ConfigurationError: If a placeholder got no value, or a value has no placeholder.

        >>> Prompt(name="greet", version=1, text="Hello {{name}}").fill(name="{{Ada}}")
        'Hello {{Ada}}'
        """
        wanted = set(_PLACEHOLDER.findall(self.text))
        if wanted != values.keys():
            missing, unused = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
            message = f"prompt {self.name!r}: missing values {missing}, values without a placeholder {unused}"
            raise ConfigurationError(message)
        return _PLACEHOLDER.sub(lambda found: values[found[1]], self.text)


@cache
def load_prompt(name: str) -> Prompt:
    """Return the prompt of that name.

    Raises:
        ConfigurationError: If there is none, or its first line names no version.
    """
    return read_prompt(name, _folder())


def read_prompt(name: str, folder: Traversable) -> Prompt:
    """Return the prompt of that name in a folder; see ``load_prompt``."""
    path = folder / f"{name}.md"
    if not path.is_file():
        message = f"there is no prompt {name!r} in {folder}; install agentkit again"
        raise ConfigurationError(message)
    text = path.read_text(encoding="utf-8")
    first = _FIRST_LINE.match(text)
    if first is None:
        message = f"prompt {name!r} must begin with a line such as <!-- version: 1 -->"
        raise ConfigurationError(message)
    return Prompt(name=name, version=int(first[1]), text=text[first.end() :].strip())


def _folder() -> Traversable:
    """Return where prompts are: inside of an installed package, beside it in a checkout."""
    package = files("agentkit")
    packaged = package / "_prompts"
    return packaged if packaged.is_dir() else package / ".." / "prompts"
