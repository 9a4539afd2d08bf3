"""A damaged store: search tables are made anew, a ledger that is not sound is not written to."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import pytest
from product import EVENTS, ROOT, Product, Stdio, until
from storing import answer, claim, payload, quiet, rows

from mnemo_mcp.errors import StoreError
from mnemo_mcp.ledger.database import Database
from mnemo_mcp.ledger.schema import MIGRATIONS
from mnemo_mcp.times import system_clock

# search tables are a copy


def garbled(file: Path) -> None:
    file.write_bytes(bytes(reversed(file.read_bytes())) or b"x")


def newest(folder: Path) -> Path:
    return max(
        (each for each in folder.iterdir() if each.is_file()), key=lambda each: each.stat().st_mtime_ns
    )


def taken_away(folder: Path) -> None:
    """Gone at once, whoever is at work in it."""
    away = folder.parent.parent / f"{folder.name}.away"
    folder.rename(away)
    shutil.rmtree(away, ignore_errors=True)


def a_file_for_the_folder(search: Path) -> None:
    taken_away(search)
    search.write_text("occupied")


DAMAGE: Mapping[str, Callable[[Path], object]] = {
    "gone": taken_away,
    "one table gone": lambda search: taken_away(search / "episodes.lance"),
    "a manifest garbled": lambda search: garbled(newest(search / "episodes.lance/_versions")),
    "all rows garbled": lambda search: [garbled(each) for each in search.glob("*.lance/data/*")],
    "rows gone": lambda search: [each.unlink() for each in search.glob("*.lance/data/*")],
    "everything empty": lambda search: [
        each.write_bytes(b"") for each in search.rglob("*") if each.is_file()
    ],
    "a file in its place": a_file_for_the_folder,
}


@pytest.fixture(scope="module")
def telling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A product that was told a few things in episodes alone."""
    with Product(tmp_path_factory.mktemp("telling"), MNEMO_ENCODERS="off") as product:
        for number in range(6):
            product.hook("turn-end", session=f"s-{number}", last_assistant_message=answer(number))
        product.hook("turn-end", session="s-9", last_assistant_message="The balancer was bought in spring.")
        product.remember("Billing runs at night.")
        yield product


def passages(product: Product) -> list[tuple[str, str]]:
    """What is found in the tables; an answer that is to be explained is none that was kept."""
    questions = ("when was the balancer bought?", "which round moved the gateway behind the balancer?")
    answers = [product.ask("recall", query=question, explain=True) for question in questions]
    found = [each for answer in answers for each in answer["episodes"]]
    return [(each["id"], each["passage"]) for each in found]


def level(product: Product) -> bool:
    status = product.ask("status")
    return not status["queue"]["relay"] and not status["problems"]


def hurt(product: Product, kind: str, *, running: bool) -> None:
    """Damage the search tables; then ask until all is as it was."""
    until(lambda: level(product))
    before = passages(product)
    assert len({name for name, _ in before}) >= 3
    if not running:
        product.run("stop")
    for _ in range(5):
        with suppress(FileNotFoundError):  # maintenance was at work just then
            DAMAGE[kind](product.data / "search")
            break
    product.run("status")
    until(lambda: passages(product) == before)
    until(lambda: level(product))
    memories = product.ask("recall", query="billing")["memories"]
    assert [each["what"] for each in memories] == ["Billing runs at night."]
    assert (product.data / "search/episodes.lance").is_dir()


@pytest.mark.parametrize("kind", DAMAGE)
def test_search_tables_damaged_under_a_daemon_are_made_anew(telling: Product, kind: str) -> None:
    hurt(telling, kind, running=True)


@pytest.mark.parametrize("kind", ["gone", "a manifest garbled", "a file in its place"])
def test_search_tables_damaged_between_daemons_are_made_anew(telling: Product, kind: str) -> None:
    hurt(telling, kind, running=False)


def test_search_tables_made_anew_hold_the_same_vectors(product: Product) -> None:
    product.hook("turn-end", last_assistant_message="We bought the load balancer in spring.")
    product.hook("turn-end", last_assistant_message="The night shift feeds the billing engine.")
    product.settled()
    question = "at what time of the year did we purchase the appliance that spreads requests?"
    before = product.json("recall", question)["episodes"]
    product.run("stop")
    shutil.rmtree(product.data / "search")
    product.settled()
    assert product.json("recall", question)["episodes"] == before


