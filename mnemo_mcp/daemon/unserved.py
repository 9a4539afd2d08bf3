"""The status where nothing is served: in the shape of the other, with what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemo_mcp import __version__


def unserved(problem: str, home: str, pid: int | None = None) -> Mapping[str, Any]:
    """Nothing is counted; `pid` is that of a daemon whose store does not open."""
    return {
        "version": __version__,
        "pid": pid,
        "home": home,
        "memories": None,
        "episodes": None,
        "encoders": [],
        "moving": "",
        "distilling": "",
        "queue": {},
        "tasks": {},
        "models": {},
        "problems": [problem],
    }
