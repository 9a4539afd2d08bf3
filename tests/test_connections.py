"""The store's connections: one a thread, and none outlives its thread or the store."""

from __future__ import annotations

import gc
import threading
from datetime import UTC, datetime
from pathlib import Path

from mnemo_mcp.ledger.database import Database


def open_files() -> int:
    gc.collect()
    return len(list(Path("/dev/fd").iterdir()))


def in_threads(database: Database, number: int) -> None:
    """Read and write in so many threads at once, and see them end."""
    together = threading.Barrier(number)

    def work() -> None:
        together.wait(10)
        with database.write() as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS marks (mark)")
        with database.read() as connection:
            connection.execute("SELECT * FROM marks").fetchall()

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)


def test_connection_ends_with_its_thread(tmp_path: Path) -> None:
    database = Database(tmp_path / "mnemo.db", datetime.now(UTC))
    in_threads(database, 20)
    before = open_files()  # SQLite keeps these for connections to come, while it holds a lock on the file
    in_threads(database, 20)
    assert open_files() <= before
    with database.write() as connection:
        connection.execute("INSERT INTO marks VALUES (1)")
    database.close()


def test_closing_the_store_closes_them_all(tmp_path: Path) -> None:
    before = open_files()
    database = Database(tmp_path / "mnemo.db", datetime.now(UTC))
    staying, served = threading.Event(), threading.Event()

    def stay() -> None:
        with database.read() as connection:
            connection.execute("SELECT 1").fetchone()
        served.set()
        staying.wait(30)

    thread = threading.Thread(target=stay)
    thread.start()
    assert served.wait(30)
    database.close()
    assert open_files() <= before
    staying.set()
    thread.join(30)
