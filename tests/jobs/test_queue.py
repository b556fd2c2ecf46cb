"""Pushing, reading, moving and cancelling jobs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from agentkit import AgentOptions, Capability, Job, JobContext, RescheduleAt, RetryPolicy
from agentkit.errors import JobError, JobOwnedByOtherError, PayloadError, QuotaError, UnknownRunError
from agentkit.host import AgentContext
from tests.jobs.worker import START, Script, Start, Worker, at, history


class Reminder(BaseModel):
    text: str
    at: datetime


@dataclass
class Parcel:
    weight: float
    stops: tuple[str, ...]


class Neighbour(Capability):
    """A second owner of jobs in the same agent."""

    id = "neighbour"

    async def on_job(self, context: JobContext) -> None:
        """Do nothing."""


class Shared(Worker):
    """A worker with a second owner."""

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.neighbour = self.lifecycle.use(Neighbour())


# --- what a push accepts (SPEC 4.1)


async def test_push_returns_the_job_as_it_is_stored(manual_runtime: Start) -> None:
    """Every option given is found on the returned job, with durations as timedeltas."""
    runtime = await manual_runtime(Worker, deps=Script())

    job = await runtime.get(Worker, "ada").push(
        "work",
        at=at(60),
        payload={"n": [1, 2.5, None, True, "é"]},
        id="one",
        retry=RetryPolicy(max_attempts=5),
        single_flight=True,
        hung_timeout=7,
        timeout=timedelta(seconds=9),
        exclusive=True,
        recovery_loop=True,
    )

    assert (job.id, job.owner, job.function, job.due_at, job.created_at) == ("one", "host", "work", at(60), START)
    assert job.payload == {"n": [1, 2.5, None, True, "é"]}
    assert job.retry == RetryPolicy(max_attempts=5)
    assert (job.single_flight, job.exclusive, job.recovery_loop) == (True, True, True)
    assert (job.hung_timeout, job.timeout) == (timedelta(seconds=7), timedelta(seconds=9))


async def test_job_cannot_be_changed(manual_runtime: Start) -> None:
    """A job is a value: setting an attribute raises."""
    runtime = await manual_runtime(Worker, deps=Script())
    job = await runtime.get(Worker, "ada").push("work", after=1)

    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
        job.function = "other"  # type: ignore[misc]  # what the test is about


async def test_options_left_out_follow_the_class(manual_runtime: Start) -> None:
    """A job pushed without options has none of its own."""
    runtime = await manual_runtime(Worker, deps=Script())

    job = await runtime.get(Worker, "ada").push("work", after=1)

    assert (job.hung_timeout, job.timeout, job.payload) == (None, None, None)
    assert (job.single_flight, job.exclusive, job.recovery_loop) == (False, False, False)
    assert job.retry == RetryPolicy()


@pytest.mark.parametrize("times", [{}, {"at": at(1), "after": 1}])
async def test_push_takes_exactly_one_of_at_and_after(manual_runtime: Start, times: dict[str, Any]) -> None:
    """Neither a time nor two of them is a mistake that names both arguments."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(ValueError, match=r"exactly one of at=.* and after="):
        await ada.push("work", **times)

    assert await ada.jobs() == []


@pytest.mark.parametrize(
    ("times", "error"),
    [
        ({"after": float("nan")}, ValueError),
        ({"after": float("inf")}, ValueError),
        ({"after": float("-inf")}, ValueError),
        ({"after": 1e12}, ValueError),
        ({"after": 1e300}, ValueError),
        ({"after": timedelta.max}, ValueError),
        ({"at": datetime.max.replace(tzinfo=UTC)}, ValueError),
        ({"after": "10"}, TypeError),
        ({"after": True}, TypeError),
        ({"at": 1_800_000_000}, TypeError),
        ({"at": date(2026, 1, 2)}, TypeError),
    ],
)
async def test_push_refuses_times_that_cannot_be(
    manual_runtime: Start, times: dict[str, Any], error: type[Exception]
) -> None:
    """A time that isn't finite, lies past the calendar or is no time at all stores nothing."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(error):
        await ada.push("work", **times)

    assert await ada.jobs() == []


async def test_naive_moment_is_refused_with_the_mend(manual_runtime: Start) -> None:
    """A datetime without a zone raises an error that shows how to add one."""
    runtime = await manual_runtime(Worker, deps=Script())

    with pytest.raises(ValueError, match=r"2026-01-01T09:00:00 has no time zone; .*ZoneInfo"):
        await runtime.get(Worker, "ada").push("work", at=datetime(2026, 1, 1, 9))


async def test_due_times_round_up_to_the_millisecond(manual_runtime: Start) -> None:
    """A job never runs before its time, so fractions of a millisecond count as a whole one."""
    runtime = await manual_runtime(Worker, deps=Script())

    job = await runtime.get(Worker, "ada").push("work", after=timedelta(microseconds=1_001))

    assert job.due_at == at(0.002)


@pytest.mark.parametrize("times", [{"at": at(-86_400)}, {"after": -5}, {"after": 0}])
async def test_time_in_the_past_runs_at_the_next_alarm(manual_runtime: Start, times: dict[str, Any]) -> None:
    """A job that is overdue when it is pushed runs without the clock moving."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)

    await runtime.get(Worker, "ada").push("work", **times)
    await runtime.advance(0)

    assert script.log == ["work"]


