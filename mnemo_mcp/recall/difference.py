"""Why the same question was answered differently: what the ledger learned between two instants, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mnemo_mcp.memory import Instant, LedgerRow, Memory, Operation
from mnemo_mcp.recall.answer import Answer

_DONE = {
    "confirm": "confirmed",
    "close": "closed",
    "cut": "cut",
    "retract": "retracted",
    "merge": "merged",
}
SAME = "Nothing about it was learned, closed or retracted in between."


@dataclass(frozen=True, slots=True)
class Difference:
    """Two answers to one question, and the ledger rows that lie between them, told in order."""

    before: Answer
    after: Answer
    changes: tuple[str, ...]

    @property
    def same_ranking(self) -> bool:
        """Whether both answers name the same memories in the same order, standing alike."""
        return _standing(self.before) == _standing(self.after)


def explain(
    before: Answer,
    after: Answer,
    earlier: Instant,
    later: Instant,
    history: Callable[[str], Iterable[LedgerRow]],
    named: Callable[[str], Memory | None],
) -> Difference:
    """The difference between what was answered by what was known at two instants."""
    answered = [found.memory.id for found in (*before.memories, *after.memories)]
    rows = [row for row in _concerned(answered, history) if earlier < row.known_at <= later]
    rows.sort(key=lambda row: (row.known_at, row.seq))
    told = [sentence for row in rows if (sentence := _told(row, named))]
    return Difference(before, after, tuple(told) or (SAME,))


def _concerned(ids: Iterable[str], history: Callable[[str], Iterable[LedgerRow]]) -> list[LedgerRow]:
    """The rows of these memories, and of those that replaced them, however far on."""
    waiting, seen, rows = list(ids), set[str](), list[LedgerRow]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            own = list(history(name))
            rows += own
            waiting += [str(row.body["by"]) for row in own if row.body.get("by")]
    return rows


def _standing(answer: Answer) -> list[tuple[str, str]]:
    return [(found.memory.id, str(found.status)) for found in answer.memories]


def _told(row: LedgerRow, named: Callable[[str], Memory | None]) -> str:
    on = row.known_at[:10]
    what = _quoted(named(row.memory))
    other = _quoted(named(str(row.body["by"]))) if row.body.get("by") else ""
    match row.operation:
        case Operation.ASSERT:
            until = f" until {row.valid_to[:10]}" if row.valid_to else ""
            return f"On {on} learned {what}, true since {(row.valid_from or on)[:10]}{until}."
        case Operation.CLOSE:
            after = f"; since then {other}" if other else ""
            return f"On {on} closed {what}: not true any more since {(row.valid_from or on)[:10]}{after}."
        case Operation.CUT:
            span = f"from {(row.valid_from or on)[:10]} to {(row.valid_to or 'now')[:10]}"
            return f"On {on} cut {what}: not true {span}" + (f", when it was {other}." if other else ".")
        case Operation.RETRACT:
            return f"On {on} retracted {what}: it never was true" + (f"; true is {other}." if other else ".")
        case Operation.MERGE:
            return f"On {on} merged {what} into another memory that says the same."
        case Operation.UNMERGE:
            return f"On {on} took the merging of {what} back."
        case Operation.UNDO:
            return f"On {on} took back that {what} was {_DONE.get(str(row.body.get('undoes')), 'changed')}."
        case Operation.ERASE:
            return f"On {on} erased {row.memory} on request."
        case _:
            return ""


def _quoted(memory: Memory | None) -> str:
    return f"“{memory.claim.what}”" if memory and memory.claim.what else "an erased memory"
