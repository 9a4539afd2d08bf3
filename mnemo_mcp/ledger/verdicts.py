"""Verdicts: what the judge said of a candidate and a neighbour, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.ledger.fold import memory_of
from mnemo_mcp.memory import Instant, Memory, faithful

_COLUMNS = (
    "id, profile, key, memory, neighbour, relation, shares, judge, guard, done, reason, rows, candidate, at,"
    " undone_at"
)

# One step a profile: DISTINCT would read the whole index.
_PROFILES = """
    WITH RECURSIVE found (profile) AS (
        SELECT min(profile) FROM snapshot
        UNION ALL
        SELECT (SELECT min(profile) FROM snapshot WHERE profile > found.profile) FROM found
        WHERE found.profile IS NOT NULL
    )
    SELECT profile FROM found WHERE profile IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verdict. `neighbour` "" is about the candidate by itself; `memory` is what it became, if anything.

    `shares` are the probabilities of the options, empty where the judge gave none; `guard` what differs by
    the guard; `done` what came of it and `rows` the ledger rows of that; `candidate` what is needed to store
    the claim if that is taken back.
    """

    id: str
    profile: str
    key: str
    memory: str
    neighbour: str
    relation: str
    shares: Mapping[str, float]
    judge: str
    guard: Sequence[str]
    done: str
    reason: str
    rows: Sequence[str]
    candidate: Mapping[str, Any]
    at: Instant
    undone_at: Instant = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pass over a profile's memories has come: ledger rows up to `reached` of `goal`."""

    reached: int = 0
    goal: int = 0
    at: Instant = field(default="")


class Verdicts:
    """Verdicts are added and undone, never removed; only texts that were erased leave them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tx: Connection, verdicts: Iterable[Verdict]) -> None:
        """Keep verdicts. One that is there already stays as it is."""
        for each in verdicts:
            cursor = tx.execute(
                f"INSERT OR IGNORE INTO verdicts ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                _values(each),
            )
            if cursor.rowcount:
                tx.executemany(
                    "INSERT OR IGNORE INTO verdict_sources (episode, verdict) VALUES (?,?)",
                    [(episode, cursor.lastrowid) for episode in each.candidate.get("episodes", ())],
                )

    def get(self, name: str, profile: str) -> Verdict:
        """The verdict with this id or unique beginning of one. Raises `NotFound`, `Refused`."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM verdicts WHERE id >= ? AND id < ? AND profile = ? LIMIT 10",
                (name, name + "\x7f", profile),
            ).fetchall()
        if not rows or len(name) < 6:
            raise NotFound(
                f"There is no verdict {name[:80]!r}.", "`mnemo history ID` prints those of a memory."
            )
        if len(rows) > 1:
            raise Refused(f"{name!r} begins several ids.", "Use one of them in full.")
        return _verdict(rows[0])

    def touching(self, memory: str) -> list[Verdict]:
        """The verdicts that touched a memory, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM verdicts WHERE memory = ? OR neighbour = ? ORDER BY seq",
                (memory, memory),
            ).fetchall()
        return [_verdict(row) for row in rows]

    def judged(self, memory: str) -> set[str]:
        """The memories that this one was compared with, in whatever direction."""
        with self._database.read() as connection:
            return {
                name
                for (name,) in connection.execute(
                    "SELECT neighbour FROM verdicts WHERE memory = :id AND neighbour <> ''"
                    " UNION SELECT memory FROM verdicts WHERE neighbour = :id AND memory <> ''",
                    {"id": memory},
                )
            }

    def undo(self, tx: Connection, verdict: Verdict, memory: str, at: Instant) -> None:
        """Note that a verdict was taken back, and what became of its candidate."""
        tx.execute("UPDATE verdicts SET undone_at = ?, memory = ? WHERE id = ?", (at, memory, verdict.id))

    def changed_since(
        self, tx: Connection, profile: str, seq: int, most: int = -1
    ) -> list[tuple[int, Memory]]:
        """The memories of a profile that ledger rows after `seq` changed, in order, each with its row."""
        rows = tx.execute(
            "SELECT seq, state FROM snapshot WHERE seq > ? AND profile = ? ORDER BY seq LIMIT ?",
            (seq, profile, most),
        ).fetchall()
        return [(number, memory_of(json.loads(state))) for number, state in rows]

    def last_change(self) -> Instant:
        """When the last ledger row was recorded; the beginning of time while there is none."""
        with self._database.read() as connection:
            row = connection.execute("SELECT recorded_at FROM ledger ORDER BY seq DESC LIMIT 1").fetchone()
        return str(row[0]) if row else "0001-01-01T00:00:00.000Z"

    def newest_in(self, profile: str) -> int:
        """The last ledger row that touched a memory of a profile."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT seq FROM snapshot WHERE profile = ? ORDER BY seq DESC LIMIT 1", (profile,)
            ).fetchone()
        return int(row[0]) if row else 0

    def profiles(self) -> list[str]:
        """The profiles that hold memories."""
        with self._database.read() as connection:
            found = connection.execute(_PROFILES)
            return [name for (name,) in found]

    def progress(self, profile: str, name: str) -> Progress:
        """How far a pass has come."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT reached, goal, at FROM consolidations WHERE profile = ? AND pass = ?", (profile, name)
            ).fetchone()
        return Progress(*row) if row else Progress()

    def advance(self, tx: Connection, profile: str, name: str, progress: Progress) -> None:
        """Keep how far a pass has come."""
        tx.execute(
            "INSERT INTO consolidations (profile, pass, reached, goal, at) VALUES (?,?,?,?,?)"
            " ON CONFLICT (profile, pass) DO UPDATE SET reached = excluded.reached, goal = excluded.goal,"
            " at = excluded.at",
            (profile, name, progress.reached, progress.goal, progress.at),
        )


def forget_verdicts(tx: Connection, name: str) -> None:
    """Blank the texts of every verdict that touches an erased memory or rests on an erased episode."""
    chosen = (
        "memory = :id OR neighbour = :id OR seq IN (SELECT verdict FROM verdict_sources WHERE episode = :id)"
    )
    tx.execute(f"UPDATE verdicts SET candidate = '{{}}', guard = '[]' WHERE {chosen}", {"id": name})


def _values(each: Verdict) -> tuple[str, ...]:
    return (
        each.id,
        each.profile,
        each.key,
        each.memory,
        each.neighbour,
        each.relation,
        faithful({name: round(share, 4) for name, share in each.shares.items()}).decode(),
        each.judge,
        faithful(list(each.guard)).decode(),
        each.done,
        each.reason,
        faithful(list(each.rows)).decode(),
        faithful(each.candidate).decode(),
        each.at,
        each.undone_at,
    )


def _verdict(row: Sequence[Any]) -> Verdict:
    name, profile, key, memory, neighbour, relation, shares, judge, guard, done, reason, *rest = row
    rows, candidate, at, undone_at = rest
    return Verdict(
        name,
        profile,
        key,
        memory,
        neighbour,
        relation,
        json.loads(shares),
        judge,
        json.loads(guard),
        done,
        reason,
        json.loads(rows),
        json.loads(candidate),
        at,
        undone_at,
    )
