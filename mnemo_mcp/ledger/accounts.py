"""Accounts of what was said unasked: sessions, injections, what each session has been shown, standing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant, Standing

_LISTS = ("misses", "door_misses")
_STANDING = ("memory", "profile", "keep", "uses", "last_used", "muted_at", "door_muted_at", *_LISTS)


@dataclass(frozen=True, slots=True)
class Injection:
    """One block handed to an agent, or one silence and its reason. `tokens` counts the rendered block.

    `detail` says what the choice stood on: ranks and scores by id, what was withheld and why, at the door
    the client's word for how the session began.
    """

    profile: str
    session: str
    moment: str
    at: Instant
    prompt: str
    tokens: int
    memories: tuple[str, ...]
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """A stretch of a session that an agent still has before it: what was recorded in it need not be told."""

    session: str
    since: Instant
    until: Instant


@dataclass(frozen=True, slots=True)
class Session:
    """A client's session. `parent` is the one whose context it goes on from, with `inherited` tokens."""

    session: str
    client: str
    project: str
    opened_at: Instant
    ended_at: Instant | None
    parent: str
    inherited: int


class Accounts:
    """What hooks have shown, and what is derived about memories."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open_session(
        self, tx: Connection, profile: str, session: str, client: str, project: str, at: Instant
    ) -> bool:
        """Note a session; whether it was not known."""
        return bool(
            tx.execute(
                "INSERT INTO sessions (profile, session, client, project, opened_at) VALUES (?,?,?,?,?)"
                " ON CONFLICT DO NOTHING",
                (profile, session, client, project, at),
            ).rowcount
        )

    def answered_between(
        self, tx: Connection, profile: str, client: str, project: str, since: Instant, until: Instant
    ) -> list[str]:
        """The sessions of a project whose last answer came in a stretch of time."""
        rows = tx.execute(
            "SELECT t.session FROM turns t JOIN sessions s ON s.profile = t.profile AND s.session = t.session"
            " WHERE t.profile = ? AND s.client = ? AND s.project = ?"
            " GROUP BY t.session HAVING max(t.at) BETWEEN ? AND ? ORDER BY t.session",
            (profile, client, project, since, until),
        )
        return [row[0] for row in rows]

    def fork(self, tx: Connection, profile: str, session: str, parent: str) -> None:
        """A session goes on from another one's context: it was shown what that was, and has spent as much."""
        tx.execute(
            "INSERT INTO shown (profile, session, memory, injection)"
            " SELECT profile, ?, memory, injection FROM shown WHERE profile = ? AND session = ?"
            " ON CONFLICT DO NOTHING",
            (session, profile, parent),
        )
        tx.execute(
            "UPDATE sessions SET parent = ?, inherited = ? WHERE profile = ? AND session = ?",
            (parent, self.spent(tx, profile, parent), profile, session),
        )

    def lose_context(self, tx: Connection, profile: str, session: str, at: Instant) -> None:
        """The session lost its context: what it was shown or said itself may be told again."""
        tx.execute("DELETE FROM shown WHERE profile = ? AND session = ?", (profile, session))
        tx.execute(
            "UPDATE sessions SET context_since = ? WHERE profile = ? AND session = ?", (at, profile, session)
        )

    def begin_anew(self, tx: Connection, profile: str, session: str, at: Instant) -> None:
        """The session is another one under the same name: its account begins at nothing, too."""
        self.lose_context(tx, profile, session, at)
        tx.execute(
            "UPDATE sessions SET parent = '', inherited = 0,"
            " counted_from = (SELECT coalesce(max(seq), 0) FROM injections)"
            " WHERE profile = ? AND session = ?",
            (profile, session),
        )

    def end_session(self, tx: Connection, profile: str, session: str, at: Instant | None) -> None:
        """Note that a session ended, or with None that it goes on."""
        tx.execute(
            "UPDATE sessions SET ended_at = ? WHERE profile = ? AND session = ?", (at, profile, session)
        )

    def ended(self, tx: Connection, profile: str, session: str) -> tuple[bool, Instant]:
        """Whether a session has ended, and when it last lost its context ("" for never)."""
        row = tx.execute(
            "SELECT ended_at IS NOT NULL, context_since FROM sessions WHERE profile = ? AND session = ?",
            (profile, session),
        ).fetchone()
        return (bool(row[0]), str(row[1])) if row else (False, "")

    def heard(self, tx: Connection, profile: str, session: str) -> list[Heard]:
        """What a session's context holds of itself and of the sessions it goes on from."""
        found: list[Heard] = []
        until = "9"
        while session and session not in {each.session for each in found}:
            row = tx.execute(
                "SELECT context_since, opened_at, parent FROM sessions WHERE profile = ? AND session = ?",
                (profile, session),
            ).fetchone()
            since, opened, parent = row or ("", "", "")
            found.append(Heard(session, since, until))
            session, until = ("" if since else parent), opened
        return found

    def shown(self, tx: Connection, profile: str, session: str) -> set[str]:
        """Ids of the memories this session still has in its context."""
        rows = tx.execute("SELECT memory FROM shown WHERE profile = ? AND session = ?", (profile, session))
        return {row[0] for row in rows}

    def spent(self, tx: Connection, profile: str, session: str) -> int:
        """Tokens injected into this session so far, and before it into the one it goes on from."""
        row = tx.execute(
            "SELECT inherited, counted_from FROM sessions WHERE profile = ? AND session = ?",
            (profile, session),
        ).fetchone()
        inherited, counted_from = row or (0, 0)
        own = tx.execute(
            "SELECT coalesce(sum(tokens), 0) FROM injections WHERE profile = ? AND session = ? AND seq > ?",
            (profile, session, counted_from),
        ).fetchone()[0]
        return int(inherited) + int(own)

    def record(self, tx: Connection, injection: Injection) -> None:
        """Note an injection or a silence; the memories it showed count as shown, and wait for a verdict."""
        cursor = tx.execute(
            "INSERT INTO injections (profile, session, moment, at, prompt, tokens, memories, reason, detail)"
            " VALUES (?,?,?,?,?,?,?,?,?)",
            (
                injection.profile,
                injection.session,
                injection.moment,
                injection.at,
                injection.prompt,
                injection.tokens,
                json.dumps(injection.memories),
                injection.reason,
                json.dumps(injection.detail),
            ),
        )
        tx.executemany(
            "INSERT INTO exposures (injection, memory, profile, session, at) VALUES (?,?,?,?,?)",
            [
                (cursor.lastrowid, memory, injection.profile, injection.session, injection.at)
                for memory in injection.memories
            ],
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
                "SELECT profile, session, moment, at, prompt, tokens, memories, reason, detail, seq"
                " FROM injections WHERE profile = ?1 AND (?2 IS NULL OR session = ?2)"
                " ORDER BY seq DESC LIMIT ?3",
                (profile, of_session, most),
            ).fetchall()
        return [
            Injection(
                wall,
                session,
                when,
                at,
                prompt,
                tokens,
                memories=tuple(json.loads(memories)),
                reason=reason,
                detail=json.loads(detail),
                seq=seq,
            )
            for wall, session, when, at, prompt, tokens, memories, reason, detail, seq in rows
        ]

    def sessions(self, profile: str, beginning: str) -> list[Session]:
        """The sessions whose name begins so, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT session, client, project, opened_at, ended_at, parent, inherited FROM sessions"
                " WHERE profile = ? AND substr(session, 1, length(?)) = ? ORDER BY opened_at, session",
                (profile, beginning, beginning),
            ).fetchall()
        return [Session(*row) for row in rows]

    def latest_session(self, profile: str) -> str:
        """The session in which something was said or kept silent last; "" for none."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT session FROM injections WHERE profile = ? ORDER BY seq DESC LIMIT 1", (profile,)
            ).fetchone()
        return str(row[0]) if row else ""

    def muted(self, tx: Connection, profile: str, *, door: bool = False) -> set[str]:
        """Ids of the memories that hooks show no more: for prompts, or at the `door` as well."""
        muted = "(muted_at IS NOT NULL OR door_muted_at IS NOT NULL)" if door else "muted_at IS NOT NULL"
        rows = tx.execute(
            f"SELECT memory FROM standing WHERE profile = ? AND NOT keep AND {muted}", (profile,)
        )
        return {row[0] for row in rows}

    def set_keep(self, tx: Connection, profile: str, memory: str, on: bool) -> None:
        """A person's word for or against keeping a memory; either way what was counted against it is void."""
        tx.execute(
            "INSERT INTO standing (memory, profile, keep) VALUES (?,?,?) ON CONFLICT (memory)"
            " DO UPDATE SET keep = excluded.keep, muted_at = NULL, misses = '[]',"
            " door_muted_at = NULL, door_misses = '[]'",
            (memory, profile, int(on)),
        )

    def standing(self, memories: Iterable[str]) -> dict[str, Standing]:
        """The standing of those memories that have one."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT memory, keep, uses, last_used, json_array_length(door_misses) FROM standing"
                " WHERE memory IN (SELECT value FROM json_each(?))",
                (json.dumps(list(memories)),),
            ).fetchall()
        return {row[0]: Standing(bool(row[1]), *row[2:]) for row in rows}

    def valued(self, profile: str) -> list[str]:
        """The ids of the memories that a person keeps or that were used."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT memory FROM standing WHERE profile = ? AND (keep OR uses > 0) ORDER BY memory",
                (profile,),
            ).fetchall()
        return [row[0] for row in rows]

    def marked(self) -> list[dict[str, object]]:
        """What stands of every memory that was kept, used or missed."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {', '.join(_STANDING)} FROM standing ORDER BY memory"
            ).fetchall()
        return [
            {
                name: bool(value) if name == "keep" else json.loads(value) if name in _LISTS else value
                for name, value in zip(_STANDING, row, strict=True)
            }
            for row in rows
        ]

    def take_in(self, tx: Connection, given: Mapping[str, Any]) -> None:
        """Take in what `marked` gave; a memory that has a standing here keeps its own counts."""
        defaults = {**dict.fromkeys(_STANDING), **dict.fromkeys(_LISTS, ()), "uses": 0}
        known = {name: given.get(name, default) for name, default in defaults.items()}
        known |= {"memory": given["memory"], "profile": given["profile"], "keep": int(bool(given["keep"]))}
        tx.execute(
            f"INSERT INTO standing ({', '.join(_STANDING)}) VALUES ({','.join('?' * len(_STANDING))})"
            " ON CONFLICT (memory) DO UPDATE SET keep = excluded.keep",
            [json.dumps(known[name]) if name in _LISTS else known[name] for name in _STANDING],
        )
