"""The agents in the fixtures of released schemas; changed only so that old stores still find their code."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from agentkit import Agent, DurableObject, JobContext, Lifecycle, RescheduleAt
from agentkit.host import AgentContext


class Notes(BaseModel):
    """An agent's state."""

    count: int = 0


class Reminder(Agent[Notes]):
    """Has something of everything that is stored."""

    initial_state = Notes()

    async def fill(self) -> None:
        """Store state, values and schedules of every type."""
        await self.set_state(Notes(count=1))
        await self.storage.put_many({"note": "stand up", "größe": [1, 2.5, None]})
        await self.schedule("0 8 * * *", self.remind, {"text": "daily"}, key="daily", timezone="Europe/Berlin")
        await self.schedule_every(1_200, self.remind, {"text": "often"})
        await self.schedule(datetime(2026, 1, 2, tzinfo=UTC), self.remind, {"text": "once"})
        await self.schedule(timedelta(minutes=5), self.remind, {"text": "soon"})
        paused = await self.schedule("0 9 * * *", self.remind, {"text": "paused"})
        await self.pause_schedule(paused.id)
        await self.schedule(60, self.fail)

    async def read_state(self) -> Notes:
        """Return the state."""
        return self.state

    async def read_values(self) -> dict[str, object]:
        """Return all values."""
        return await self.storage.list()

    async def remind(self, payload: dict[str, str]) -> None:
        """Count a reminder."""
        await self.storage.put(f"heard {payload['text']}", self.lifecycle.clock.now().isoformat())
        await self.set_state(Notes(count=self.state.count + 1))

    async def fail(self) -> None:
        """Leave a failure in the history."""
        message = "on purpose"
        raise ValueError(message)


class Plain(DurableObject):
    """A host without ``Agent``, with jobs of its own."""

    def __init__(self, context: AgentContext) -> None:
        self.lifecycle = Lifecycle(self)

    async def fill(self) -> None:
        """Store jobs: one that stays, and one whose owner is gone."""
        moment = datetime(2026, 1, 1, 2, tzinfo=UTC)
        await self.lifecycle.jobs.push("tick", at=moment, payload={"step": 1}, id="tick", timeout=5)

    async def on_job(self, context: JobContext) -> RescheduleAt | None:
        """Note that it ran, and run again an hour later."""
        await self.lifecycle.storage.put("ran", context.job.payload)
        return RescheduleAt(context.due_at + timedelta(hours=1))

    async def ran(self) -> object:
        """Return the payload of the last run."""
        return await self.lifecycle.storage.get("ran")
