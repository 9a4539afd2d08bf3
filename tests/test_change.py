"""What changes around a store and must not change what it holds: schema, encoders, place, settings."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_schema_fixture import DATA, END, KEPT, KNOWN, PROMPT, REPLY, encoders, hook, level
from product import EVENTS, ROOT, Product, alive, until
from tiny_onnx import tiny_model

import mnemo_mcp
from mnemo_mcp import settings as configuration
from mnemo_mcp.errors import SettingsError, StoreError, StoreTooNew
from mnemo_mcp.ledger.database import Database
from mnemo_mcp.ledger.schema import MIGRATIONS
from mnemo_mcp.ledger.vectors import text_hash
from mnemo_mcp.memory import Status
from mnemo_mcp.models.encoder import Matrix
from mnemo_mcp.models.onnx import OnnxEncoder
from mnemo_mcp.models.options import from_settings
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.recall.answer import Answer, RecalledMemory
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.tables import EPISODES, MEMORIES
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

TOOLS = ("recall", "remember", "forget", "keep", "recall_episode")
RELEASED = sorted(DATA.glob("schema-*.db"))
Rows = list[tuple[Any, ...]]


# stores of other versions

STEP = """
ALTER TABLE standing ADD COLUMN strength REAL NOT NULL DEFAULT 1.0;
CREATE TABLE echoes (seq INTEGER PRIMARY KEY, memory TEXT NOT NULL) STRICT;
INSERT INTO echoes (memory) SELECT id FROM snapshot ORDER BY seq;
DROP INDEX snapshot_by_seq;
CREATE INDEX snapshot_by_place ON snapshot (seq, id)
"""
BROKEN = "CREATE TABLE more (id INTEGER PRIMARY KEY) STRICT;\nINSERT INTO nowhere VALUES (1)"
NEXT = (*MIGRATIONS, STEP)


def place(home: Path, source: Path = RELEASED[-1]) -> Path:
    """A store of some schema in a data folder of its own; its file."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(shutil.copyfile(source, home / "mnemo.db"))


def asked(file: Path, query: str) -> Rows:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(query).fetchall()


