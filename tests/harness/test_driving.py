"""Runs around what else happens to an agent: shutdown, teardown, start-up, eviction, a disk that fails (SPEC 13.4)."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from agentkit import DurableObject, Lifecycle, Runtime, current_agent
from agentkit.errors import (
    AgentDestroyedError,
    AgentGoneError,
    ConfigurationError,
    RuntimeClosedError,
    StoreUnavailableError,
)
from agentkit.harness import Harness, Limits, tool
from agentkit.host import AgentContext
from agentkit.store.sqlite import SqliteStore
from agentkit.testing import ManualRuntime, ScriptedModel, tool_call
from tests.harness.clerk import Clerk, Office, Start, stored, until


async def test_shutdown_in_the_middle_of_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It gets its grace, is cut off without noise, and goes on in the next process as after a crash."""
    office = Office()
    model = ScriptedModel([tool_call("look_up", name="bob"), tool_call("wait")], "Done.")
    office.options["model"] = model
    path = tmp_path / "agents.db"
    async with Runtime(Clerk, store=SqliteStore(path), deps=office, shutdown_grace=0) as runtime:
        asking = asyncio.ensure_future(runtime.get(Clerk, "ada").ask("go", key="k"))
        await until(lambda: office.read)
    with pytest.raises((RuntimeClosedError, AgentGoneError)):
        await asking

    office.gate.set()
    async with Runtime(Clerk, store=SqliteStore(path), deps=office) as runtime:
        answer = await runtime.get(Clerk, "ada").ask("go", key="k")

    assert answer == "Done."
    assert office.read == ["bob"]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_shutdown_waits_for_a_run(tmp_path: Path) -> None:
    """One that ends within the grace ends in this process."""
    office = Office(model=ScriptedModel(tool_call("wait"), "Done."))
    async with Runtime(Clerk, store=SqliteStore(tmp_path / "agents.db"), deps=office, shutdown_grace=10) as runtime:
        run = await runtime.get(Clerk, "ada").submit("go")
        waiting = asyncio.ensure_future(run.wait())
        asyncio.get_running_loop().call_soon(office.gate.set)

    assert (await waiting).text == "Done."


async def test_agent_that_is_destroyed_by_a_tool(manual_runtime: Start) -> None:
    """The reply gets out first; then everything of it is gone (SPEC 11.1)."""

    class Mayfly(Clerk):
        @tool
        async def leave(self) -> str:
            """Leave."""
            await self.destroy()
            return "leaving"

        def __init__(self, context: AgentContext) -> None:
            context.deps.more = [self.leave]
            super().__init__(context)

    model = ScriptedModel(tool_call("leave"), "Goodbye.")
    runtime = await manual_runtime(Mayfly, model=model, deps=Office())

    answer = await runtime.get(Mayfly, "ada").ask("leave")
    await runtime.advance(1)

    assert answer == "Goodbye."
    assert runtime.events.count("destroy") == 1
    assert await runtime.get(Mayfly, "ada").use(lambda clerk: clerk.harness.log()) == []


