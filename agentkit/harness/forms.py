"""The form that an answer is to have: from a pydantic model to a JSON schema, and from an answer to a value of it."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from agentkit.errors import ConfigurationError
from agentkit.harness.model import OutputSpec
from agentkit.harness.signature import without_titles
from agentkit.json_value import JsonValue

if TYPE_CHECKING:
    from pydantic import BaseModel

_FENCED: Final = re.compile(r"```(?:json)?\s*\n(.*?)\n?```", re.DOTALL)
_MOST_REASONS: Final = 5


class WrongForm(Exception):  # noqa: N818  # control flow: the reason goes back to the model
    """An answer doesn't have the form that was asked for."""


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


def read_answer(text: str, form: dict[str, Any]) -> JsonValue:
    """Return an answer as a value of its form.

    After a crash the class may be gone, such as one that a function made: then any JSON object will do, and whoever
    asks for the result validates it.

    Raises:
        WrongForm: It is no such value; the message says why.
    """
    value = _json_in(text)
    model = _class_of(form)
    if model is None:
        return value
    from pydantic import ValidationError

    try:
        # As JSON: strict models take text for a date from there only.
        dumped: JsonValue = model.model_validate_json(json.dumps(value)).model_dump(mode="json", by_alias=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        reasons = [f"{'.'.join(map(str, each['loc'])) or 'answer'}: {each['msg']}" for each in found]
        raise WrongForm("; ".join(reasons[:_MOST_REASONS])) from None
    return dumped


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
    raise WrongForm("it is no JSON object")


def _class_of(form: dict[str, Any]) -> type[BaseModel] | None:
    """Return the class that a form was made of, if this process has it: nothing is imported for it."""
    module, _, path = form["class"].partition(":")
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) and hasattr(found, "model_validate_json") else None