def columns(file: Path) -> dict[str, str]:
    """The columns of every table, as they are listed in a query."""
    tables = asked(file, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    names = {table: asked(file, f"SELECT name FROM pragma_table_info('{table}')") for (table,) in tables}
    return {table: ", ".join(name for (name,) in found) for table, found in names.items()}


def content(file: Path, listed: dict[str, str]) -> dict[str, Counter[tuple[Any, ...]]]:
    return {table: Counter(asked(file, f"SELECT {names} FROM {table}")) for table, names in listed.items()}


def holds_all(file: Path, source: Path = RELEASED[-1]) -> bool:
    """Whether every row of the source is in the file, once."""
    listed = columns(source)
    del listed["upgrades"]
    return content(file, listed) == content(source, listed)


def opened(file: Path, **settings: Any) -> Service:
    chosen = {"encoders": Encoders("off", "off"), "zone": "UTC", **settings}
    return Service(Settings(file.parent, **chosen), clock=lambda: END)


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


# the place of the data

NOWHERE = ("./mem", "mem", "../mem", "~nobody-of-this-name/mem")
REFUSED = "is not an absolute path. Set MNEMO_HOME to a path that begins with / or ~."


@dataclass(frozen=True)
class Installed:
    """A mnemo as some interpreter runs it, for a person who stands in some folder."""

    python: Path
    environ: dict[str, str]
    here: Path

    def run(self, *arguments: str, given: bytes = b"", **environ: str) -> tuple[int, str]:
        done = subprocess.run(
            [self.python, "-m", *arguments],
            input=given,
            env={**self.environ, **environ},
            cwd=self.here,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        return done.returncode, done.stdout.decode()

    def mnemo(self, *arguments: str, **environ: str) -> tuple[int, str]:
        return self.run("mnemo_mcp.cli", *arguments, **environ)

    def recalled(self, question: str, **environ: str) -> set[str]:
        code, printed = self.mnemo("recall", question, "--json", **environ)
        assert code == 0, printed
        return {each["what"] for each in json.loads(printed)["memories"]}


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    with Product(tmp_path, MNEMO_ENCODERS="off") as fresh:
        yield fresh


@pytest.mark.parametrize("home", NOWHERE)
def test_place_that_depends_on_where_one_stands_is_refused(tmp_path: Path, home: str) -> None:
    product = Product(tmp_path, MNEMO_ENCODERS="off", MNEMO_HOME=home)
    here = tmp_path / "project"
    here.mkdir()
    person = Installed(Path(sys.executable), product.environ, here)
    for command in (["status"], ["remember", "Queue is NATS."], ["serve"]):
        code, printed = person.mnemo(*command)
        assert code == 1
        assert f"{home!r} {REFUSED}" in printed and "Traceback" not in printed
    code, printed = person.run("mnemo_mcp.daemon")
    assert (code, printed) == (1, f"mnemo: The data folder {home!r} {REFUSED}\n")
    for moment in EVENTS:
        assert product.hook(moment, prompt="which queue?", last_assistant_message="NATS.") == ""
    assert all("MNEMO_HOME is not an absolute path" in line for line in product.log()) and product.log()
    server = product.stdio()
    server.open()
    went_well, text = server.call("recall", query="queue")
    assert not went_well and "MNEMO_HOME is not an absolute path" in text
    with pytest.raises(SettingsError) as raised:
        mnemo_mcp.open(home)
    assert REFUSED in str(raised.value)
    server.end()
    assert list(here.iterdir()) == []
    assert not [*tmp_path.rglob("mem"), *ROOT.glob("mem"), *ROOT.glob("~*")]


def test_nobodys_folder_is_refused_wherever_a_path_is_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not an absolute path"):
        from_settings("tiny", {"path": "~nobody-of-this-name/model.onnx"})
    with opened(place(tmp_path / "data"), transcript_roots=("~nobody-of-this-name/notes",)) as service:
        fields = {"transcript_path": "/nowhere.jsonl", "last_assistant_message": "The rack is full."}
        hook(service, "turn-end", EVENTS["turn-end"], **fields)
        assert [each.text for each in service.store.episodes.all()][-1] == "The rack is full."


@pytest.mark.parametrize("home", ["{home}/new/a b/ü?#%41/mem", "~/mem"])
def test_missing_folders_are_made_for_this_person_alone(product: Product, home: str) -> None:
    before = set(product.home.iterdir())
    product.environ["MNEMO_HOME"] = home.format(home=product.home)
    place = Path(home.format(home=product.home).replace("~", str(product.home)))
    mask = os.umask(0o022)
    try:
        product.hook("session-open", source="startup")
        stored = product.remember("The queue is NATS.")["id"]
    finally:
        os.umask(mask)
    assert [each["id"] for each in product.recall("queue")] == [stored]
    assert f"data in {place}\n" in product.run("status").stdout.decode()
    server = product.stdio()
    server.open()
    assert stored in server.call("recall", query="queue")[1]
    made = [
        each
        for top in set(product.home.iterdir()) - before
        for each in (top, *top.rglob("*"))
        if each.is_dir()
    ]
    assert made and (place / "mnemo.db").is_file()
    assert {each.stat().st_mode & 0o777 for each in made} == {0o700}
    assert not [each for each in product.home.iterdir() if "~" in each.name]


def a_folder_for_the_store(data: Path) -> None:
    (data / "mnemo.db").mkdir(parents=True)


def a_folder_for_the_settings(data: Path) -> None:
    (data / "config.toml").mkdir(parents=True)


def things_of_another_kind(data: Path) -> None:
    (data / "pictures").mkdir(parents=True, mode=0o755)


def a_link_to_nowhere(data: Path) -> None:
    data.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data.write_text("occupied"), "it is not a folder"),
        (a_folder_for_the_store, "mnemo.db is a folder"),
        (a_folder_for_the_settings, "config.toml cannot be read"),
        (a_link_to_nowhere, "it is not a folder"),
        (things_of_another_kind, "in use for other things"),
    ],
    ids=["a file", "a folder for the store", "a folder for the settings", "a link to nowhere", "pictures"],
)
def test_what_lies_in_the_way_is_one_clear_error(product: Product, spoil: Any, said: str) -> None:
    spoil(product.data)
    for command in (["remember", "Queue is NATS."], ["recall", "queue"]):
        done = product.run(*command)
        printed = done.stderr.decode()
        assert done.returncode == 1 and done.stdout == b""
        assert said in printed and len(printed.splitlines()) == 1, printed
    assert said in json.loads(product.run("status", "--json").stdout)["problems"][0]
    assert {each.stat().st_mode & 0o777 for each in product.data.glob("pictures")} <= {0o755}


