"""Calls to language models: what was answered, so that none is repeated without need, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant, instant, moment

ANSWER_DAYS = 7  # so long an answer is at hand for the same request
ACCOUNT_DAYS = 400

_OF_ERASED = """
    SELECT call FROM call_sources WHERE source = :id OR source IN
        (SELECT episode FROM citations WHERE memory = :id)
"""


@dataclass(frozen=True, slots=True)
class Spent:
    """The calls of one purpose at one endpoint, and their tokens."""

    purpose: str
    endpoint: str
    calls: int
    tokens_in: int
    tokens_out: int


class Calls:
    """The record of calls. `outcome` is answered, refused (never to be sent again) or failed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def kept(self, request: str) -> tuple[str, str] | None:
        """Outcome and body of what this very request met before."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT outcome, body FROM calls WHERE request = ? AND body <> '' ORDER BY seq DESC LIMIT 1",
                (request,),
            ).fetchone()
        return row and (str(row[0]), str(row[1]))

    def record(
        self,
        request: str,
        purpose: str,
        endpoint: str,
        model: str,
        outcome: str,
        body: str,
        tokens: tuple[int, int],
        at: Instant,
        sources: Sequence[str],
    ) -> None:
        """Enter one call. A `body` is kept for the next time the request is made, with what it rests on."""
        with self._database.write() as tx:
            cursor = tx.execute(
                "INSERT INTO calls (request, purpose, endpoint, model, outcome, body,"
                " tokens_in, tokens_out, at) VALUES (?,?,?,?,?,?,?,?,?)",
                (request, purpose, endpoint, model, outcome, body, *tokens, at),
            )
            if body:
                tx.executemany(
                    "INSERT OR IGNORE INTO call_sources (source, call) VALUES (?,?)",
                    [(source, cursor.lastrowid) for source in sources],
                )

    def spent(self, since: Instant) -> int:
        """Tokens in and out since an instant."""
        with self._database.read() as connection:
            (tokens,) = connection.execute(
                "SELECT coalesce(sum(tokens_in + tokens_out), 0) FROM calls WHERE at >= ?", (since,)
            ).fetchone()
        return int(tokens)

    def account(self, start: Instant, end: Instant) -> list[Spent]:
        """What was spent from `start` until before `end`, by purpose and endpoint."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT purpose, endpoint, count(*), sum(tokens_in), sum(tokens_out) FROM calls"
                " WHERE at >= ? AND at < ? GROUP BY purpose, endpoint ORDER BY purpose, endpoint",
                (start, end),
            ).fetchall()
        return [Spent(*row) for row in rows]

    def purge(self, now: Instant) -> None:
        """Let go of answers nobody will ask for again, and of accounts older than a year."""
        answers, accounts = (
            instant(moment(now) - timedelta(days=days)) for days in (ANSWER_DAYS, ACCOUNT_DAYS)
        )
        with self._database.read() as connection:
            outlived = connection.execute(
                "SELECT 1 FROM calls WHERE (body <> '' AND at < ?) OR at < ? LIMIT 1", (answers, accounts)
            ).fetchone()
        if not outlived:
            return
        with self._database.write() as tx:
            _blank(tx, "SELECT seq FROM calls WHERE body <> '' AND at < :at", {"at": answers})
            tx.execute("DELETE FROM calls WHERE at < ?", (accounts,))

    def forget_refusals(self, endpoint: str) -> None:
        """Let requests that were refused be sent again: the server may have been mended."""
        with self._database.write() as tx:
            tx.execute("UPDATE calls SET body = '' WHERE endpoint = ? AND outcome = 'refused'", (endpoint,))


def forget_calls(tx: Connection, name: str) -> None:
    """Blank every answer that rests on an erased memory, on its episodes, or on an erased episode."""
    _blank(tx, _OF_ERASED, {"id": name})


def _blank(tx: Connection, calls: str, values: dict[str, str]) -> None:
    chosen = tx.execute(calls, values).fetchall()
    tx.executemany("UPDATE calls SET body = '' WHERE seq = ?", chosen)
    tx.executemany("DELETE FROM call_sources WHERE call = ?", chosen)
