"""Durable values of an agent: what goes in, what comes out, in which order, and how much."""

from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from agentkit import Agent, AgentOptions
from agentkit.errors import PayloadError, QuotaError
from tests.jobs.worker import Start, Worker


class Note(BaseModel):
    text: str
    at: datetime


async def test_value_survives_a_crash(manual_runtime: Start) -> None:
    """Once put has returned the value is on disk."""
    runtime = await manual_runtime(Worker)
    ada = runtime.get(Worker, "ada")

    await ada.use(lambda agent: agent.storage.put("key", {"n": [1, 2.5, None, True, "é"]}))
    await runtime.crash()

    assert await ada.use(lambda agent: agent.storage.get("key")) == {"n": [1, 2.5, None, True, "é"]}


async def test_missing_value_is_the_default(manual_runtime: Start) -> None:
    """A key without a value gives None, or what was given; a stored None is a value."""
    runtime = await manual_runtime(Worker)

    async def scenario(agent: Worker) -> list[Any]:
        await agent.storage.put("none", None)
        get = agent.storage.get
        return [await get("gone"), await get("gone", 7), await get("none", 7)]

    assert await runtime.get(Worker, "ada").use(scenario) == [None, 7, None]


async def test_models_and_moments_are_dumped(manual_runtime: Start) -> None:
    """Values are JSON: models come back as objects, moments as ISO 8601."""
    runtime = await manual_runtime(Worker)
    note = Note(text="tea", at=datetime(2026, 1, 1, 9, tzinfo=UTC))

    async def scenario(agent: Worker) -> Any:
        await agent.storage.put("note", note)
        return await agent.storage.get("note")

    assert await runtime.get(Worker, "ada").use(scenario) == {"text": "tea", "at": "2026-01-01T09:00:00Z"}


async def test_read_value_is_the_readers_own(manual_runtime: Start) -> None:
    """Changing what was read changes nothing that is stored."""
    runtime = await manual_runtime(Worker)

    async def scenario(agent: Worker) -> Any:
        await agent.storage.put("list", [1])
        (await agent.storage.get("list")).append(2)
        return await agent.storage.get("list")

    assert await runtime.get(Worker, "ada").use(scenario) == [1]


class Login(BaseModel):
    password: SecretStr


@pytest.mark.parametrize(
    "value", [float("nan"), b"bytes", {1, 2}, {1: "one"}, object(), Login(password=SecretStr("open sesame"))], ids=repr
)
async def test_value_that_json_cannot_carry_is_refused(manual_runtime: Start, value: Any) -> None:
    """What JSON would lose raises, the key named, and the old value stays."""
    runtime = await manual_runtime(Worker)
    ada = runtime.get(Worker, "ada")
    await ada.use(lambda agent: agent.storage.put("key", "old"))

    with pytest.raises(PayloadError, match="key") as raised:
        await ada.use(lambda agent: agent.storage.put("key", value))

    assert "sesame" not in str(raised.value)
    assert await ada.use(lambda agent: agent.storage.get("key")) == "old"


async def test_put_many_stores_all_or_nothing(manual_runtime: Start) -> None:
    """One bad value of several keeps the others out as well."""
    runtime = await manual_runtime(Worker)
    ada = runtime.get(Worker, "ada")

    await ada.use(lambda agent: agent.storage.put_many({"a": 1, "b": 2}))
    await ada.use(lambda agent: agent.storage.put_many({}))
    with pytest.raises(PayloadError):
        await ada.use(lambda agent: agent.storage.put_many({"c": 3, "d": {4}}))

    assert await ada.use(lambda agent: agent.storage.list()) == {"a": 1, "b": 2}


async def test_delete_tells_whether_there_was_a_value(manual_runtime: Start) -> None:
    """Deleting a second time finds nothing, and is no error."""
    runtime = await manual_runtime(Worker)

    async def scenario(agent: Worker) -> list[Any]:
        await agent.storage.put("key", 1)
        storage = agent.storage
        return [await storage.delete("key"), await storage.delete("key"), await storage.get("key")]

    assert await runtime.get(Worker, "ada").use(scenario) == [True, False, None]


