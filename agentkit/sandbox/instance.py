"""What a sandbox's instance is called, labelled and made as: plain functions of the agent, the spec and the store."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from agentkit.sandbox.engine import (
    AGENT,
    INSTANCE,
    MANAGED,
    SANDBOX,
    SNAPSHOT,
    SPEC,
    STORE,
    InstancePlan,
)
from agentkit.sandbox.spec import Allowlist, SandboxSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose sandbox it is.

    Attributes:
        store: Id of the store.
        agent: ``Class/name``.
        sandbox: Id of the capability.
    """

    store: str
    agent: str
    sandbox: str

    @property
    def engine_name(self) -> str:
        """The engine's name for it: a hash, so that no text of a user's becomes a file or container name."""
        digest = hashlib.sha256("\0".join((self.store, self.agent, self.sandbox)).encode()).hexdigest()
        return f"agentkit-{self.store[:8]}-{digest[:24]}"

    @property
    def labels(self) -> dict[str, str]:
        """All labels of ours; those that don't apply are empty, so that none is taken over from an image."""
        known = {MANAGED: "1", STORE: self.store, AGENT: self.agent, SANDBOX: self.sandbox}
        return {**known, INSTANCE: "", SPEC: "", SNAPSHOT: ""}

    def plan(self, spec: SandboxSpec, *, instance: str, source: str | None, inactivity: timedelta) -> InstancePlan:
        """Return what an instance is made, started and entered as."""
        ours = {INSTANCE: instance, SPEC: spec.fingerprint, SNAPSHOT: source or ""}
        return InstancePlan(
            name=self.engine_name,
            source=source,
            spec=spec,
            env={**_proxy_variables(spec), **spec.variables},
            labels={**self.labels, **ours},
            inactivity=inactivity,
        )


def _proxy_variables(spec: SandboxSpec) -> dict[str, str]:
    if not isinstance(spec.network, Allowlist):
        return {}
    from agentkit.sandbox.network.proxy import proxy_variables

    return proxy_variables()
