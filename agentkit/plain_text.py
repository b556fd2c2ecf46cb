"""What people typed, made safe to show: no control sequence reaches a terminal or a page (SPEC 19)."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# ECMA-48 5.3 and 5.4: ESC or CSI with parameters up to a final byte, and strings (OSC, DCS, …) up to their end.
_SEQUENCES: Final = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|\x1b[ -/]*[0-~]?",
    re.DOTALL,
)
# Marks that turn the direction of what follows, so that a line reads differently from what it says.
_TURNING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff")
_UNSHOWN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def one_line(text: str) -> str:
    r"""Return a text on one line: no control sequences, white space as single spaces.

    >>> one_line("send\x1b[31m the\n report\x07")
    'send the report'
    """
    return " ".join(several_lines(text).split())


def several_lines(text: str) -> str:
    """Return a text without control sequences, its lines and tabs as they are."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in _SEQUENCES.sub("", text))


def shortened(text: str, longest: int) -> str:
    """Return a text of at most so many characters; what is cut off becomes an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _shown(character: str) -> str:
    if character in "\n\t":
        return character
    if character in _TURNING:
        return ""
    return " " if unicodedata.category(character) in _UNSHOWN else character
