"""What a run of a job may return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias


class _Same:
    def __repr__(self) -> str:
        return "SAME"


SAME: Final = _Same()


@dataclass(frozen=True, slots=True)
class RescheduleAt:
    """Keep the job in the queue and run it again at ``moment`` (an aware datetime).

    Attributes:
        moment: When; one in the past runs at the next alarm.
        payload: The job's payload from then on; left out, it stays as it is.
    """

    moment: datetime
    payload: Any = SAME


@dataclass(frozen=True, slots=True)
class YieldNow:
    """Keep the job due: it runs again at once, after the other due jobs had their turn."""


JobOutcome: TypeAlias = RescheduleAt | YieldNow | None
