"""The installation a daemon runs from: what it has not imported yet it finds there, or no longer."""

from __future__ import annotations

from pathlib import Path

import mnemo_mcp


class Installation:
    """What is installed as this process starts."""

    def __init__(self, file: Path = Path(mnemo_mcp.__file__)) -> None:
        """`file` holds the version, so that every update replaces it."""
        self._file = file
        self._mark = self._marked()

    def holds(self) -> bool:
        """Whether it is still there, and not another one in its place."""
        return self._marked() == self._mark

    def _marked(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns
