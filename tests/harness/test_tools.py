"""Typed functions as tools: schema, description, arguments (SPEC 13.2)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import date, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from agentkit.errors import ConfigurationError
from agentkit.harness import Harness, InvalidArguments, Tool, ToolContext, tool
from agentkit.harness.docstrings import read_doc
from agentkit.harness.tools import tool_of, tools_by_name


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Box(BaseModel):
    """A box."""

    width: int
    lid: bool = False


class Box2(Box):
    """A box with a box in it."""

    inner: Box | None = None


@tool
async def pack(
    what: str,
    count: int = 1,
    *,
    box: Box2,
    size: Size = Size.SMALL,
    on: date | None = None,
    speed: Literal["slow", "fast"] = "slow",
    price: Annotated[float, Field(gt=0, description="In euros.")] = 1.0,
    context: ToolContext,
) -> str:
    """Pack something up.

    Takes care of it.

    Args:
        what: What is packed,
            by name.
        count (int): How many.
        context: Not for the model.

    Returns:
        A number.
    """
    return f"{what} {count} {box} {size} {on} {speed} {price} {context.run_id}"


def test_schema() -> None:
    """Names, kinds, defaults and descriptions, without titles and without the context."""
    schema: Any = tool_of(pack).schema

    assert schema["required"] == ["what", "box"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["what", "count", "box", "size", "on", "speed", "price"]
    assert schema["properties"]["what"] == {"type": "string", "description": "What is packed, by name."}
    assert schema["properties"]["count"] == {"type": "integer", "default": 1, "description": "How many."}
    assert schema["properties"]["price"]["description"] == "In euros."
    assert schema["properties"]["speed"]["enum"] == ["slow", "fast"]
    assert "title" not in str(schema)


def test_description() -> None:
    """What stands in front of the sections of the docstring."""
    assert tool_of(pack).description == "Pack something up.\n\nTakes care of it."


def test_arguments_arrive_as_what_they_are_annotated() -> None:
    """Models, dates, enumerations; numbers written as text are understood."""
    box = '{"width": 3, "inner": {"width": 1}}'
    read = tool_of(pack).read(f'{{"what": "tea", "count": "2", "box": {box}, "on": "2026-01-02"}}')

    assert read == {
        "what": "tea",
        "count": 2,
        "box": Box2(width=3, inner=Box(width=1)),
        "size": Size.SMALL,
        "on": date(2026, 1, 2),
        "speed": "slow",
        "price": 1.0,
    }


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("{}", "what: Field required; box: Field required"),
        ('{"what": "a", "box": {"width": "wide"}}', "box.width: Input should be a valid integer"),
        ('{"what": "a", "box": {"width": 1}, "colour": 1}', "colour: Extra inputs are not permitted"),
        ('{"what": "a", "box": {"width": 1}, "price": -1}', "price: Input should be greater than 0"),
        ('{"what": "a"', "Invalid JSON"),
        ('"a"', "Input should be an object"),
    ],
)
def test_wrong_arguments_are_named(arguments: str, reason: str) -> None:
    """By their path, without repeating what was sent."""
    with pytest.raises(InvalidArguments, match=reason):
        tool_of(pack).read(arguments)


def test_many_reasons_are_cut_short() -> None:
    """The first five do."""

    async def many(a: int, b: int, c: int, d: int, e: int, f: int, g: int) -> None: ...

    with pytest.raises(InvalidArguments, match="e: Field required; and 2 more"):
        tool_of(many).read("{}")


class Opaque:
    """Something that no JSON is."""


def opaque(much: int, what: Opaque) -> None:
    """Take one."""


def calling(what: Callable[[int], int]) -> None:
    """Take a function."""


@pytest.mark.parametrize("function", [opaque, calling])
def test_type_without_a_schema(function: Any) -> None:
    """The tool and its argument are named."""
    with pytest.raises(ConfigurationError, match=f"argument 'what' of tool {function.__name__}"):
        tool_of(function)


@pytest.mark.parametrize("given", [functools.partial(opaque, 1), Opaque, 5])
def test_what_is_no_function(given: Any) -> None:
    """Nothing tells its name and what it takes."""
    with pytest.raises(ConfigurationError, match=r"no function or method|is no tool"):
        tool_of(given)


def test_default_of_none() -> None:
    """The model may pass what it is told of."""

    async def find(
        size: int = None,  # type: ignore[assignment]  # noqa: RUF013  # a habit of many
        context: ToolContext | None = None,
    ) -> None: ...

    made = tool_of(find)

    assert made.read('{"size": null}') == {"size": None}
    assert list(made.schema["properties"]) == ["size"]  # type: ignore[arg-type]  # a mapping


@pytest.mark.parametrize("arguments", ["", "  ", "{}"])
def test_no_arguments(arguments: str) -> None:
    """An empty text is none, as some servers send it."""

    async def now() -> None: ...

    assert tool_of(now).read(arguments) == {}
    assert tool_of(now).schema == {"type": "object", "properties": {}, "additionalProperties": False}


async def test_names_that_pydantic_has_too() -> None:
    """Arguments may be called as people like."""

    async def odd(json: str, schema: str, copy: str, model_config: str, self: int) -> list[Any]:
        return [json, schema, copy, model_config, self]

    made = tool_of(odd)
    read = made.read('{"json": "a", "schema": "b", "copy": "c", "model_config": "d", "self": 1}')

    assert list(made.schema["properties"]) == ["json", "schema", "copy", "model_config", "self"]  # type: ignore[arg-type]  # a mapping
    assert await made.call(read, None) == ["a", "b", "c", "d", 1]  # type: ignore[arg-type]  # it takes no context


def test_defaults() -> None:
    """A tool that says nothing happens once, without a person, for ten minutes at most."""
    made = tool_of(pack)

    assert (made.effect, made.approve, made.timeout) == ("once", False, timedelta(minutes=10))


def test_options() -> None:
    """As the decorator says; the function stays what it was."""

    @tool(effect="read", approve=True, timeout=None, name="fetch")
    async def get() -> str:
        return "got"

    made = tool_of(get)

    assert (made.name, made.effect, made.approve, made.timeout) == ("fetch", "read", True, None)
    assert get.__name__ == "get"


@pytest.mark.parametrize(
    ("options", "about"),
    [({"effect": "twice"}, "effect"), ({"timeout": 0}, "timeout"), ({"timeout": float("nan")}, "timeout")],
)
def test_impossible_options_are_refused(options: dict[str, Any], about: str) -> None:
    """When the decorator is used."""
    with pytest.raises((ConfigurationError, ValueError), match=about):
        tool(**options)


async def unannotated(a, b: int) -> None: ...  # type: ignore[no-untyped-def]


async def starred(*words: str) -> None: ...


async def keyed(**words: str) -> None: ...


async def positional(word: str, /) -> None: ...


async def unresolved(word: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "about"),
    [
        (unannotated, "argument 'a' of tool unannotated needs an annotation"),
        (starred, "passes arguments by name only"),
        (keyed, "passes arguments by name only"),
        (positional, "passes arguments by name only"),
        (unresolved, "can't be resolved"),
        (lambda: None, "can't be called '<lambda>'"),
        (7, "is no tool"),
    ],
)
def test_what_no_model_can_call_is_refused(function: Any, about: str) -> None:
    """When the harness is put together, with what to do."""
    with pytest.raises(ConfigurationError, match=about):
        Harness(tools=[function])


def test_two_tools_of_one_name_are_refused() -> None:
    """A model could not tell them apart."""

    @tool(name="pack")
    async def other() -> None: ...

    with pytest.raises(ConfigurationError, match="two tools are called 'pack'"):
        tools_by_name([pack, other])


async def test_ready_tool() -> None:
    """What is no function of ours can be made a tool of."""

    async def call(arguments: Any, context: ToolContext) -> str:
        return str(arguments)

    made = Tool(name="echo", description="", schema={"type": "object"}, read=str.upper, call=call)

    assert tools_by_name([made]) == {"echo": made}


@pytest.mark.parametrize(
    ("docstring", "text", "arguments"),
    [
        ("", "", {}),
        ("Do it.", "Do it.", {}),
        ("Do it.\n\nArgs:\n    a: One.", "Do it.", {"a": "One."}),
        (
            "Do it.\n\nArgs:\n    a (int, optional): One: two.\n    **more: Rest.",
            "Do it.",
            {"a": "One: two.", "more": "Rest."},
        ),
        ("Do it.\n\nReturns:\n    a: One.", "Do it.", {}),
        ("Do it.\n\nArgs:\n\n    a: One.\n      Two.\n\n    b: Three.", "Do it.", {"a": "One. Two.", "b": "Three."}),
    ],
)
def test_docstrings(docstring: str, text: str, arguments: dict[str, str]) -> None:
    """In Google's style."""
    doc = read_doc(docstring)

    assert (doc.text, doc.arguments) == (text, arguments)
