r"""What stands in the file of a replay, and how it is read.

A hand-written one, in TOML::

    name = "mend-the-tests"
    made = "by hand"
    at = 2026-11-30

    [[steps]]
    after = "user"                                # what the latest message is: of the user, or a tool's result
    text = "I run the tests first."
    calls = [{ tool = "run", arguments = { command = "pytest -q" } }]

    [[steps]]
    after = "run"
    match = 'failed'                              # must be in the latest message
    take.file = { tool = "run", pattern = '^FAILED ([^:]+)', default = "tests/test_it.py" }
    text = "I look at {{file}}."
    calls = [{ tool = "read", arguments = { path = "{{file}}" } }]

``take`` finds a value in the latest result of a tool that has it (without ``tool``: in the latest message): the first
group of a regular expression, where ``^`` and ``$`` match at lines. It is there for this step and all that follow.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentkit.errors import ConfigurationError
from agentkit.harness.messages import Usage

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")


def _checked_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"{pattern!r} is no regular expression: {error}"
        raise ValueError(message) from None
    return pattern


Pattern = Annotated[str, AfterValidator(_checked_pattern)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Take(_Strict):
    """A value that is found in what came before."""

    pattern: Pattern
    tool: str | None = None
    default: str | None = None


class Call(_Strict):
    """A call that the model makes."""

    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Tokens(_Strict):
    """What a recorded answer took; playing it back costs nothing but is counted."""

    input_tokens: int = 0
    output_tokens: int = 0

    def to_usage(self) -> Usage:
        """Return the value the rest of the package works with."""
        return Usage(input_tokens=self.input_tokens, output_tokens=self.output_tokens)


class Step(_Strict):
    """One answer of the model, and what it was made for."""

    text: str = ""
    calls: list[Call] = Field(default_factory=list)
    take: dict[str, Take] = Field(default_factory=dict)
    after: str | None = None
    match: Pattern | None = None
    request: str | None = None
    usage: Tokens = Tokens()


class ReplayFile(_Strict):
    """A whole replay."""

    name: str = Field(min_length=1)
    made: Literal["by hand", "recorded"]
    at: datetime | date | None = None
    model: str = ""
    summary: str | None = None
    steps: list[Step] = Field(min_length=1)

    @model_validator(mode="after")
    def _is_filled(self) -> ReplayFile:
        """Make sure that every place gets its value; what was recorded may have looked like one."""
        known: set[str] = set()
        for number, step in enumerate(self.steps, start=1):
            known |= step.take.keys()
            used = {
                name
                for text in _strings([step.text, [call.arguments for call in step.calls]])
                for name in _PLACE.findall(text)
            }
            if used - known and self.made == "by hand":
                message = f"step {number} uses {{{{{min(used - known)}}}}}, which neither it nor a step before takes"
                raise ValueError(message)
        return self


def read_replay(source: str | Path | Mapping[str, Any]) -> ReplayFile:
    """Read a replay from a file, or from what would stand in one.

    Raises:
        ConfigurationError: It isn't one; says what is wrong and where.
    """
    where = "the replay" if isinstance(source, Mapping) else str(source)
    try:
        return ReplayFile.model_validate(source if isinstance(source, Mapping) else _loaded(Path(source)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{where}: {f'{place}: ' if place else ''}{first['msg']}") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{where} can't be read as a replay: {error}") from error


def _loaded(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings(item)
        case dict():
            for item in value.values():
                yield from _strings(item)
