"""Stores of other versions: opened with all they hold, migrated once, left alone where they are newer."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kept_stores import RELEASED, asked, columns, content, opened, place
from make_schema_fixture import END, KEPT, KNOWN, PROMPT, REPLY, encoders, hook, level
from product import EVENTS, ROOT, Product
from tiny_onnx import tiny_model

from mnemo_mcp.errors import StoreError, StoreTooNew
from mnemo_mcp.ledger.database import Database
from mnemo_mcp.ledger.schema import MIGRATIONS
from mnemo_mcp.service import Service

TOOLS = ("recall", "remember", "forget", "keep", "recall_episode")


STEP = """
ALTER TABLE standing ADD COLUMN strength REAL NOT NULL DEFAULT 1.0;
CREATE TABLE echoes (seq INTEGER PRIMARY KEY, memory TEXT NOT NULL) STRICT;
INSERT INTO echoes (memory) SELECT id FROM snapshot ORDER BY seq;
DROP INDEX snapshot_by_seq;
CREATE INDEX snapshot_by_place ON snapshot (seq, id)
"""
BROKEN = "CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT;\nINSERT INTO nowhere VALUES (1)"
NEXT = (*MIGRATIONS, STEP)


def holds_all(file: Path, source: Path = RELEASED[-1]) -> bool:
    """Whether every row of the source is in the file, once."""
    listed = columns(source)
    del listed["upgrades"]
    return content(file, listed) == content(source, listed)


def told(service: Service) -> dict[str, str]:
    """Every memory a store of ours is asked for, by its own words, and how it stands."""
    answers = [service.recall(what, history=True, limit=50) for what in KNOWN]
    return {found.memory.claim.what: str(found.status) for each in answers for found in each.memories}


@pytest.mark.parametrize("source", RELEASED, ids=lambda file: file.stem)
def test_store_of_every_schema_opens_with_all_it_holds(tmp_path: Path, source: Path) -> None:
    file = place(tmp_path / "data", source)
    assert all(content(source, columns(source)).values()), "a table without a row proves nothing"
    with opened(file) as service:
        assert told(service) == KNOWN
        kept = service.recall(KEPT).memories[0].memory
        assert service.store.accounts.standing([kept.id])[kept.id].keep
        assert [each.text for each in service.store.episodes.all() if each.session == "s-1"][-2:] == [
            PROMPT,
            REPLY,
        ]
        assert service.recall("where is the runbook?").episodes
        assert service.check() == []
    assert holds_all(file, source)


def test_vectors_of_an_older_store_are_not_made_again(tmp_path: Path) -> None:
    file = place(tmp_path / "data")
    before = asked(file, "SELECT count(*) FROM vectors")
    with opened(file, encoders=encoders(tiny_model(tmp_path))) as service:
        service.encoders.load()
        told(service)
        level(service)
        assert service.status()["queue"] == {"distil": 1, "embed": 0, "relay": 0}
    assert asked(file, "SELECT count(*) FROM vectors") == before


@pytest.mark.parametrize("source", RELEASED, ids=lambda file: file.stem)
def test_steps_that_were_released_stay_as_they_are(tmp_path: Path, source: Path) -> None:
    version = int(source.stem.removeprefix("schema-"))
    Database(tmp_path / "mnemo.db", END, migrations=MIGRATIONS[:version]).close()
    shape = "SELECT name, sql FROM sqlite_master ORDER BY name"
    assert asked(tmp_path / "mnemo.db", shape) == asked(place(tmp_path / "old", source), shape), (
        f"a released schema changes by a further step; before its release make {source} anew"
    )


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mnemo that knows one schema more."""
    monkeypatch.setattr("mnemo_mcp.ledger.store.Database", partial(Database, migrations=NEXT))


def copies(home: Path) -> list[Path]:
    return sorted((home / "backups").glob("*"))


