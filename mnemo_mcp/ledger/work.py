"""The work queue on disk: what is still to be done, since when, and what went wrong last time."""

from __future__ import annotations

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant


class Work:
    """Adding and counting tasks. One task a kind and subject, however often it is asked for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tx: Connection, kind: str, profile: str, subject: str, due_at: Instant) -> None:
        """Ask for a task, or move the one there is to `due_at`."""
        tx.execute(
            "INSERT INTO work (kind, profile, subject, due_at) VALUES (?,?,?,?)"
            " ON CONFLICT (kind, profile, subject) DO UPDATE SET due_at = excluded.due_at",
            (kind, profile, subject, due_at),
        )

    def waiting(self) -> dict[str, int]:
        """How many tasks of each kind wait."""
        with self._database.read() as connection:
            return dict(connection.execute("SELECT kind, count(*) FROM work GROUP BY kind").fetchall())
