"""`python -m mnemo_mcp` is the `mnemo` command."""

from __future__ import annotations

import sys

from mnemo_mcp.cli import main

sys.exit(main())
