"""The ``--store`` option, and the way from it to the file."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentkit.store.viewer import StoreViewer


def add_store(parser: ArgumentParser) -> None:
    """Add ``--store``."""
    parser.add_argument(
        "--store",
        metavar="URL",
        help="sqlite:///PATH (default: $AGENTKIT_STORE, else sqlite:///agentkit.db)",
    )


def add_json(parser: ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def location_of(url: str | None) -> str:
    """Return the file a store URL names, without opening it.

    Raises:
        ConfigurationError: It names none.
    """
    from agentkit.runtime import open_store

    return open_store(url).location


def view(url: str | None) -> closing[StoreViewer]:
    """Open a store to look at, also while another process serves it; ends with the ``with`` block.

    Raises:
        StoreError: There is no store, or none that can be read.
    """
    from agentkit.store.viewer import StoreViewer

    return closing(StoreViewer(location_of(url)))
