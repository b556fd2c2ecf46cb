"""Reads a line for ``sh -c``: words with quotes and variables, ``;``, ``&&``, ``||`` and redirections.

All else that a shell knows is refused before anything runs, naming it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from agentkit.testing.in_memory.process import unsupported

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|(\?))")
_OPERATOR = re.compile(r"&&|\|\||;(?!;)|\n")
_REDIRECTION = re.compile(r"(\d*)(>>|>&|>|<(?!<))")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_RESERVED = re.compile(r"if|then|else|elif|fi|for|while|until|do|done|case|esac|function|in|!")


class Piece(NamedTuple):
    """A part of a word: text, or the name of a variable; only unquoted variables are split again."""

    text: str
    is_variable: bool
    is_quoted: bool


Word = list[Piece]


class Redirection(NamedTuple):
    """Where a stream goes: ``number`` 0, 1 or 2, ``sign`` one of ``< > >> >&``."""

    number: int
    sign: str
    target: Word


@dataclass(slots=True)
class SimpleCommand:
    """One command of a line, and the operator before it: ``;``, ``&&`` or ``||``."""

    operator: str
    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Nothing was said."""
        return not (self.words or self.assignments or self.redirections)


def parse_line(line: str) -> list[SimpleCommand]:
    """Return the commands of a line.

    Raises:
        UnsupportedByEngineError: It has something that only a real shell understands.
    """
    return _Reader(line).commands()


class _Reader:
    def __init__(self, line: str) -> None:
        self._line = line
        self._at = 0

    def commands(self) -> list[SimpleCommand]:
        """Return all commands."""
        found = [SimpleCommand(";")]
        while self._skip_blank():
            operator = _OPERATOR.match(self._line, self._at)
            if operator is not None:
                self._at = operator.end()
                self._next_command(found, operator[0].replace("\n", ";"))
                continue
            self._read_into(found[-1])
        if found[-1].is_empty and found[-1].operator != ";":
            raise unsupported(f"a line that ends with {found[-1].operator}")
        return [command for command in found if not command.is_empty]

    def _next_command(self, found: list[SimpleCommand], operator: str) -> None:
        if found[-1].is_empty and operator != ";":
            raise unsupported(f"{operator} with no command before it")
        if found[-1].is_empty and found[-1].operator != ";":
            # A line may be broken after && and ||.
            return
        found.append(SimpleCommand(operator))

    def _read_into(self, command: SimpleCommand) -> None:
        redirection = _REDIRECTION.match(self._line, self._at)
        if redirection is not None:
            self._at = redirection.end()
            sign = redirection[2]
            number = int(redirection[1] or (0 if sign == "<" else 1))
            self._skip_blank()
            target = self._word()
            is_known = number == 0 if sign == "<" else number in (1, 2)
            if not (is_known and target) or (sign == ">&" and target not in (_plain("1"), _plain("2"))):
                raise unsupported(f"the redirection {redirection[0]}")
            command.redirections.append(Redirection(number, sign, target))
            return
        assignment = None if command.words else _ASSIGNMENT.match(self._line, self._at)
        if assignment is not None:
            self._at = assignment.end()
            command.assignments.append((assignment[0][:-1], self._word()))
            return
        start = self._at
        word = self._word()
        if self._at == start:
            raise unsupported(f"{self._line[start]!r} in a line for the shell")
        if not command.words and _RESERVED.fullmatch(self._line[start : self._at]):
            raise unsupported(f"{self._line[start : self._at]!r} in a line for the shell")
        command.words.append(word)

    def _skip_blank(self) -> bool:
        """Go to what comes next; False at the end."""
        while self._at < len(self._line):
            if self._line.startswith("\\\n", self._at):
                self._at += 2
            elif self._line[self._at] in " \t":
                self._at += 1
            elif self._line[self._at] == "#":
                end = self._line.find("\n", self._at)
                self._at = len(self._line) if end < 0 else end
            else:
                return True
        return False

    def _word(self) -> Word:
        pieces: Word = []
        start = self._at
        while self._at < len(self._line) and self._line[self._at] not in " \t\n;&|<>":
            letter = self._line[self._at]
            if letter == "'":
                pieces.append(Piece(self._until("'"), is_variable=False, is_quoted=True))
            elif letter == '"':
                pieces += self._double_quoted()
            elif self._line.startswith("\\\n", self._at):
                self._at += 2
            elif letter == "\\":
                pieces.append(Piece(self._line[self._at + 1 : self._at + 2], is_variable=False, is_quoted=True))
                self._at += 2
            elif letter == "$":
                pieces.append(self._variable(is_quoted=False))
            else:
                self._refuse(letter, start)
                pieces.append(Piece(letter, is_variable=False, is_quoted=False))
                self._at += 1
        return pieces

    def _refuse(self, letter: str, start: int) -> None:
        is_test = letter == "[" and self._line[self._at : self._at + 2] in ("[ ", "[")
        if letter in "*?[(){}`" and not (is_test and self._at == start):
            raise unsupported(f"{letter!r} in a line for the shell")
        if letter == "~" and self._at == start:
            raise unsupported("'~' in a line for the shell")

    def _until(self, quote: str) -> str:
        end = self._line.find(quote, self._at + 1)
        if end < 0:
            raise unsupported(f"a line for the shell with an open {quote}")
        text = self._line[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self) -> Word:
        # Even an empty pair of quotes makes a word.
        pieces = [Piece("", is_variable=False, is_quoted=True)]
        self._at += 1
        while self._at < len(self._line):
            letter = self._line[self._at]
            if letter == '"':
                self._at += 1
                return pieces
            if letter == "`":
                raise unsupported("'`' in a line for the shell")
            if letter == "$":
                pieces.append(self._variable(is_quoted=True))
                continue
            if letter == "\\" and self._line[self._at + 1 : self._at + 2] in ('"', "$", "\\", "`"):
                self._at += 1
                letter = self._line[self._at]
            pieces.append(Piece(letter, is_variable=False, is_quoted=True))
            self._at += 1
        raise unsupported('a line for the shell with an open "')

    def _variable(self, *, is_quoted: bool) -> Piece:
        found = _VARIABLE.match(self._line, self._at)
        if found is not None:
            self._at = found.end()
            return Piece(found[1] or found[2] or found[3], is_variable=True, is_quoted=is_quoted)
        following = self._line[self._at + 1 : self._at + 2]
        if following and (following.isalnum() or following in "({$@*#!-"):
            raise unsupported(f"${following} in a line for the shell")
        self._at += 1
        return Piece("$", is_variable=False, is_quoted=True)


def _plain(text: str) -> Word:
    return [Piece(text, is_variable=False, is_quoted=False)]
