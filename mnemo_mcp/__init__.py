"""Long-term memory for coding agents.

`open` gives the whole service in this process; everything heavy is imported only then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from mnemo_mcp.service import Service

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(path: str | Path | None = None, **options: Any) -> Service:
    """Open the memory in the data folder `path` (default: the user's own) and own it until closed.

    Options are those of `mnemo_mcp.service.Service.open` (`clock`, `settings`, `profile` ...).
    Raises `StoreBusy` while a daemon or another process owns the folder.
    """
    from mnemo_mcp.service import Service

    return Service.open(path, **options)
