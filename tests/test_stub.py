"""Stubs: what can be called through one, what can't and why, and which names agents may have."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from agentkit import Agent, AgentOptions, callable_method
from agentkit.errors import AgentCallError, AgentNameError, ConfigurationError
from agentkit.testing import ManualRuntime
from tests.jobs.worker import Start, Worker


class Base(Agent):
    async def inherited(self) -> str:
        return "inherited"


class Caller(Base):
    motto: str = "attribute"
    declared: int

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        self.made_in_init = 1

    async def add(self, a: int, b: int = 2, *, factor: int = 1) -> int:
        return (a + b) * factor

    async def same(self, value: Any) -> Any:
        return value

    async def fail(self) -> None:
        raise KeyError("of the method's own")

    async def other(self, name: str) -> Any:
        return await self.get(Caller, name).add(1)

    @callable_method
    async def marked(self) -> str:
        return "marked"

    @staticmethod
    async def static(n: int) -> int:
        return n

    @classmethod
    async def of_class(cls) -> str:
        return cls.__name__

    def plain(self) -> int:
        return 1

    async def numbers(self) -> Any:
        yield 1

    @property
    def computed(self) -> int:
        return 1

    async def _private(self) -> int:
        return 1


async def test_stub_returns_what_the_method_returns(manual_runtime: Start) -> None:
    """Positional and keyword arguments go in, the result comes out."""
    runtime = await manual_runtime(Caller)
    ada = runtime.get(Caller, "ada")

    assert await ada.add(1) == 3
    assert await ada.add(1, b=4, factor=10) == 50
    assert await ada.inherited() == "inherited"
    assert await ada.marked() == "marked"
    assert await ada.static(7) == 7
    assert await ada.of_class() == "Caller"


async def test_arguments_and_results_pass_by_reference(manual_runtime: Start) -> None:
    """Inside a process nothing is copied."""
    runtime = await manual_runtime(Caller)
    value = object()

    assert await runtime.get(Caller, "ada").same(value) is value


async def test_error_of_a_method_is_raised_to_the_caller(manual_runtime: Start) -> None:
    """The method's own error comes out, and the agent lives on."""
    runtime = await manual_runtime(Caller)
    ada = runtime.get(Caller, "ada")

    with pytest.raises(KeyError, match="of the method's own"):
        await ada.fail()

    assert await ada.add(1) == 3


async def test_wrong_arguments_are_a_type_error(manual_runtime: Start) -> None:
    """An unknown keyword or a missing argument raises as in a direct call."""
    runtime = await manual_runtime(Caller)
    ada = runtime.get(Caller, "ada")

    with pytest.raises(TypeError, match="colour"):
        await ada.add(1, colour="red")  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(TypeError, match="'a'"):
        await ada.add()  # type: ignore[call-arg]  # wrong on purpose


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("plain", "write `async def plain`"),
        ("numbers", "async generator"),
        ("computed", "attribute"),
        ("motto", "attribute"),
        ("declared", "attribute"),
        ("storage", "attribute"),
        ("keep_alive", "not a coroutine"),
    ],
)
async def test_what_is_no_coroutine_method_is_refused_with_a_reason(
    manual_runtime: Start, name: str, hint: str
) -> None:
    """A sync method, an attribute or an async generator raises an error that says so, at the look."""
    runtime = await manual_runtime(Caller)

    with pytest.raises(AgentCallError, match=rf"Caller\.{name} can't be called through a stub.*{hint}") as raised:
        getattr(runtime.get(Caller, "ada"), name)

    assert isinstance(raised.value, TypeError)


@pytest.mark.parametrize("name", ["missing", "made_in_init", "_private", "__private", "_agentkit"])
async def test_missing_and_private_names_are_attribute_errors(manual_runtime: Start, name: str) -> None:
    """``hasattr`` and friends work as on any object."""
    runtime = await manual_runtime(Caller)
    ada = runtime.get(Caller, "ada")

    with pytest.raises(AttributeError):
        getattr(ada, name)

    assert not hasattr(ada, name)


async def test_stub_cannot_be_assigned_to(manual_runtime: Start) -> None:
    """Setting an attribute on a stub would reach no agent."""
    runtime = await manual_runtime(Caller)

    with pytest.raises(AttributeError):
        runtime.get(Caller, "ada").motto = "changed"


async def test_making_a_stub_reads_and_writes_nothing(manual_runtime: Start) -> None:
    """``get`` is no coroutine, and leaves no trace of the agent in the store."""
    runtime = await manual_runtime(Caller)

    stub = runtime.get(Caller, "ada")

    assert not inspect.isawaitable(stub)
    assert await runtime.store.agents() == []


