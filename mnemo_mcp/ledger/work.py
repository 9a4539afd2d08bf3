"""The work queue on disk: what is still to be done, since when, and what went wrong last time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mnemo_mcp.errors import EndpointError, MnemoError
from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant, instant, moment

JUDGE, CONSOLIDATE = "judge", "consolidate"
RECENT, ALL = "recent", "all"
"""Subjects of `consolidate`: what is new, and everything."""

CLAIM_SECONDS = 1_800.0  # longer than any one task; a claim of a process that is gone ends before, at start
FIRST_PAUSE_SECONDS = 60.0
MOST_PAUSE_SECONDS = 1_800.0
MOST_TRIES = 10  # within some three hours; after them a task is stuck and tried once a day
STUCK_SECONDS = 86_400.0

_COLUMNS = "seq, kind, profile, subject, due_at, attempts, asked, last_error, error_kind, claimed_until"


@dataclass(frozen=True, slots=True)
class Task:
    """One task as it was taken. `attempts` counts this one."""

    seq: int
    kind: str
    profile: str
    subject: str
    due_at: Instant
    attempts: int
    asked: int
    last_error: str
    error_kind: str
    claimed_until: Instant


@dataclass(frozen=True, slots=True)
class Queue:
    """How the tasks of one kind stand; `error` and `next_try` are of the one tried next after a failure."""

    kind: str
    waiting: int
    running: int
    stuck: int
    next_try: Instant
    error: str
    error_kind: str


class Work:
    """Tasks on disk. One a kind and subject, however often it is asked for; it vanishes only when done."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tx: Connection, kind: str, profile: str, subject: str, due_at: Instant) -> None:
        """Ask for a task, or move the one there is to `due_at`; one that failed is not hurried by it."""
        tx.execute(
            "INSERT INTO work (kind, profile, subject, due_at) VALUES (?,?,?,?)"
            " ON CONFLICT (kind, profile, subject) DO UPDATE SET asked = asked + 1, due_at ="
            " iif(error_kind = '', excluded.due_at, max(due_at, excluded.due_at))",
            (kind, profile, subject, due_at),
        )

    def due(self, kind: str, now: Instant) -> int:
        """How many tasks of a kind can be taken."""
        with self._database.read() as connection:
            (count,) = connection.execute(
                "SELECT count(*) FROM work WHERE kind = ? AND due_at <= ? AND claimed_until <= ?",
                (kind, now, now),
            ).fetchone()
        return int(count)

    def take(self, kind: str, now: Instant, claim_seconds: float = CLAIM_SECONDS) -> Task | None:
        """The task of a kind that has waited longest, claimed for so long, or None."""
        if not self.due(kind, now):
            return None  # the usual answer, and it locks nobody out
        until = _after(now, claim_seconds)
        with self._database.write() as tx:
            row = tx.execute(
                f"UPDATE work SET claimed_until = ?, attempts = attempts + 1 WHERE seq = ("
                " SELECT seq FROM work WHERE kind = ? AND due_at <= ? AND claimed_until <= ?"
                f" ORDER BY due_at, seq LIMIT 1) RETURNING {_COLUMNS}",
                (until, kind, now, now),
            ).fetchone()
        return Task(*row) if row else None

    def done(self, tx: Connection, task: Task, now: Instant) -> None:
        """The task is done, in the transaction that holds what came of it.

        One asked for again meanwhile stays. Others of its kind that wait for an endpoint need wait no more.
        """
        gone = tx.execute("DELETE FROM work WHERE seq = ? AND asked = ?", (task.seq, task.asked))
        if not gone.rowcount:
            tx.execute(
                "UPDATE work SET claimed_until = '', attempts = 0, last_error = '', error_kind = ''"
                " WHERE seq = ?",
                (task.seq,),
            )
        if task.error_kind:
            tx.execute(
                "UPDATE work SET due_at = min(due_at, ?)"
                " WHERE kind = ? AND error_kind <> '' AND attempts < ?",
                (now, task.kind, MOST_TRIES),
            )

    def failed(self, task: Task, error: MnemoError, now: Instant, chance: float) -> None:
        """Put a task back with what went wrong; it is tried later, after so many tries much later.

        `chance`, from 0 to 1, spreads the pauses. Where the endpoint was not given the work at all, the
        try does not count.
        """
        attempts = task.attempts
        if isinstance(error, EndpointError) and not error.asked:
            attempts -= 1
            pause = error.retry_seconds or FIRST_PAUSE_SECONDS
        else:
            pause = _pause(attempts, chance)
        kind = error.kind if isinstance(error, EndpointError) else type(error).__name__
        with self._database.write() as tx:
            tx.execute(
                "UPDATE work SET claimed_until = '', attempts = ?, last_error = ?, error_kind = ?, due_at = ?"
                " WHERE seq = ? AND claimed_until = ?",
                (attempts, str(error), kind, _after(now, pause), task.seq, task.claimed_until),
            )

    def recover(self, now: Instant) -> int:
        """Take back the tasks of a process that is gone; how many. For the new owner of the folder.

        One that was running when its process ended often enough waits as if it had failed by itself.
        """
        with self._database.read() as connection:
            if not connection.execute("SELECT 1 FROM work WHERE claimed_until <> '' LIMIT 1").fetchone():
                return 0
        error = "The process ended while this task ran."
        with self._database.write() as tx:
            taken = tx.execute(
                "UPDATE work SET claimed_until = '', last_error = ?, error_kind = 'crash',"
                " due_at = iif(attempts >= ?, max(due_at, ?), due_at) WHERE claimed_until <> ''",
                (error, MOST_TRIES, _after(now, STUCK_SECONDS)),
            )
            return taken.rowcount

    def revive(self, now: Instant) -> None:
        """Let everything that failed be tried anew at once: what stood in its way was mended."""
        with self._database.write() as tx:
            tx.execute(
                "UPDATE work SET due_at = min(due_at, ?), attempts = 0 WHERE error_kind <> ''"
                " AND claimed_until = ''",
                (now,),
            )

    def waiting(self) -> dict[str, int]:
        """How many tasks of each kind there are."""
        with self._database.read() as connection:
            return dict(connection.execute("SELECT kind, count(*) FROM work GROUP BY kind").fetchall())

    def queues(self, now: Instant) -> list[Queue]:
        """How the tasks of each kind stand."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT kind, sum(claimed_until <= :now AND NOT (attempts >= :most AND error_kind <> '')),"
                " sum(claimed_until > :now),"
                " sum(claimed_until <= :now AND attempts >= :most AND error_kind <> '')"
                " FROM work GROUP BY kind ORDER BY kind",
                {"now": now, "most": MOST_TRIES},
            ).fetchall()
            failing = {
                kind: rest
                for kind, *rest in connection.execute(
                    "SELECT kind, due_at, last_error, error_kind FROM work WHERE error_kind <> ''"
                    " ORDER BY due_at DESC"
                )
            }
        return [Queue(*row, *failing.get(row[0], ("", "", ""))) for row in rows]


def _pause(attempts: int, chance: float) -> float:
    if attempts >= MOST_TRIES:
        return STUCK_SECONDS
    pause = min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1))
    return float(pause * (1.0 - chance / 3.0))


def _after(now: Instant, seconds: float) -> Instant:
    return instant(moment(now) + timedelta(seconds=seconds))