@pytest.mark.parametrize("function", ["", "  ", "\n", None, 7])
async def test_blank_function_is_refused(manual_runtime: Start, function: Any) -> None:
    """A job must say what it calls."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(PayloadError, match="function"):
        await ada.push(function, after=1)

    assert await ada.jobs() == []


@pytest.mark.parametrize("id", ["", " ", 7, "x" * 1_025, "\ud800"])
async def test_id_that_cannot_be_stored_is_refused(manual_runtime: Start, id: Any) -> None:
    """A given id is a text that the store can hold."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(PayloadError, match="id"):
        await ada.push("work", after=1, id=id)

    assert await ada.jobs() == []


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        (float("nan"), "payload"),
        ({"a": [1, float("inf")]}, r"payload\.a\[1\]"),
        ({"a": -float("inf")}, r"payload\.a"),
        (b"bytes", "payload"),
        ({"a": {"b": bytearray(b"x")}}, r"payload\.a\.b"),
        ({1, 2}, "payload"),
        ({"a": frozenset()}, r"payload\.a"),
        ({1: "one"}, "payload"),
        ({"a": {None: 1}}, r"payload\.a"),
        ({"a": {("x", "y"): 1}}, r"payload\.a"),
        (object(), "payload"),
        (lambda: None, "payload"),
    ],
)
async def test_payload_that_json_cannot_carry_is_refused(manual_runtime: Start, payload: Any, path: str) -> None:
    """What would be lost or changed on the way through JSON raises, naming where it stands."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(PayloadError, match=path):
        await ada.push("work", after=1, payload=payload)

    assert await ada.jobs() == []


async def test_models_dataclasses_and_moments_are_dumped(manual_runtime: Start) -> None:
    """Pydantic models and dataclasses arrive as objects, moments as ISO 8601, tuples as lists."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    payload = {
        "model": Reminder(text="tea", at=at(5)),
        "parcel": Parcel(weight=1.5, stops=("Ulm", "Bern")),
        "moment": at(0.5),
    }

    await runtime.get(Worker, "ada").push("work", after=1, payload=payload)
    await runtime.advance(1)

    assert script.contexts[0].job.payload == {
        "model": {"text": "tea", "at": "2026-01-01T00:00:05Z"},
        "parcel": {"weight": 1.5, "stops": ["Ulm", "Bern"]},
        "moment": "2026-01-01T00:00:00.500000+00:00",
    }


async def test_payload_has_been_through_json_in_the_pushing_process_too(manual_runtime: Start) -> None:
    """What the push returns doesn't share anything with what was given."""
    runtime = await manual_runtime(Worker, deps=Script())
    given = {"stops": ("Ulm",), "list": [1]}

    job = await runtime.get(Worker, "ada").push("work", after=1, payload=given)
    given["list"] = [2]

    assert job.payload == {"stops": ["Ulm"], "list": [1]}


async def test_changing_a_payload_does_not_change_the_job(manual_runtime: Start) -> None:
    """A run that edits its payload leaves the stored one alone, so that a second run sees the first one's."""
    seen: list[Any] = []

    async def work(agent: Worker, context: JobContext) -> RescheduleAt | None:
        seen.append(dict(context.job.payload))
        context.job.payload["n"] = 99
        return RescheduleAt(at(2)) if len(seen) == 1 else None

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    await runtime.get(Worker, "ada").push("work", after=1, payload={"n": 1})

    await runtime.advance(5)

    assert seen == [{"n": 1}, {"n": 1}]


