"""One SQLite file: opening, migrating, and transactions that wait for their turn instead of losing it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from mnemo_mcp.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew
from mnemo_mcp.ledger.schema import MIGRATIONS, SCHEMA_VERSION, TRIGGERS

Connection = sqlite3.Connection
"""An open transaction, handed from the one who began it to the tables that take part."""

BUSY_SECONDS = 5.0  # 6 processes x 150 writes lost none with BEGIN IMMEDIATE and 5 s; 721 of 900 with 0 s


class Database:
    """The file and its connections: one a thread, closed together.

    Raises `StoreTooNew`, `StoreDamaged` or `StoreError` when the file cannot be used; it is then left
    as it was.
    """

    def __init__(self, path: Path, now: datetime, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._local = threading.local()
        self._open: list[Connection] = []
        self._guard = threading.Lock()
        with _translated(path):
            self._prepare(now)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A short writing transaction: all of it is on disk when the block ends, or none of it."""
        with _translated(self.path):
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading; it sees what was committed when each statement begins."""
        with _translated(self.path):
            yield self._connection()

    def check(self) -> list[str]:
        """What is wrong with the file, in words; empty when it is sound."""
        with self.read() as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
            present = {
                row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='trigger'")
            }
        problems = [] if found == ["ok"] else found
        return problems + [f"the trigger {name} is missing" for name in sorted(TRIGGERS - present)]

    def copy_to(self, target: Path) -> None:
        """A consistent copy of the whole file, made while others go on writing."""
        with _translated(self.path), sqlite3.connect(target) as copy:
            target.chmod(0o600)
            self._connection().backup(copy)
        copy.close()

    def truncate_log(self) -> None:
        """Fold the write-ahead log into the file and shorten it to nothing."""
        with self.read() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._guard:
            for connection in self._open:
                connection.close()
            self._open.clear()
        self._local = threading.local()

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
        return connection

    def _connect(self) -> Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        with self._guard:
            self._open.append(connection)
        return connection

    def _prepare(self, now: datetime) -> None:
        version = self._version()
        if version > SCHEMA_VERSION:
            raise StoreTooNew(
                f"{self.path} has schema {version}; this mnemo knows up to {SCHEMA_VERSION}.",
                "Install the newer version of mnemo again; nothing was changed.",
            )
        if 0 < version < SCHEMA_VERSION:
            folder = self.path.parent / "backups"
            folder.mkdir(mode=0o700, exist_ok=True)
            self.copy_to(folder / f"mnemo-schema{version}-{now:%Y%m%dT%H%M%S}.db")
        while version < SCHEMA_VERSION:
            version = self._migrate()

    def _version(self) -> int:
        return int(self._connection().execute("PRAGMA user_version").fetchone()[0])

    def _migrate(self) -> int:
        """One step in one transaction, unless another process took it first; the version after it."""
        with self.write() as connection:
            version = self._version()
            if version < SCHEMA_VERSION:
                for statement in _statements(MIGRATIONS[version]):
                    connection.execute(statement)
                version += 1
                connection.execute(f"PRAGMA user_version={version}")
        return version


def _statements(script: str) -> Iterator[str]:
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours, with what the person can do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _explained(path, error) from error


def _explained(path: Path, error: sqlite3.Error) -> StoreError:
    text = str(error)
    if "locked" in text or "busy" in text:
        return StoreBusy(
            f"{path} is in use by another process.", "Nothing was stored; try again in a moment."
        )
    if "malformed" in text or "not a database" in text:
        return StoreDamaged(
            f"{path} is damaged ({text}).",
            "It was left untouched. Run `mnemo doctor`, or put back a copy from a backup.",
        )
    if "full" in text:
        return StoreError("The disk is full.", "Nothing was stored; free some space and try again.")
    if "readonly" in text or "unable to open" in text:
        return StoreError(
            f"{path} cannot be written ({text}).", "Check the owner and permissions of its folder."
        )
    return StoreError(f"{path}: {text}.", "Run `mnemo doctor`.")
