"""What was emitted, kept in order."""

from __future__ import annotations

from types import MappingProxyType

from agentkit import events
from agentkit.events import Event
from agentkit.testing import EventRecorder, FakeClock


def _event(event_type: str, name: str = "ada") -> Event:
    return Event(type=event_type, agent="Worker", name=name, payload=MappingProxyType({}), timestamp=FakeClock().now())


def test_events_are_kept_in_order() -> None:
    """All of them, of one type, and their number."""
    recorder = EventRecorder()
    for event_type, name in [("a", "1"), ("b", "2"), ("a", "3")]:
        recorder.publish("agents:test", _event(event_type, name))

    assert [event.name for event in recorder] == ["1", "2", "3"]
    assert [event.name for event in recorder.of("a")] == ["1", "3"]
    assert (recorder.count("a"), recorder.count("b"), recorder.count("c"), len(recorder)) == (2, 1, 0, 3)


def test_recorder_can_be_cleared() -> None:
    """A test may forget its arrangements."""
    recorder = EventRecorder()
    recorder.publish("agents:test", _event("a"))

    recorder.clear()

    assert len(recorder) == 0


def test_recorder_passes_events_on() -> None:
    """Its own listeners and those of the process hear the same events."""
    recorder, heard = EventRecorder(), list[str]()
    recorder.subscribe("agents:test", lambda event: heard.append("own"))
    unsubscribe = events.subscribe("agents:test", lambda event: heard.append("everywhere"))

    recorder.publish("agents:test", _event("a"))
    unsubscribe()
    recorder.publish("agents:test", _event("a"))

    assert heard == ["own", "everywhere", "own"]
