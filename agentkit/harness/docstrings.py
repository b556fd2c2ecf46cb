"""What a docstring tells a model: the text, and what it says about each argument."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_SECTION: Final = re.compile(r"^(Args|Arguments|Returns|Yields|Raises|Attributes|Example|Examples|Note):[ \t]*$", re.M)
_ARGUMENT: Final = re.compile(r"\*{0,2}(\w+)(?: ?\([^)]*\))?: ?(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Doc:
    """A docstring, read.

    Attributes:
        text: What stands in front of the sections.
        arguments: Descriptions by argument.
    """

    text: str
    arguments: Mapping[str, str]


def read_doc(docstring: str) -> Doc:
    r"""Read a cleaned docstring with sections in Google's style.

    >>> read_doc("Add.\n\nArgs:\n    a: One,\n        the first.\n    b: Two.").arguments
    {'a': 'One, the first.', 'b': 'Two.'}
    """
    parts = _SECTION.split(docstring)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return Doc(text=parts[0].strip(), arguments=_arguments(sections.get("Args", sections.get("Arguments", ""))))


def _arguments(section: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name, indent = "", None
    for line in section.splitlines():
        words = line.strip()
        if not words:
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        head = _ARGUMENT.fullmatch(words) if depth <= indent else None
        if head is not None:
            name = head[1]
            found[name] = head[2]
        elif name:
            found[name] = f"{found[name]} {words}".strip()
    return found
