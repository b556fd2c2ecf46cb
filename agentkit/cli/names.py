"""``CLASS/NAME`` on the command line."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from agentkit.errors import AgentError
from agentkit.store.store import AgentId

if TYPE_CHECKING:
    from agentkit.store.viewer import StoreViewer


def add_agent(parser: ArgumentParser) -> None:
    """Add the optional ``CLASS/NAME``."""
    parser.add_argument("agent", nargs="?", metavar="CLASS/NAME", help="only of this agent (default: all)")


def known_agent(text: str | None, viewer: StoreViewer) -> AgentId | None:
    """Return the agent a user names; None if none is named.

    Raises:
        AgentError: The store has no such agent, or that is no name of one.
    """
    if text is None:
        return None
    class_name, slash, name = text.partition("/")
    if not (class_name and slash and name):
        raise AgentError(f"{text!r} names no agent; write CLASS/NAME, as `agentkit agents` shows them")
    agent = AgentId(class_name, name)
    if not viewer.has(agent):
        raise AgentError(f"the store has no agent {text}; `agentkit agents` lists those it has")
    return agent
