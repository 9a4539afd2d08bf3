"""Sessions that a person has declared private."""

from __future__ import annotations

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant


class PrivateSessions:
    """Which sessions are private, and since when."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tx: Connection, profile: str, session: str, since: Instant) -> None:
        tx.execute(
            "INSERT INTO private_sessions (profile, session, since) VALUES (?,?,?) ON CONFLICT DO NOTHING",
            (profile, session, since),
        )

    def remove(self, tx: Connection, profile: str, session: str) -> None:
        tx.execute("DELETE FROM private_sessions WHERE profile = ? AND session = ?", (profile, session))

    def has(self, profile: str, session: str) -> bool:
        with self._database.read() as connection:
            found = connection.execute(
                "SELECT 1 FROM private_sessions WHERE profile = ? AND session = ?", (profile, session)
            )
            return found.fetchone() is not None
