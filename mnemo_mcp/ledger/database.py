"""One SQLite file: opening, migrating, and transactions that wait for their turn instead of losing it."""

from __future__ import annotations

import logging
import sqlite3
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from mnemo_mcp import __version__
from mnemo_mcp.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew
from mnemo_mcp.ledger.schema import MIGRATIONS, TRIGGERS
from mnemo_mcp.memory import instant

_log = logging.getLogger("mnemo")

Connection = sqlite3.Connection
"""An open transaction, handed from the one who began it to the tables that take part."""

BUSY_SECONDS = 5.0  # 6 processes x 150 writes lost none with BEGIN IMMEDIATE and 5 s; 721 of 900 with 0 s


_FAREWELL_SECONDS = 5.0  # for a thread that is in the middle of something when all is closed


class _Users:
    """Which threads are reading or writing: a connection closed under one of them takes the process along."""

    def __init__(self) -> None:
        self._inside: Counter[int] = Counter()
        self._left = threading.Condition(threading.RLock())

    @contextmanager
    def inside(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self._left:
            self._inside[thread] += 1
        try:
            yield
        finally:
            with self._left:
                self._inside[thread] -= 1
                if not self._inside[thread]:
                    del self._inside[thread]
                    self._left.notify_all()

    @contextmanager
    def kept_out(self) -> Iterator[frozenset[int]]:
        """Nobody enters meanwhile; the threads that would not leave in time."""
        own = {threading.get_ident()}
        with self._left:
            self._left.wait_for(lambda: not self._inside.keys() - own, _FAREWELL_SECONDS)
            yield frozenset(self._inside.keys() - own)


class Database:
    """The file and its connections: one a thread, closed with it, and all of them together at the end.

    Raises `StoreTooNew`, `StoreDamaged` or `StoreError` when the file cannot be used; it is then left
    as it was.
    """

    def __init__(
        self,
        path: Path,
        now: datetime,
        busy_seconds: float = BUSY_SECONDS,
        migrations: Sequence[str] = MIGRATIONS,
    ) -> None:
        """`migrations` lead, one after the other, from an empty file to the schema in use."""
        self.path = path
        self._busy_seconds = busy_seconds
        self._migrations = migrations
        self._local = threading.local()
        self._users = _Users()
        self._closers: list[tuple[int, weakref.finalize[[], threading.Thread]]] = []
        self._guard = threading.Lock()
        self._commits = 0
        self._damage: StoreDamaged | None = None
        try:
            with self._translated():
                _make_private(path)
                self._prepare(now)
        except StoreError:
            self.close()
            raise

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A short writing transaction: all of it is on disk when the block ends, or none of it.

        Once the file has been seen to be damaged nothing more is written to it.
        """
        with self._translated(), self._users.inside():
            if self._damage is not None:
                raise self._damage
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.commit()
                with self._guard:
                    self._commits += 1
            finally:
                if connection.in_transaction:  # it broke off, or could not be committed
                    connection.rollback()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading; it sees what was committed when each statement begins."""
        with self._translated(), self._users.inside():
            yield self._connection()

    @property
    def commits(self) -> int:
        """How many transactions this process has committed; the one owner of a store writes all of them."""
        return self._commits

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
        """A consistent copy of the whole file as it was committed, made while others go on writing."""
        with (
            self._translated(),
            closing(self._looking()) as source,  # SQLite waits for ever for a source that is being changed
            closing(sqlite3.connect(target)) as copy,
        ):
            target.chmod(0o600)
            source.backup(copy)

    def truncate_log(self) -> None:
        """Fold the write-ahead log into the file and shorten it to nothing."""
        with self.read() as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        with self._users.kept_out() as busy, self._guard:
            for thread, close in self._closers:
                if thread in busy:
                    close.atexit = False
                else:
                    close()
            self._closers.clear()
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
        close = weakref.finalize(threading.current_thread(), connection.close)
        with self._guard:
            alive = [each for each in self._closers if each[1].alive]
            self._closers = [*alive, (threading.get_ident(), close)]
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    def _prepare(self, now: datetime) -> None:
        """Bring the file to the schema in use, in one transaction; who comes second finds it done."""
        wanted = len(self._migrations)
        with closing(self._looking()) as connection:
            if self._version(connection) == wanted:
                return
        with self.write() as connection:
            version = self._version(connection)
            if version == wanted:
                return
            if version:
                _log.warning("%s goes from schema %d to %d", self.path, version, wanted)
                _log.warning("as it was it is in %s", self._kept(version, now))
            for step in self._migrations[version:]:
                for statement in _statements(step):
                    connection.execute(statement)
            made = (wanted, __version__, instant(now))
            connection.execute("INSERT INTO upgrades (schema, version, at) VALUES (?,?,?)", made)
            connection.execute(f"PRAGMA user_version={wanted}")

    def _looking(self) -> Connection:
        """A connection that writes nothing; one that could would fold in what a log left behind."""
        mode = "ro" if _holds_something(self.path.with_name(f"{self.path.name}-wal")) else "rw"
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}", uri=True, timeout=self._busy_seconds
        )

    def _version(self, connection: Connection) -> int:
        """The schema of the file. Raises `StoreTooNew` for one that this mnemo does not know."""
        version, known = int(connection.execute("PRAGMA user_version").fetchone()[0]), len(self._migrations)
        if version > known:
            raise StoreTooNew(
                f"{self.path} has schema {version}; this mnemo ({__version__}) knows up to {known}.",
                f"Install {_maker(connection, version)}; nothing was changed.",
            )
        return version

    def _kept(self, version: int, now: datetime) -> Path:
        """Where a copy of the store as it is now lies; one that was broken off is no copy."""
        folder = self.path.parent / "backups"
        unfinished, copy = folder / "unfinished.db", folder / f"mnemo-schema{version}-{now:%Y%m%dT%H%M%S}.db"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            for left in folder.glob("unfinished.db*"):
                left.unlink()
            self.copy_to(unfinished)
            unfinished.replace(copy)
        except OSError as error:
            raise StoreError(
                f"The store cannot be copied to {folder} before it is changed ({error.strerror}).",
                "Nothing was changed; see to that folder, and try again.",
            ) from error
        return copy

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors as ours, with what the person can do."""
        try:
            yield
        except sqlite3.Error as error:
            explained = _explained(self.path, error)
            if isinstance(explained, StoreDamaged):
                self._damage = explained
            raise explained from error


def _make_private(path: Path) -> None:
    """Make the file before SQLite does, which would let the umask decide; its companions take after it.

    One that is there is not opened: closing it again would drop the locks this process has on it.
    Raises `StoreError` for a folder in its place, of which SQLite only says that it cannot be opened.
    """
    with suppress(OSError):  # what keeps it from being made, SQLite tells as well
        if path.is_dir():
            raise StoreError(f"{path} is a folder.", "Move it away: mnemo keeps its memories in that place.")
        if not path.exists():
            path.touch(mode=0o600)


def _holds_something(file: Path) -> bool:
    with suppress(OSError):
        return file.stat().st_size > 0
    return False


def _statements(script: str) -> Iterator[str]:
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending


def _maker(connection: Connection, version: int) -> str:
    """The mnemo that brought a store to a schema, as one is told to install it."""
    try:
        made = connection.execute("SELECT version FROM upgrades WHERE schema = ?", (version,)).fetchone()
    except sqlite3.OperationalError:  # a later schema may do without that table
        made = None
    return f"mnemo {made[0]} or a newer version" if made else "the newer version of mnemo again"


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
    if "full" in text or getattr(error, "sqlite_errorname", "") == "SQLITE_IOERR_SHMSIZE":
        return StoreError("The disk is full.", "Nothing was stored; free some space and try again.")
    if "readonly" in text or "unable to open" in text:
        return StoreError(
            f"{path} cannot be written ({text}).", "Check the owner and permissions of its folder."
        )
    return StoreError(f"{path}: {text}.", "Run `mnemo doctor`.")
