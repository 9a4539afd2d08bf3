"""The timeline of a subject: what was held true of when, and from when until when that was believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mnemo_mcp.ledger.fold import fold
from mnemo_mcp.memory import Instant, LedgerRow, Memory, Period


@dataclass(frozen=True, slots=True)
class Span:
    """One rectangle on both axes: a claim, when it is true, and when that was (or still is) believed."""

    memory: str
    what: str
    valid: Period
    known: Period


def spans(memory: Memory, rows: Sequence[LedgerRow]) -> list[Span]:
    """The rectangles of one memory, oldest belief first."""
    steps = sorted({row.known_at for row in rows})
    believed: list[tuple[Instant, tuple[Period, ...]]] = []
    for known in steps:
        then = fold(rows, known)
        periods = then.periods if then and not then.retracted and not then.merged_into else ()
        if not believed or believed[-1][1] != periods:
            believed.append((known, periods))
    ends = [known for known, _ in believed[1:]] + [None]
    return [
        Span(memory.id, memory.claim.what, valid, Period(known, end))
        for (known, periods), end in zip(believed, ends, strict=True)
        for valid in periods
    ]


def ordered(found: Iterable[Span]) -> list[Span]:
    """By when they were believed, then by when they are true."""
    return sorted(found, key=lambda span: (span.known.start, span.valid.start, span.memory))
