"""How far the download of an image is, from the lines the engine prints for each of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentkit.sandbox.engine import PullProgress


class Layers:
    """The layers of an image under way.

    Attributes:
        image: What is downloaded.
    """

    def __init__(self, image: str) -> None:
        self.image = image
        self._done: dict[str, int] = {}
        self._total: dict[str, int] = {}
        self._status = ""

    def note(self, line: Mapping[str, Any]) -> None:
        """Take in a line of the engine's."""
        self._status = str(line.get("status", self._status))
        layer, detail = str(line.get("id", "")), line.get("progressDetail") or {}
        if self._status == "Downloading" and "current" in detail:
            self._done[layer] = int(detail["current"])
            self._total[layer] = max(int(detail.get("total", 0)), self._done[layer])
        elif self._status in ("Download complete", "Extracting", "Pull complete") and layer in self._total:
            self._done[layer] = self._total[layer]

    def progress(self) -> PullProgress:
        """Return how far it is; neither number ever falls."""
        done, total = sum(self._done.values()), sum(self._total.values())
        return PullProgress(image=self.image, done=done, total=total, status=self._status)
