"""One live agent's jobs in memory: what is due next, without asking the store."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

from agentkit.store.store import JobRow


class JobTable:
    """Rows by id, and a heap over them whose outdated entries are dropped when they come up."""

    __slots__ = ("_exclusive", "_heap", "_owned", "_rows")

    def __init__(self, rows: Iterable[JobRow] = ()) -> None:
        self._rows = {row.id: row for row in rows}
        self._heap = list(self._rows.values())
        heapq.heapify(self._heap)
        self._exclusive = sum(row.exclusive for row in self._rows.values())
        self._owned: dict[str, int] = {}
        for row in self._rows.values():
            self._owned[row.owner] = self._owned.get(row.owner, 0) + 1

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[JobRow]:
        return iter(self._rows.values())

    def get(self, job_id: str) -> JobRow | None:
        """Return a row, or None."""
        return self._rows.get(job_id)

    def count(self, owner: str) -> int:
        """Return how many jobs an owner has."""
        return self._owned.get(owner, 0)

    def apply(self, changes: dict[str, JobRow | None]) -> None:
        """Put the rows, and drop those that are None."""
        for job_id, row in changes.items():
            self.put(job_id, row)

    def put(self, job_id: str, row: JobRow | None) -> None:
        """Put a row, or drop it if it is None."""
        old = self._rows.pop(job_id, None)
        if old is not None:
            self._exclusive -= old.exclusive
            self._owned[old.owner] -= 1
        if row is not None:
            self._rows[job_id] = row
            self._exclusive += row.exclusive
            self._owned[row.owner] = self._owned.get(row.owner, 0) + 1
            heapq.heappush(self._heap, row)
        if len(self._heap) > 2 * len(self._rows) + 64:
            self._heap = list(self._rows.values())
            heapq.heapify(self._heap)

    def first(self) -> JobRow | None:
        """Return the row that runs next: the earliest, an exclusive one before all others (SPEC 6.4)."""
        if self._exclusive:
            return min(row for row in self._rows.values() if row.exclusive)
        while self._heap:
            row = self._heap[0]
            if self._rows.get(row.id) is row:
                return row
            heapq.heappop(self._heap)
        return None

    def alarm_ms(self) -> int | None:
        """Return when the agent must wake next."""
        row = self.first()
        return None if row is None else row.due_ms

    def next_due(self, now_ms: int, before: str) -> JobRow | None:
        """Return the next row to run in a pass: due by now, and pushed before the pass began."""
        row = self.first()
        if row is None or row.due_ms > now_ms:
            return None
        if row.run_id <= before:
            return row
        if row.exclusive:
            return None
        # Pushed meanwhile, with a time in the past: its turn is the next pass.
        older = (row for row in self._rows.values() if row.due_ms <= now_ms and row.run_id <= before)
        return min(older, default=None)