async def test_stubs_of_one_agent_are_equal(manual_runtime: Start) -> None:
    """The same class and name make the same key."""
    runtime = await manual_runtime(Caller)

    one, same, other = (runtime.get(Caller, name) for name in ("ada", "ada", "bob"))

    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert repr(one) == "<stub of Caller/ada>"


async def test_agent_calls_another_agent(manual_runtime: Start) -> None:
    """``self.get`` gives a stub of any agent of the runtime."""
    runtime = await manual_runtime(Caller)

    assert await runtime.get(Caller, "ada").other("bob") == 3


async def test_call_leaves_no_row_when_nothing_was_stored(manual_runtime: Start) -> None:
    """An agent that stored nothing costs nothing once it is dropped."""
    runtime = await manual_runtime(Caller)
    await runtime.get(Caller, "ada").add(1)

    await runtime.evict(Caller, "ada")

    assert await runtime.store.agents() == []


# --- names (SPEC 2.2)


@pytest.mark.parametrize(
    "name",
    ["", "a\x00b", "a\nb", "\x7f", "\x85", "tab\t", "\ud800", "x" * 1_025, "x" * 2_000, "é" * 513, 7, None, b"ada"],
    ids=lambda name: repr(name)[:20],
)
async def test_impossible_name_is_refused(manual_runtime: Start, name: Any) -> None:
    """Empty, too long, not a text, or with control characters: the error says what a name may be, briefly."""
    runtime = await manual_runtime(Worker)

    with pytest.raises(AgentNameError, match=r"1 to 1,024 bytes of text without control characters") as raised:
        runtime.get(Worker, name)
    for action in (runtime.activate, runtime.evict, runtime.destroy):
        with pytest.raises(AgentNameError):
            await action(Worker, name)

    assert isinstance(raised.value, ValueError)
    assert len(str(raised.value)) < 250


@pytest.mark.parametrize(
    "name",
    ["a", " ", "Ada Lovelace", "../../etc/passwd", "'; drop table agents; --", "x" * 1_024, "é" * 512, "日本", "👩‍🚀"],
)
async def test_any_other_name_reaches_its_own_agent(manual_runtime: Start, name: str) -> None:
    """Whatever else the text is, it names one agent, also after a crash."""
    runtime = await manual_runtime(Worker)
    await runtime.get(Worker, name).use(lambda agent: agent.storage.put("name", agent.name))

    await runtime.crash()

    assert await runtime.get(Worker, name).use(lambda agent: agent.storage.get("name")) == name
    assert [summary.agent.name for summary in await runtime.store.agents()] == [name]


async def test_names_are_not_normalized(manual_runtime: Start) -> None:
    """Two ways of writing an accent, or upper and lower case, are two agents."""
    runtime = await manual_runtime(Worker)
    names = ["\u00e9", "e\u0301", "ADA", "ada"]

    for name in names:
        await runtime.get(Worker, name).use(lambda agent: agent.storage.put("name", agent.name))

    assert len(await runtime.store.agents()) == 4


# --- classes (SPEC 2.2)


async def test_class_that_the_runtime_was_not_given_is_refused(manual_runtime: Start) -> None:
    """The error names what is served and what to pass."""
    runtime = await manual_runtime(Worker)

    with pytest.raises(ConfigurationError, match=r"serves Worker; pass Caller to Runtime"):
        runtime.get(Caller, "ada")


async def test_two_classes_of_one_name_are_refused() -> None:
    """Also when one has it from its options; the error shows the mend."""

    class Renamed(Agent):
        options = AgentOptions(name="Worker")

    with pytest.raises(ConfigurationError, match=r"two classes are stored as 'Worker'.*AgentOptions\(name="):
        ManualRuntime(Worker, Renamed)


async def test_namesake_of_a_served_class_is_refused(manual_runtime: Start) -> None:
    """A class that only shares the stored name isn't the class that was given."""

    class Renamed(Agent):
        options = AgentOptions(name="Worker")

    runtime = await manual_runtime(Worker)

    with pytest.raises(ConfigurationError):
        runtime.get(Renamed, "ada")


async def test_stored_name_outlives_a_renamed_class(tmp_path: Any) -> None:
    """``options.name`` keeps the agents of a class that is called something else in code."""

    class New(Worker):
        options = AgentOptions(name="Worker")

    store = f"sqlite:///{tmp_path}/agents.db"
    async with ManualRuntime(Worker, store=store) as runtime:
        await runtime.get(Worker, "ada").use(lambda agent: agent.storage.put("key", 1))

    async with ManualRuntime(New, store=store) as runtime:
        value = await runtime.get(New, "ada").use(lambda agent: agent.storage.get("key"))

    assert value == 1