async def test_payload_over_the_limit_names_the_option(manual_runtime: Start) -> None:
    """A payload larger than the class allows raises, and nothing is stored."""

    class Frugal(Worker):
        options = AgentOptions(max_payload_bytes=100)

    runtime = await manual_runtime(Frugal, deps=Script())
    ada = runtime.get(Frugal, "ada")
    await ada.push("small", after=1, payload="x" * 98)

    with pytest.raises(QuotaError, match="max_payload_bytes=100") as raised:
        await ada.push("large", after=1, payload="x" * 99)

    assert (raised.value.quota, raised.value.limit) == ("max_payload_bytes", 100)
    assert [job.function for job in await ada.jobs()] == ["small"]


async def test_payload_of_a_mebibyte_is_the_default_limit(manual_runtime: Start) -> None:
    """1 MiB of JSON passes, a byte more doesn't (SPEC 19)."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    await ada.push("work", after=1, payload="x" * ((1 << 20) - 2))

    with pytest.raises(QuotaError):
        await ada.push("work", after=1, payload="x" * ((1 << 20) - 1))


@pytest.mark.parametrize("name", ["hung_timeout", "timeout"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), timedelta(0)])
async def test_impossible_timeout_is_refused_by_name(manual_runtime: Start, name: str, value: Any) -> None:
    """A limit of no time at all is a mistake."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(ValueError, match=name):
        await ada.push("work", after=1, **{name: value})

    assert await ada.jobs() == []


@pytest.mark.parametrize("option", ["delay", "run_at", "timeout_s"])
async def test_unknown_option_is_a_type_error(manual_runtime: Start, option: str) -> None:
    """A misspelled option doesn't pass silently."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    with pytest.raises(TypeError, match=option):
        await ada.push("work", after=1, **{option: 3})

    assert await ada.jobs() == []


async def test_pushed_job_survives_a_crash(manual_runtime: Start) -> None:
    """Once push has returned, the job is on disk."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=60, payload={"n": 1})

    await runtime.crash()
    await runtime.advance(60)

    assert script.log == ["work"]
    assert script.contexts[0].job.payload == {"n": 1}


# --- ids and owners (SPEC 4.2)


async def test_ids_are_made_when_left_out(manual_runtime: Start) -> None:
    """Two jobs without an id don't replace each other."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")

    first, second = await ada.push("work", after=1), await ada.push("work", after=1)

    assert first.id != second.id
    assert len(await ada.jobs()) == 2


async def test_replaced_id_keeps_its_created_at(manual_runtime: Start) -> None:
    """A second push under an id changes everything but the moment it was first pushed."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    await ada.push("old", after=60, id="one", payload=1, exclusive=True)
    await runtime.advance(10)

    job = await ada.push("new", after=60, id="one", payload=2)

    assert (job.function, job.payload, job.exclusive, job.due_at) == ("new", 2, False, at(70))
    assert job.created_at == START
    assert await ada.jobs() == [job]


async def test_replaced_job_runs_only_as_it_is_now(manual_runtime: Start) -> None:
    """The old due time of a replaced job fires nothing."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("old", after=10, id="one")
    await ada.push("new", after=20, id="one")

    await runtime.advance(15)
    early = list(script.log)
    await runtime.advance(5)

    assert early == []
    assert script.log == ["new"]


async def test_id_of_a_finished_job_starts_anew(manual_runtime: Start) -> None:
    """Once a job is done its id is free, and its created_at gone."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, id="one")
    await runtime.advance(30)

    job = await ada.push("work", after=1, id="one")

    assert job.created_at == at(30)


async def test_id_of_another_owner_is_refused(manual_runtime: Start) -> None:
    """An id that a capability holds can't be taken by the host, and nothing changes."""
    runtime = await manual_runtime(Shared, deps=Script())
    ada = runtime.get(Shared, "ada")

    async def push_as_neighbour(agent: Worker) -> Job:
        assert isinstance(agent, Shared)
        return await agent.neighbour.lifecycle.jobs.push("theirs", after=5, id="one")

    theirs = await ada.use(push_as_neighbour)

    with pytest.raises(JobOwnedByOtherError, match="'one' belongs to 'neighbour'") as raised:
        await ada.push("mine", after=1, id="one")

    async def get_as_neighbour(agent: Worker) -> Job | None:
        assert isinstance(agent, Shared)
        return await agent.neighbour.lifecycle.jobs.get("one")

    assert (raised.value.job_id, raised.value.owner) == ("one", "neighbour")
    assert await ada.use(get_as_neighbour) == theirs