def test_settings_own_no_memories(product: Product) -> None:
    product.data.mkdir(mode=0o700)
    settings = product.data / "config.toml"
    settings.write_text('profile = "work"\nzone = "Asia/Tokyo"\n[recall]\nlimit = 2\n')
    told = {f"The {thing} is in rack {number}." for number, thing in enumerate(("gateway", "queue", "cache"))}
    for what in told:
        product.remember(what)
    assert len(product.recall("which rack?")) == 2
    product.run("stop")
    settings.unlink()
    person = Installed(Path(sys.executable), product.environ, product.home)
    assert person.recalled("which rack?", MNEMO_PROFILE="work") == told
    assert person.recalled("which rack?") == set(), "a wall does not fall with the file that named it"


def installation(folder: Path) -> Path:
    """mnemo in an environment of its own, all it needs borrowed from this one; its interpreter."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    borrowed = [each for each in sys.path if each.endswith("site-packages")]
    (site / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    put_package(site)
    return folder / "bin/python"


def put_package(site: Path) -> None:
    shutil.rmtree(site / "mnemo_mcp", ignore_errors=True)
    shutil.copytree(ROOT / "mnemo_mcp", site / "mnemo_mcp")
    (site / "mnemo_mcp/__init__.py").touch()  # installers do not keep the times of files


def test_memories_outlive_the_installation(product: Product) -> None:
    cache = product.home / "cache"
    told = {f"The {thing} is in rack {number}." for number, thing in enumerate(("gateway", "queue", "cache"))}
    first = Installed(installation(cache / "one"), product.environ, product.home)
    for what in told:
        assert first.mnemo("remember", what)[0] == 0
    daemon = product.pid()
    shutil.rmtree(cache)  # under the daemon that runs from it
    until(lambda: not alive(daemon))
    second = Installed(installation(cache / "two"), product.environ, product.home)
    assert second.recalled("which rack?") == told
    assert f"data in {product.data}\n" in second.mnemo("status")[1]
    assert not [each for each in cache.rglob("*") if each.name == "mnemo.db"]

    product.stdio_command = [str(second.python), "-m", "mnemo_mcp.cli", "mcp"]
    server = product.stdio()
    server.open()
    assert server.call("recall", query="which rack?")[0]
    daemon = product.pid()
    put_package(next((cache / "two").glob("lib/python*/site-packages")))  # an update in place
    until(lambda: not alive(daemon))
    went_well, text = server.call("recall", query="which rack?")
    assert went_well and all(what in text for what in told)


# other encoders

NUMBER, SAID = 120, 10
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
NAMES = ["".join(each) for each in itertools.product(SYLLABLES, repeat=3)][::300]
NOUNS, ALIASES = NAMES[: NUMBER + SAID], NAMES[500 : 500 + NUMBER + SAID]
FRESH, FRESH_ALIAS = NAMES[-2:]
A, OTHER_DIMENSION, SAME_DIMENSION = "a", "b", "c"


def model(folder: Path, dims: int, shift: int = 0) -> dict[str, Any]:
    """An encoder to which each noun and its alias mean the same.

    Shifted by one, it sees in every noun what the encoder of so many dimensions sees in the one before:
    compared with each other their vectors would find the wrong memory, and be sure of it.
    """
    chance = np.random.default_rng(dims)
    meanings = np.roll(chance.standard_normal((NUMBER + SAID, dims)), shift, axis=0)
    fresh = chance.standard_normal((1, dims))
    vectors = np.concatenate([np.zeros((1, dims)), meanings, meanings, fresh, fresh])
    words = ["[UNK]", *NOUNS, *ALIASES, FRESH, FRESH_ALIAS]
    return tiny_model(folder, vectors=vectors.astype(np.float32), words=words)


@dataclass(frozen=True)
class World:
    """A store made with encoder A: the ids of its memories in the order of their nouns, its models."""

    home: Path
    names: tuple[str, ...]
    models: dict[str, dict[str, Any]]

    def copy(self, home: Path) -> World:
        shutil.copytree(self.home, home)
        return World(home, self.names, self.models)

    def choose(self, encoder: str) -> None:
        lines = ["[encoders]", f'english = "{encoder}"', f'other = "{encoder}"']
        for name, table in self.models.items():
            lines += [f"[encoders.onnx.{name}]", f"path = {json.dumps(table['path'])}"]
        (self.home / "config.toml").write_text("\n".join(lines))

    def serve(self, encoder: str) -> Service:
        """The service as a daemon has it, its background work left to the test."""
        self.choose(encoder)
        service = Service(configuration.load(self.home, {}), clock=lambda: END, background=True)
        service.encoders.load()
        return service

    def vectors(self) -> dict[str, int]:
        """How many vectors there are by encoder."""
        return dict(asked(self.home / "mnemo.db", "SELECT encoder, count(*) FROM vectors GROUP BY encoder"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    models = {
        A: model(folder / A, 32),
        OTHER_DIMENSION: model(folder / OTHER_DIMENSION, 48),
        SAME_DIMENSION: model(folder / SAME_DIMENSION, 32, shift=1),
    }
    world = World(folder / "data", (), models)
    world.home.mkdir(mode=0o700)
    with world.serve(A) as service:
        for noun in NOUNS[NUMBER:]:
            reply = {"session_id": noun, "last_assistant_message": f"A look at the {noun} is worth it."}
            hook(service, "turn-end", EVENTS["turn-end"], **reply)
        names = [
            service.remember(f"The {noun} stands in hall {at}.").id for at, noun in enumerate(NOUNS[:NUMBER])
        ]
        service.forget(names[::20], "close")
        service.forget(names[10::20], "retract")
        settle(service)
        assert by_meaning(service) == dict(zip(ALIASES, names, strict=False))
    return World(world.home, tuple(names), models)


def settle(service: Service) -> None:
    while service.upkeep.embed():
        pass
    while service.upkeep.relay():
        pass


def recalled(service: Service, question: str) -> Answer:
    return service.recall(question, history=True, limit=50)


def by_meaning(service: Service) -> dict[str, str]:
    """For every alias the id of its memory, if that one is found, first among those of its status."""
    found = {}
    for noun, alias in zip(NOUNS[:NUMBER], ALIASES, strict=False):
        firsts: dict[Status, RecalledMemory] = {}
        for each in recalled(service, f"What about the {alias}?").memories:
            firsts.setdefault(each.status, each)
        for each in firsts.values():
            if noun in each.memory.claim.what:
                found[alias] = each.memory.id
    return found


def said(service: Service) -> list[str]:
    """The nouns of the episodes that are found by their aliases."""
    answers = [service.recall(f"What about the {alias}?").episodes for alias in ALIASES[NUMBER:]]
    return [found[0].episode.session for found in answers if found]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text of the store that an encoder reads from here on."""
    texts: list[str] = []
    encode = OnnxEncoder.encode

    def reading(encoder: OnnxEncoder, given: Sequence[str], *, query: bool = False) -> Matrix:
        texts.extend(() if query else given)
        return encode(encoder, given, query=query)

    monkeypatch.setattr(OnnxEncoder, "encode", reading)
    return texts


