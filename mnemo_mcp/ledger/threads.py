"""Threads: how far each session's episodes were read, and what became of every claim taken from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant, identity

KIND = "distil"
"""The kind of task under which a thread waits to be read."""

LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class Thread:
    """A session's thread: its episodes up to number `reached` were read. `folder` is where it last worked."""

    profile: str
    session: str
    folder: str = ""
    reached: int = 0
    read_at: Instant = ""


@dataclass(frozen=True, slots=True)
class Extraction:
    """One claim a model took from a thread, what came of it and why; `memory` is "" where nothing did."""

    profile: str
    session: str
    kind: str
    what: str
    outcome: str
    reason: str
    memory: str
    episodes: tuple[str, ...]
    at: Instant
    id: str = ""


def extraction_id(profile: str, session: str, reached: int, claim: object) -> str:
    """The id of a claim taken from the episodes after number `reached`: the same once more is the same."""
    return identity("x", profile, session, reached, claim)


class Threads:
    """Progress moves and extractions are added in the transaction that stores what came of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, profile: str, session: str) -> Thread:
        """How a thread stands; one that was never read begins at its first episode."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT folder, reached, read_at FROM threads WHERE profile = ? AND session = ?",
                (profile, session),
            ).fetchone()
        return (
            replace(Thread(profile, session), folder=row[0], reached=row[1], read_at=row[2])
            if row
            else (Thread(profile, session))
        )

    def note(self, tx: Connection, profile: str, session: str, folder: str) -> None:
        """Note the folder a session works in."""
        tx.execute(
            "INSERT INTO threads (profile, session, folder) VALUES (?,?,?)"
            " ON CONFLICT (profile, session) DO UPDATE SET folder = excluded.folder",
            (profile, session, folder),
        )

    def advance(self, tx: Connection, profile: str, session: str, reached: int, at: Instant) -> None:
        """Everything up to episode number `reached` is read; a thread never goes back."""
        tx.execute(
            "INSERT INTO threads (profile, session, reached, read_at) VALUES (?,?,?,?)"
            " ON CONFLICT (profile, session) DO UPDATE SET"
            " reached = max(reached, excluded.reached), read_at = excluded.read_at",
            (profile, session, reached, at),
        )

    def add(self, tx: Connection, extractions: Iterable[Extraction]) -> None:
        """Keep what became of claims; one that is there already stays as it is."""
        for each in extractions:
            cursor = tx.execute(
                "INSERT OR IGNORE INTO extractions"
                " (id, profile, session, kind, what, outcome, reason, memory, at) VALUES (?,?,?,?,?,?,?,?,?)",
                (
                    each.id,
                    each.profile,
                    each.session,
                    each.kind,
                    each.what,
                    each.outcome,
                    each.reason,
                    each.memory,
                    each.at,
                ),
            )
            if cursor.rowcount:
                tx.executemany(
                    "INSERT OR IGNORE INTO extraction_sources (episode, extraction) VALUES (?,?)",
                    [(episode, cursor.lastrowid) for episode in each.episodes],
                )

    def has(self, name: str) -> bool:
        """Whether a claim was settled already."""
        with self._database.read() as connection:
            return bool(connection.execute("SELECT 1 FROM extractions WHERE id = ?", (name,)).fetchone())

    def kept(self, profile: str, session: str) -> int:
        """How many memories a thread has given so far."""
        with self._database.read() as connection:
            (count,) = connection.execute(
                "SELECT count(DISTINCT memory) FROM extractions"
                " WHERE profile = ? AND session = ? AND memory <> '' AND outcome <> 'confirmed'",
                (profile, session),
            ).fetchone()
        return int(count)

    def extractions(self, profile: str, session: str | None = None, most: int = 200) -> list[Extraction]:
        """What became of the claims taken from one thread or from all, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT session, kind, what, outcome, reason, memory, at, id,"
                " (SELECT group_concat(episode) FROM extraction_sources WHERE extraction = seq)"
                " FROM extractions WHERE profile = ?1 AND (?2 IS NULL OR session = ?2)"
                " ORDER BY seq DESC LIMIT ?3",
                (profile, session, most),
            ).fetchall()
        return [
            Extraction(profile, thread, kind, what, outcome, reason, memory, _split(sources), at, name)
            for thread, kind, what, outcome, reason, memory, at, name, sources in rows
        ]

    def written_on_request(self, episodes: Iterable[str]) -> set[str]:
        """Those episodes that are the source of a memory already: what was remembered by a call is known."""
        with self._database.read() as connection:
            return {
                name
                for name in episodes
                if connection.execute("SELECT 1 FROM citations WHERE episode = ?", (name,)).fetchone()
            }


def forget_extractions(tx: Connection, name: str) -> None:
    """Blank the texts of what was taken from an erased episode or became an erased memory."""
    tx.execute(
        "UPDATE extractions SET what = '', reason = '' WHERE memory = :id"
        " OR seq IN (SELECT extraction FROM extraction_sources WHERE episode = :id)",
        {"id": name},
    )


def _split(sources: str | None) -> tuple[str, ...]:
    return tuple(sources.split(",")) if sources else ()
