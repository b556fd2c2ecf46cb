"""What goes with a way in, by its spec: the proxy of an ``Allowlist``, and the one warning about ``"full"``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from weakref import WeakSet

from agentkit.sandbox.engine import SandboxEngine
from agentkit.sandbox.guest import Connection, Guest
from agentkit.sandbox.spec import Allowlist, SandboxSpec

if TYPE_CHECKING:
    from agentkit.sandbox.proxy import AllowlistProxy

logger = logging.getLogger(__name__)

_warned: WeakSet[SandboxEngine] = WeakSet()


class Outfit:
    """Serves one way in, for as long as it is open."""

    def __init__(self, proxy: AllowlistProxy | None) -> None:
        self._proxy = proxy

    async def close(self) -> None:
        """Let go of what the owner holds for it."""
        if self._proxy is not None:
            await self._proxy.close()


async def fit_out(guest: Guest, spec: SandboxSpec, *, hold: Callable[[], AbstractContextManager[None]]) -> Outfit:
    """Serve what an instance's spec asks of the owner.

    Args:
        guest: The way in.
        spec: What the instance is made of.
        hold: Counts as use of the sandbox; held while a connection is open.
    """
    if not isinstance(spec.network, Allowlist):
        return Outfit(None)
    from agentkit.sandbox.proxy import AllowlistProxy

    proxy = AllowlistProxy(spec.network.hosts)

    async def handle(connection: Connection) -> None:
        with hold():
            await proxy.handle(connection)

    await guest.serve_proxy(handle)
    return Outfit(proxy)


def warn_of_network(engine: SandboxEngine, spec: SandboxSpec) -> None:
    """Say once an engine what ``"full"`` means (SPEC 12.9)."""
    if spec.network == "full" and engine not in _warned:
        _warned.add(engine)
        logger.warning(
            'SandboxSpec(network="full"): code in the sandbox reaches whatever this machine reaches, other machines of '
            "its network and cloud metadata included; an Allowlist([...]) of hosts does not"
        )