async def test_owner_sees_and_changes_only_its_own_jobs(manual_runtime: Start) -> None:
    """To the host a capability's job doesn't exist."""
    runtime = await manual_runtime(Shared, deps=Script())
    ada = runtime.get(Shared, "ada")

    async def scenario(agent: Worker) -> None:
        assert isinstance(agent, Shared)
        jobs, theirs = agent.lifecycle.jobs, agent.neighbour.lifecycle.jobs
        job = await theirs.push("theirs", after=5, id="one")

        assert job.owner == "neighbour"
        assert await jobs.get("one") is None
        assert await jobs.list() == []
        assert await jobs.cancel("one") is False
        assert await jobs.reschedule("one", at(1)) is False
        assert await theirs.list() == [job]

    await ada.use(scenario)


# --- reading, moving, cancelling (SPEC 4.3)


async def test_unknown_ids_give_false_or_none(manual_runtime: Start) -> None:
    """Asking for a job that isn't there is no error."""
    runtime = await manual_runtime(Worker, deps=Script())

    async def scenario(agent: Worker) -> list[object]:
        jobs = agent.lifecycle.jobs
        return [await jobs.cancel("none"), await jobs.reschedule("none", at(1)), await jobs.get("none")]

    assert await runtime.get(Worker, "ada").use(scenario) == [False, False, None]


async def test_cancelled_job_does_not_run(manual_runtime: Start) -> None:
    """Cancelling deletes, and tells that there was something to delete; a second time there is nothing."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, id="one")

    first = await ada.use(lambda agent: agent.lifecycle.jobs.cancel("one"))
    second = await ada.use(lambda agent: agent.lifecycle.jobs.cancel("one"))
    await runtime.advance(10)

    assert (first, second) == (True, False)
    assert script.log == []


async def test_cancelling_survives_a_crash(manual_runtime: Start) -> None:
    """Once cancel has returned, the job is gone from the disk."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, id="one")

    await ada.use(lambda agent: agent.lifecycle.jobs.cancel("one"))
    await runtime.crash()
    await runtime.advance(10)

    assert script.log == []


@pytest.mark.parametrize(("moved_to", "expected"), [(5, 5), (90, 90)])
async def test_rescheduled_job_runs_at_its_new_time(manual_runtime: Start, moved_to: float, expected: float) -> None:
    """A job can be moved both ways; everything else about it stays."""
    seen: list[datetime] = []

    async def work(agent: Worker, context: JobContext) -> None:
        seen.append(agent.lifecycle.clock.now())

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    ada = runtime.get(Worker, "ada")
    job = await ada.push("work", after=60, id="one", payload=[1], timeout=9)

    moved = await ada.use(lambda agent: agent.lifecycle.jobs.reschedule("one", at(moved_to)))
    [after] = await ada.jobs()
    await runtime.crash()
    await runtime.advance(120)

    assert moved is True
    assert (after.payload, after.timeout, after.created_at) == (job.payload, job.timeout, job.created_at)
    assert seen == [at(expected)]


@pytest.mark.parametrize(
    ("moment", "error"),
    [
        (datetime(2026, 1, 2), ValueError),
        (datetime.max.replace(tzinfo=UTC), ValueError),
        (5, TypeError),
        (None, ValueError),
    ],
)
async def test_job_is_not_moved_to_an_impossible_time(
    manual_runtime: Start, moment: Any, error: type[Exception]
) -> None:
    """A bad moment raises and leaves the job where it was."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    job = await ada.push("work", after=60, id="one")

    with pytest.raises(error):
        await ada.use(lambda agent: agent.lifecycle.jobs.reschedule("one", moment))

    assert await ada.jobs() == [job]


async def test_list_is_in_due_order(manual_runtime: Start) -> None:
    """Jobs are listed by due time, equal ones in the order of their pushes."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    for function, after in [("d", 30), ("b", 20), ("a", 10), ("c", 20)]:
        await ada.push(function, after=after)

    jobs = await ada.jobs()

    assert [job.function for job in jobs] == ["a", "b", "c", "d"]


