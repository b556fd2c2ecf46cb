"""What of a bucket is in a sandbox, and as what: kept beside the files it tells of, so that it can't outlive them.

A file that is listed and isn't there any more was deleted inside. Kept anywhere else, a list that came to lie beside an
empty directory, after a restore say, would delete the whole bucket.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from agentkit.errors import SandboxFileError
from agentkit.sandbox.guest import Guest

NAME: Final = ".agentkit-bucket.json"
_VERSION: Final = 1
#: A list of a million files; it comes out of the sandbox, and could be anything.
_LARGEST: Final = 256 << 20
#: Files that are being written, by us or by the runner.
_UNFINISHED: Final = re.compile(r"\..*\.[0-9a-f]{12}\.agentkit")


@dataclass(frozen=True, slots=True)
class Synced:
    """A file, or the marker of a directory, that is the same on both sides.

    Attributes:
        etag: The object's.
        size: Bytes.
        modified_at_ms: The file's time, by the sandbox's clock; 0 for a directory.
    """

    etag: str
    size: int
    modified_at_ms: int


@dataclass(slots=True)
class Manifest:
    """What is synced.

    Attributes:
        files: By path below the mount; markers of directories end in a slash.
        is_complete: The last pull got to its end; until then nothing that is absent counts as deleted.
    """

    files: dict[str, Synced] = field(default_factory=dict)
    is_complete: bool = False

    async def save(self, guest: Guest, directory: str, url: str) -> None:
        """Write it beside the files."""
        files = {path: [file.etag, file.size, file.modified_at_ms] for path, file in self.files.items()}
        content = {"version": _VERSION, "url": url, "is_complete": self.is_complete, "files": files}
        await guest.write(f"{directory}/{NAME}", _once(json.dumps(content).encode()), mode=0o600)


async def load_manifest(guest: Guest, directory: str, url: str) -> Manifest:
    """Return the one beside the files; an empty one, which deletes nothing, if there is none that can be believed."""
    content = bytearray()
    try:
        async with aclosing(guest.read(f"{directory}/{NAME}")) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > _LARGEST:
                    return Manifest()
    except SandboxFileError:  # not there, or no file
        return Manifest()
    try:
        found = json.loads(content)
        if found["version"] != _VERSION or found["url"] != url:
            return Manifest()
        return Manifest(
            {path: _synced(*entry) for path, entry in found["files"].items() if is_fit(path)},
            bool(found["is_complete"]),
        )
    except (ValueError, TypeError, OverflowError, KeyError, AttributeError, RecursionError):
        return Manifest()


def is_fit(path: str) -> bool:
    """Tell whether a path may stand for a file below a mount, on both sides.

    >>> [is_fit(path) for path in ("a/b", "a/", "../a", "a//b", "/a", "a/./b", NAME)]
    [True, True, False, False, False, False, False]
    """
    try:
        encoded = path.encode()
    except UnicodeEncodeError:  # a name that is no text
        return False
    parts = path.removesuffix("/").split("/")
    if len(encoded) > 900 or "\0" in path or any(part in ("", ".", "..") for part in parts):
        return False
    return all(len(part.encode()) <= 255 for part in parts) and not is_own(parts[0]) and not is_own(parts[-1])


def is_own(name: str) -> bool:
    """Tell whether a file is agentkit's own."""
    return name == NAME or _UNFINISHED.fullmatch(name) is not None


def _synced(etag: Any, size: Any, modified_at_ms: Any) -> Synced:
    return Synced(str(etag), int(size), int(modified_at_ms))


async def _once(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 1 << 18):
        yield content[start : start + (1 << 18)]
