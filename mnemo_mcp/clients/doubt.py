"""Why a file of somebody else's is left alone."""

from __future__ import annotations

from mnemo_mcp.errors import Refused


class Doubt(Refused):
    """A file is not what it should be, so nothing is written. `line` counts from 1; 0 where none is meant."""

    def __init__(self, what: str, line: int = 0, advice: str = "") -> None:
        super().__init__(what, advice)
        self.line = line

    def in_file(self, path: object) -> Refused:
        """The same, with the file's name, as a person is told."""
        where = f"{path}, line {self.line}" if self.line else f"{path}"
        return Refused(f"{where}: {self.message} Nothing was written.", self.advice)


def line_of(text: str, offset: int) -> int:
    """The line an offset lies in."""
    return text.count("\n", 0, offset) + 1
