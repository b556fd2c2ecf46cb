"""What goes with a way in, by its spec: the proxy of an ``Allowlist``, and the one warning about ``"full"``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING
from weakref import WeakSet

from agentkit.errors import ConfigurationError
from agentkit.sandbox.engine import SandboxEngine
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import Allowlist, SandboxSpec

if TYPE_CHECKING:
    from agentkit.sandbox.proxy import AllowlistProxy, Refused

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


async def fit_out(guest: Guest, spec: SandboxSpec, on_refused: Callable[[Refused], None]) -> Outfit:
    """Serve what an instance's spec asks of the owner.

    Connections to the outside are no use of the sandbox: what runs inside must not keep itself alive.

    Args:
        guest: The way in.
        spec: What the instance is made of.
        on_refused: Told of each host that is not on the list.
    """
    if not isinstance(spec.network, Allowlist):
        return Outfit(None)
    from agentkit.sandbox.proxy import AllowlistProxy

    proxy = AllowlistProxy(spec.network.hosts, on_refused=on_refused)
    await guest.serve_proxy(proxy.handle)
    return Outfit(proxy)


def check_parts(spec: SandboxSpec) -> None:
    """Make sure that what the owner needs to serve a spec is installed.

    Raises:
        ConfigurationError: It isn't; says what to install.
    """
    if isinstance(spec.network, Allowlist) and find_spec("h11") is None:
        raise ConfigurationError("an Allowlist needs h11, for its proxy: pip install 'agentkit[allowlist]'")


def warn_of_network(engine: SandboxEngine, spec: SandboxSpec) -> None:
    """Say once an engine what ``"full"`` means (SPEC 12.9)."""
    if spec.network == "full" and engine not in _warned:
        _warned.add(engine)
        logger.warning(
            'SandboxSpec(network="full"): code in the sandbox reaches whatever this machine reaches, other machines of '
            "its network and cloud metadata included; an Allowlist([...]) of hosts does not"
        )