async def test_get_returns_what_push_returned(manual_runtime: Start) -> None:
    """A job reads the same after a crash as when it was pushed."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    pushed = await ada.push("work", after=60, id="one", retry=RetryPolicy(base_delay=0.5), timeout=0.25)
    await runtime.crash()

    read = await ada.use(lambda agent: agent.lifecycle.jobs.get("one"))

    assert read == pushed


async def test_rearm_changes_nothing_by_itself(manual_runtime: Start) -> None:
    """Deriving the alarm again keeps every job and its time."""
    script = Script()
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=10)

    await ada.use(lambda agent: agent.lifecycle.jobs.rearm())
    await runtime.advance(9)
    early = list(script.log)
    await runtime.advance(1)

    assert (early, script.log) == ([], ["work"])


# --- bringing back (SPEC 4.10)


async def test_failed_job_can_be_requeued(manual_runtime: Start) -> None:
    """A failed run's job comes back whole, due at once, and its entry leaves the history."""
    fails = [True]

    async def work(agent: Worker, context: JobContext) -> None:
        if fails:
            raise ValueError("not yet")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, id="one", payload={"n": 1}, retry=RetryPolicy(max_attempts=1))
    await runtime.advance(1)
    [failed] = await history(runtime)
    fails.clear()

    job = await ada.use(lambda agent: agent.lifecycle.jobs.requeue(failed.run_id))
    await runtime.advance(0)

    assert (job.id, job.payload, job.due_at) == ("one", {"n": 1}, at(1))
    assert script.log == ["work", "work"]
    assert [run.outcome for run in await history(runtime)] == ["completed"]


async def test_runtime_requeues_a_failed_job(manual_runtime: Start) -> None:
    """``runtime.requeue`` brings a job back from outside of the agent."""

    async def work(agent: Worker, context: JobContext) -> None:
        if len(script.log) == 1:
            raise ValueError("not yet")

    script = Script(work=work)
    runtime = await manual_runtime(Worker, deps=script)
    await runtime.get(Worker, "ada").push("work", after=1, retry=RetryPolicy(max_attempts=1))
    await runtime.advance(1)
    [failed] = await history(runtime)

    await runtime.requeue(Worker, "ada", failed.run_id)
    await runtime.advance(0)

    assert script.log == ["work", "work"]


async def test_unknown_or_completed_run_cannot_be_requeued(manual_runtime: Start) -> None:
    """What went well, or never was, has no job to bring back."""
    runtime = await manual_runtime(Worker, deps=Script())
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1)
    await runtime.advance(1)
    [completed] = await history(runtime)

    for run_id in (completed.run_id, "none"):
        with pytest.raises(UnknownRunError, match=run_id):
            await runtime.requeue(Worker, "ada", run_id)

    assert await ada.jobs() == []


async def test_run_cannot_be_requeued_over_a_pending_job(manual_runtime: Start) -> None:
    """A job pushed under the same id since isn't overwritten."""

    async def work(agent: Worker, context: JobContext) -> None:
        raise ValueError("never")

    runtime = await manual_runtime(Worker, deps=Script(work=work))
    ada = runtime.get(Worker, "ada")
    await ada.push("work", after=1, id="one", retry=RetryPolicy(max_attempts=1))
    await runtime.advance(1)
    [failed] = await history(runtime)
    pending = await ada.push("other", after=60, id="one")

    with pytest.raises(JobError, match="in the queue again"):
        await runtime.requeue(Worker, "ada", failed.run_id)

    assert await ada.jobs() == [pending]


async def test_owner_cannot_requeue_a_run_of_another(manual_runtime: Start) -> None:
    """The host's queue doesn't bring a capability's job back."""

    class Failing(Neighbour):
        async def on_job(self, context: JobContext) -> None:
            raise ValueError("never")

    class Host(Worker):
        def __init__(self, context: AgentContext) -> None:
            super().__init__(context)
            self.neighbour = self.lifecycle.use(Failing())

        async def push_theirs(self) -> None:
            await self.neighbour.lifecycle.jobs.push("theirs", after=1, retry=RetryPolicy(max_attempts=1))

    runtime = await manual_runtime(Host, deps=Script())
    ada = runtime.get(Host, "ada")
    await ada.push_theirs()
    await runtime.advance(1)
    [failed] = await history(runtime, agent_class="Host")

    with pytest.raises(UnknownRunError):
        await ada.use(lambda agent: agent.lifecycle.jobs.requeue(failed.run_id))
