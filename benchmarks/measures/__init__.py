"""The measures by name, in the order in which they run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Report
from benchmarks.scale import Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run measures, and how much.

    Attributes:
        root: A temporary folder.
    """

    root: Path
    scale: Scale

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A new folder for one store, gone when the block is left."""
        with tempfile.TemporaryDirectory(dir=self.root, ignore_cleanup_errors=True) as folder:
            yield Path(folder)


Measure = Callable[[Place], Report]
