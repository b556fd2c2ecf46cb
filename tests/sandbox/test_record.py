"""What a look at the engine means: every pair of record and instance, decided without any input or output."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentkit.clock import to_ms
from agentkit.sandbox.engine import EXIT_ASKED, EXIT_INACTIVE, EXIT_LIFETIME, INSTANCE, Instance
from agentkit.sandbox.record import Record, look
from agentkit.sandbox.stops import Stopped, reason_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
THEN = NOW - timedelta(hours=1)
TOLD = str(to_ms(THEN))
LAST = Stopped(id="one-1", reason="stopped", exit_code=143, at=THEN)
RUNNING = Record(instance="one", is_running=True, runs=1)
STOPPED = Record(instance="one", runs=1, told=TOLD, last=LAST)


def instance(id: str = "one", **facts: Any) -> Instance:
    """Return an instance that stopped an hour ago, or runs."""
    given = {"is_running": False, "exit_code": 0, "stopped_at": THEN, **facts}
    if given["is_running"]:
        given.update(exit_code=None, stopped_at=None)
    return Instance(name="name", labels={INSTANCE: id}, created_at=THEN, **given)


def seen(record: Record, found: Instance | None) -> Any:
    """Look now."""
    return look(
        record, found, now=NOW, age=timedelta(hours=1) if found is not None and found.stopped_at else timedelta(0)
    )


@pytest.mark.parametrize(
    ("exit_code", "intent", "out_of_memory", "reason"),
    [
        (EXIT_INACTIVE, None, False, "inactive"),
        (EXIT_INACTIVE, "stop", False, "inactive"),
        (EXIT_LIFETIME, None, False, "lifetime"),
        (EXIT_ASKED, None, False, "engine"),
        (EXIT_ASKED, "stop", False, "stopped"),
        (EXIT_ASKED, "lifetime", False, "lifetime"),
        (137, "stop", False, "stopped"),
        (137, None, False, "killed"),
        (137, None, True, "out_of_memory"),
        (3, None, True, "exited"),
        (0, None, False, "exited"),
        (0, "stop", False, "stopped"),
        (EXIT_ASKED, "destroy", False, "destroyed"),
        (None, None, False, "engine"),
    ],
)
def test_reason_follows_from_exit_code_and_intent(
    exit_code: Any, intent: Any, out_of_memory: bool, reason: str
) -> None:
    """Trap T14: out of memory is never read from 137 alone, nor from the engine's flag alone."""
    found = instance(exit_code=exit_code, out_of_memory=out_of_memory)

    assert reason_of(found, intent) == reason


def test_nothing_known_and_nothing_there() -> None:
    """A sandbox that never started."""
    assert seen(Record(), None).record == Record()


def test_running_as_known() -> None:
    """Nothing to store, nothing to tell."""
    look = seen(RUNNING, instance(is_running=True))

    assert (look.record, look.stop, look.must_go) == (RUNNING, None, False)


def test_stop_that_was_missed() -> None:
    """Told with the moment it happened, by the agent's clock."""
    look = seen(RUNNING, instance(exit_code=EXIT_INACTIVE))

    assert look.stop == Stopped(id="one-1", reason="inactive", exit_code=75, at=THEN)
    assert look.record == replace(RUNNING, is_running=False, told=TOLD, last=look.stop)


def test_stop_that_was_told_is_not_told_again() -> None:
    """However often one looks."""
    assert seen(STOPPED, instance()).stop is None
    assert seen(STOPPED, instance()).record == STOPPED


def test_same_stop_has_the_same_id_after_a_crash() -> None:
    """The record wasn't stored, and the stop is found again."""
    assert seen(RUNNING, instance()).stop == seen(RUNNING, instance()).stop


def test_start_that_never_happened() -> None:
    """Intended, and no container: forgotten, and no stop."""
    record = Record(instance="one", intent="start", runs=1, restore="saved")

    assert seen(record, None).record == Record(runs=1, restore="saved")
    assert seen(record, None).stop is None


def test_container_that_was_never_started_goes() -> None:
    """The owner died between the engine's create and its start."""
    record = Record(instance="one", intent="start", runs=1)

    assert seen(record, instance(stopped_at=None, exit_code=None)).must_go


def test_start_that_nobody_was_told_of_is_kept_in_mind() -> None:
    """Whoever takes it on ends the intent; a second start takes its place."""
    record = Record(instance="one", intent="start", runs=1)

    assert seen(record, instance(is_running=True)).record == record