async def test_delete_all_spares_jobs_and_state(manual_runtime: Start) -> None:
    """Only the host's values go."""

    class Counter(BaseModel):
        n: int = 0

    class Host(Agent[Counter]):
        initial_state = Counter()

        async def scenario(self) -> tuple[Any, int, int]:
            await self.storage.put_many({"a": 1, "b": 2})
            await self.set_state(Counter(n=5))
            await self.lifecycle.jobs.push("work", after=60)
            await self.storage.delete_all()
            return await self.storage.list(), self.state.n, len(await self.lifecycle.jobs.list())

    runtime = await manual_runtime(Host)

    assert await runtime.get(Host, "ada").scenario() == ({}, 5, 1)


async def test_agents_do_not_share_values(manual_runtime: Start) -> None:
    """The same key of another agent, or of an agent of another class, is another value."""

    class Other(Worker):
        """Another class."""

    runtime = await manual_runtime(Worker, Other)
    stubs = [runtime.get(Worker, "ada"), runtime.get(Worker, "bob"), runtime.get(Other, "ada")]
    for number, stub in enumerate(stubs):
        await stub.use(lambda agent, number=number: agent.storage.put("key", number))  # type: ignore[misc]  # bound early

    assert [await stub.use(lambda agent: agent.storage.get("key")) for stub in stubs] == [0, 1, 2]


# --- lists and ranges (SPEC 3.1)

