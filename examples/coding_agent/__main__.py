"""Lets ``python -m examples.coding_agent`` run."""

import sys

from examples.coding_agent.main import main

if __name__ == "__main__":
    sys.exit(main())
