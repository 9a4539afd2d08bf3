"""Merging: two memories that say the same become one that cites both sources, until it is taken back."""

from __future__ import annotations

from collections.abc import Mapping

from mnemo_mcp.errors import Refused
from mnemo_mcp.judge.writer import Writer
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import LedgerRow, Memory, Operation, Outcome, identity


class Merging:
    """On a person's word; likeness alone merges nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def merge(self, name: str, into: str, writer: Writer, reason: str = "") -> Outcome:
        """Let `into` stand for both. Raises `Refused` where either is not live, `NotFound`."""
        with self._store.write() as tx:
            absorbed, kept = (self._store.truth.within(tx, each, writer.profile) for each in (name, into))
            for memory in (absorbed, kept):
                if memory.retracted or memory.erased or memory.merged_into:
                    raise Refused(f"{memory.id} does not stand by itself any more.", "Nothing was changed.")
            if absorbed.id == kept.id:
                raise Refused("A memory cannot be merged into itself.", "Name two memories.")
            given = tuple(each for each in absorbed.episodes if each not in kept.episodes)
            body = {"into": kept.id, "gave": list(given), **({"reason": reason} if reason else {})}
            rows = [
                _row(kept, Operation.CONFIRM, writer, {}, given, about=absorbed.id),
                _row(absorbed, Operation.MERGE, writer, body, (), about=kept.id),
            ]
            self._store.truth.append(tx, rows, writer.recorded_at)
        return Outcome("merged", absorbed.id, f"{kept.id} stands for both: {kept.claim.what}")

    def unmerge(self, name: str, writer: Writer) -> Outcome:
        """Take a merge back: both are as they were. Raises `Refused` where there is none, `NotFound`."""
        with self._store.write() as tx:
            absorbed = self._store.truth.within(tx, name, writer.profile)
            if not absorbed.merged_into:
                raise Refused(f"{absorbed.id} was not merged into anything.", "Nothing was changed.")
            kept = self._store.truth.within(tx, absorbed.merged_into, writer.profile)
            merges = [
                row for row in self._store.truth.history(absorbed.id) if row.operation is Operation.MERGE
            ]
            rows = [
                _row(absorbed, Operation.UNMERGE, writer, {}, (), about=kept.id),
                _row(
                    kept,
                    Operation.UNMERGE,
                    writer,
                    {"episodes": merges[-1].body["gave"]},
                    (),
                    about=absorbed.id,
                ),
            ]
            self._store.truth.append(tx, rows, writer.recorded_at)
        return Outcome("unmerged", absorbed.id, absorbed.claim.what)


def _row(
    memory: Memory,
    operation: Operation,
    writer: Writer,
    body: Mapping[str, object],
    episodes: tuple[str, ...],
    *,
    about: str,
) -> LedgerRow:
    return ledger_row(
        memory.profile,
        memory.id,
        operation,
        body=body,
        known_at=writer.known_at,
        source=identity("r", memory.id, str(operation), about, writer.known_at),
        cause=writer.cause,
        episodes=episodes,
    )