@pytest.mark.parametrize("other", [OTHER_DIMENSION, SAME_DIMENSION])
def test_other_encoder_takes_over(world: World, tmp_path: Path, encoded: list[str], other: str) -> None:
    world = world.copy(tmp_path / "data")
    file, everything = world.home / "mnemo.db", dict(zip(ALIASES, world.names, strict=False))
    kept = ("ledger", "episodes", "snapshot", "vectors")
    listed = {table: names for table, names in columns(file).items() if table in kept}
    before, made_before = content(file, listed), set(world.vectors())
    with world.serve(other) as service:
        for noun, name in zip(NOUNS, world.names, strict=False):
            answer = recalled(service, f"Where is the {noun}?")
            assert [each.memory.id for each in answer.memories] == [name]
            assert f"Vectors of {NUMBER} memories are not ready yet" in answer.notes[0]
        assert by_meaning(service) == {}
        while service.status()["queue"]["embed"] > NUMBER:  # the former encoder's come back first
            assert service.upkeep.embed(16)
        assert service.encoders.moving and set(world.vectors()) == made_before
        assert by_meaning(service) == everything and said(service) == NOUNS[NUMBER:]

        fresh = service.remember(f"The {FRESH} stands outside.").id
        assert recalled(service, f"Where is the {FRESH}?").memories[0].memory.id == fresh
        while service.upkeep.embed(64) < 64:  # that one, too, gets its former vector first
            pass
        assert service.encoders.moving and set(world.vectors()) > made_before
        assert by_meaning(service) == everything, "found by a vector of another encoder"

        settle(service)
        assert service.status()["queue"] == {"distil": SAID, "usage": SAID, "embed": 0, "relay": 0}
        assert not service.encoders.moving
        assert by_meaning(service) == everything and said(service) == NOUNS[NUMBER:]
        assert recalled(service, f"What about the {FRESH_ALIAS}?").memories[0].memory.id == fresh
        assert recalled(service, f"What about the {ALIASES[0]}?").notes == ()
    after = content(file, listed)
    assert all(not before[table] - after[table] for table in kept)
    filled(world)

    encoded.clear()
    with world.serve(A) as service:
        service.recall("hall")
        settle(service)
        assert by_meaning(service) == everything and said(service) == NOUNS[NUMBER:]
        assert recalled(service, f"What about the {FRESH_ALIAS}?").memories[0].memory.id == fresh
        assert not encoded, "what was read once is not read again"
        service.forget([fresh], "erase")
        text = text_hash(f"The {FRESH} stands outside.")
        assert not service.store.vectors.get(service.encoders.encoders[0].id, [text])
    assert asked(file, f"SELECT count(*) FROM vectors WHERE hash = x'{text.hex()}'") == [(0,)]


