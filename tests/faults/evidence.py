"""Reads the journal of many lives: what was promised, what ran, and where the kills hit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Evidence:
    """What a journal says.

    Attributes:
        acknowledged: Ids whose push returned.
        started: How often each id began.
        ended: How often each id came to its end.
        hits: How many kills were inside a run of each id.
        kills: Kills so far.
        kills_inside: Those of them that hit at least one job.
        faults: What must never happen, in words.
    """

    acknowledged: set[str] = field(default_factory=set)
    started: Counter[str] = field(default_factory=Counter)
    ended: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    kills_inside: int = 0
    faults: list[str] = field(default_factory=list)


def read_evidence(lines: Iterable[list[str]]) -> Evidence:
    """Follow a journal line by line.

    Besides counting it checks what SPEC 4.11 promises: no job runs twice without a kill in between, the jobs of an
    agent run one at a time, and once the next job of an agent has begun, the one before is over for good.
    """
    evidence = Evidence()
    open_runs: dict[str, str] = {}  # by agent: the job under way
    last_ended: dict[str, str] = {}  # by agent: the job whose outcome may not be stored yet
    begun_in_this_life: set[str] = set()
    over: set[str] = set()
    for kind, *words in lines:
        match kind, words:
            case "acknowledged", [job_id]:
                evidence.acknowledged.add(job_id)
            case "start", [job_id, agent, attempt, _]:
                if job_id in begun_in_this_life:
                    evidence.faults.append(f"{job_id} ran twice without a kill in between")
                if job_id in over:
                    evidence.faults.append(f"{job_id} ran again though a later job of {agent} had begun")
                if agent in open_runs:
                    evidence.faults.append(f"{job_id} began beside {open_runs[agent]} of the same agent")
                if attempt != "1":
                    evidence.faults.append(f"{job_id} began with attempt {attempt}: a kill spends none")
                if last_ended.get(agent, job_id) != job_id:
                    over.add(last_ended[agent])
                begun_in_this_life.add(job_id)
                open_runs[agent] = job_id
                evidence.started[job_id] += 1
            case "end", [job_id, agent]:
                if open_runs.pop(agent, None) != job_id:
                    evidence.faults.append(f"{job_id} ended without having begun")
                last_ended[agent] = job_id
                evidence.ended[job_id] += 1
            case "kill", _:
                evidence.kills += 1
                evidence.kills_inside += bool(open_runs)
                evidence.hits.update(open_runs.values())
                open_runs.clear()
                begun_in_this_life.clear()
            case _:
                evidence.faults.append(f"unreadable line {kind} {words}")
    return evidence
