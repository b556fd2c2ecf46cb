"""The typed state: validated, stored, read again after deploys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from agentkit import Agent, AgentOptions
from agentkit.errors import PayloadError, QuotaError, StateError
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Start


class Tally(BaseModel):
    n: int = Field(0, ge=0)
    names: list[str] = []


class Counter(Agent[Tally]):
    initial_state = Tally()

    async def read(self) -> Tally:
        return self.state

    async def write(self, new: Any, source: Any = None) -> Tally:
        await self.set_state(new, source=source)
        return self.state

    async def add_in_place(self) -> int:
        state = self.state
        state.n += 1
        state.names.append(self.name)
        await self.set_state(state)
        return self.state.n


async def test_state_begins_as_the_initial_one(manual_runtime: Start) -> None:
    """Before anything is stored the state is ``initial_state``."""
    runtime = await manual_runtime(Counter)

    assert await runtime.get(Counter, "ada").read() == Tally()


async def test_state_survives_eviction_and_crash(manual_runtime: Start) -> None:
    """Once ``set_state`` has returned the state is on disk, and comes back as its model."""
    runtime = await manual_runtime(Counter)
    ada = runtime.get(Counter, "ada")
    await ada.write(Tally(n=3, names=["x"]))

    await runtime.evict(Counter, "ada")
    evicted = await ada.read()
    await runtime.crash()

    assert evicted == await ada.read() == Tally(n=3, names=["x"])


async def test_state_may_be_given_as_raw_data(manual_runtime: Start) -> None:
    """A mapping is validated into the model."""
    runtime = await manual_runtime(Counter)

    assert await runtime.get(Counter, "ada").write({"n": "7"}) == Tally(n=7)


@pytest.mark.parametrize("new", [{"n": -1}, {"n": "seven"}, 7, None])
async def test_invalid_state_is_refused(manual_runtime: Start, new: Any) -> None:
    """What the model refuses isn't stored, and the old state stays."""
    runtime = await manual_runtime(Counter)
    ada = runtime.get(Counter, "ada")
    await ada.write(Tally(n=1))

    with pytest.raises((ValidationError, PayloadError)):
        await ada.write(new)
    await runtime.crash()

    assert await ada.read() == Tally(n=1)


async def test_model_made_invalid_in_place_is_refused(manual_runtime: Start) -> None:
    """An instance of the model is checked as well: it may have been changed since it was made."""
    runtime = await manual_runtime(Counter)
    ada = runtime.get(Counter, "ada")
    wrong = Tally(n=1)
    wrong.n = -5

    with pytest.raises(ValueError):
        await ada.write(wrong)

    assert await ada.read() == Tally()


async def test_initial_state_is_not_shared_by_agents(manual_runtime: Start) -> None:
    """Changing one agent's state in place leaves the others, and the class, alone."""
    runtime = await manual_runtime(Counter)

    counts = [await runtime.get(Counter, name).add_in_place() for name in ("ada", "bob", "ada")]

    assert counts == [1, 1, 2]
    assert Counter.initial_state == Tally()
    assert await runtime.get(Counter, "bob").read() == Tally(n=1, names=["bob"])


async def test_change_in_place_without_set_state_is_not_stored(manual_runtime: Start) -> None:
    """Only ``set_state`` stores."""

    class Careless(Counter):
        async def spoil(self) -> None:
            self.state.names.append("unsaved")

    runtime = await manual_runtime(Careless)
    ada = runtime.get(Careless, "ada")
    await ada.write(Tally(n=1))

    await ada.spoil()
    await runtime.evict(Careless, "ada")

    assert await ada.read() == Tally(n=1)


async def test_on_state_changed_is_told_the_new_state_and_its_source(manual_runtime: Start) -> None:
    """The hook runs after the state has been stored, with where the change came from."""
    told: list[Any] = []

    class Watching(Counter):
        async def on_state_changed(self, state: Tally, source: Any) -> None:
            told.append((state.n, source, self.state.n))

    runtime = await manual_runtime(Watching)
    ada = runtime.get(Watching, "ada")

    await ada.write(Tally(n=1))
    await ada.write(Tally(n=2), "a connection")

    assert told == [(1, None, 1), (2, "a connection", 2)]


async def test_state_over_the_limit_names_the_option(manual_runtime: Start) -> None:
    """The state is bounded like a value."""

    class Frugal(Counter):
        options = AgentOptions(max_value_bytes=30)

    runtime = await manual_runtime(Frugal)
    ada = runtime.get(Frugal, "ada")

    with pytest.raises(QuotaError, match="max_value_bytes=30"):
        await ada.write(Tally(names=["x" * 30]))

    assert await ada.read() == Tally()


