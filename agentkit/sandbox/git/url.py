"""Read what a user calls a repository: a URL that git may be given, with its secret taken out, or a path here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from agentkit.errors import ConfigurationError

_SCHEMES: Final = ("https", "http", "ssh", "git", "file")
_HAS_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: ``user@host:path``, as git reads it: a colon before the first slash.
_SCP_LIKE: Final = re.compile(r"(?:(?P<user>[^/:@]+)@)?(?P<host>[^/:@]+|\[[^]/]+\]):(?P<path>.+)")
#: ``transport::address`` runs a helper program of that name; ``ext::`` runs anything.
_TRANSPORT: Final = re.compile(r"[A-Za-z0-9+.-]*::")
_AUTHORITY: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d+)?")
_REF: Final = re.compile(r"[^-\x00-\x20\x7f~^:?*\[\\][^\x00-\x20\x7f~^:?*\[\\]*")
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f]")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Credential:
    """Who to be at a server.

    Attributes:
        scope: The server it is for, such as ``https://github.com``; no other is shown it.
    """

    scope: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class GitUrl:
    """A URL for git.

    Attributes:
        url: Without a password or token; this is what the clone keeps as its remote.
        credential: What was given with it, or for it.
    """

    url: str
    credential: Credential | None


def host_path(source: str | Path) -> Path | None:
    """Return the path on this machine that is meant, or None for a URL."""
    if isinstance(source, Path):
        return source.expanduser()
    if source.startswith("-") or _HAS_SCHEME.match(source) or _TRANSPORT.match(source) or _SCP_LIKE.fullmatch(source):
        return None
    return Path(source).expanduser()


def read_url(url: str, token: str | None = None) -> GitUrl:
    """Check a URL and take the secret out of it.

    Args:
        url: https, http, ssh, git or file, or ``user@host:path``.
        token: For https: a password or access token, instead of one in the URL.

    Raises:
        ConfigurationError: Git could take it for an option or for the name of a program, its scheme is another, or the
            token would be sent unprotected.
    """
    for name, value in (("url", url), ("token", token or "")):
        if _UNFIT.search(value):
            raise ConfigurationError(f"the {name} of a repository has spaces or control characters")
    if url.startswith("-") or _TRANSPORT.match(url):
        raise ConfigurationError(f"not the URL of a repository: {_shown(url)}")
    found = _HAS_SCHEME.match(url)
    scheme = found[1].lower() if found else "scp"
    if found is not None and scheme not in _SCHEMES:
        raise ConfigurationError(f"a repository's URL begins with one of {', '.join(_SCHEMES)}; got {scheme}")
    if scheme in ("https", "http"):
        return _web(url, token)
    if token is not None:
        raise ConfigurationError("a token goes with a URL of https")
    _check_remote_parts(url, scheme)
    return GitUrl(url, None)


def check_ref(ref: str) -> str:
    """Return the name of a branch, a tag or a commit.

    Raises:
        ConfigurationError: Git could take it for something else.
    """
    if not _REF.fullmatch(ref) or ".." in ref:
        raise ConfigurationError(f"not the name of a branch, a tag or a commit: {ref!r}")
    return ref


def _web(url: str, token: str | None) -> GitUrl:
    parts = _split(url)
    host = parts.hostname or ""
    authority = parts.netloc.rpartition("@")[2]
    if not _AUTHORITY.fullmatch(authority) or "\\" in parts.netloc:
        raise ConfigurationError(f"the URL of a repository has no host: {_shown(url)}")
    plain = parts._replace(netloc=authority).geturl()
    if token is None and parts.username is None:
        return GitUrl(plain, None)
    if parts.scheme == "http" and host not in _LOOPBACK:
        raise ConfigurationError("a token would be sent unprotected over http; use https")
    password = unquote(parts.password or "") if token is None else token
    # A token alone is the password of a user that servers ignore, or know by this name.
    username = unquote(parts.username or "") or "x-access-token"
    if _UNFIT.search(password + username):
        raise ConfigurationError("a user's name and token have no spaces or control characters")
    return GitUrl(plain, Credential(f"{parts.scheme}://{authority.lower()}", username, password))


def _check_remote_parts(url: str, scheme: str) -> None:
    """Refuse what ssh would take for an option (its user, its host, the path it hands on)."""
    if scheme == "scp":
        found = _SCP_LIKE.fullmatch(url)
        if found is None:
            raise ConfigurationError(f"not the URL of a repository: {_shown(url)}")
        given = [found["user"] or "", found["host"], found["path"]]
    else:
        parts = _split(url)
        if parts.password is not None:
            raise ConfigurationError(f"a password has no place in a URL of {scheme}")
        given = [parts.netloc, parts.username or "", parts.hostname or "", parts.path.lstrip("/")]
    if any(part.startswith("-") for part in given):
        raise ConfigurationError(f"not the URL of a repository: {_shown(url)}")


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # checks it
    except ValueError:
        raise ConfigurationError(f"not the URL of a repository: {_shown(url)}") from None
    return parts


def _shown(url: str) -> str:
    """Return a URL for a message, without what may be secret."""
    before, at, after = url.rpartition("@")
    return repr(f"…@{after}" if at and ("/" in before or ":" in before) else url)
