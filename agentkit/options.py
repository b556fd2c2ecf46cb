"""Class-level settings of an agent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from agentkit.clock import Duration, duration_of
from agentkit.errors import ConfigurationError
from agentkit.retry import DEFAULT_RETRY, RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions:
    """Set as ``options = AgentOptions(...)`` in an agent's class (SPEC 2.9, 19).

    Durations are seconds or ``timedelta``.

    Attributes:
        name: Stored class name; None means ``__name__``. Keep it when a class is renamed.
        retry: For jobs that bring no policy of their own.
        hung_timeout: After this long a run is reported as slow.
        max_alarm_memory_limit_strikes: Consecutive alarms out of memory before the job is sealed; 0 seals at once.
        max_crash_strikes: Consecutive crashes in a job before it is set aside as poisoned.
        timezone: IANA name; for cron expressions and sentences that name none.
        idle_timeout: An instance unused for this long is dropped; None means the runtime's.
        keep_history: Runs kept per agent.
        max_schedules: Schedules an agent may have.
        max_payload_bytes: Size of a payload, as JSON.
        max_value_bytes: Size of a stored value or the state, as JSON.
    """

    name: str | None = None
    retry: RetryPolicy = DEFAULT_RETRY
    hung_timeout: Duration = 30
    max_alarm_memory_limit_strikes: int = 3
    max_crash_strikes: int = 5
    timezone: str = "UTC"
    idle_timeout: Duration | None = None
    keep_history: int = 100
    max_schedules: int = 1_000
    max_payload_bytes: int = 1 << 20
    max_value_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        for name in ("hung_timeout", "idle_timeout"):
            value = getattr(self, name)
            if value is not None and duration_of(value, name) <= timedelta(0):
                raise ConfigurationError(f"options.{name} must be more than 0 s, got {value!r}")
        for name in _COUNTS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ConfigurationError(f"options.{name} must be a whole number of 0 or more, got {value!r}")
        if self.timezone != "UTC":
            _check_zone(self.timezone)
        if self.max_crash_strikes < 1:
            raise ConfigurationError("options.max_crash_strikes must be 1 or more")
        object.__setattr__(self, "retry", self.retry.filled_from(DEFAULT_RETRY))

    @property
    def hung_timeout_duration(self) -> timedelta:
        """``hung_timeout`` as a duration."""
        return duration_of(self.hung_timeout, "hung_timeout")


_COUNTS = (
    "max_alarm_memory_limit_strikes",
    "max_crash_strikes",
    "keep_history",
    "max_schedules",
    "max_payload_bytes",
    "max_value_bytes",
)


def _check_zone(name: object) -> None:
    from zoneinfo import ZoneInfo  # only who names a zone pays for it

    try:
        ZoneInfo(name)  # type: ignore[arg-type]  # what isn't a text is refused below
    except (KeyError, ValueError, TypeError, OSError):
        message = f'options.timezone {name!r} is no IANA time zone; use a name such as "Europe/Berlin"'
        raise ConfigurationError(message) from None
