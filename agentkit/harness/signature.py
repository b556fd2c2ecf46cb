"""From a typed function to the schema of its arguments, and from what a model wrote to arguments of it."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from agentkit.errors import ConfigurationError
from agentkit.harness.docstrings import Doc, read_doc
from agentkit.harness.reasons import read_with
from agentkit.json_value import JsonValue

#: Keeps arguments such as ``json`` or ``copy`` apart from what a pydantic model has of that name.
_FIELD: Final = "argument_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What a function takes.

    Attributes:
        doc: Its docstring.
        model: A pydantic model of its arguments.
        context: Name of the parameter that takes the context; None if there is none.
    """

    doc: Doc
    model: Any
    context: str | None

    @property
    def schema(self) -> dict[str, JsonValue]:
        """JSON schema of the arguments."""
        schema: dict[str, JsonValue] = without_titles(self.model.model_json_schema())
        schema.setdefault("properties", {})
        schema.pop("description", None)
        return schema

    def read(self, arguments: str) -> dict[str, Any]:
        """Return arguments, as JSON, by name.

        Raises:
            InvalidArguments: They are none that the function takes; says why.
        """
        read = read_with(self.model.model_validate_json, arguments.strip() or "{}")
        return {name.removeprefix(_FIELD): getattr(read, name) for name in self.model.model_fields}


@functools.lru_cache(maxsize=4096)
def signature_of(function: Callable[..., Any], context_type: type, *, is_bound: bool) -> Signature:
    """Return what a function takes; looked at once a function.

    Raises:
        ConfigurationError: A model can't pass it: ``*args``, no annotation, or one that means nothing to it.
    """
    from pydantic import Field, PydanticUserError

    shown = getattr(function, "__qualname__", repr(function))
    doc = read_doc(inspect.getdoc(function) or "")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        message = f"an annotation of tool {shown} can't be resolved: {error}; import the name at run time"
        raise ConfigurationError(message) from error
    context, fields = None, {}
    for parameter in list(inspect.signature(function).parameters.values())[int(is_bound) :]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            message = f"tool {shown} takes {parameter}; a model passes arguments by name only"
            raise ConfigurationError(message)
        annotation = hints.get(parameter.name)
        if annotation is None:
            message = (
                f"argument {parameter.name!r} of tool {shown} needs an annotation: it tells the model what to pass"
            )
            raise ConfigurationError(message)
        if annotation is context_type or context_type in typing.get_args(annotation):
            context = parameter.name
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        if default is None and not _takes_none(annotation):
            annotation = annotation | None
        # Left out where there is none, so that one in the annotation counts.
        said: dict[str, Any] = {}
        if parameter.name in doc.arguments:
            said["description"] = doc.arguments[parameter.name]
        fields[_FIELD + parameter.name] = (annotation, Field(default, alias=parameter.name, **said))
    try:
        model = _model_of(fields)
    except PydanticUserError as error:
        message = (
            f"argument {_culprit(fields)!r} of tool {shown} has a type that no model can be told of: {error.message}"
        )
        raise ConfigurationError(message) from error
    return Signature(doc=doc, model=model, context=context)


def _model_of(fields: dict[str, Any]) -> Any:
    """Return a pydantic model with these fields, once it is known to have a schema."""
    from pydantic import ConfigDict, create_model

    model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    model.model_json_schema()
    return model


def _culprit(fields: dict[str, Any]) -> str:
    """Return the argument that can't be in a model."""
    from pydantic import PydanticUserError

    for name, field in fields.items():
        try:
            _model_of({name: field})
        except PydanticUserError:
            return name.removeprefix(_FIELD)
    return ""


def _takes_none(annotation: Any) -> bool:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return annotation in (Any, object, type(None)) or type(None) in typing.get_args(annotation)


def without_titles(schema: Any) -> Any:
    """Return a JSON schema without the titles that pydantic adds: they only repeat the names."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: without_titles(item) for name, item in value.items()}
        if key in ("properties", "$defs") and isinstance(value, dict)
        else without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
