"""``python -m agentkit.cli`` is ``agentkit``."""

import sys

from agentkit.cli.entry import main

sys.exit(main())
