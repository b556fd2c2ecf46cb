"""The store's protocol: rows, batches and leases. Nothing here knows an engine.

One change of one agent is one ``Batch``, committed at once and fenced by the lease's (node, epoch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol


class AgentId(NamedTuple):
    """What an agent is addressed by."""

    class_name: str
    name: str

    def __str__(self) -> str:
        return f"{self.class_name}/{self.name}"


class JobRow(NamedTuple):
    """A job as it is stored. Rows sort in the order in which they run.

    ``run_id`` names the due occurrence and doubles as the row's version: every push or move gives a new,
    later one, so it also breaks ties between equal due times.
    """

    due_ms: int
    run_id: str
    id: str
    owner: str
    function: str
    payload: str
    options: str
    exclusive: int
    created_ms: int


class HistoryRow(NamedTuple):
    """A run that ended, as it is stored.

    ``job`` is the whole job, kept where it can be requeued; ``seq`` counts the agent's runs.
    """

    run_id: str
    job_id: str
    owner: str
    function: str
    due_ms: int
    started_ms: int
    finished_ms: int
    attempts: int
    outcome: str
    error: str | None
    job: str | None
    pinned: int
    seq: int = 0


@dataclass(slots=True)
class AgentRow:
    """The hot row of an agent: written with every commit.

    Attributes:
        alarm_ms: When it must wake; None if never.
        running: Id of the job under way, so that a restart knows whom a crash hit.
        memory_strikes: Consecutive alarms that ended in a memory-limit reset.
        crash_strikes: Consecutive crashes during a job, without a commit between.
        failed_starts: Consecutive start-ups that raised.
        runs: Runs recorded so far.
        destroying: Teardown has begun and must be finished before anything else.
    """

    alarm_ms: int | None = None
    running: str | None = None
    memory_strikes: int = 0
    crash_strikes: int = 0
    failed_starts: int = 0
    runs: int = 0
    destroying: int = 0


@dataclass(slots=True, eq=False)
class Lease:
    """The right of one node to write one agent, until another claims it with a higher epoch.

    Attributes:
        key: The agent's key in this store.
        fresh: The agent had no row before; released without a commit, it leaves none.
    """

    agent: AgentId
    key: int
    node: str
    epoch: int
    fresh: bool


@dataclass(slots=True)
class Activated:
    """What an instance is built from.

    Attributes:
        interrupted: Id of the job that was under way when the last owner died.
    """

    lease: Lease
    row: AgentRow
    jobs: list[JobRow]
    state: str | None
    interrupted: str | None = None


class Claimed(NamedTuple):
    """Agents claimed because they are due, and when the next unowned one is (None: never)."""

    agents: list[Activated]
    next_due_ms: int | None


#: Scopes of values that no capability may have for its id.
STATE_SCOPE = "state"
SQL_SCOPE = "sql"


@dataclass(slots=True, eq=False)
class Batch:
    """What one commit changes. Built in memory; later entries win over earlier ones.

    Attributes:
        jobs: By job id: the new row, or None to delete it.
        values: By (scope, key): JSON text, or None to delete it.
        cleared: Scopes emptied before ``values`` apply.
        history: Runs to record.
        keep_history: Runs to keep when this commit prunes; None: it doesn't.
        forget: Run ids to drop from the history.
        destroy: Drop every row of the agent instead.
    """

    jobs: dict[str, JobRow | None] = field(default_factory=dict)
    values: dict[tuple[str, str], str | None] = field(default_factory=dict)
    cleared: set[str] = field(default_factory=set)
    history: list[HistoryRow] = field(default_factory=list)
    keep_history: int | None = None
    forget: list[str] = field(default_factory=list)
    destroy: bool = False

    def clear(self, scope: str) -> None:
        """Empty a scope, and forget what this batch was to put there."""
        self.values = {key: value for key, value in self.values.items() if key[0] != scope}
        self.cleared.add(scope)

    def absorb(self, later: Batch) -> None:
        """Take over the changes of a later batch of the same agent."""
        self.jobs.update(later.jobs)
        for scope in later.cleared:
            self.clear(scope)
        self.values.update(later.values)
        self.history.extend(later.history)
        if later.keep_history is not None:
            self.keep_history = later.keep_history
        self.forget.extend(later.forget)
        self.destroy = self.destroy or later.destroy


class Owner(NamedTuple):
    """Another node has the agent."""

    node: str
    address: str


class ValueRange(NamedTuple):
    """Which values to list: keys with ``prefix``, from ``start`` (in) to ``end`` (out)."""

    prefix: str = ""
    start: str | None = None
    end: str | None = None
    limit: int | None = None
    reverse: bool = False


class AgentSummary(NamedTuple):
    """An agent as a listing shows it."""

    agent: AgentId
    alarm_ms: int | None
    is_live: bool


#: Told how a commit ended: an error or None.
Settled = Callable[[BaseException | None], None]


class PendingCommit(Protocol):
    """A commit that was asked for.

    Attributes:
        is_taken: Its group has been formed; nothing can be added any more.
        is_settled: It has ended.
    """

    is_taken: bool
    is_settled: bool

    def wait(self) -> asyncio.Future[None]:
        """Return a new future that ends when the commit is durable, or with its error."""


class Store(Protocol):
    """Where agents live. One conformance suite runs on every engine.

    Methods that change something are durable when they return.

    Attributes:
        id: Tells this store from every other; made with it, known once it is open.
        location: Where it is, for people.
    """

    id: str
    location: str

    async def open(self) -> None:
        """Open the store, migrating an older schema; raises a ``StoreError`` that says what to do."""

    async def close(self) -> None:
        """Finish what was asked for and let go of every file and thread."""

    async def join(self, address: str) -> str:
        """Free what dead nodes own, enter a node for this boot, and return its id."""

    async def leave(self, node: str) -> None:
        """Give up everything a node owns; work cut off there counts as not started."""

    async def activate(self, node: str, agent: AgentId, *, again: bool = False) -> Activated | Owner:
        """Claim an agent, making its row if need be, or tell who has it.

        With ``again`` a node claims anew what it owns already, because its instance was lost.
        """

    async def claim_due(self, node: str, classes: Sequence[str], now_ms: int, limit: int) -> Claimed:
        """Claim unowned agents of these classes that are due, earliest first, each marked as running its first job."""

    def commit(
        self,
        lease: Lease,
        row: AgentRow,
        batch: Batch,
        *,
        release: bool = False,
        settled: Settled | None = None,
    ) -> PendingCommit:
        """Apply a batch and the hot row atomically, in the order of the calls.

        It fails with ``FencedError``, nothing changed, when another has claimed the agent. With ``release`` the
        agent is free afterwards. ``row`` and ``batch`` are read at once when the group is formed: as long as
        ``is_taken`` is false the caller may add to them. ``settled`` is told how it ended.
        """

    def kill(self, node: str) -> None:
        """Drop the commits that have not begun and refuse the node's later ones, as its death would."""

    async def mark(self, lease: Lease, running: str) -> None:
        """Note which job is under way, against crashes of the process only (needs no sync)."""

    async def suspect(self, node: str, lease: Lease | None) -> None:
        """Note whose alarm a node runs with no other's beside it, against crashes of the process only."""

    async def value(self, lease: Lease, scope: str, key: str) -> str | None:
        """Return one committed value."""

    async def values(self, lease: Lease, scope: str, wanted: ValueRange) -> list[tuple[str, str]]:
        """Return committed values in key order."""

    async def sql(self, lease: Lease, statement: str, parameters: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Run a statement on the agent's private database, made on first use; it commits on its own."""

    async def drop_sql(self, lease: Lease) -> None:
        """Remove the agent's private database, if there is one."""

    async def history(self, agent: AgentId, limit: int) -> list[HistoryRow]:
        """Return the latest runs, newest first; ``limit`` counts those that aren't pinned."""

    async def run(self, agent: AgentId, run_id: str) -> HistoryRow | None:
        """Return one recorded run."""

    async def repair_alarms(self, after: int) -> int | None:
        """Derive a stretch of unowned agents' alarms from their jobs again; returns where to go on (None: done)."""

    async def waiting(self, classes: Sequence[str], after: int, limit: int) -> list[tuple[int, AgentId]]:
        """Return a stretch of the unowned agents of these classes that have an alarm, by key."""

    async def classes_waiting(self) -> list[str]:
        """Return the classes that have unowned agents with an alarm."""

    async def agents(self, class_name: str | None = None) -> list[AgentSummary]:
        """List stored agents."""

    async def jobs(self, agent: AgentId) -> list[JobRow]:
        """Return an agent's committed jobs by due time."""
