"""The state of every row in arrays, and masks over them that are kept level as long as they are asked for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.arrays import Mask, Rows, grown
from mnemo_mcp.memory import Instant, Kind, Memory, Period, Status

_NEVER = np.iinfo(np.int64).max
_LONG_AGO = np.iinfo(np.int64).min
_MASKS = 24
"""Masks kept: one byte a row each."""


def milliseconds(at: Instant) -> int:
    """An instant as a number; before all time where there is none."""
    return round(datetime.fromisoformat(at).timestamp() * 1000) if at else _LONG_AGO


Spans = tuple[tuple[int, int], ...]

_COLUMNS = {
    "start": np.int64,
    "end": np.int64,
    "dead": np.bool_,
    "known": np.int64,
    "changed": np.int64,
    "project": np.int32,
    "kind": np.int32,
    "filled": np.uint8,
    "cited": np.uint16,
}

WHY, HOW, WHO, WHERE, WHEN = (1 << place for place in range(5))
"""Bits of what a memory says beside what."""


@dataclass(slots=True)
class _Kept:
    """A mask, how it looks at one row, and between which instants it stays as it is."""

    mask: Mask
    rule: Callable[[int], bool]
    since: int = _LONG_AGO
    until: int = _NEVER


@dataclass(frozen=True, slots=True)
class Frozen:
    """The state of all rows as it was."""

    columns: Mapping[str, npt.NDArray[Any]]
    codes: Mapping[str, int]
    pieces: Mapping[int, Spans]


class States:
    """Project, kind and period of each row. Masks must not be changed, and hold until the next `set`."""

    def __init__(self, saved: Frozen | None = None) -> None:
        kept = saved or Frozen({name: np.zeros(0, kind) for name, kind in _COLUMNS.items()}, {}, {})
        columns = kept.columns
        self._start, self._end, self._dead = columns["start"], columns["end"], columns["dead"]
        self._known, self._changed = columns["known"], columns["changed"]
        self._project, self._kind = columns["project"], columns["kind"]
        self._filled, self._cited = columns["filled"], columns["cited"]
        self._size = len(self._start)
        self._codes = dict(kept.codes)
        self._pieces = dict(kept.pieces)  # of rows with no period or several
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def set(self, row: int, memory: Memory) -> None:
        """Enter or renew a row; rows are entered in rising order."""
        self._make_room(row + 1)
        self._start[row] = milliseconds(memory.valid_from)
        self._end[row] = _NEVER if memory.valid_to is None else milliseconds(memory.valid_to)
        self._dead[row] = memory.retracted or memory.erased or bool(memory.merged_into)
        self._known[row], self._changed[row] = milliseconds(memory.known_at), milliseconds(memory.changed_at)
        self._project[row] = self._code(memory.project)
        self._kind[row] = self._code(memory.claim.kind)
        self._filled[row] = _filled(memory)
        self._cited[row] = min(len(memory.episodes), np.iinfo(np.uint16).max)
        self._pieces.pop(row, None)
        if len(memory.periods) != 1:
            self._pieces[row] = tuple(map(_span, memory.periods))
        self._renew(row)

    def start(self, row: int) -> int:
        """From when on a row holds, in milliseconds."""
        return int(self._start[row])

    def known(self, row: int) -> int:
        """When a row became known, in milliseconds."""
        return int(self._known[row])

    def changed(self, row: int) -> int:
        """When anything was learned of a row last, in milliseconds."""
        return int(self._changed[row])

    def cited(self, row: int) -> int:
        """How many episodes support a row."""
        return int(self._cited[row])

    def histories(self, rows: Rows) -> tuple[Rows, Rows, npt.NDArray[np.uint16]]:
        """Since when rows hold, when anything was learned of them last (milliseconds), how many episodes
        support them.
        """
        return self._start[rows], self._changed[rows], self._cited[rows]

    def says(self, row: int, part: int) -> bool:
        """Whether a row says why, how, who, where or when (a bit each)."""
        return bool(self._filled[row] & part)

    def is_kind(self, row: int, kind: str) -> bool:
        return int(self._kind[row]) == self._codes.get(kind)

    def standing(self) -> int:
        """How many rows are neither retracted nor erased nor merged into another one."""
        return self._size - int(np.count_nonzero(self._dead[: self._size]))

    def ended(self, row: int, at: int) -> bool:
        """Whether a row held before an instant (milliseconds) and does not any more."""
        return self._status(row, at) is Status.CLOSED

    def having(self, at: Instant, status: Status) -> Mask:
        """The rows that stand so at an instant."""
        when = milliseconds(at)
        for key, kept in self._kept.items():
            if isinstance(key, tuple) and key[0] is status and kept.since <= when < kept.until:
                self._kept.move_to_end(key)
                return self._shown(kept.mask)
        since, until = self._unchanged_around(when)
        mask = self._standing(when, status)
        return self._keep(
            (status, when), _Kept(mask, lambda row: self._status(row, when) is status, since, until)
        )

    def unchanged_until(self, at: Instant) -> int:
        """Up to when no row begins or ends to hold after an instant, in milliseconds."""
        when = milliseconds(at)
        self.having(at, Status.CURRENT)
        return next(
            kept.until
            for key, kept in self._kept.items()
            if isinstance(key, tuple) and key[0] is Status.CURRENT and kept.since <= when < kept.until
        )

    def beginning(self, period: Period) -> Mask:
        """The rows that began to hold within a period."""
        start, size = self._start[: self._size], self._size
        end = _NEVER if period.end is None else milliseconds(period.end)
        return ~self._dead[:size] & (milliseconds(period.start) <= start) & (start < end)

    def beginning_near(self, start: int, end: int, within: int, allowed: Mask) -> tuple[Rows, Rows]:
        """The allowed rows that began `within` milliseconds of `[start, end)`, and when they did."""
        began = self._start[: self._size]
        rows = np.flatnonzero(allowed & (start - within <= began) & (began < end + within))
        return rows, began[rows]

    def known_by(self, at: Instant) -> Mask:
        """The rows of which anything was known by an instant."""
        return self._known[: self._size] <= milliseconds(at)

    def changed_after(self, at: Instant) -> list[int]:
        """The rows that were known by an instant and became something else later."""
        later = self._changed[: self._size] > milliseconds(at)
        return [int(row) for row in np.flatnonzero(self.known_by(at) & later)]

    def in_projects(self, projects: frozenset[str]) -> Mask:
        """The rows of these projects and those that belong to none."""
        return self._among("_project", projects | {""})

    def in_project(self, project: str) -> Mask:
        """The rows of this very project."""
        return self._among("_project", frozenset({project}))

    def of_kinds(self, kinds: frozenset[str]) -> Mask:
        return self._among("_kind", kinds)

    def everything(self) -> Mask:
        """All rows."""
        kept = self._kept.get("everything")
        if kept is not None:
            return self._shown(kept.mask)
        return self._keep("everything", _Kept(np.ones(self._size, np.bool_), lambda row: True))

    def freeze(self) -> Frozen:
        """All of it by now, for saving outside of anybody's way."""
        columns = {name: getattr(self, f"_{name}")[: self._size].copy() for name in _COLUMNS}
        return Frozen(columns, dict(self._codes), dict(self._pieces))

    def _among(self, column: str, names: frozenset[str]) -> Mask:
        kept = self._kept.get((column, names))
        if kept is not None:
            self._kept.move_to_end((column, names))
            return self._shown(kept.mask)
        wanted = {self._code(name) for name in names}
        among = np.zeros(len(self._codes), np.bool_)
        among[list(wanted)] = True
        mask = among[getattr(self, column)[: self._size]]
        return self._keep((column, names), _Kept(mask, lambda row: int(getattr(self, column)[row]) in wanted))

    def _standing(self, when: int, status: Status) -> Mask:
        start, end, dead = self._start[: self._size], self._end[: self._size], self._dead[: self._size]
        match status:
            case Status.RETRACTED:
                return dead.copy()
            case Status.CURRENT:
                found = ~dead & (start <= when) & (when < end)
            case Status.FUTURE:
                found = ~dead & (when < start)
            case Status.CLOSED:
                found = ~dead & (start <= when) & (end <= when)
        for row in self._pieces:
            found[row] = self._status(row, when) is status
        return found

    def _status(self, row: int, when: int) -> Status:
        if self._dead[row]:
            return Status.RETRACTED
        spans = self._pieces.get(row, ((self._start[row], self._end[row]),))
        if any(start <= when < end for start, end in spans):
            return Status.CURRENT
        return Status.FUTURE if spans and when < spans[0][0] else Status.CLOSED

    def _unchanged_around(self, when: int) -> tuple[int, int]:
        """From when until when no row begins or ends to hold, around an instant."""
        since, until = _LONG_AGO, _NEVER
        pieces = [border for spans in self._pieces.values() for span in spans for border in span]
        for borders in (self._start[: self._size], self._end[: self._size], np.array(pieces, np.int64)):
            past = borders <= when
            since = max(since, int(borders.max(initial=_LONG_AGO, where=past)))
            until = min(until, int(borders.min(initial=_NEVER, where=~past)))
        return since, until

    def _keep(self, key: Hashable, kept: _Kept) -> Mask:
        self._kept[key] = kept
        if len(self._kept) > _MASKS:
            self._kept.popitem(last=False)
        return self._shown(kept.mask)

    def _renew(self, row: int) -> None:
        """Look at a row anew in every mask that is kept."""
        borders = [*self._pieces.get(row, ()), (int(self._start[row]), int(self._end[row]))]
        for key, kept in self._kept.items():
            kept.mask = grown(kept.mask, row + 1)
            kept.mask[row] = kept.rule(row)
            if isinstance(key, tuple) and isinstance(key[0], Status):
                for border in (border for span in borders for border in span):
                    if border <= key[1]:
                        kept.since = max(kept.since, border)
                    else:
                        kept.until = min(kept.until, border)

    def _shown(self, mask: Mask) -> Mask:
        shown = mask[: self._size]
        shown.flags.writeable = False
        return shown

    def _code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def _make_room(self, size: int) -> None:
        self._size = max(self._size, size)
        if size > len(self._start):
            for name in _COLUMNS:
                setattr(self, f"_{name}", grown(getattr(self, f"_{name}"), size))


def _filled(memory: Memory) -> int:
    claim = memory.claim
    roles = {each.role for each in claim.entities}
    said = {
        WHY: claim.why,
        HOW: claim.how or claim.kind is Kind.PROCEDURE,
        WHO: claim.who or "who" in roles,
        WHERE: claim.where or "where" in roles,
        WHEN: claim.when or not memory.assumed,
    }
    return sum(part for part, told in said.items() if told)


def _span(period: Period) -> tuple[int, int]:
    return milliseconds(period.start), _NEVER if period.end is None else milliseconds(period.end)
