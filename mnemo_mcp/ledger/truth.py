"""The ledger and its snapshot: rows are appended, the memories they touch are folded anew with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from mnemo_mcp.errors import LedgerConflict, NotFound, Refused
from mnemo_mcp.ledger.calls import forget_calls
from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.ledger.entities import Entities
from mnemo_mcp.ledger.fold import field_key, fold, memory_of, state_bytes
from mnemo_mcp.ledger.threads import forget_extractions
from mnemo_mcp.ledger.verdicts import forget_verdicts
from mnemo_mcp.memory import (
    Claim,
    Instant,
    LedgerRow,
    Memory,
    Operation,
    canonical,
    faithful,
    identity,
    same_text,
)

_COLUMNS = "id, profile, memory, operation, body, valid_from, valid_to, known_at, source, cause, episodes"

_BODY = 4  # its place among the columns


def ledger_row(
    profile: str,
    memory: str,
    operation: Operation,
    *,
    body: Mapping[str, Any] | None = None,
    valid_from: Instant | None = None,
    valid_to: Instant | None = None,
    known_at: Instant,
    source: str,
    cause: Mapping[str, Any],
    episodes: tuple[str, ...],
) -> LedgerRow:
    """A row with its deterministic id: the same change from the same source is the same row."""
    content = dict(body or {})
    name = identity("l", profile, memory, operation, content, valid_from, valid_to, known_at, source)
    return LedgerRow(
        name,
        profile,
        memory,
        operation,
        content,
        valid_from,
        valid_to,
        known_at,
        source,
        dict(cause),
        episodes,
    )


class Truth:
    """Appending to the ledger, and reading what it makes true."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entities = Entities(database)

    def append(self, tx: Connection, rows: Iterable[LedgerRow], recorded_at: Instant) -> int:
        """Append `rows` and bring the snapshot along; how many were new.

        A row that is there already is passed over. Raises `LedgerConflict` when its id exists with
        other content.
        """
        touched: dict[str, int] = {}
        new = 0
        for row in rows:
            if seq := self._insert(tx, row, recorded_at):
                new += 1
                touched[row.memory] = seq
                if row.operation is Operation.ERASE:
                    tx.execute("UPDATE ledger SET body = '{}' WHERE memory = ?", (row.memory,))
                    tx.execute("UPDATE episodes SET text = '' WHERE id = ?", (row.memory,))
                    forget_calls(tx, row.memory)
                    forget_verdicts(tx, row.memory)
                    forget_extractions(tx, row.memory)
        for about, seq in touched.items():
            self._refold(tx, about, seq)
        return new

    def _insert(self, tx: Connection, row: LedgerRow, recorded_at: Instant) -> int:
        values = _values(row)
        found = tx.execute(f"SELECT {_COLUMNS} FROM ledger WHERE id = ?", (row.id,)).fetchone()
        if found is not None:
            if _alike(found, values):
                return 0
            raise LedgerConflict(f"The ledger holds {row.id} with other content.", "Run `mnemo doctor`.")
        cursor = tx.execute(
            f"INSERT INTO ledger ({_COLUMNS}, recorded_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)",
            (*values, recorded_at),
        )
        return int(cursor.lastrowid or 0)

    def _refold(self, tx: Connection, about: str, seq: int) -> None:
        rows = list(_rows(tx, "WHERE memory = ? ORDER BY seq", (about,)))
        if about.startswith("n"):
            self._entities.refold(tx, about, rows)
        elif memory := fold(rows):
            tx.execute(
                "INSERT INTO snapshot (id, profile, seq, field, state) VALUES (?,?,?,?,?)"
                " ON CONFLICT (id) DO UPDATE SET seq = excluded.seq, field = excluded.field,"
                " state = excluded.state",
                (memory.id, memory.profile, seq, field_key(memory.claim), state_bytes(memory).decode()),
            )
            self._entities.link(tx, memory)

    def get(self, memory_id: str, profile: str) -> Memory:
        """The memory with this id or unique beginning of one. Raises `NotFound`, `Refused`."""
        with self._database.read() as connection:
            return _found(connection, memory_id, profile)

    def within(self, tx: Connection, memory_id: str, profile: str) -> Memory:
        """`get` inside a transaction."""
        return _found(tx, memory_id, profile)

    def history(self, memory_id: str) -> list[LedgerRow]:
        """All rows of one memory in log order."""
        with self._database.read() as connection:
            return list(_rows(connection, "WHERE memory = ? ORDER BY seq", (memory_id,)))

    def changed_since(self, seq: int, most: int = -1) -> tuple[int, list[Memory]]:
        """Memories changed after ledger row `seq`, in log order, and the last row's number."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT seq, state FROM snapshot WHERE seq > ? ORDER BY seq LIMIT ?", (seq, most)
            ).fetchall()
        return (rows[-1][0] if rows else seq), [memory_of(json.loads(state)) for _, state in rows]

    def log(self) -> Iterator[tuple[LedgerRow, Instant]]:
        """Every ledger row in order, with when it was recorded."""
        with self._database.read() as connection:
            recorded = dict(connection.execute("SELECT seq, recorded_at FROM ledger"))
            for row in _rows(connection, "ORDER BY seq", ()):
                yield row, recorded[row.seq]

    def erased_since(self, seq: int) -> list[str]:
        """What was erased after ledger row `seq`: ids of memories, episodes and entities."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT DISTINCT memory FROM ledger WHERE seq > ? AND operation = ?", (seq, Operation.ERASE)
            )
            return [name for (name,) in rows]

    def about(self, profile: str, subject: str, field: str | None = None) -> list[Memory]:
        """The values of a subject (of one field, or of all); without any, the memories that name it."""
        with self._database.read() as connection:
            names = sorted(self._entities.names(connection, profile, subject))
            found: dict[str, Memory] = {}
            for name in names:
                first = f"{name}\x1f{same_text(field)}" if field else f"{name}\x1f"
                last = first if field else f"{name}\x20"
                rows = connection.execute(
                    "SELECT state FROM snapshot WHERE profile = ? AND field >= ? AND field <= ? ORDER BY id",
                    (profile, first, last),
                )
                found |= {memory.id: memory for (state,) in rows if (memory := memory_of(json.loads(state)))}
            if not found and field is None:
                found = self._naming(connection, profile, names)
        return list(found.values())

    def _naming(self, connection: Connection, profile: str, names: Iterable[str]) -> dict[str, Memory]:
        found: dict[str, Memory] = {}
        for name in names:
            rows = connection.execute(
                "SELECT state FROM snapshot WHERE id IN (SELECT memory FROM links JOIN entity_names"
                " USING (entity) WHERE profile = ? AND key = ?) ORDER BY id",
                (profile, name),
            )
            found |= {memory.id: memory for (state,) in rows if (memory := memory_of(json.loads(state)))}
        return found

    def newest(self) -> int:
        """The sequence number of the last ledger row, 0 while there is none."""
        with self._database.read() as connection:
            return int(connection.execute("SELECT coalesce(max(seq), 0) FROM ledger").fetchone()[0])

    def name_of(self, seq: int) -> str | None:
        """The id of the ledger row with this number."""
        with self._database.read() as connection:
            row = connection.execute("SELECT id FROM ledger WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else str(row[0])

    def citing(self, episode: str) -> list[Memory]:
        """The memories that cite an episode."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT s.state FROM citations c JOIN snapshot s ON s.id = c.memory WHERE c.episode = ?"
                " ORDER BY s.id",
                (episode,),
            )
            return [memory_of(json.loads(state)) for (state,) in rows]

    def of_field(self, tx: Connection, claim: Claim, profile: str) -> list[Memory]:
        """The memories that are values of the same subject and field, under any name of the subject."""
        if not field_key(claim):
            return []
        names = self._entities.names(tx, profile, claim.subject)
        keys = [field_key(replace(claim, subject=name)) for name in names]
        found = (
            tx.execute(
                "SELECT state FROM snapshot WHERE profile = ? AND field = ? ORDER BY id", (profile, key)
            )
            for key in sorted(set(keys))
        )
        return [memory_of(json.loads(state)) for rows in found for (state,) in rows]

    def rebuild(self) -> None:
        """Fold the whole ledger anew into the snapshot."""
        with self._database.write() as tx:
            for table in ("snapshot", "links", "citations", "entity_names", "entities"):
                tx.execute(f"DELETE FROM {table}")
            # memories come before entities: the letters of their ids are in that order
            about = "SELECT memory, max(seq) FROM ledger GROUP BY memory ORDER BY memory"
            for name, seq in tx.execute(about).fetchall():
                self._refold(tx, name, seq)

    def check(self) -> list[str]:
        """Where the snapshot is not the fold of the ledger, in words."""
        problems = []
        with self._database.read() as connection:
            stored = dict(connection.execute("SELECT id, state FROM snapshot"))
            for (memory_id,) in connection.execute("SELECT DISTINCT memory FROM ledger").fetchall():
                memory = fold(_rows(connection, "WHERE memory = ? ORDER BY seq", (memory_id,)))
                state = stored.pop(memory_id, None)
                if memory is not None and state_bytes(memory).decode() != state:
                    problems.append(f"the snapshot of {memory_id} is not what its ledger rows say")
        return problems + [f"the snapshot holds {each}, the ledger does not" for each in stored]


def _found(connection: Connection, memory_id: str, profile: str) -> Memory:
    states = [json.loads(state) for state in matching(connection, "snapshot", "state", memory_id, profile)]
    if not states:
        raise NotFound(f"There is no memory {memory_id[:80]!r}.", "Recall first and use an id it prints.")
    if len(states) > 1:
        ids = ", ".join(state["id"] for state in states)
        raise Refused(f"{memory_id!r} begins several ids: {ids}.", "Use one of them in full.")
    return memory_of(states[0])


def matching(connection: Connection, table: str, column: str, name: str, profile: str) -> list[str]:
    """`column` of the row whose id is `name`, else of at most 10 whose id begins with it (6 letters on)."""
    exact = connection.execute(
        f"SELECT {column} FROM {table} WHERE id = ? AND profile = ?", (name, profile)
    ).fetchall()
    if exact or len(name) < 6 or not name.isascii() or not name.isalnum():
        return [row[0] for row in exact]
    rows = connection.execute(
        f"SELECT {column} FROM {table} WHERE id >= ? AND id < ? AND profile = ? LIMIT 10",
        (name, name + "\x7f", profile),
    )
    return [row[0] for row in rows]


def _alike(found: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
    """Whether two rows say the same; composed and decomposed texts do, and an erased body is no other."""
    bodies = (found[_BODY], values[_BODY])
    same = "{}" in bodies or len({canonical(json.loads(body)) for body in bodies}) == 1
    return same and _bodiless(found) == _bodiless(values)


def _bodiless(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*values[:_BODY], *values[_BODY + 1 :])


def _values(row: LedgerRow) -> tuple[Any, ...]:
    return (
        row.id,
        row.profile,
        row.memory,
        str(row.operation),
        faithful(row.body).decode(),
        row.valid_from,
        row.valid_to,
        row.known_at,
        row.source,
        canonical(row.cause).decode(),
        canonical(list(row.episodes)).decode(),
    )


def _rows(connection: Connection, where: str, values: tuple[Any, ...]) -> Iterator[LedgerRow]:
    for seq, *rest in connection.execute(f"SELECT seq, {_COLUMNS} FROM ledger {where}", values):
        name, profile, memory, operation, body, start, end, known, source, cause, episodes = rest
        yield LedgerRow(
            name,
            profile,
            memory,
            Operation(operation),
            json.loads(body),
            start,
            end,
            known,
            source,
            json.loads(cause),
            tuple(json.loads(episodes)),
            seq,
        )
