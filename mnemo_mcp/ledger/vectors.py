"""The embedding cache: a text is embedded once per encoder, whatever is rebuilt later."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from mnemo_mcp.ledger.database import Connection, Database

Stored = tuple[float, bytes]
"""Scale and int8 values of one vector."""


def text_hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Vectors:
    """int8 vectors by encoder id and hash of the text."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, encoder: str, hashes: Iterable[bytes]) -> dict[bytes, Stored]:
        """The vectors there are of the texts with these hashes."""
        with self._database.read() as connection:
            rows = (
                (
                    name,
                    connection.execute(
                        "SELECT scale, bytes FROM vectors WHERE encoder = ? AND hash = ?", (encoder, name)
                    ).fetchone(),
                )
                for name in hashes
            )
            return {name: (row[0], row[1]) for name, row in rows if row is not None}

    def put(self, encoder: str, vectors: Iterable[tuple[bytes, Stored]]) -> None:
        with self._database.write() as tx:
            tx.executemany(
                "INSERT INTO vectors (encoder, hash, scale, bytes) VALUES (?,?,?,?) ON CONFLICT DO NOTHING",
                [(encoder, name, scale, data) for name, (scale, data) in vectors],
            )

    def encoders(self) -> list[str]:
        """The ids of all encoders there are vectors of, without reading the vectors."""
        found: list[str] = []
        with self._database.read() as connection:
            while True:
                row = connection.execute(
                    "SELECT encoder FROM vectors WHERE encoder > ? ORDER BY encoder LIMIT 1",
                    (found[-1] if found else "",),
                ).fetchone()
                if row is None:
                    return found
                found.append(row[0])

    def drop(self, tx: Connection, hashes: Iterable[bytes]) -> None:
        """Forget the vectors of erased texts."""
        tx.executemany("DELETE FROM vectors WHERE hash = ?", [(name,) for name in hashes])