@pytest.mark.usefixtures("later")
def test_older_store_is_copied_and_served_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = place(tmp_path / "data")
    with opened(file) as service:
        (copy,) = copies(tmp_path / "data")
        assert str(copy) in caplog.text
        assert told(service) == KNOWN
        fresh = service.remember("The balancer is HAProxy.").id
        assert service.recall("balancer").memories[0].memory.id == fresh
        assert "HAProxy" in hook(service, "pre-message", EVENTS["pre-message"], prompt="which balancer?")
        assert service.check() == []
    assert asked(copy, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert content(copy, columns(copy)) == content(RELEASED[-1], columns(copy))
    assert asked(file, "SELECT count(*), count(DISTINCT memory) FROM echoes") == [(len(KNOWN) + 1,) * 2]
    assert copy.stat().st_mode & 0o777 == 0o600 and copy.parent.stat().st_mode & 0o777 == 0o700


def run(program: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], cwd=ROOT, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


KILLED = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
from mnemo_mcp.ledger.database import Database
from mnemo_mcp.times import system_clock

class Dying(Database):
    def _connect(self):
        connection = super()._connect()
        connection.set_trace_callback(self.count)
        return connection

    def count(self, statement):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

folder, source, migrations = Path(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
for left in count(1):
    file = folder / str(left) / "mnemo.db"
    file.parent.mkdir()
    shutil.copyfile(source, file)
    child = os.fork()
    if not child:
        Dying(file, system_clock(), migrations=migrations).close()
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        break
"""


def test_migration_killed_before_any_statement_is_done_anew(tmp_path: Path) -> None:
    run(KILLED, tmp_path, RELEASED[-1], repr(NEXT))
    folders = list(tmp_path.iterdir())
    assert len(folders) > 10
    for folder in folders:
        Database(folder / "mnemo.db", END, migrations=NEXT).close()
        assert holds_all(folder / "mnemo.db")
        assert asked(folder / "mnemo.db", "SELECT count(*) FROM echoes") == [(len(KNOWN) + 1,)]
        assert copies(folder)
        for copy in copies(folder):
            assert copy.suffix == ".db" and "unfinished" not in copy.name
            assert asked(copy, "PRAGMA user_version") == [(len(MIGRATIONS),)] and holds_all(copy)


TOGETHER = """
import os, shutil, sys
from pathlib import Path
from mnemo_mcp.ledger.database import Database
from mnemo_mcp.times import system_clock

def open_at_the_signal(file):
    os.close(signal)
    os.read(gate, 1)
    Database(file, system_clock(), migrations=migrations).close()
    os._exit(0)

folder, source, migrations = Path(sys.argv[1]), sys.argv[2], eval(sys.argv[3])
for number in range(20):
    file = folder / str(number) / "mnemo.db"
    file.parent.mkdir()
    shutil.copyfile(source, file)
    gate, signal = os.pipe()
    children = []
    for _ in range(3):
        child = os.fork()
        if not child:
            open_at_the_signal(file)
        children.append(child)
    os.close(signal)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 3
    os.close(gate)
"""


def test_processes_at_once_migrate_once(tmp_path: Path) -> None:
    run(TOGETHER, tmp_path, RELEASED[-1], repr(NEXT))
    for folder in tmp_path.iterdir():
        assert holds_all(folder / "mnemo.db")
        assert asked(folder / "mnemo.db", "SELECT count(*) FROM echoes") == [(len(KNOWN) + 1,)]
        assert len(asked(folder / "mnemo.db", "SELECT * FROM upgrades")) == 2
        (copy,) = copies(folder)
        assert asked(copy, "PRAGMA user_version") == [(len(MIGRATIONS),)] and holds_all(copy)


def no_room_for_copies(file: Path) -> None:
    (file.parent / "backups").write_text("occupied")


@pytest.mark.parametrize(
    ("steps", "spoil", "said"),
    [((STEP, BROKEN), None, "no such table"), ((STEP,), no_room_for_copies, "cannot be copied")],
    ids=["the second of two steps fails", "it cannot be copied"],
)
def test_change_that_fails_leaves_the_store_as_it_was(
    tmp_path: Path, steps: tuple[str, ...], spoil: Any, said: str
) -> None:
    file = place(tmp_path / "data")
    if spoil:
        spoil(file)
    with pytest.raises(StoreError, match=said) as raised:
        Database(file, END, migrations=(*MIGRATIONS, *steps))
    assert raised.value.advice
    assert asked(file, "PRAGMA user_version") == [(len(MIGRATIONS),)]
    assert columns(file) == columns(RELEASED[-1]) and holds_all(file)
    with opened(file) as service:
        assert told(service) == KNOWN


def test_unknown_columns_are_no_obstacle(tmp_path: Path) -> None:
    file = place(tmp_path / "data")
    with closing(sqlite3.connect(file)) as connection:
        for table in columns(file):
            connection.execute(f"ALTER TABLE {table} ADD COLUMN unknown TEXT DEFAULT 'kept'")
    with opened(file, encoders=encoders(tiny_model(tmp_path))) as service:
        service.encoders.load()
        assert told(service) == KNOWN
        fresh = service.remember("The balancer is HAProxy.", subject="balancer", field="product").id
        assert service.remember("The balancer is HAProxy.").outcome == "confirmed"
        assert service.recall("balancer").memories[0].memory.id == fresh
        service.keep(fresh)
        hook(service, "session-open", EVENTS["session-open"], source="startup", session_id="s-9")
        asked_for = {"prompt": "which balancer do we use?", "session_id": "s-9"}
        assert "HAProxy" in hook(service, "pre-message", EVENTS["pre-message"], **asked_for)
        hook(service, "turn-end", EVENTS["turn-end"], last_assistant_message="Done.", session_id="s-9")
        writer = service.writer(None, "", "cli", "", "person", None)
        service.records.alias("balancer", "the proxy", writer)
        service.forget([service.recall("RabbitMQ", history=True).memories[0].memory.id], "erase")
        assert service.check() == []
        assert service.check(repair=True) == []
    for table in columns(file):
        assert asked(file, f"SELECT DISTINCT unknown FROM {table}") == [("kept",)], table


def newer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a later mnemo have had this store."""
    with monkeypatch.context() as patched:
        patched.setattr("mnemo_mcp.ledger.database.__version__", "7.1.0")
        Database(file, END, migrations=NEXT).close()


def bytes_of(home: Path) -> dict[str, bytes]:
    """The store: its file and its log; the index of the log is only a cache."""
    return {each.name: each.read_bytes() for each in home.glob("mnemo.db*") if not each.name.endswith("-shm")}


UNFOLDED = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("INSERT INTO echoes (memory) VALUES ('mlater')")
os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_kill(file: Path) -> None:
    """A log that was not folded in."""
    done = subprocess.run([sys.executable, "-c", UNFOLDED, str(file)])
    assert done.returncode == -signal.SIGKILL
    assert file.with_name("mnemo.db-wal").stat().st_size


def in_another_journal_mode(file: Path) -> None:
    assert asked(file, "PRAGMA journal_mode=DELETE") == [("delete",)]


def without_a_note(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE upgrades")


LEFT = {
    "at rest": lambda file: None,
    "killed": left_by_a_kill,
    "another journal": in_another_journal_mode,
    "no note": without_a_note,
}


@pytest.mark.parametrize("left", LEFT)
def test_newer_store_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str) -> None:
    file = place(tmp_path / "data")
    newer(file, monkeypatch)
    LEFT[left](file)
    before = bytes_of(file.parent)
    for _ in range(3):
        with pytest.raises(StoreTooNew, match=f"schema {len(NEXT)}") as raised:
            opened(file)
        needed = "newer version" if left == "no note" else "mnemo 7.1.0 or a newer version"
        assert needed in raised.value.advice
    assert bytes_of(file.parent) == before


def test_newer_store_is_told_by_every_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        file = place(product.data)
        newer(file, monkeypatch)
        left_by_a_kill(file)
        before = bytes_of(product.data)
        server = product.stdio()
        server.open()
        listed = server.answer(server.send("tools/list", {}))["result"]["tools"]
        assert [each["name"] for each in listed] == [*TOOLS]
        for tool in TOOLS:
            went_well, text = server.call(tool, query="gateway", what="It is NATS.", id="mn97hhcv3k2ttf")
            assert not went_well and "Install mnemo 7.1.0 or a newer version" in text, tool
        for command in ("doctor", "recall"):
            done = product.run(command, *(["gateway"] if command == "recall" else []))
            assert done.returncode == 1 and b"7.1.0" in done.stdout + done.stderr
        assert "7.1.0" in product.json("status")["problems"][0]
        fields = {"source": "startup", "prompt": "which gateway?", "last_assistant_message": "On port 8443."}
        for moment in EVENTS:
            assert product.hook(moment, session="s-7", **fields) == ""
        product.run("stop")
        assert bytes_of(product.data) == before
        # with the copy put back, what the turn's end left is taken in
        for each in product.data.glob("mnemo.db*"):
            each.unlink()
        shutil.copyfile(copies(product.data)[0], file)
        assert len(product.recall("gateway")) >= 2
        product.run("status")
        assert [each["text"] for each in product.episodes("s-7")] == ["On port 8443."]
