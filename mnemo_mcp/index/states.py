"""The state of every row in arrays, so that scope and currency cost one pass before any ranking."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import numpy.typing as npt

from mnemo_mcp.memory import Instant, Memory, Period, Status

Mask = npt.NDArray[np.bool_]

_NEVER = np.iinfo(np.int64).max
_LONG_AGO = np.iinfo(np.int64).min


def milliseconds(at: Instant) -> int:
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def _bounds(memory: Memory) -> tuple[int, int]:
    """From when to when; a memory that was cut away whole ended before all time."""
    if not memory.periods:
        return _LONG_AGO, _LONG_AGO
    end = memory.valid_to
    return milliseconds(memory.valid_from), _NEVER if end is None else milliseconds(end)


class States:
    """Project, kind and period of each row. Rows with several periods are looked at one by one."""

    def __init__(self) -> None:
        self._size = 0
        self._start = np.zeros(256, np.int64)
        self._end = np.zeros(256, np.int64)
        self._dead = np.zeros(256, np.bool_)
        self._known = np.zeros(256, np.int64)
        self._changed = np.zeros(256, np.int64)
        self._project = np.zeros(256, np.int32)
        self._kind = np.zeros(256, np.int32)
        self._codes: dict[str, int] = {}
        self._pieces: dict[int, Memory] = {}

    def set(self, row: int, memory: Memory) -> None:
        """Enter or renew a row; rows are entered in rising order."""
        if row >= len(self._start):
            self._grow()
        self._size = max(self._size, row + 1)
        self._start[row], self._end[row] = _bounds(memory)
        self._dead[row] = memory.status(memory.valid_from) is Status.RETRACTED
        self._known[row], self._changed[row] = milliseconds(memory.known_at), milliseconds(memory.changed_at)
        self._project[row] = self._code(memory.project)
        self._kind[row] = self._code(memory.claim.kind)
        self._pieces.pop(row, None)
        if len(memory.periods) > 1:
            self._pieces[row] = memory

    def having(self, at: Instant, status: Status) -> Mask:
        """The rows that stand so at an instant."""
        when, size = milliseconds(at), self._size
        start, end, dead = self._start[:size], self._end[:size], self._dead[:size]
        match status:
            case Status.RETRACTED:
                return dead.copy()
            case Status.CURRENT:
                found = ~dead & (start <= when) & (when < end)
            case Status.FUTURE:
                found = ~dead & (when < start)
            case Status.CLOSED:
                found = ~dead & (start <= when) & (end <= when)
        for row, memory in self._pieces.items():
            found[row] = memory.status(at) is status
        return found

    def beginning(self, period: Period) -> Mask:
        """The rows that began to hold within a period."""
        start, size = self._start[: self._size], self._size
        end = _NEVER if period.end is None else milliseconds(period.end)
        return ~self._dead[:size] & (milliseconds(period.start) <= start) & (start < end)

    def known_by(self, at: Instant) -> Mask:
        """The rows of which anything was known by an instant."""
        return self._known[: self._size] <= milliseconds(at)

    def changed_after(self, at: Instant) -> list[int]:
        """The rows that were known by an instant and became something else later."""
        later = self._changed[: self._size] > milliseconds(at)
        return [int(row) for row in np.flatnonzero(self.known_by(at) & later)]

    def in_projects(self, projects: frozenset[str]) -> Mask:
        """The rows of these projects and those that belong to none."""
        return self._among(self._project, projects | {""})

    def of_kinds(self, kinds: frozenset[str]) -> Mask:
        return self._among(self._kind, kinds)

    def _among(self, column: npt.NDArray[np.int32], names: frozenset[str]) -> Mask:
        codes = [self._codes[name] for name in names if name in self._codes]
        return np.isin(column[: self._size], codes)

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def _grow(self) -> None:
        for name in ("_start", "_end", "_dead", "_known", "_changed", "_project", "_kind"):
            old = getattr(self, name)
            fresh = np.zeros(2 * len(old), old.dtype)
            fresh[: len(old)] = old
            setattr(self, name, fresh)
