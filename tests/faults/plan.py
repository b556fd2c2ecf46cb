"""What a round of the kill test does, derived from a seed: the same seed gives the same plan in every process."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

AGENTS = 300
PUSHES = 24
LONGEST_DELAY_MS = 300
LONGEST_JOB_MS = 12
KILL_AFTER_MS = (10, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Push:
    """One push.

    Attributes:
        agent: Name of the agent.
        job_id: Unique over all rounds.
        at_ms: When in the round.
        delay_ms: Until it is due.
        sleep_ms: How long it runs.
    """

    agent: str
    job_id: str
    at_ms: int
    delay_ms: int
    sleep_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One life of the process.

    Attributes:
        pushes: By the moment in the round.
        kill_after_ms: When it is killed, counted from when it serves.
    """

    pushes: tuple[Push, ...]
    kill_after_ms: int


def plan_round(seed: int, number: int) -> Round:
    """Return what happens in a round."""
    random = Random(f"{seed}/{number}")
    kill_after_ms = random.randint(*KILL_AFTER_MS)
    pushes = [
        Push(
            agent=f"agent{random.randrange(AGENTS)}",
            job_id=f"{number}.{index}",
            at_ms=random.randrange(kill_after_ms + 20),
            delay_ms=random.choice([0, random.randrange(LONGEST_DELAY_MS)]),
            sleep_ms=random.randint(1, LONGEST_JOB_MS),
        )
        for index in range(PUSHES)
    ]
    return Round(pushes=tuple(sorted(pushes, key=lambda push: push.at_ms)), kill_after_ms=kill_after_ms)