_KEYS = ("a", "ab", "abc", "b", "ba", "é", "\U0010ffff", "z")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, ["a", "ab", "abc", "b", "ba", "z", "é", "\U0010ffff"]),
        ({"prefix": "a"}, ["a", "ab", "abc"]),
        ({"prefix": "ab"}, ["ab", "abc"]),
        ({"prefix": "\U0010ffff"}, ["\U0010ffff"]),
        ({"start": "ab"}, ["ab", "abc", "b", "ba", "z", "é", "\U0010ffff"]),
        ({"end": "b"}, ["a", "ab", "abc"]),
        ({"start": "ab", "end": "ba"}, ["ab", "abc", "b"]),
        ({"prefix": "a", "start": "ab"}, ["ab", "abc"]),
        ({"prefix": "a", "end": "abc"}, ["a", "ab"]),
        ({"start": "b", "end": "a"}, []),
        ({"prefix": "b", "start": "c"}, []),
        ({"limit": 2}, ["a", "ab"]),
        ({"limit": 0}, []),
        ({"reverse": True, "limit": 2}, ["\U0010ffff", "é"]),
        ({"reverse": True, "prefix": "a"}, ["abc", "ab", "a"]),
        ({"reverse": True, "end": "b", "limit": 1}, ["abc"]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_in_transaction", [False, True])
async def test_list_gives_the_wanted_keys_in_order(
    manual_runtime: Start, wanted: dict[str, Any], expected: list[str], is_in_transaction: bool
) -> None:
    """Prefix, start (in), end (out), limit and reverse work together, also on a block's own changes."""
    runtime = await manual_runtime(Worker)

    async def scenario(agent: Worker) -> list[str]:
        values = {key: number for number, key in enumerate(_KEYS)}
        if not is_in_transaction:
            await agent.storage.put_many(values)
            return list(await agent.storage.list(**wanted))
        await agent.storage.put_many({"a": 0, "b": 0, "aa": 0, "zz": 0})
        async with agent.transaction():
            await agent.storage.put_many(values)
            await agent.storage.delete("aa")
            await agent.storage.delete("zz")
            return list(await agent.storage.list(**wanted))

    assert await runtime.get(Worker, "ada").use(scenario) == expected


async def test_list_refuses_a_negative_limit(manual_runtime: Start) -> None:
    """A limit below nothing is a mistake."""
    runtime = await manual_runtime(Worker)

    with pytest.raises(ValueError, match="limit"):
        await runtime.get(Worker, "ada").use(lambda agent: agent.storage.list(limit=-1))


async def test_unknown_option_of_list_is_a_type_error(manual_runtime: Start) -> None:
    """A misspelled option doesn't pass silently."""
    runtime = await manual_runtime(Worker)

    with pytest.raises(TypeError, match="count"):
        await runtime.get(Worker, "ada").use(lambda agent: agent.storage.list(count=1))  # type: ignore[call-arg]  # wrong on purpose


@pytest.mark.parametrize("key", ["", "  ", 7, None, b"key", "\ud800", "x" * 1_025], ids=repr)
async def test_key_that_cannot_be_stored_is_refused(manual_runtime: Start, key: Any) -> None:
    """Keys are non-blank texts of a bounded size."""
    runtime = await manual_runtime(Worker)
    ada = runtime.get(Worker, "ada")

    for action in (
        lambda agent: agent.storage.put(key, 1),
        lambda agent: agent.storage.put_many({"good": 1, key: 1}),
        lambda agent: agent.storage.get(key),
        lambda agent: agent.storage.delete(key),
    ):
        with pytest.raises(PayloadError, match="key"):
            await ada.use(action)

    assert await ada.use(lambda agent: agent.storage.list()) == {}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(value=_json)
def test_any_json_value_comes_back_equal(value: Any) -> None:
    """What is JSON to begin with is read as it was written."""
    from agentkit.json_value import from_text, to_text

    assert from_text(to_text(value, "value")) == value


# --- quotas (SPEC 19)


async def test_value_of_a_mebibyte_is_the_default_limit(manual_runtime: Start) -> None:
    """1 MiB of JSON passes, a byte more raises a ``QuotaError`` that names the option."""
    runtime = await manual_runtime(Worker)
    ada = runtime.get(Worker, "ada")
    most = "x" * ((1 << 20) - 2)

    await ada.use(lambda agent: agent.storage.put("key", most))
    with pytest.raises(QuotaError, match="max_value_bytes=1,048,576") as raised:
        await ada.use(lambda agent: agent.storage.put("key", most + "x"))

    assert (raised.value.quota, raised.value.limit) == ("max_value_bytes", 1 << 20)
    assert await ada.use(lambda agent: agent.storage.get("key")) == most


async def test_class_sets_the_size_of_its_values(manual_runtime: Start) -> None:
    """``options.max_value_bytes`` bounds each value, in ``put_many`` too."""

    class Frugal(Worker):
        options = AgentOptions(max_value_bytes=10)

    runtime = await manual_runtime(Frugal)
    ada = runtime.get(Frugal, "ada")

    await ada.use(lambda agent: agent.storage.put_many({"a": "x" * 8, "b": "x" * 8}))
    with pytest.raises(QuotaError):
        await ada.use(lambda agent: agent.storage.put_many({"c": 1, "d": "x" * 9}))

    assert await ada.use(lambda agent: agent.storage.list()) == {"a": "x" * 8, "b": "x" * 8}


async def test_file_of_the_store_is_its_owners_alone(manual_runtime: Start, tmp_path: Path) -> None:
    """The database and what SQLite keeps beside it can't be read by others."""
    path = tmp_path / "deeper" / "agents.db"
    runtime = await manual_runtime(Worker, store=f"sqlite:///{path}")
    await runtime.get(Worker, "ada").use(lambda agent: agent.storage.put("key", 1))

    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}

    assert set(modes) >= {"agents.db", "agents.db-wal"}
    assert set(modes.values()) == {0o600}


def test_nothing_is_ever_unpickled() -> None:
    """No module of the package knows a way of running code out of stored data."""
    package = Path(__file__).parents[1] / "agentkit"
    modules = {"pickle", "marshal", "shelve", "dill"}
    # It makes the runner's modules inside a sandbox, out of the package's own files.
    runner = package / "sandbox" / "inside" / "bootstrap.py"

    found = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    found += [(path.name, name.name) for name in names if name.name in modules]
                case ast.ImportFrom(module=str(module)) if module in modules:
                    found.append((path.name, module))
                case ast.Call(func=ast.Name(id="eval" | "exec" as name)) if path != runner:
                    found.append((path.name, name))

    assert found == []