async def test_agent_without_a_model_keeps_any_json(manual_runtime: Start) -> None:
    """``Agent`` without a parameter has a state of plain JSON, None at first."""

    class Free(Agent[Any]):
        async def write(self, new: Any) -> Any:
            await self.set_state(new)
            return self.state

        async def read(self) -> Any:
            return self.state

    runtime = await manual_runtime(Free)
    ada = runtime.get(Free, "ada")

    before = await ada.read()
    written = await ada.write({"a": [1, 2]})

    assert (before, written) == (None, {"a": [1, 2]})


# --- after a deploy (SPEC 3.2)


class Renamed(BaseModel):
    count: int
    names: list[int]


class Later(Agent[Renamed]):
    """The same agents with a model that no longer fits."""

    options = AgentOptions(name="Counter")
    initial_state = Renamed(count=0, names=[])

    async def read(self) -> Renamed:
        return self.state

    async def write(self, new: Any) -> None:
        await self.set_state(new)

    async def touch(self) -> str:
        await self.storage.put("touched", True)
        return "fine"


class Migrating(Later):
    """The deploy that knows the old form."""

    def migrate_state(self, raw: Any) -> Any:
        return {"count": raw["n"], "names": [len(name) for name in raw["names"]]}


async def _stored(tmp_path: Path) -> str:
    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Counter, store=store) as runtime:
        await runtime.get(Counter, "ada").write(Tally(n=3, names=["x"]))
    return store


async def test_state_that_no_longer_validates_names_the_fields(tmp_path: Path) -> None:
    """Reading it raises ``StateError`` with the fields; the agent starts, and nothing is thrown away."""
    store = await _stored(tmp_path)

    async with ManualRuntime(Later, store=store) as runtime:
        ada = runtime.get(Later, "ada")
        fine = await ada.touch()
        with pytest.raises(StateError, match=r"state of Counter/ada .* count, names\.0.*migrate_state") as raised:
            await ada.read()
    async with ManualRuntime(Counter, store=store) as runtime:
        kept = await runtime.get(Counter, "ada").read()

    assert fine == "fine"
    assert raised.value.fields == ["count", "names.0"]
    assert kept == Tally(n=3, names=["x"])


async def test_state_that_no_longer_validates_can_be_replaced(tmp_path: Path) -> None:
    """``set_state`` works though the old state can't be read."""
    store = await _stored(tmp_path)

    async with ManualRuntime(Later, store=store) as runtime:
        ada = runtime.get(Later, "ada")
        await ada.write(Renamed(count=1, names=[2]))
        state = await ada.read()

    assert state == Renamed(count=1, names=[2])


async def test_state_error_shows_no_stored_data(tmp_path: Path) -> None:
    """The message names fields, not what users wrote in them."""
    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Counter, store=store) as runtime:
        await runtime.get(Counter, "ada").write(Tally(names=["a secret word"]))

    async with ManualRuntime(Later, store=store) as runtime:
        with pytest.raises(StateError) as raised:
            await runtime.get(Later, "ada").read()

    assert "secret" not in str(raised.value)


async def test_migrate_state_converts_what_no_longer_validates(tmp_path: Path) -> None:
    """With ``migrate_state`` the old form is read as the new one."""
    store = await _stored(tmp_path)

    async with ManualRuntime(Migrating, store=store) as runtime:
        state = await runtime.get(Migrating, "ada").read()

    assert state == Renamed(count=3, names=[1])


async def test_migrate_state_is_left_alone_when_the_state_fits(manual_runtime: Start) -> None:
    """A state that validates isn't migrated."""

    class Fitting(Counter):
        def migrate_state(self, raw: Any) -> Any:
            raise AssertionError("not needed")

    runtime = await manual_runtime(Fitting)
    ada = runtime.get(Fitting, "ada")
    await ada.write(Tally(n=1))
    await runtime.evict(Fitting, "ada")

    assert await ada.read() == Tally(n=1)


async def test_migration_that_does_not_fit_either_names_the_fields(tmp_path: Path) -> None:
    """What ``migrate_state`` returns is validated too."""
    store = await _stored(tmp_path)

    class Wrong(Later):
        def migrate_state(self, raw: Any) -> Any:
            return {"count": "many", "names": []}

    async with ManualRuntime(Wrong, store=store) as runtime:
        with pytest.raises(StateError) as raised:
            await runtime.get(Wrong, "ada").read()

    assert raised.value.fields == ["count"]
