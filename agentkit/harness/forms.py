"""The form that an answer is to have: from a pydantic model to a JSON schema, and from an answer to a value of it."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agentkit.errors import AgentKitError, ConfigurationError, HarnessError
from agentkit.harness.model import OutputSpec
from agentkit.harness.reasons import InvalidArguments, read_with
from agentkit.harness.signature import without_titles
from agentkit.json_value import JsonValue, to_text

if TYPE_CHECKING:
    from pydantic import BaseModel

FormT = TypeVar("FormT", bound="BaseModel")

_FENCED: Final = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)


def form_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return what a run keeps of the form of its answer.

    Raises:
        ConfigurationError: It is no pydantic model.
    """
    if not hasattr(model, "model_json_schema"):
        message = f"output must be a pydantic model class, got {model!r}"
        raise ConfigurationError(message)
    return {
        "name": model.__name__,
        "schema": without_titles(model.model_json_schema()),
        "class": f"{model.__module__}:{model.__qualname__}",
    }


def spec_of(form: dict[str, Any] | None) -> OutputSpec | None:
    """Return a form as a model is told of it."""
    return None if form is None else OutputSpec(name=form["name"], schema=form["schema"])


def read_answer(text: str, form: dict[str, Any], *, longest: int) -> JsonValue:
    """Return the JSON in an answer, as the model wrote it, once it is known to be a value of its form.

    After a crash the class may be gone, such as one that a function made: then any JSON object will do, and whoever
    asks for the result validates it.

    Args:
        text: The answer.
        form: See ``form_of``.
        longest: Bytes that the value may take as JSON.

    Raises:
        InvalidArguments: It is no such value, or none that can be kept; the message says why.
    """
    value = _json_in(text)
    try:
        kept = to_text(value, "the answer", limit=longest, quota="max_value_bytes")
    except AgentKitError as error:
        raise InvalidArguments(str(error)) from None
    model = _class_of(form)
    if model is not None:
        read_with(model.model_validate_json, kept)
    return value


def to_form(value: JsonValue, model: type[FormT]) -> FormT:
    """Return the object of a value that was an answer.

    Raises:
        HarnessError: It is no such object: the run was asked for another form, or for none.
    """
    try:
        # As JSON: strict models take text for a date from there only.
        return read_with(model.model_validate_json, to_text(value, "the answer"))
    except InvalidArguments as error:
        raise HarnessError(f"the answer is no {model.__name__}: {error}") from error


def _json_in(text: str) -> JsonValue:
    """Find the JSON in an answer: all of it, what is fenced off, or from the first brace to the last."""
    fenced = _FENCED.search(text)
    braced = text[text.find("{") : text.rfind("}") + 1]
    for part in (text, fenced[1] if fenced else "", braced):
        try:
            value: JsonValue = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            return value
    raise InvalidArguments("it is no JSON object")


def _class_of(form: dict[str, Any]) -> type[BaseModel] | None:
    """Return the class that a form was made of, if this process has it: nothing is imported for it."""
    module, _, path = form["class"].partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and hasattr(found, "model_validate_json") else None
