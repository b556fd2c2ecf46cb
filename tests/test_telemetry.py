"""Events as an OpenTelemetry metric."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from agentkit import telemetry
from agentkit.events import SCHEDULE, Event, EventBus


def test_events_are_counted_without_user_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event counts once, by type and class; names and ids stay out of the attributes."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    bus = EventBus()
    event = Event(
        type="schedule:execute",
        agent="Bot",
        name="ada@example.org",
        payload=MappingProxyType({"callback": "remind", "schedule_id": "1"}),
        timestamp=datetime(2026, 1, 1, tzinfo=UTC),
    )

    stop = telemetry.observe(bus)
    bus.publish(SCHEDULE, event)
    bus.publish(SCHEDULE, event)
    assert stop is not None
    stop()
    bus.publish(SCHEDULE, event)

    data = reader.get_metrics_data()
    assert data is not None
    [metric] = data.resource_metrics[0].scope_metrics[0].metrics
    [point] = metric.data.data_points
    assert metric.name == "agentkit.events"
    assert getattr(point, "value", None) == 2
    assert point.attributes == {"type": "schedule:execute", "agent": "Bot", "callback": "remind"}
