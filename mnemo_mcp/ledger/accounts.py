"""Accounts of what was said unasked: sessions, injections, what each session has been shown, standing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant, Standing


@dataclass(frozen=True, slots=True)
class Injection:
    """One block handed to an agent, or one silence and its reason. `tokens` counts the rendered block."""

    profile: str
    session: str
    moment: str
    at: Instant
    prompt: str
    tokens: int
    memories: tuple[str, ...]
    reason: str


class Accounts:
    """What hooks have shown, and what is derived about memories."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_session(
        self, tx: Connection, profile: str, session: str, client: str, project: str, at: Instant
    ) -> None:
        tx.execute(
            "INSERT INTO sessions (profile, session, client, project, opened_at) VALUES (?,?,?,?,?)"
            " ON CONFLICT DO NOTHING",
            (profile, session, client, project, at),
        )

    def shown(self, tx: Connection, profile: str, session: str) -> set[str]:
        """Ids of the memories this session still has in its context."""
        rows = tx.execute("SELECT memory FROM shown WHERE profile = ? AND session = ?", (profile, session))
        return {row[0] for row in rows}

    def forget_shown(self, tx: Connection, profile: str, session: str) -> None:
        """The session lost its context: what it was shown may be shown again."""
        tx.execute("DELETE FROM shown WHERE profile = ? AND session = ?", (profile, session))

    def spent(self, tx: Connection, profile: str, session: str) -> int:
        """Tokens injected into this session so far."""
        return int(
            tx.execute(
                "SELECT coalesce(sum(tokens), 0) FROM injections WHERE profile = ? AND session = ?",
                (profile, session),
            ).fetchone()[0]
        )

    def record(self, tx: Connection, injection: Injection) -> None:
        """Note an injection or a silence; the memories it showed count as shown."""
        cursor = tx.execute(
            "INSERT INTO injections (profile, session, moment, at, prompt, tokens, memories, reason)"
            " VALUES (?,?,?,?,?,?,?,?)",
            (
                injection.profile,
                injection.session,
                injection.moment,
                injection.at,
                injection.prompt,
                injection.tokens,
                json.dumps(injection.memories),
                injection.reason,
            ),
        )
        tx.executemany(
            "INSERT INTO shown (profile, session, memory, injection) VALUES (?,?,?,?)",
            [
                (injection.profile, injection.session, memory, cursor.lastrowid)
                for memory in injection.memories
            ],
        )

    def injections(self, profile: str, of_session: str | None = None, most: int = 100) -> list[Injection]:
        """The latest injections and silences, newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT profile, session, moment, at, prompt, tokens, memories, reason FROM injections"
                " WHERE profile = ?1 AND (?2 IS NULL OR session = ?2) ORDER BY seq DESC LIMIT ?3",
                (profile, of_session, most),
            ).fetchall()
        return [
            Injection(profile, session, moment, at, prompt, tokens, tuple(json.loads(memories)), reason)
            for profile, session, moment, at, prompt, tokens, memories, reason in rows
        ]

    def set_keep(self, tx: Connection, profile: str, memory: str, on: bool) -> None:
        tx.execute(
            "INSERT INTO standing (memory, profile, keep) VALUES (?,?,?)"
            " ON CONFLICT (memory) DO UPDATE SET keep = excluded.keep",
            (memory, profile, int(on)),
        )

    def standing(self, memories: Iterable[str]) -> dict[str, Standing]:
        """The standing of those memories that have one."""
        with self._database.read() as connection:
            rows = [
                connection.execute(
                    "SELECT memory, keep, uses, last_used FROM standing WHERE memory = ?", (memory,)
                ).fetchone()
                for memory in memories
            ]
        return {row[0]: Standing(bool(row[1]), row[2], row[3]) for row in rows if row is not None}

    def marked(self) -> list[dict[str, object]]:
        """What people marked: every memory that is or was kept."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT memory, profile, keep FROM standing ORDER BY memory").fetchall()
        return [{"memory": memory, "profile": profile, "keep": bool(keep)} for memory, profile, keep in rows]
