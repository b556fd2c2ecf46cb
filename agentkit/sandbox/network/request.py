"""Read what a program inside asks the proxy for: one head of HTTP, strictly, into a value or a refusal (SPEC 12.9)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import h11

from agentkit.plain_text import one_line, shortened

MAX_HEAD: Final = 32 << 10
PORTS: Final = (80, 443)

_HOST: Final = r"(?P<host>[A-Za-z0-9_.-]{1,254})"
#: Neither userinfo nor a bracketed address has a place in these.
_AUTHORITY: Final = re.compile(_HOST + r":(?P<port>\d{1,5})")
_URL: Final = re.compile(r"(?i:http)://" + _HOST + r"(?::(?P<port>\d{1,5}))?(?P<path>[/?][^#]*)?")
# What parsers disagree on, so that one request may be read as two: lines that end in anything but CR LF, or are folded.
_LOOSE_LINES: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)|\r\n[ \t]|\0")
#: RFC 9110, 7.6.1: meant for the proxy alone. What frames the body is written anew.
_OWN_HEADERS: Final = frozenset(
    b"connection content-length host keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade".split()
)

Headers = list[tuple[bytes, bytes]]


class RefusedError(Exception):
    """The proxy won't do what it is asked; never leaves the proxy.

    Attributes:
        status: Of the response.
        host: Which host was asked for, empty where that can't be told.
        port: Which port.
        reason: Why, a sentence without its full stop.
    """

    def __init__(self, status: int, reason: str, *, host: str = "", port: int = 0) -> None:
        self.status = status
        self.reason = reason
        self.host = host
        self.port = port
        super().__init__(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """What a program inside wants.

    Attributes:
        method: ``CONNECT`` asks for a tunnel.
        host: Lower case, without a final dot.
        port: Where to.
        target: What the server is asked for, empty for a tunnel.
        headers: Those meant for the server, without ``Host`` and framing.
        framing: The one header that says where the body ends, if there is a body.
    """

    method: str
    host: str
    port: int
    target: str
    headers: Headers
    framing: Headers

    @property
    def is_tunnel(self) -> bool:
        """Bytes are carried both ways, unread."""
        return self.method == "CONNECT"

    @property
    def authority(self) -> str:
        """What stands in ``Host``; it is the host that was checked, whatever the program wrote there."""
        return self.host if self.port == 80 else f"{self.host}:{self.port}"


def check_head(head: bytes) -> None:
    """Refuse a head whose lines are not plainly divided; ``head`` ends with its empty line."""
    if _LOOSE_LINES.search(head):
        raise RefusedError(400, "the lines of the request are not divided as HTTP wants it")


def read_request(request: h11.Request) -> ProxyRequest:
    """Return what is asked for.

    Raises:
        RefusedError: It is no request for a proxy, or one that two readers may take for different things.
    """
    method = request.method.decode("ascii")
    target = request.target.decode("ascii", "replace")
    framing = _framing(request)
    if method == "CONNECT":
        found = _AUTHORITY.fullmatch(target)
        path = ""
    else:
        found = _URL.fullmatch(target)
        path = found["path"] or "/" if found else ""
    if found is None:
        raise RefusedError(400, _not_for_a_proxy(method, target))
    return ProxyRequest(
        method=method,
        host=found["host"].lower().removesuffix("."),
        port=int(found["port"] or 80),
        target=path if path.startswith("/") or not path else "/" + path,
        headers=for_next(request.headers.raw_items()),
        framing=framing,
    )


def for_next(headers: Headers) -> Headers:
    """Return the headers that go on to the next hop."""
    listed = [value for name, value in headers if name.lower() == b"connection"]
    own = _OWN_HEADERS | {token.strip().lower() for value in listed for token in value.split(b",")}
    return [(name, value) for name, value in headers if name.lower() not in own]


def _framing(request: h11.Request) -> Headers:
    lengths = [value for name, value in request.headers if name == b"content-length"]
    codings = [value for name, value in request.headers if name == b"transfer-encoding"]
    if lengths and codings:
        raise RefusedError(400, "the request has both Content-Length and Transfer-Encoding")
    if codings:
        return [(b"transfer-encoding", b"chunked")]
    return [(b"content-length", value) for value in lengths[:1]]


def _not_for_a_proxy(method: str, target: str) -> str:
    shown = shortened(one_line(target), 100)
    if method == "CONNECT":
        return f"CONNECT takes the name of a host and a port, such as pypi.org:443, got {shown!r}"
    if target.lower().startswith("https://"):
        return "https is reached by CONNECT"
    return f"this is a proxy; it takes http://host/path with the name of a host and no user, got {shown!r}"
