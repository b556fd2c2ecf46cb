"""How often, and how soon, a failed run is tried again."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta

from agentkit.clock import Duration, duration_of


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class RetryPolicy:
    """How often, and how soon, a failed job run is tried again (SPEC 5.1).

    A field that is None is taken from the next wider place: the schedule's policy, the Scheduler's, the
    class's ``options.retry``, then 3 attempts, 0.1 s and 3 s.

    Attributes:
        max_attempts: Runs allowed within one alarm, the first included; 1 or more.
        base_delay: Wait that doubles with every failure; given as seconds or timedelta.
        max_delay: Upper bound of any single wait.

    >>> RetryPolicy(max_attempts=5, base_delay=0.5)
    RetryPolicy(max_attempts=5, base_delay=datetime.timedelta(microseconds=500000), max_delay=None)
    """

    max_attempts: int | None = None
    base_delay: timedelta | None = None
    max_delay: timedelta | None = None

    def __init__(
        self,
        *,
        max_attempts: int | None = None,
        base_delay: Duration | None = None,
        max_delay: Duration | None = None,
    ) -> None:
        if max_attempts is not None and (type(max_attempts) is not int or max_attempts < 1):
            message = f"max_attempts must be a whole number of 1 or more, got {max_attempts!r}"
            raise ValueError(message)
        object.__setattr__(self, "max_attempts", max_attempts)
        object.__setattr__(self, "base_delay", _delay(base_delay, "base_delay"))
        object.__setattr__(self, "max_delay", _delay(max_delay, "max_delay"))

    def filled_from(self, wider: RetryPolicy) -> RetryPolicy:
        """Return this policy with the fields it leaves open taken from a wider one."""
        return RetryPolicy(
            max_attempts=self.max_attempts if self.max_attempts is not None else wider.max_attempts,
            base_delay=self.base_delay if self.base_delay is not None else wider.base_delay,
            max_delay=self.max_delay if self.max_delay is not None else wider.max_delay,
        )

    def attempts(self) -> int:
        """Return how many runs are allowed."""
        return self.max_attempts if self.max_attempts is not None else 3

    def longest_wait(self, failures: int) -> timedelta:
        """Return the upper bound of the wait after so many failures (1 or more).

        >>> RetryPolicy().longest_wait(failures=1)
        datetime.timedelta(microseconds=200000)
        """
        base = self.base_delay if self.base_delay is not None else timedelta(seconds=0.1)
        longest = self.max_delay if self.max_delay is not None else timedelta(seconds=3)
        # Thirty doublings turn a millisecond into twelve days; more would only risk an overflow.
        try:
            return min(base * (1 << min(failures, 30)), longest)
        except OverflowError:
            return longest

    def wait(self, failures: int) -> timedelta:
        """Return a random wait between nothing and ``longest_wait``, so that failing jobs spread."""
        return self.longest_wait(failures) * random.random()


def _delay(value: Duration | None, name: str) -> timedelta | None:
    if value is None:
        return None
    delay = duration_of(value, name)
    if delay < timedelta(0):
        message = f"{name} must not be negative, got {value!r}"
        raise ValueError(message)
    return delay


DEFAULT_RETRY = RetryPolicy(max_attempts=3, base_delay=0.1, max_delay=3.0)
