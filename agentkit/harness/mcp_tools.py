"""Tools of servers that speak the Model Context Protocol: the one door to ``mcp``.

Each connection belongs to one task, which opens and closes it; calls may come from any other. One that broke is opened
anew by the next call. A server that can't be reached takes nothing but its own tools away.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import json
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from agentkit.clock import Clock, Duration, duration_of
from agentkit.errors import ConfigurationError, ToolError
from agentkit.harness.output import text_of
from agentkit.harness.reasons import InvalidArguments
from agentkit.harness.signals import cancelled, until_first
from agentkit.harness.tools import DEFAULT_TIMEOUT, Effect, Tool, ToolContext
from agentkit.jobs.failures import is_memory_limit

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as ServerTool

logger = logging.getLogger(__name__)

#: How long a server may take to answer when it is connected.
_CONNECT: Final = timedelta(seconds=30)
#: How long one that could not be reached is left alone.
_PAUSE: Final = timedelta(seconds=60)
_CLOSE: Final = timedelta(seconds=5)
_MILLISECOND: Final = timedelta(milliseconds=1)
_MOST_PAGES: Final = 100
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")
_CONNECTION_CLOSED: Final = -32000


@dataclass(frozen=True, slots=True)
class ToolServer:
    """A server of tools; give it to a harness among its tools.

    >>> Harness(tools=[ToolServer(["python", "notes_server.py"], effects={"read_note": "read"})])   # doctest: +SKIP

    What the server says about the effects of its tools is not trusted: say it here.

    Attributes:
        target: A URL, or the command that starts it, as a list; also whatever ``mcp.Client`` takes.
        prefix: Is put in front of the names of its tools.
        only: Names of the tools that are used, as the server calls them; None for all.
        effect: Of its tools; see ``@tool``.
        effects: Of single ones, by the server's name.
        approve: Whether a person decides about each call; or names of the tools for which that holds.
        timeout: Of one call, in seconds or as a ``timedelta``; None for never.
    """

    target: Any
    prefix: str = field(default="", kw_only=True)
    only: Collection[str] | None = field(default=None, kw_only=True)
    effect: Effect = field(default="once", kw_only=True)
    effects: Mapping[str, Effect] = field(default_factory=dict, kw_only=True)
    approve: bool | Collection[str] = field(default=False, kw_only=True)
    timeout: Duration | None = field(default=DEFAULT_TIMEOUT, kw_only=True)

    def __post_init__(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise ConfigurationError("tool servers are reached through the package mcp; pip install 'agentkit[mcp]'")

    def open(self, clock: Clock) -> OpenToolServer:
        """See ``ToolSource``."""
        return OpenToolServer(self, clock)

    @property
    def shown(self) -> str:
        """How it is called in logs and errors: without what a URL or a command may hold."""
        if isinstance(self.target, str):
            return self.target.partition("?")[0].rpartition("@")[2]
        return str(self.target[0]) if isinstance(self.target, list | tuple) else type(self.target).__name__


class _Connection:
    """One connection and the task that owns it."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._stop = asyncio.Event()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(), name=f"tool server {server.shown}")

    async def client(self, clock: Clock) -> Client:
        """Return the client once it is connected.

        Raises:
            ToolError: It can't be, or not in time.
        """
        late = asyncio.Event()
        timer = clock.call_at(clock.now_ms() + _CONNECT // _MILLISECOND, late.set)
        waiting = asyncio.create_task(_result(self._opened))
        try:
            if await until_first(waiting, late):
                return waiting.result()
        finally:
            timer.cancel()
            waiting.cancel()
        raise ToolError(f"The tool server {self._server.shown} did not answer in {_CONNECT.total_seconds():g} s.")

    async def _own(self) -> None:
        from mcp import Client, StdioServerParameters

        target = self._server.target
        if isinstance(target, list | tuple):
            target = StdioServerParameters(command=target[0], args=list(target[1:]))
        try:
            async with Client(target) as client:
                self._opened.set_result(client)
                await self._stop.wait()
        except Exception as error:
            if is_memory_limit(error):
                raise
            logger.debug("tool server %s", self._server.shown, exc_info=True)
            if not self._opened.done():
                reason = f"The tool server {self._server.shown} can't be reached ({type(error).__name__})."
                self._opened.set_exception(ToolError(reason))

    async def close(self, clock: Clock) -> None:
        """Close it, in the task that opened it; one that doesn't close is given up."""
        self._stop.set()
        late = asyncio.Event()
        timer = clock.call_at(clock.now_ms() + _CLOSE // _MILLISECOND, late.set)
        try:
            is_closed = self._opened.done() and await until_first(self._task, late)
        finally:
            timer.cancel()
        if not is_closed and not await cancelled(self._task, clock):
            logger.error("the connection to tool server %s did not close and is given up", self._server.shown)
        if self._opened.done() and not self._opened.cancelled():
            self._opened.exception()  # seen, if nobody waited for it


async def _result(future: asyncio.Future[Client]) -> Client:
    return await asyncio.shield(future)


class OpenToolServer:
    """A server of tools, while a harness uses it; see ``OpenTools``."""

    def __init__(self, server: ToolServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._tools: Sequence[Tool] | None = None
        self._retry_at_ms = 0

    async def tools(self) -> Sequence[Tool]:
        """Return its tools; none while it can't be reached, and then it is left alone for a minute."""
        if self._tools is None and self._clock.now_ms() >= self._retry_at_ms:
            try:
                self._tools = [self._made(each) for each in await self._listed()]
            except ToolError as error:
                logger.warning("%s Its tools are left out.", error)
                self._retry_at_ms = self._clock.now_ms() + _PAUSE // _MILLISECOND
        return self._tools or ()

    async def close(self) -> None:
        """Close the connection."""
        await self._drop(self._connection)

    async def _listed(self) -> list[ServerTool]:
        client = await self._client()
        found: list[ServerTool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._asked(client.list_tools(cursor=cursor))
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        only = self._server.only
        return [each for each in found if only is None or each.name in only]

    def _made(self, told: ServerTool) -> Tool:
        server = self._server
        effect = server.effects.get(told.name, server.effect)
        approve = server.approve if isinstance(server.approve, bool) else told.name in server.approve
        return Tool(
            name=_NO_NAME.sub("_", server.prefix + told.name)[:64],
            description=told.description or told.title or "",
            schema={"type": "object", "properties": {}, **told.input_schema},
            read=_read,
            call=functools.partial(self._call, told.name, effect),
            effect=effect,
            approve=approve,
            timeout=None if server.timeout is None else duration_of(server.timeout, "timeout"),
        )

    async def _call(self, name: str, effect: Effect, arguments: dict[str, Any], context: ToolContext) -> str:
        """Call a tool; once more over a new connection if it may be repeated and the old one broke."""
        try:
            return _text(await self._asked((await self._client()).call_tool(name, arguments)))
        except _BrokenError as error:
            if effect == "once":
                message = (
                    f"The connection to the tool server {self._server.shown} broke during the call: it may or may not "
                    "have taken effect. Find out before you make it again."
                )
                raise ToolError(message) from error
        return _text(await self._asked((await self._client()).call_tool(name, arguments)))

    # --- the connection

    async def _client(self) -> Client:
        """Return a connected client; callers that come at once share one connection.

        Raises:
            ToolError: The server can't be reached.
        """
        async with self._connecting:
            connection = self._connection = self._connection or _Connection(self._server)
            try:
                return await connection.client(self._clock)
            except BaseException:
                await self._drop(connection)
                raise

    async def _asked(self, answer: Any) -> Any:
        """Await what a server answers.

        Raises:
            ToolError: The server refuses the request.
            _BrokenError: The connection broke.
        """
        from mcp import MCPError

        connection = self._connection
        try:
            return await answer
        except MCPError as error:
            if error.error.code != _CONNECTION_CLOSED:
                raise ToolError(f"The tool server refused the call: {error}") from error
            broken: Exception = error
        except Exception as error:
            if is_memory_limit(error):
                raise
            broken = error
        await self._drop(connection)
        raise _BrokenError(f"The connection to the tool server {self._server.shown} broke.") from broken

    async def _drop(self, connection: _Connection | None) -> None:
        """Close a connection, unless somebody has done so and opened another."""
        if connection is not None and connection is self._connection:
            self._connection = None
            await connection.close(self._clock)


class _BrokenError(ToolError):
    """A connection broke in the middle of a call."""


def _read(arguments: str) -> dict[str, Any]:
    """Return arguments as the server takes them; it validates them itself."""
    try:
        read = json.loads(arguments.strip() or "{}")
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(f"they are no JSON ({type(error).__name__})") from None
    if not isinstance(read, dict):
        raise InvalidArguments("they must be a JSON object")
    return read


def _text(result: CallToolResult) -> str:
    """Return the text of a result.

    Raises:
        ToolError: The server says that the call failed.
    """
    parts = [getattr(block, "text", None) or f"[{block.type}]" for block in result.content]
    text = "\n".join(parts) if parts else text_of(result.structured_content)
    if result.is_error:
        raise ToolError(text or "The tool failed and did not say why.")
    return text
