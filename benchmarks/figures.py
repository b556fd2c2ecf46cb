"""Figures of several rounds: medians, percentiles, and how they are printed."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Spread:
    """One figure over several rounds."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle of the rounds."""
        return statistics.median(self.values)

    def show(self, unit: str = "", *, scale: float = 1.0) -> str:
        """Return the median with (min..max), with three digits that count."""
        median, least, most = (short(value * scale) for value in (self.median, min(self.values), max(self.values)))
        text = median if len(self.values) == 1 else f"{median} ({least}..{most})"
        return f"{text} {unit}".strip()


def spread(values: Sequence[float]) -> Spread:
    """Return the figures of the rounds as one."""
    return Spread(tuple(values))


def ratios(these: Sequence[float], those: Sequence[float]) -> Spread:
    """Return the ratios, each taken within its round."""
    return Spread(tuple(this / that for this, that in zip(these, those, strict=True)))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which such a share of all lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def short(value: float) -> str:
    """Return a number with three digits that count, thousands separated.

    >>> short(12345.6), short(0.12345), short(4.0)
    ('12,300', '0.123', '4')
    """
    return format(Decimal(f"{value:.3g}"), ",f")


def sync_ms(folder: Path, *, seconds: float = 0.2) -> float:
    """Return the median of how long the disk takes to sync 4 KiB, in milliseconds."""
    path = folder / "sync"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    spent: list[float] = []
    try:
        os.write(descriptor, bytes(65_536))
        os.fsync(descriptor)
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            os.pwrite(descriptor, bytes(4_096), len(spent) % 16 * 4_096)
            began = time.perf_counter()
            os.fsync(descriptor)
            spent.append((time.perf_counter() - began) * 1000)
    finally:
        os.close(descriptor)
        path.unlink()
    return statistics.median(spent)
