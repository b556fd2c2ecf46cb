"""What agentkit tells a program that listens: best effort, in order, at most once an event (SPEC 10)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        type: Its fixed name, such as ``schedule:execute``.
        agent: Class of the agent.
        name: Name of the agent.
        payload: Facts, by event type; never what a user wrote.
        timestamp: When, by the runtime's clock (aware, UTC).
    """

    type: str
    agent: str
    name: str
    payload: Mapping[str, Any]
    timestamp: datetime


Handler = Callable[[Event], None]
Unsubscribe = Callable[[], None]

LIFECYCLE = "agents:lifecycle"
SCHEDULE = "agents:schedule"
SANDBOX = "agents:sandbox"
HARNESS = "agents:harness"

_LEVELS = {
    "job:backlog_warning": logging.WARNING,
    "job:slow_dispatch": logging.WARNING,
    "job:failed": logging.ERROR,
    "job:poisoned": logging.ERROR,
    "job:orphaned": logging.ERROR,
    "alarm:memory_limit_reset": logging.ERROR,
    "destroy:leftover": logging.ERROR,
    "schedule:error": logging.ERROR,
    "schedule:retry": logging.WARNING,
    "schedule:skip": logging.WARNING,
}
_loggers: dict[str, logging.Logger] = {}


class EventBus:
    """Handlers by channel; a bus passes what it is told on to the ``wider`` one."""

    def __init__(self, wider: EventBus | None = None) -> None:
        self._handlers: dict[str, list[Handler]] = {}
        self._wider = wider

    def subscribe(self, channel: str, handler: Handler) -> Unsubscribe:
        """Call ``handler`` with each event of a channel (``"*"`` for every channel) from now on.

        Returns:
            A function that ends it; calling it twice is no error.
        """
        # Lists are replaced, never changed: a handler may subscribe and unsubscribe while it is called.
        self._handlers[channel] = [*self._handlers.get(channel, ()), handler]

        is_subscribed = True

        def unsubscribe() -> None:
            nonlocal is_subscribed
            if is_subscribed:
                is_subscribed = False
                left = list(self._handlers[channel])
                left.remove(handler)
                self._handlers[channel] = left

        return unsubscribe

    def listens(self, channel: str) -> bool:
        """Tell whether anybody would hear an event of this channel."""
        if self._handlers.get(channel) or self._handlers.get("*"):
            return True
        return self._wider is not None and self._wider.listens(channel)

    def publish(self, channel: str, event: Event) -> None:
        """Call the handlers, one after another; one that raises is logged and breaks nothing."""
        for handler in (*self._handlers.get(channel, ()), *self._handlers.get("*", ())):
            try:
                handler(event)
            except Exception:
                logger.exception("a handler of %s raised", event.type)
        if self._wider is not None:
            self._wider.publish(channel, event)


_everywhere = EventBus()


def everywhere() -> EventBus:
    """Return the bus that hears the events of all runtimes of this process."""
    return _everywhere


def subscribe(channel: str, handler: Handler) -> Unsubscribe:
    """Listen to a channel of every runtime of this process; see ``EventBus.subscribe``."""
    return _everywhere.subscribe(channel, handler)


def emit(
    bus: EventBus,
    channel: str,
    event_type: str,
    agent: tuple[str, str],
    *,
    now: Callable[[], datetime],
    payload: Mapping[str, Any],
) -> None:
    """Log an event and hand it to whoever listens. Nobody listening costs two look-ups."""
    level = _LEVELS.get(event_type, logging.DEBUG)
    log = _loggers.get(channel) or _loggers.setdefault(
        channel, logging.getLogger("agentkit." + channel.removeprefix("agents:"))
    )
    if log.isEnabledFor(level):
        facts = " ".join(f"{key}={value}" for key, value in payload.items())
        log.log(
            level,
            "%s %s/%s %s",
            event_type,
            *agent,
            facts,
            extra={
                "event": event_type,
                "agent_class": agent[0],
                "agent_name": agent[1],
                "facts": dict(payload),
            },
        )
    if bus.listens(channel):
        bus.publish(
            channel,
            Event(
                type=event_type,
                agent=agent[0],
                name=agent[1],
                payload=MappingProxyType(dict(payload)),
                timestamp=now(),
            ),
        )