async def test_agent_that_is_destroyed_in_the_middle_of_a_run(manual_runtime: Start) -> None:
    """The run is cut off with it, and whoever waits is told."""
    model = ScriptedModel(tool_call("wait"), "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office())
    asking = asyncio.ensure_future(runtime.get(Clerk, "ada").ask("go"))
    await until(lambda: model.requests)

    await runtime.destroy(Clerk, "ada")
    clock: Any = runtime.clock
    clock.move_to(clock.now_ms() + 1_000)  # the alarm
    await until(lambda: clock.sleepers)
    clock.move_to(clock.now_ms() + 26_000)  # the end of the grace

    with pytest.raises((AgentDestroyedError, AgentGoneError)):
        await asking


async def test_run_is_submitted_in_start_up(manual_runtime: Start) -> None:
    """It begins when start-up is over, once an agent, however often that starts."""

    class Eager(Clerk):
        async def on_start(self) -> None:
            await self.harness.submit("wake up", key="first")

    model = ScriptedModel("I am awake.")
    runtime = await manual_runtime(Eager, model=model, deps=Office())
    await runtime.activate(Eager, "ada")
    await runtime.advance(1)
    await runtime.crash()
    await runtime.activate(Eager, "ada")
    await runtime.advance(31)

    log = await runtime.get(Eager, "ada").use(lambda clerk: clerk.harness.log())
    assert [line.text for line in log] == ["wake up", "I am awake."]


async def test_running_agent_is_not_evicted(manual_runtime: Start) -> None:
    """A run is work of the agent's, whoever waits for it."""

    @tool
    async def nap() -> str:
        """Nap."""
        await current_agent().lifecycle.clock.sleep(500)
        return "rested"

    model = ScriptedModel(tool_call("nap"), "Done.")
    runtime = await manual_runtime(Clerk, model=model, deps=Office(more=[nap]), idle_timeout=10)
    run = await runtime.get(Clerk, "ada").submit("nap")

    await runtime.advance(501)

    assert (await run.wait()).text == "Done."
    assert model.requests[1].messages[-1].text == "rested"


async def test_plain_host(manual_runtime: Start) -> None:
    """A harness needs no ``Agent``."""

    class Plain(DurableObject):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.lifecycle = Lifecycle(self)
            self.harness = self.lifecycle.use(Harness())

        async def ask(self, message: str) -> str:
            return await self.harness.ask(message)

    runtime = await manual_runtime(Plain, model=ScriptedModel("Hello."))

    assert await runtime.get(Plain, "ada").ask("hi") == "Hello."


async def test_disk_that_fails_in_a_run() -> None:
    """The instance is dropped, what waits is told, and the heart takes the run up again."""

    class Disk:
        is_broken = False

        def __call__(self, when: str, commits: int) -> None:
            if self.is_broken and when == "before":
                raise sqlite3.OperationalError("disk I/O error")

    disk, office = Disk(), Office()
    store = SqliteStore(":memory:", commit_hook=disk)
    model = ScriptedModel(tool_call("wait"), "Done.")
    async with ManualRuntime(Clerk, store=store, model=model, deps=office) as runtime:
        asking = asyncio.ensure_future(runtime.get(Clerk, "ada").ask("go", key="k"))
        await until(lambda: model.requests)
        disk.is_broken = True
        office.gate.set()
        with pytest.raises((AgentGoneError, StoreUnavailableError)):
            await asking
        disk.is_broken = False
        await runtime.advance(60)

        assert await runtime.get(Clerk, "ada").ask("go", key="k") == "Done."


async def test_many_agents_at_once(manual_runtime: Start) -> None:
    """Each with its own conversation."""
    model = ScriptedModel(tool_call("look_up", name="bob"), lambda request: request.messages[0].text.upper())
    runtime = await manual_runtime(Clerk, model=model, deps=Office())

    answers = await asyncio.gather(*(runtime.get(Clerk, f"a{number}").ask(f"hi {number}") for number in range(50)))

    assert answers == [f"HI {number}" for number in range(50)]


async def test_events_hold_nothing_that_people_or_models_wrote(
    manual_runtime: Start, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor do the log records (SPEC 10.3)."""
    caplog.set_level(logging.DEBUG, logger="agentkit.harness")
    model = ScriptedModel(
        tool_call("send", to="secret", text="secret"),
        tool_call("fail"),
        tool_call("sign", paper="secret"),
        "secret",
        RuntimeError("secret"),
    )
    office = Office(limits=Limits(turns=10), instructions="secret")
    runtime = await manual_runtime(Clerk, model=model, deps=office)
    ada = runtime.get(Clerk, "ada")
    await ada.submit("secret")
    await ada.submit("another secret")
    await runtime.advance(1)
    [call] = await ada.use(lambda clerk: clerk.harness.pending())
    await ada.use(lambda clerk: clerk.harness.decide(call.call_id, True, "secret"))
    await runtime.advance(1)

    types = {event.type for event in runtime.events if event.type.startswith("harness:")}
    own = [record for record in caplog.records if record.name.startswith("agentkit.harness") and record.levelno > 10]
    assert types == {"harness:start", "harness:step", "harness:call", "harness:approval", "harness:end"}
    assert all("secret" not in str(dict(event.payload)) for event in runtime.events)
    assert all("secret" not in record.getMessage() for record in own)


async def test_stored_harness_is_found_by_its_id(manual_runtime: Start) -> None:
    """What a harness stores is its own: the host's ``delete_all()`` spares it."""
    runtime = await manual_runtime(Clerk, model=ScriptedModel("One.", "Two."), deps=Office())
    ada = runtime.get(Clerk, "ada")
    await ada.ask("one")

    await ada.use(lambda clerk: clerk.storage.delete_all())
    await ada.ask("two")

    assert [line["text"] for line in (await stored(runtime, "msg:")).values()] == ["one", "One.", "two", "Two."]


async def test_agents_may_share_a_model(manual_runtime: Start) -> None:
    """One that must be opened is open as long as one of them needs it."""
    log: list[Any] = []

    class Shared(ScriptedModel):
        users = 0

        async def __aenter__(self) -> None:
            self.users += 1

        async def __aexit__(self, *_: object) -> None:
            self.users -= 1
            log.append(self.users)

    model = Shared(tool_call("look_up", name="bob"), "Done.")
    runtime = await manual_runtime(Clerk, deps=Office(model=model))

    await asyncio.gather(*(runtime.get(Clerk, name).ask("go") for name in ("ada", "bob", "eve")))
    await runtime.advance(1)

    assert model.users == 0
    assert len(log) == 3


def test_harness_that_is_not_installed_says_so() -> None:
    """Not that an attribute is missing."""
    harness = Harness(model=ScriptedModel("Hello."))

    with pytest.raises(ConfigurationError, match="install the harness first"):
        asyncio.run(harness.submit("hi"))
    with pytest.raises(ConfigurationError, match="install the harness first"):
        asyncio.run(harness.ask("hi"))
