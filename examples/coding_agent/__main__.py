"""Lets ``python -m examples.coding_agent`` run."""

import sys

try:
    from examples.coding_agent.main import main
except ModuleNotFoundError as error:
    sys.exit(f"coding_agent: {error.name} isn't installed; pip install '.[demo]' in the clone brings all it needs")

if __name__ == "__main__":
    sys.exit(main())
