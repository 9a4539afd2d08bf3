"""Undoing: what came of a verdict is taken back by ledger rows; nothing is deleted, and the verdict stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mnemo_mcp.errors import Refused
from mnemo_mcp.judge.admission import admit
from mnemo_mcp.judge.candidate import from_kept
from mnemo_mcp.judge.effects import NOTHING, WITHOUT_WHY, merging, proposal_of
from mnemo_mcp.judge.writer import Writer
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.fold import fold
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.ledger.verdicts import Verdict
from mnemo_mcp.memory import LedgerRow, Memory, Operation, Outcome, identity


@dataclass(frozen=True, slots=True)
class _Stored:
    """The rows that store a candidate after all, and the memory they make."""

    rows: tuple[LedgerRow, ...] = ()
    memory: Memory | None = None


class Undoing:
    """On a person's word. The pair is not judged again."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def undo(self, name: str, writer: Writer) -> Outcome:
        """Take back what came of a verdict. Raises `Refused` where nothing did, `NotFound`."""
        with self._store.write() as tx:
            verdict = self._store.verdicts.get(name, writer.profile)
            if verdict.undone_at:
                raise Refused(f"{verdict.id} was taken back already.", "Nothing was changed.")
            if verdict.done == NOTHING:
                raise Refused(f"Nothing came of {verdict.id}.", "Nothing was changed.")
            stored = self._stored(tx, verdict, writer)
            rows = [*self._undone(verdict, writer), *stored.rows]
            self._store.truth.append(tx, rows, writer.recorded_at)
            memory = stored.memory.id if stored.memory else verdict.memory
            self._store.verdicts.undo(tx, verdict, memory, writer.recorded_at)
        return Outcome("undone", memory or verdict.neighbour, _told(verdict, stored.memory))

    def _undone(self, verdict: Verdict, writer: Writer) -> list[LedgerRow]:
        touched = {name for name in (verdict.memory, verdict.neighbour) if name}
        history = [row for name in sorted(touched) for row in self._store.truth.history(name)]
        return [_undoing(row, verdict, writer) for row in history if row.id in verdict.rows]

    def _stored(self, tx: Connection, verdict: Verdict, writer: Writer) -> _Stored:
        """A candidate that became no memory, or one without its reason, as it was told."""
        if "claim" not in verdict.candidate:
            if not verdict.rows:
                raise Refused(f"The text of {verdict.id} was erased.", "Nothing was changed.")
            return _Stored()
        candidate = from_kept(verdict.candidate, verdict.profile)
        field = self._store.truth.of_field(tx, candidate.claim, verdict.profile)
        proposal = proposal_of(candidate, candidate.claim, writer.cause, same_field=field)
        if verdict.done != WITHOUT_WHY:
            return _made(admit(proposal).rows)
        bare = self._store.truth.within(tx, verdict.memory, verdict.profile)
        if bare.retracted or bare.erased or bare.merged_into:
            raise Refused(f"{bare.id} does not stand by itself any more.", "Nothing was changed.")
        others = [each for each in field if each.id != bare.id]
        made = _made(admit(replace(proposal, same_field=others)).rows)
        if made.memory is None:
            return made
        merged = merging(bare, made.memory, "it gives the reason too", writer.cause, writer.known_at)
        return _Stored((*made.rows, *merged), made.memory)


def _made(rows: Sequence[LedgerRow]) -> _Stored:
    first = rows[0].memory
    return _Stored(tuple(rows), fold(row for row in rows if row.memory == first))


def _undoing(row: LedgerRow, verdict: Verdict, writer: Writer) -> LedgerRow:
    return ledger_row(
        row.profile,
        row.memory,
        Operation.UNDO,
        body={"row": row.id, "undoes": str(row.operation), "verdict": verdict.id},
        known_at=max(writer.known_at, row.known_at),
        source=identity("r", verdict.id, row.id),
        cause=writer.cause,
        episodes=(),
    )


def _told(verdict: Verdict, stored: Memory | None) -> str:
    what = f"{verdict.neighbour or verdict.memory or 'the claim'} {verdict.done}"
    return f"Taken back: {what}." + (f" Stored as {stored.id}." if stored else "")
