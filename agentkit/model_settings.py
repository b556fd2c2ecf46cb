"""Which language model to use: its name, where it is served, its key, as given or from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from agentkit.errors import ConfigurationError

#: What servers that need no key are given, since the client insists on one.
NO_KEY = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model and the OpenAI-compatible endpoint that serves it.

    Attributes:
        name: As the endpoint calls it.
        base_url: Its API, such as ``http://127.0.0.1:8080/v1``; None is OpenAI's own.
        api_key: Never shown.
    """

    name: str
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)

    @property
    def place(self) -> str:
        """Where the model is, fit to be shown: without a user's name or password in the URL.

        >>> ModelSettings(name="small", base_url="https://me:secret@models.example/v1?key=1").place
        'https://models.example/v1'
        """
        if self.base_url is None:
            return "OpenAI"
        parts = urlsplit(self.base_url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def is_reachable(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment says where models are: by a key, or by an endpoint that may need none."""
    return bool(environment.get("OPENAI_API_KEY") or environment.get("OPENAI_BASE_URL"))


def is_configured(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the environment says which model to use, and where it is."""
    return bool(environment.get("AGENTKIT_MODEL")) and is_reachable(environment)


def settings_for(
    name: str | None,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ModelSettings:
    """Return the settings; what isn't given is ``AGENTKIT_MODEL``, ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.

    Raises:
        ConfigurationError: If no model is named, OpenAI's own endpoint has no key, or the key can't be sent.
    """
    name = name or environment.get("AGENTKIT_MODEL")
    if not name:
        message = "no model is named; pass its name, or set AGENTKIT_MODEL"
        raise ConfigurationError(message)
    base_url = base_url or environment.get("OPENAI_BASE_URL") or None
    # A secret that was read from a file ends in a newline.
    api_key = (api_key or environment.get("OPENAI_API_KEY") or "").strip() or None
    if api_key is None and base_url is None:
        message = f"model {name!r} needs a key; set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs none"
        raise ConfigurationError(message)
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        message = "OPENAI_API_KEY holds characters that no header can carry; copy it again"
        raise ConfigurationError(message)
    if base_url is not None and urlsplit(base_url).scheme not in ("http", "https"):
        message = "OPENAI_BASE_URL is no URL; write it like http://127.0.0.1:8080/v1"
        raise ConfigurationError(message)
    return ModelSettings(name=name, base_url=base_url, api_key=api_key)
