"""Acts on one agent of a store that no process serves, without its class: nothing of the user's code runs.

The agent is claimed under a lease as a runtime would, so that every write is fenced, and left as it was found: a job
that a crash had cut off still counts as cut off at the next start.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from agentkit.cli.names import known_agent
from agentkit.cli.store_option import view
from agentkit.clock import SystemClock
from agentkit.errors import AgentError, StoreError
from agentkit.events import EventBus
from agentkit.host import AgentContext, DurableObject
from agentkit.ids import IdSource
from agentkit.jobs.queue import requeue
from agentkit.lifecycle import Lifecycle
from agentkit.runtime import open_store
from agentkit.schedules import Scheduler
from agentkit.store.session import Session
from agentkit.store.store import Activated, Batch, Owner


class OfflineAgent(DurableObject):
    """An agent that is never started: its rows, and the scheduler's way of changing them.

    Attributes:
        scheduler: Knows no callbacks, so it can make no schedules.
    """

    def __init__(self, context: AgentContext) -> None:
        super().__init__(context)
        self.lifecycle = Lifecycle(self)
        self.scheduler = self.lifecycle.use(Scheduler())

    async def requeue(self, run_id: str) -> None:
        """Bring the job of a failed or set-aside run back.

        Raises:
            JobError: There is no such run, or its job is in the queue already.
        """
        await requeue(self.context.session, run_id, ids=self.context.ids, clock=self.context.clock)


@asynccontextmanager
async def offline(url: str | None, name: str) -> AsyncIterator[OfflineAgent]:
    """Claim an agent for as long as the block runs; what the block changes is on disk when it is left.

    Args:
        url: The store; never made if it is not there.
        name: ``CLASS/NAME``.

    Raises:
        StoreInUseError: A process serves the store.
        AgentError: The store has no such agent.
    """
    with view(url) as viewer:
        agent = known_agent(name, viewer)
    assert agent is not None
    store = open_store(url)
    await store.open()
    try:
        node = await store.join("")
        claimed = await store.activate(node, agent)
        if isinstance(claimed, Owner):
            raise StoreError(f"{agent} is live in another process ({claimed.address})")
        session = Session(store, claimed)
        session.row.running = None
        try:
            yield OfflineAgent(_context(session, claimed))
        finally:
            interrupted = claimed.interrupted
            session.row.running = interrupted if interrupted and session.job(interrupted) else None
            await session.commit_row(Batch(), release=True).wait()
            await store.leave(node)
    finally:
        await store.close()


def _context(session: Session, claimed: Activated) -> AgentContext:
    clock = SystemClock()
    ids = IdSource(clock)
    for row in claimed.jobs:
        ids.follow(row.run_id)
    return AgentContext(
        name=session.agent.name,
        deps=None,
        get=_unreachable,
        session=session,
        clock=clock,
        ids=ids,
        events=EventBus(),
        serving_since=clock.now(),
        shutdown_grace=0.0,
    )


def _unreachable(_: Any, __: str) -> NoReturn:
    message = "an agent that is not served reaches no other"
    raise AgentError(message)
