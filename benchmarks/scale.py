"""How much each measure does: all of it, a quick look, or just enough to see that the tables are built."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The sizes of a run; durations in seconds.

    Attributes:
        repeat: Rounds of what is compared.
        budget: Longest time of one enqueue measurement.
        sequential_jobs: Most jobs one caller pushes in it.
        concurrent_jobs: Most jobs 100 callers push in it.
        peers: Which peers are compared.
        due_agents: Agents with one due job each.
        one_agent_jobs: Due jobs of one agent.
        late_jobs: Jobs whose lateness is measured, over ``late_seconds``.
        pending: Stores of so many schedules due later.
        idle: How long processor time is watched.
        overdue: Agents overdue at start, a few and many.
        live_agents: Live agents whose memory is measured.
        cold_agents: Agents activated one after another.
        startups: Pairs of processes started.
        parser_passes: Times each request is read.
        harness_steps: Steps of one run of a harness.
        sandbox_commands: Commands run one after another by each library.
        peer_jobs: Due jobs dispatched by each peer.
    """

    repeat: int = 3
    budget: float = 1.0
    sequential_jobs: int = 5_000
    concurrent_jobs: int = 20_000
    peers: tuple[str, ...] = ("apscheduler", "huey", "dbos-sqlite")
    due_agents: int = 20_000
    one_agent_jobs: int = 500
    late_jobs: int = 200
    late_seconds: float = 5.0
    pending: tuple[int, ...] = (100_000, 1_000_000)
    idle: float = 10.0
    overdue: tuple[int, int] = (10_000, 100_000)
    live_agents: int = 10_000
    cold_agents: int = 2_000
    startups: int = 20
    parser_passes: int = 20
    harness_steps: int = 400
    sandbox_commands: int = 100
    peer_jobs: int = 200


FULL = Scale()
QUICK = Scale(
    budget=0.4,
    concurrent_jobs=8_000,
    peers=("huey",),
    due_agents=5_000,
    one_agent_jobs=200,
    late_jobs=100,
    late_seconds=2.0,
    pending=(100_000,),
    idle=3.0,
    overdue=(5_000, 20_000),
    live_agents=4_000,
    cold_agents=1_000,
    startups=8,
    parser_passes=5,
    harness_steps=200,
    sandbox_commands=40,
    peer_jobs=100,
)
TINY = Scale(
    repeat=1,
    budget=0.1,
    sequential_jobs=20,
    concurrent_jobs=200,
    peers=(),
    due_agents=50,
    one_agent_jobs=12,
    late_jobs=4,
    late_seconds=0.2,
    pending=(100,),
    idle=0.1,
    overdue=(20, 60),
    live_agents=40,
    cold_agents=20,
    startups=1,
    parser_passes=1,
    harness_steps=8,
    sandbox_commands=2,
    peer_jobs=4,
)
