"""Tools of servers that speak the Model Context Protocol."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

from mcp.server import MCPServer

from agentkit.errors import ConfigurationError
from agentkit.harness import CallEntry, Reply, ToolCall, ToolMessage, ToolServer
from agentkit.testing import FakeClock, ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, until

PROGRAM = Path(__file__).with_name("tool_server.py")


def notes(folder: Path, **options: Any) -> ToolServer:
    """Return the server of ``tool_server.py``, which notes what it does in the folder."""
    journal = folder / "journal"
    journal.touch()
    return ToolServer([sys.executable, str(PROGRAM), str(journal)], **options)


def journal(folder: Path) -> list[str]:
    """Return what the server has noted."""
    return (folder / "journal").read_text().splitlines()


def library() -> MCPServer[Any]:
    """Return a server in this process."""
    server: MCPServer[Any] = MCPServer("library", log_level="CRITICAL")

    @server.tool(name="look/up")
    def look_up(title: str, pages: int = 1) -> str:
        """Look a book up."""
        return f"{title}: {pages} pages"

    @server.tool()
    def fail() -> str:
        """Fail."""
        raise ValueError("secret details")

    @server.tool()
    def send() -> str:
        """Has the name of a tool of the agent's own."""
        return "wrong"

    return server


async def told(manual_runtime: Start, server: ToolServer, *calls: Any) -> tuple[ScriptedModel, list[str]]:
    """Let a model make calls one after another, and return what it was told."""
    model = ScriptedModel(*calls, "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[server]))
    run = await runtime.get(Clerk, "ada").submit("go")
    assert (await run.wait()).text == "Done."
    return model, [message.text for message in model.requests[-1].messages if isinstance(message, ToolMessage)]


async def test_tools_of_a_server(manual_runtime: Start) -> None:
    """They are offered beside those of the agent, with their schema, and give text or an error."""
    model, replies = await told(
        manual_runtime,
        ToolServer(library(), prefix="lib_"),
        tool_call("lib_look_up", title="Emma", pages=300),
        tool_call("lib_look_up", pages="many"),
        tool_call("lib_fail"),
        tool_call("lib_look_up"),
    )

    [spec] = [each for each in model.requests[0].tools if each.name == "lib_look_up"]
    assert spec.description == "Look a book up."
    assert spec.schema["properties"]["title"]["type"] == "string"  # type: ignore[call-overload,index]  # a schema
    assert replies[0] == "Emma: 300 pages"
    assert "validation error" in replies[1]
    assert "secret" not in replies[2]


async def test_own_tools_win(manual_runtime: Start, caplog: pytest.LogCaptureFixture) -> None:
    """A server can't take the place of a tool of the agent's; that is logged once."""
    _, replies = await told(
        manual_runtime, ToolServer(library()), tool_call("send", to="bob", text="hi"), tool_call("fail")
    )

    assert replies == ["sent", "The tool failed with LookupError: the drawer is empty"]
    assert caplog.text.count("'send' of a server is left out") == 1


async def test_what_is_said_about_tools_is_said_here() -> None:
    """Which are used, what they do, who decides: not by the server."""
    server = ToolServer(
        library(), only=["look/up", "fail"], prefix="x_", effects={"look/up": "read"}, approve=["fail"], timeout=5
    ).open(FakeClock())
    try:
        tools = {each.name: each for each in await server.tools()}
    finally:
        await server.close()

    assert sorted(tools) == ["x_fail", "x_look_up"]
    assert [(each.effect, each.approve) for each in tools.values()] == [("read", False), ("once", True)]
    assert all(each.timeout is not None and each.timeout.total_seconds() == 5 for each in tools.values())


async def test_command(manual_runtime: Start, tmp_path: Path) -> None:
    """A server that is started when a run needs it, once, and ended with it."""
    _, replies = await told(
        manual_runtime, notes(tmp_path), tool_call("add", a=1, b=2), [tool_call("add", a=3, b=4)] * 2
    )

    assert replies == ["3", "7", "7"]
    assert journal(tmp_path) == ["started", "add 1 2", "add 3 4", "add 3 4"]


async def test_broken_connection_is_opened_anew(manual_runtime: Start, tmp_path: Path) -> None:
    """What may be repeated is; the next calls find a server again."""
    _, replies = await told(
        manual_runtime,
        notes(tmp_path, effect="idempotent"),
        tool_call("die_once", word="cat"),
        tool_call("add", a=1, b=2),
    )

    assert replies == ["cat lives", "3"]
    assert journal(tmp_path) == ["started", "die cat", "started", "die cat", "add 1 2"]


async def test_call_that_happens_once_is_not_repeated(manual_runtime: Start, tmp_path: Path) -> None:
    """The connection broke during it: the model is told that nobody knows."""
    _, replies = await told(
        manual_runtime, notes(tmp_path), tool_call("die_once", word="cat"), tool_call("add", a=1, b=2)
    )

    assert "may or may not have taken effect" in replies[0]
    assert replies[1] == "3"
    assert journal(tmp_path).count("die cat") == 1


@pytest.mark.parametrize("target", [["/nowhere/server"], "http://127.0.0.1:9/mcp", [sys.executable, "-c", "1"]])
async def test_server_that_cannot_be_reached(
    manual_runtime: Start, caplog: pytest.LogCaptureFixture, target: Any
) -> None:
    """Its tools are missing, all others work; it is left alone for a minute."""
    _, replies = await told(
        manual_runtime, ToolServer(target), tool_call("look_up", name="bob"), tool_call("add", a=1, b=2)
    )

    assert replies[0] == "bob lives in Main Street"
    assert replies[1].startswith("There is no tool 'add'")
    assert caplog.text.count("can't be reached") == 1


@pytest.mark.parametrize("arguments", ["[1]", "{"])
async def test_arguments_that_are_no_object(manual_runtime: Start, arguments: str) -> None:
    """They never reach the server."""
    call = Reply(calls=(ToolCall(id="a", name="lib_look_up", arguments=arguments),))
    _, replies = await told(manual_runtime, ToolServer(library(), prefix="lib_"), call)

    assert replies[0].startswith("Not run, the arguments are wrong: they ")


async def test_run_on_a_server_is_cancelled(manual_runtime: Start) -> None:
    """The call ends with it, and the connection is closed."""
    server: MCPServer[Any] = MCPServer("slow", log_level="CRITICAL")
    begun = asyncio.Event()

    @server.tool()
    async def linger() -> str:
        """Linger."""
        begun.set()
        await asyncio.sleep(3_600)
        return "late"

    model = ScriptedModel(tool_call("linger"), "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[ToolServer(server)]))
    run = await runtime.get(Clerk, "ada").submit("go")
    await begun.wait()

    await run.cancel()

    outcome = await run.wait()
    log = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.log())
    assert str(outcome) == "cancelled"
    assert [line.ending for line in log if isinstance(line, CallEntry)] == ["cancelled"]


async def test_crash_with_a_server_leaves_nothing_behind(tmp_path: Path) -> None:
    """The next life connects anew, and a call that was under way has one result."""
    model = ScriptedModel(tool_call("wait"), tool_call("add", a=1, b=2), "Done.")
    office = Office(more=[notes(tmp_path)])
    async with ManualRuntime(Clerk, model=model, deps=office) as runtime:
        run = await runtime.get(Clerk, "ada").submit("go")
        await until(lambda: model.requests)
        await runtime.crash()
        office.gate.set()
        await runtime.advance(31)
        outcome = await runtime.get(Clerk, "ada").use(lambda clerk: clerk.harness.outcome_of(run.id))

    assert outcome is not None
    assert outcome.text == "Done."
    assert journal(tmp_path) == ["started", "started", "add 1 2"]


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the server is given, with what to install."""
    monkeypatch.setitem(sys.modules, "mcp", None)

    with pytest.raises((ConfigurationError, ValueError), match="mcp"):
        ToolServer("http://127.0.0.1:9/mcp")


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://me:secret@tools.example/mcp?key=secret", "tools.example/mcp"),
        (["python", "server.py", "--token", "secret"], "python"),
    ],
)
def test_server_is_shown_without_secrets(target: Any, shown: str) -> None:
    """In logs and errors."""
    assert ToolServer(target).shown == shown