def filled(world: World) -> None:
    """The search tables hold a vector of the encoder in use in every row."""
    pair = EncoderPair(configuration.load(world.home, {}).encoders)
    pair.load()
    (encoder,) = pair.encoders
    tables = Projection(world.home / "search", {encoder.id: encoder.dims})
    assert tables.count(MEMORIES) >= NUMBER and tables.count(EPISODES) >= NUMBER + SAID
    assert tables.lacking(MEMORIES, encoder.id, 1) == tables.lacking(EPISODES, encoder.id, 1) == []


BROKEN_OFF = """
import os, signal, sys
from mnemo_mcp import settings
from mnemo_mcp.service import Service
service = Service(settings.load(sys.argv[1], {}), background=True)
service.encoders.load()
service.upkeep.before_answer()
while service.upkeep.moving().split(": ")[1].split()[0] != "80":
    assert service.upkeep.embed(16)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_while_embedding_it_goes_on_where_it_was(
    world: World, tmp_path: Path, encoded: list[str]
) -> None:
    world = world.copy(tmp_path / "data")
    world.choose(OTHER_DIMENSION)
    done = subprocess.run([sys.executable, "-c", BROKEN_OFF, str(world.home)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert sorted(world.vectors().values())[0] == 80
    with world.serve(OTHER_DIMENSION) as service:
        service.recall("hall")
        while service.upkeep.embed():
            pass
        assert by_meaning(service) == dict(zip(ALIASES, world.names, strict=False))
        assert len(set(encoded)) == len(encoded) == NUMBER - 80


def test_daemon_changes_its_encoder(world: World, tmp_path: Path) -> None:
    with Product(tmp_path) as product:
        world = world.copy(product.data)
        before = set(world.vectors())
        everything = dict(zip(ALIASES, world.names, strict=False))

        def found() -> dict[str, str]:
            answers = {
                alias: product.ask("recall", query=f"What about the {alias}?", history=True, limit=50)
                for alias in everything
            }
            return {
                alias: name
                for alias, name in everything.items()
                if name in [each["id"] for each in answers[alias]["memories"]]
            }

        def made() -> int:
            return sum(count for encoder, count in world.vectors().items() if encoder not in before)

        def settled() -> bool:
            status = product.ask("status")
            return bool(status["encoders"]) and not status["queue"]["embed"]

        world.choose(OTHER_DIMENSION)
        assert product.recall(NOUNS[0], "--history")[0]["id"] == world.names[0]
        until(lambda: made() > 0)
        product.kill()
        assert 0 < made() < NUMBER + SAID, "killed too late"

        assert product.recall(NOUNS[1])[0]["id"] == world.names[1]
        until(settled)
        assert found() == everything
        until(lambda: len(product.ask("recall", query=f"What about the {ALIASES[-1]}?")["episodes"]) > 0)
        assert made() == NUMBER + SAID
        product.run("stop")
        filled(world)

        world.choose(A)
        total = world.vectors()
        product.run("status")
        until(settled)
        assert found() == everything
        assert world.vectors() == total
