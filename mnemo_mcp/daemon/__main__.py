"""`python -m mnemo_mcp.daemon`: what clients start when nobody answers."""

import sys

from mnemo_mcp.daemon.main import main

sys.exit(main())
