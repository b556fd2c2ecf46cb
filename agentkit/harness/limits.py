"""What a run may take before it is ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from agentkit.clock import Duration, duration_of
from agentkit.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much one run may take; reaching one ends it normally, as ``stopped("turns")`` (SPEC 13.6).

    Attributes:
        turns: Model calls, each with the tools it asks for.
        tokens: Input and output of all its model calls; None for no limit.
        seconds: Time it is worked at (seconds or ``timedelta``): not while it is queued, waits for a person or for a
            server that asked for it, and not while no process serves it. None for no limit.
        wake_ups: Runs a day (UTC) that begin with ``harness.wake_up``: an agent that keeps itself awake is a bill. None
            for no limit.
    """

    turns: int = 40
    tokens: int | None = 2_000_000
    seconds: Duration | None = 3_600
    wake_ups: int | None = 100

    def __post_init__(self) -> None:
        for name in ("turns", "tokens", "wake_ups"):
            value = getattr(self, name)
            if value is None and name != "turns":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"Limits({name}=…) must be a whole number of 1 or more, got {value!r}")
        if self.seconds is not None and duration_of(self.seconds, "seconds") <= timedelta(0):
            raise ConfigurationError(f"Limits(seconds=…) must be more than 0, got {self.seconds!r}")

    @property
    def milliseconds(self) -> int | None:
        """``seconds`` in whole milliseconds."""
        return None if self.seconds is None else duration_of(self.seconds, "seconds") // timedelta(milliseconds=1)
