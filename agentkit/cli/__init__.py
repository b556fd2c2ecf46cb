"""The command line: ``agentkit COMMAND``. One module a command, imported when it is called for."""

from agentkit.cli.entry import main

__all__ = ["main"]