# a damaged, newer or half-migrated store


def verbs(product: Product, name: str) -> dict[str, subprocess.CompletedProcess[bytes]]:
    """Every verb of the command line, carried out."""
    return {
        "recall": product.run("recall", "gateway"),
        "remember": product.run("remember", claim(99)),
        "forget": product.run("forget", name),
        "keep": product.run("keep", name),
        "episode": product.run("episode", name),
        "history": product.run("history", name),
        "status": product.run("status"),
        "doctor": product.run("doctor"),
    }


def tools(server: Stdio, name: str) -> list[tuple[bool, str]]:
    listed = server.answer(server.send("tools/list", {}))["result"]["tools"]
    assert len(listed) == 5
    return [
        server.call("recall", query="gateway"),
        server.call("remember", what=claim(99)),
        server.call("forget", id=name),
        server.call("keep", id=name),
        server.call("recall_episode", id=name),
    ]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder at rest with 300 memories."""
    with Product(tmp_path_factory.mktemp("stored"), MNEMO_ENCODERS="off") as product:
        product.run("status")
        for number in range(300):
            product.ask("remember", what=claim(number))
        product.run("stop")
        assert not (product.data / "mnemo.db-wal").exists()
        return product.data


@pytest.fixture
def filled(fresh: Product, stored: Path) -> Product:
    """A product of its own with 300 memories, at rest."""
    shutil.copytree(stored, fresh.data)
    return fresh


def a_name(product: Product) -> str:
    return str(rows(product, "SELECT id FROM snapshot ORDER BY seq LIMIT 1")[0][0])


def test_store_that_is_no_store_is_told_and_left_alone(filled: Product) -> None:
    name, file = a_name(filled), filled.data / "mnemo.db"
    whole = file.read_bytes()
    damaged = b"not a database, " + whole[16:]
    file.write_bytes(damaged)
    for verb, done in verbs(filled, name).items():
        assert done.returncode == (0 if verb == "status" else 1), verb
        assert b"is damaged" in done.stdout + done.stderr and b"Traceback" not in done.stderr
    server = filled.stdio()
    server.open()
    for went_well, text in tools(server, name):
        assert not went_well and "is damaged" in text
    for moment in EVENTS:
        fields = {"prompt": "which gateway?", "last_assistant_message": "The gateway."}
        assert quiet(filled.hook_raw(moment, payload(moment, **fields)))
    assert file.read_bytes() == damaged
    log = (filled.data / "log/daemon.log").read_text()
    assert 1 <= log.count("is damaged") <= 4, "once a cause and daemon, not once a request"
    file.write_bytes(whole)
    went_well, text = server.call("recall", query="gateway")
    assert went_well and "Gateway" in text, "the same session goes on with a store put back"
    filled.run("stop")
    assert len(filled.recall("gateway")) > 1


def test_damaged_page_is_told_and_nothing_more_is_written(filled: Product) -> None:
    name, file = a_name(filled), filled.data / "mnemo.db"
    content = bytearray(file.read_bytes())
    pages = rows(filled, "SELECT rootpage FROM sqlite_master WHERE name IN ('snapshot', 'snapshot_by_seq')")
    size = int(rows(filled, "PRAGMA page_size")[0][0])
    for (page,) in pages:
        content[(page - 1) * size : (page - 1) * size + 64] = b"\xa5" * 64
    file.write_bytes(content)
    for verb, done in verbs(filled, name).items():
        assert done.returncode == (0 if verb == "status" else 1), verb
        assert b"is damaged" in done.stdout + done.stderr and b"Traceback" not in done.stderr, (verb, done)
    server = filled.stdio()
    server.open()
    for went_well, text in tools(server, name):
        assert not went_well and "is damaged" in text
    filled.run("stop")
    assert file.read_bytes() == content


def test_newer_store_is_refused_and_left_alone(filled: Product) -> None:
    name, file = a_name(filled), filled.data / "mnemo.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    newer = file.read_bytes()
    for verb, done in verbs(filled, name).items():
        assert done.returncode == (0 if verb == "status" else 1), verb
        told = (done.stdout + done.stderr).decode()
        assert f"schema {len(MIGRATIONS) + 1}" in told and "newer version" in told
    server = filled.stdio()
    server.open()
    for went_well, text in tools(server, name):
        assert not went_well and "newer version" in text
    for moment in EVENTS:
        fields = {"prompt": "which gateway?", "last_assistant_message": "The gateway."}
        assert quiet(filled.hook_raw(moment, payload(moment, **fields)))
    filled.run("stop")
    assert file.read_bytes() == newer
    assert [each.name for each in filled.data.glob("*.db*")] == ["mnemo.db"]


SECOND = "CREATE TABLE later (id INTEGER PRIMARY KEY, memory TEXT) STRICT;\n"
LONG = (
    "INSERT INTO later (memory) WITH RECURSIVE counting (n) AS"
    " (SELECT 1 UNION ALL SELECT n + 1 FROM counting WHERE n < {}) SELECT 'row ' || n FROM counting;\n"
)


def test_older_store_is_copied_before_it_is_changed(
    filled: Product, caplog: pytest.LogCaptureFixture
) -> None:
    file = filled.data / "mnemo.db"
    database = Database(file, system_clock(), migrations=(*MIGRATIONS, SECOND + LONG.format(10)))
    with database.read() as connection:
        assert connection.execute("SELECT count(*) FROM later").fetchone() == (10,)
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (300,)
    assert database.check() == []
    database.close()
    (copy,) = (filled.data / "backups").iterdir()
    assert str(copy) in caplog.text
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (300,)
    Database(file, system_clock(), migrations=(*MIGRATIONS, SECOND)).close()
    assert len(list((filled.data / "backups").iterdir())) == 1, "nothing was left to change"


def test_step_that_fails_changes_nothing(filled: Product) -> None:
    file = filled.data / "mnemo.db"
    with pytest.raises(StoreError, match="no such table"):
        Database(file, system_clock(), migrations=(*MIGRATIONS, SECOND + "INSERT INTO nowhere VALUES (1);\n"))
    assert rows(filled, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert rows(filled, "SELECT name FROM sqlite_master WHERE name = 'later'") == []
    assert len(filled.recall("gateway", "--limit", "50")) == 50


def test_killed_migration_is_done_anew(filled: Product) -> None:
    file = filled.data / "mnemo.db"
    migrations = (*MIGRATIONS, SECOND + LONG.format(400_000))
    program = (
        "import sys; from pathlib import Path; from mnemo_mcp.ledger.database import Database;"
        "from mnemo_mcp.times import system_clock; print('begun', flush=True);"
        f"Database(Path({str(file)!r}), system_clock(), migrations={migrations!r})"
    )
    migrating = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE)
    assert migrating.stdout and migrating.stdout.readline() == b"begun\n"
    until(lambda: (filled.data / "backups").exists())
    wal = filled.data / "mnemo.db-wal"
    until(lambda: (wal.exists() and wal.stat().st_size > 0) or migrating.poll() is not None)
    migrating.kill()
    assert migrating.wait() == -signal.SIGKILL, "it was done before it could be killed"
    migrating.stdout.close()
    database = Database(file, system_clock(), migrations=migrations)
    with database.read() as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT memory) FROM later").fetchone() == (
            400_000,
            400_000,
        )
        assert connection.execute("SELECT count(*) FROM snapshot").fetchone() == (300,)
    assert database.check() == []
    database.close()


CLOSED_UNDER_READERS = """
import sys, threading, time
from datetime import UTC, datetime
from pathlib import Path
from mnemo_mcp.ledger.store import Store

now = datetime(2026, 9, 14, tzinfo=UTC)
for number in range(30):
    store = Store(Path(sys.argv[1]) / f"{number}.db", now)
    begun = threading.Event()

    def read():
        with store.database.read() as connection:
            begun.set()
            query = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 60000)"
            assert connection.execute(query + " SELECT max(x) FROM n").fetchone() == (60000,)

    thread = threading.Thread(target=read)
    thread.start()
    begun.wait()
    store.close()
    thread.join()
print("well")
"""


def test_a_store_is_not_closed_under_whoever_reads(tmp_path: Path) -> None:
    """SQLite frees what a running statement uses: the process would go down with it."""
    script, root = [sys.executable, "-c", CLOSED_UNDER_READERS, str(tmp_path)], Path(__file__).parent.parent
    done = subprocess.run(script, capture_output=True, text=True, timeout=120, cwd=root)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
