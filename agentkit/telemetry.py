"""Events as an OpenTelemetry metric, where ``opentelemetry`` is installed (SPEC 10.3)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping

from agentkit.events import Event, EventBus, Unsubscribe

#: Facts that stay few enough to be attributes of a metric.
_ATTRIBUTES = ("callback", "function", "owner", "error", "sealed")


def observe(bus: EventBus) -> Unsubscribe | None:
    """Count a bus's events in the metric ``agentkit.events``; None where OpenTelemetry is not installed.

    Attributes are the event's type, the agent's class and what of ``callback``, ``function``, ``owner`` and ``error``
    it has: never a name of an agent, never what a user wrote.
    """
    if importlib.util.find_spec("opentelemetry") is None:
        return None
    from opentelemetry import metrics

    count: Callable[[int, Mapping[str, str]], None]
    count = metrics.get_meter("agentkit").create_counter("agentkit.events", description="Events of agentkit").add

    def handle(event: Event) -> None:
        facts = {name: str(event.payload[name]) for name in _ATTRIBUTES if name in event.payload}
        count(1, {"type": event.type, "agent": event.agent, **facts})

    return bus.subscribe("*", handle)
