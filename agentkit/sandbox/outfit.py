"""What goes with a way in, by its spec: an ``Allowlist``'s proxy, the files of buckets, the warning of ``"full"``."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from agentkit.errors import ConfigurationError, SandboxError
from agentkit.plain_text import one_line
from agentkit.sandbox.engine import SandboxEngine
from agentkit.sandbox.guest import Guest
from agentkit.sandbox.spec import Allowlist, SandboxSpec

if TYPE_CHECKING:
    from agentkit.sandbox.buckets.buckets import Buckets
    from agentkit.sandbox.buckets.sync import PushReport
    from agentkit.sandbox.network.proxy import AllowlistProxy, Refused

logger = logging.getLogger(__name__)

#: Name and facts of an event.
Tell: TypeAlias = Callable[[str, dict[str, Any]], None]

_warned: WeakSet[SandboxEngine] = WeakSet()


class Outfit:
    """Serves one way in, for as long as it is open.

    Attributes:
        has_buckets: Files inside are to be pushed now and then.
    """

    def __init__(self, guest: Guest, spec: SandboxSpec, tell: Tell) -> None:
        """Open nothing yet.

        Args:
            guest: The way in.
            spec: What the instance is made of.
            tell: Takes events: hosts that were refused, files that a bucket refused.
        """
        self._guest = guest
        self._spec = spec
        self._tell = tell
        self._proxy: AllowlistProxy | None = None
        self._buckets: Buckets | None = None
        self.has_buckets = has_buckets(spec)

    async def put_on(self, *, is_new: bool) -> None:
        """Begin to serve, before the first command.

        Connections to the outside are no use of the sandbox: what runs inside must not keep itself alive.

        Args:
            is_new: The instance has just been started: its buckets are to be filled.

        Raises:
            BucketError: A bucket can't be read.
        """
        if isinstance(self._spec.network, Allowlist):
            from agentkit.sandbox.network.proxy import AllowlistProxy

            self._proxy = AllowlistProxy(self._spec.network.hosts, on_refused=self._tell_refused)
            await self._guest.serve_proxy(self._proxy.handle)
        if self.has_buckets:
            from agentkit.sandbox.buckets.buckets import Buckets

            self._buckets = Buckets(self._spec.mounts)
            if is_new:
                self._tell_failed(await self._buckets.pull(self._guest))
            else:
                await self.push()

    async def push(self, *, insist: bool = False) -> None:
        """Push what was changed inside; what a bucket refuses is warned of and tried again.

        Args:
            insist: Also when a bucket has just failed.
        """
        if self._buckets is not None and self._guest.is_open:
            try:
                self._tell_failed(await self._buckets.push(self._guest, insist=insist))
            except SandboxError as error:
                logger.debug("the way in broke while buckets were pushed to: %s", error)

    def _tell_failed(self, report: PushReport) -> None:
        for failure in report.failed:
            facts = {"url": failure.url, "path": failure.path, "reason": failure.reason}
            self._tell("sandbox:bucket_failed", facts)

    def _tell_refused(self, refused: Refused) -> None:
        host = one_line(refused.host)
        logger.warning("a sandbox may not reach %s:%d: %s", host, refused.port, refused.reason)
        self._tell("sandbox:refused", {"host": host, "port": refused.port, "reason": refused.reason})

    async def close(self) -> None:
        """Let go of what the owner holds for it."""
        if self._buckets is not None:
            await self._buckets.close()
        if self._proxy is not None:
            await self._proxy.close()


def has_buckets(spec: SandboxSpec) -> bool:
    """Tell whether files have to be copied to and fro."""
    return any(mount.host_directory is None for mount in spec.mounts)


def check_parts(spec: SandboxSpec) -> None:
    """Make sure that what the owner needs to serve a spec is installed.

    Raises:
        ConfigurationError: It isn't; says what to install.
    """
    if isinstance(spec.network, Allowlist) and find_spec("h11") is None:
        raise ConfigurationError("an Allowlist needs h11, for its proxy: pip install 'agentkit[allowlist]'")
    if has_buckets(spec):
        from agentkit.sandbox.buckets.buckets import Buckets

        Buckets(spec.mounts)


def warn_of_network(engine: SandboxEngine, spec: SandboxSpec) -> None:
    """Say once an engine what ``"full"`` means (SPEC 12.9)."""
    if spec.network == "full" and engine not in _warned:
        _warned.add(engine)
        logger.warning(
            'SandboxSpec(network="full"): code in the sandbox reaches whatever this machine reaches, other machines of '
            "its network and cloud metadata included; an Allowlist([...]) of hosts does not"
        )
