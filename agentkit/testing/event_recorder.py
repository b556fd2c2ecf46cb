"""Remembers what was emitted."""

from __future__ import annotations

from collections.abc import Iterator

from agentkit.events import Event, EventBus, everywhere


class EventRecorder(EventBus):
    """A runtime's events, kept in order; can be listened to like any other."""

    def __init__(self) -> None:
        super().__init__(everywhere())
        self._recorded: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        return iter(self._recorded)

    def __len__(self) -> int:
        return len(self._recorded)

    def listens(self, channel: str) -> bool:
        """See ``EventBus``: everything is kept."""
        return True

    def publish(self, channel: str, event: Event) -> None:
        """See ``EventBus``."""
        self._recorded.append(event)
        super().publish(channel, event)

    def of(self, event_type: str) -> list[Event]:
        """Return the events of one type, oldest first."""
        return [event for event in self._recorded if event.type == event_type]

    def count(self, event_type: str) -> int:
        """Return how many events of one type there were."""
        return len(self.of(event_type))

    def clear(self) -> None:
        """Forget what was recorded."""
        self._recorded.clear()
