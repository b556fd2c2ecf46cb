"""Changes collected in memory until a block is left, and what the block has read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agentkit.context import frames
from agentkit.store.store import Batch

if TYPE_CHECKING:
    from agentkit.store.session import Session

#: What was read or changed: ("job", id), ("jobs",), ("value", scope, key) or ("scope", scope).
Token = tuple[str, ...]


class Transaction:
    """One open block of one agent.

    Attributes:
        batch: What the block has changed so far.
        reads: What it has read.
        foreign: What other code has changed since the block began.
        is_open: Whether code in it still belongs to it.
        afterwards: What to do once it is committed.
        holds_lock: Others wait for its end.
        waits_for: Code in it waits for another agent's block to end.
        works: The work it is part of; abandoned, they end it.
    """

    __slots__ = ("afterwards", "batch", "foreign", "holds_lock", "is_open", "reads", "session", "waits_for", "works")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.batch = Batch()
        self.reads: set[Token] = set()
        self.foreign: set[Token] = set()
        self.is_open = True
        self.holds_lock = True
        self.waits_for: Session | None = None
        self.works = [frame.work for frame in frames() if frame.work is not None]
        for work in self.works:
            work.blocks.append(self)
        self.afterwards: list[Callable[[], Awaitable[None]]] = []

    def conflicts(self) -> list[str]:
        """Return what was read here and changed by other code meanwhile."""
        return sorted(" ".join(token[1:]) or "jobs" for token in self.foreign if self._has_read(token))

    def _has_read(self, changed: Token) -> bool:
        if changed in self.reads:
            return True
        match changed:
            case ("job", _):
                return ("jobs",) in self.reads
            case ("value", scope, _):
                return ("scope", scope) in self.reads
            case ("scope", scope):
                return any(read[0] == "value" and read[1] == scope for read in self.reads)
            case _:
                return False