def test_restart_that_never_happened() -> None:
    """The stop before it isn't told again."""
    record = replace(STOPPED, intent="restart", runs=2)

    look = seen(record, instance())

    assert (look.stop, look.record) == (None, replace(record, intent=None))


def test_restart_that_ran_and_stopped() -> None:
    """Another moment, another stop, with an id of its own."""
    record = replace(STOPPED, intent="restart", runs=2)

    look = seen(record, instance(stopped_at=THEN + timedelta(minutes=1), exit_code=EXIT_INACTIVE))

    assert look.stop.id == "one-2"
    assert look.stop.reason == "inactive"


def test_stop_that_never_happened_is_forgotten() -> None:
    """The owner died before it asked the engine: a later end has its own reason."""
    look = seen(replace(RUNNING, intent="stop"), instance(is_running=True))

    assert look.record == RUNNING


@pytest.mark.parametrize("found", [instance(is_running=True), instance(), instance("other", is_running=True)])
def test_destroy_that_was_cut_off_is_finished(found: Instance) -> None:
    """Whatever is there goes, and then it is told as what it was."""
    record = replace(RUNNING, intent="destroy", restore="saved")

    assert seen(record, found).must_go
    look = seen(record, None)
    assert (look.stop.reason, look.stop.id) == ("destroyed", "one-1")
    assert look.record == Record(runs=1, last=look.stop)


def test_destroy_of_a_stopped_one_is_no_stop() -> None:
    """It had stopped before."""
    assert seen(replace(STOPPED, intent="destroy"), None).stop is None


def test_container_that_was_lost() -> None:
    """Somebody has removed it: the engine is why it stopped, and what it was started from is kept in mind."""
    look = seen(replace(RUNNING, restore="saved"), None)

    assert look.stop == Stopped(id="one-1", reason="engine", exit_code=None, at=NOW)
    assert look.record.restore == "saved"


def test_stopped_container_that_was_removed_is_no_stop() -> None:
    """It had stopped before."""
    assert seen(STOPPED, None).stop is None


@pytest.mark.parametrize("record", [Record(), Record(runs=1, last=LAST, restore="saved")])
@pytest.mark.parametrize("is_running", [True, False])
def test_container_of_an_earlier_life_goes(record: Record, is_running: bool) -> None:
    """The record says that there is none: an agent of this name was destroyed while its engine was away."""
    assert seen(record, instance(is_running=is_running)).must_go


def test_container_with_another_id_is_taken_on() -> None:
    """There is one by the record: the engine is the truth for which.

    An owner that died may have asked for it and never heard of it.
    """
    look = seen(STOPPED, instance("other", is_running=True))

    assert (look.record.instance, look.record.is_running, look.record.told) == ("other", True, None)


def test_container_started_by_others_stops_once_more() -> None:
    """Its second stop is another one."""
    look = seen(STOPPED, instance(stopped_at=NOW - timedelta(minutes=1), exit_code=137))

    assert look.stop.id != LAST.id
    assert look.stop.reason == "killed"


records = st.builds(
    Record,
    instance=st.sampled_from([None, "one", "two"]),
    is_running=st.booleans(),
    intent=st.sampled_from([None, "start", "restart", "stop", "lifetime", "destroy"]),
    restore=st.sampled_from([None, "saved"]),
    runs=st.integers(1, 3),
    told=st.sampled_from([None, TOLD]),
    last=st.sampled_from([None, LAST]),
)
founds = st.one_of(
    st.none(),
    st.builds(
        instance,
        st.sampled_from(["one", "two"]),
        is_running=st.booleans(),
        exit_code=st.sampled_from([0, 3, 75, 76, 137, 143]),
        stopped_at=st.sampled_from([None, THEN, NOW]),
    ),
)


@given(record=records, found=founds)
def test_looking_twice_tells_nothing_new(record: Record, found: Instance | None) -> None:
    """For any record and any instance: one look settles it, and the record agrees with the engine."""
    first = seen(record, found)
    if first.must_go:
        first, found = seen(record, None), None
    second = seen(first.record, found)

    assert not first.must_go
    assert (second.record, second.stop, second.must_go) == (first.record, None, False)
    assert first.record.instance == (None if found is None else found.id)
    is_unfinished = first.record.intent == "start"
    assert first.record.is_running == (found is not None and found.is_running) or is_unfinished


@given(record=records)
def test_record_survives_its_storing(record: Record) -> None:
    """What is read is what was written."""
    assert Record.from_json(record.to_json()) == record
