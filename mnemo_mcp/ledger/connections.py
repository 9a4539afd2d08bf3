"""Connections between memories that lie near each other in meaning: standing, derived, never in the ledger.

Each is stored once, its ends in sorted order. It fades while nobody uses its two memories together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import combinations
from math import exp

from mnemo_mcp.ledger.database import Connection, Database
from mnemo_mcp.memory import Instant, instant, moment

STRENGTHENED = 0.05
"""Added where two memories are used together, up to 1."""

_IDLE_DAYS = 30.0  # so long a connection keeps its weight
_FADING = 0.01  # and then loses by e^(-0.01 x idle days)
_GONE = 0.05


class Connections:
    """Pairs of memories with a weight of 0..1."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, tx: Connection, profile: str, pairs: Iterable[tuple[str, str, float]], at: Instant) -> None:
        """Connect memories; a pair that is connected stays as it is."""
        tx.executemany(
            "INSERT INTO connections (one, other, profile, weight, touched_at) VALUES (?,?,?,?,?)"
            " ON CONFLICT DO NOTHING",
            [(*sorted((one, other)), profile, round(weight, 4), at) for one, other, weight in pairs],
        )

    def strengthen(self, tx: Connection, memories: Iterable[str], at: Instant) -> None:
        """These were used together: the connections among them grow, from what is left of them."""
        for one, other in combinations(sorted(set(memories)), 2):
            row = tx.execute(
                "SELECT weight, touched_at FROM connections WHERE one = ? AND other = ?", (one, other)
            ).fetchone()
            if row is not None:
                weight = min(1.0, faded(row[0], row[1], at) + STRENGTHENED)
                tx.execute(
                    "UPDATE connections SET weight = ?, touched_at = max(touched_at, ?)"
                    " WHERE one = ? AND other = ?",
                    (round(weight, 4), at, one, other),
                )

    def all(self, profile: str, now: Instant) -> Iterator[tuple[str, str, float]]:
        """Every connection of a profile with the weight that is left of it."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT one, other, weight, touched_at FROM connections WHERE profile = ?", (profile,)
            ).fetchall()
        for one, other, weight, touched in rows:
            if (left := faded(weight, touched, now)) >= _GONE:
                yield one, other, left

    def prune(self, now: Instant) -> int:
        """Forget the connections of which nothing is left; how many those were."""
        idle = instant(moment(now) - timedelta(days=_IDLE_DAYS))
        with self._database.read() as connection:
            fading = connection.execute(
                "SELECT one, other, weight, touched_at FROM connections WHERE touched_at < ?", (idle,)
            )
            gone = [(one, other, at) for one, other, weight, at in fading if faded(weight, at, now) < _GONE]
        if gone:
            with self._database.write() as tx:  # unless they were used together just now
                tx.executemany("DELETE FROM connections WHERE one = ? AND other = ? AND touched_at = ?", gone)
        return len(gone)

    def remove(self, tx: Connection, memory: str) -> None:
        """Take away every connection of a memory that was erased."""
        tx.execute("DELETE FROM connections WHERE one = ?1 OR other = ?1", (memory,))


def faded(weight: float, touched: Instant, now: Instant) -> float:
    """What is left of a weight; a clock set back takes nothing away."""
    idle = (moment(now) - moment(touched)).total_seconds() / 86_400
    return weight * exp(-_FADING * idle) if idle >= _IDLE_DAYS else weight
