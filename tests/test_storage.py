"""What is stored stays stored: many writers, kills, full and closed disks, damage, time and other people."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from processes import linux, processes
from product import EVENTS, ROOT, Product, Stdio, alive, until

import mnemo_mcp
from mnemo_mcp.errors import StoreError
from mnemo_mcp.ledger.database import BUSY_SECONDS, Database
from mnemo_mcp.ledger.schema import MIGRATIONS
from mnemo_mcp.thin import link
from mnemo_mcp.times import system_clock

SLACK = 4  # the ceilings are against hanging; the machine may be at work on something else
HOOK_SECONDS = 5.0  # what clients give a hook
NOTHING_STORED = "Nothing was stored"


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Product]:
    """A product of its own, without encoders."""
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        yield product


def payload(moment: str, session: str = "s-1", **fields: Any) -> bytes:
    common = {"session_id": session, "cwd": "/home/dev/atlas", "hook_event_name": EVENTS[moment]}
    return json.dumps({**common, **fields}).encode()


def quiet(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def sound(product: Product) -> bool:
    """Whether the store's own check finds nothing: the file, the triggers, the snapshot and its ledger."""
    return product.json("doctor")["problems"] == []


def rows(product: Product, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{product.data}/mnemo.db?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


# many writers


@pytest.mark.parametrize("repetition", [1, *(pytest.param(each, marks=pytest.mark.slow) for each in (2, 3))])
def test_writers_at_the_same_time_lose_nothing(fresh: Product, repetition: int) -> None:
    servers = [fresh.stdio() for _ in range(3)]
    for server in servers:
        server.open()
    with ThreadPoolExecutor(10) as hooks:
        done = [
            hooks.submit(
                fresh.hook_raw,
                "turn-end",
                payload("turn-end", f"s-{number % 2}", last_assistant_message=f"Answer {number} is final."),
            )
            for number in range(40)
        ]
        for at, server in enumerate(servers):
            for each in range(20):
                claimed = {"what": f"Port {at}{each:02} is open."}
                server.send("tools/call", {"name": "remember", "arguments": claimed})
        for server in servers:
            results = [server.read()["result"] for _ in range(20)]
            assert all(each["content"][0]["text"].startswith("added") for each in results)
        assert all(quiet(each.result()) for each in done)
    until(lambda: not list((fresh.data / "inbox").iterdir()))
    assert fresh.json("stop")["stopped"]
    assert len(rows(fresh, "SELECT DISTINCT state ->> '$.claim.what' FROM snapshot")) == 60
    assert rows(fresh, "SELECT count(*) FROM snapshot") == [(60,)]
    answers = sorted(f"Answer {number} is final." for number in range(40))
    assert sorted(each["text"] for each in fresh.episodes() if each["session"].startswith("s-")) == answers
    server = servers[0]
    for number in range(200):
        port = f"Port {number % 3}{number % 20:02}"
        went_well, text = server.call("recall", query=f"is {port} open?")
        assert went_well and f"{port} is open." in text
    assert sound(fresh)


@contextmanager
def stopped(product: Product) -> Iterator[None]:
    """The daemon does nothing at all for a while."""
    pid = product.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def locked(product: Product) -> Iterator[None]:
    """Another process holds the store's lock for a while."""
    with closing(sqlite3.connect(product.data / "mnemo.db", isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


@pytest.mark.parametrize(
    "busy,seconds", [(stopped, 4), (locked, BUSY_SECONDS + 1)], ids=["stopped", "locked"]
)
def test_store_that_is_busy_for_a_while_drops_nothing(fresh: Product, busy: Any, seconds: float) -> None:
    assert fresh.remember("Queue is NATS.")["outcome"] == "added"
    began = time.monotonic()

    def hook(moment: str, number: int) -> tuple[bool, float]:
        start = time.monotonic()
        fields = {"prompt": f"what of port {number}?", "last_assistant_message": f"Done {number}."}
        done = fresh.hook_raw(moment, payload(moment, "busy", **fields))
        return quiet(done), time.monotonic() - start

    with ThreadPoolExecutor(8) as others:
        with busy(fresh):
            writing = [others.submit(fresh.run, "remember", f"Port {each} is open.") for each in range(2)]
            asking = [others.submit(hook, "pre-message", number) for number in range(5)]
            ends = [hook("turn-end", number) for number in range(5)]
            prompts = [each.result() for each in asking]
            time.sleep(max(0.0, began + seconds - time.monotonic()))
        written = [each.result() for each in writing]
    assert all(silent and took < HOOK_SECONDS for silent, took in (*ends, *prompts)), (ends, prompts)
    answers = [f"Done {number}." for number in range(5)]

    def told() -> list[str]:
        found = [each for each in fresh.episodes("busy") if each["role"] == "assistant"]
        return [each["text"] for each in sorted(found, key=lambda each: str(each["occurred_at"]))]

    until(lambda: len(told()) >= 5)
    until(lambda: not list((fresh.data / "inbox").iterdir()))
    assert told() == answers
    there = {what for (what,) in rows(fresh, "SELECT state ->> '$.claim.what' FROM snapshot")}
    for number, done in enumerate(written):
        if done.returncode == 0:
            assert f"Port {number} is open." in there
        else:
            assert NOTHING_STORED in done.stderr.decode() and f"Port {number} is open." not in there
    assert sound(fresh)


# acknowledged is on disk


def killed(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))


def test_what_was_answered_outlives_a_kill(fresh: Product) -> None:
    pid = fresh.pid()
    name = fresh.remember("Deploy day is Thursday.")["id"]
    killed(pid)
    assert [each["id"] for each in fresh.recall("deploy day")] == [name]

    pid = fresh.pid()
    fresh.json("keep", name)
    killed(pid)
    assert rows(fresh, "SELECT keep FROM standing") == [(1,)]

    pid = fresh.pid()
    fresh.json("forget", name)
    killed(pid)
    assert fresh.recall("deploy day") == []
    assert fresh.json("history", name)["memory"]["status"] == "retracted"

    pid = fresh.pid()
    fresh.hook("turn-end", last_assistant_message="Deploy day is Friday now.")
    killed(pid)
    assert [each["text"] for each in fresh.episodes("s-1")] == ["Deploy day is Friday now."]
    began = time.monotonic()
    assert sound(fresh)
    assert time.monotonic() - began < 2.0 * SLACK


@pytest.mark.parametrize("count", [6, pytest.param(50, marks=pytest.mark.slow)])
def test_kill_while_writing_loses_nothing_acknowledged(fresh: Product, count: int) -> None:
    chance, acknowledged = random.Random(count), set()
    for turn in range(count):
        pid = fresh.pid()
        killer = threading.Timer(chance.uniform(0, 0.06), os.kill, (pid, signal.SIGKILL))
        killer.start()
        for number in range(10):
            try:
                acknowledged.add(fresh.ask("remember", what=f"Turn {turn} opened port {number}.")["id"])
            except link.Unreachable:
                break
        killer.join()
        until(lambda pid=pid: not alive(pid))
        there = {name for (name,) in rows(fresh, "SELECT id FROM snapshot")}
        assert acknowledged <= there
    assert acknowledged, "the daemon was always killed too early"
    assert len(there - acknowledged) <= count, "one call a turn may have been cut off"
    halves = "SELECT count(*) FROM snapshot s WHERE NOT EXISTS (SELECT 1 FROM {} WHERE {})"
    assert rows(fresh, halves.format("ledger l", "l.memory = s.id")) == [(0,)]
    cited = "citations c JOIN episodes e ON e.id = c.episode"
    assert rows(fresh, halves.format(cited, "c.memory = s.id AND e.text <> ''")) == [(0,)]
    assert sound(fresh)


# disk use


def configure(product: Product, **values: float) -> None:
    product.data.mkdir(exist_ok=True)
    lines = ["[daemon]", *(f"{name} = {value}" for name, value in values.items())]
    (product.data / "config.toml").write_text("\n".join(lines) + "\n")


def files(folder: Path) -> dict[Path, int]:
    found = {}
    for each in folder.rglob("*"):
        try:
            if each.is_file():
                found[each] = each.stat().st_size
        except FileNotFoundError:
            continue
    return found


def versions(product: Product) -> int:
    """Of the table that has most."""
    tables = (product.data / "search").glob("*.lance")
    return max(len(list((table / "_versions").glob("*.manifest"))) for table in tables)


def claim(number: int) -> str:
    return f"Gateway {number} listens on port {9_000 + number}."


def answer(number: int) -> str:
    return f"Round {number}: " + "the gateway was moved behind the balancer. " * 11


def took(product: Product) -> float:
    return statistics.median(product.ask("recall", query=claim(7))["took_ms"] for _ in range(30))


@pytest.mark.parametrize("count,restarts", [(40, 2), pytest.param(1_000, 20, marks=pytest.mark.slow)])
def test_disk_use_follows_content(tmp_path: Path, count: int, restarts: int) -> None:
    (tmp_path / "one by one").mkdir()
    (tmp_path / "in one go").mkdir()
    with Product(tmp_path / "one by one", MNEMO_ENCODERS="off") as product:
        configure(product, maintenance_seconds=0.5, keep_versions_seconds=1)
        first = 0.0
        for number in range(count):
            if number % (count // restarts) == 0:
                product.run("stop")
                product.run("status")
            product.ask("remember", what=claim(number))
            body = payload(
                "turn-end", f"s-{number * restarts // count}", last_assistant_message=answer(number)
            )
            link.request(
                str(product.data), "/hooks/claude/turn-end", body, time.monotonic() + 30, start=False
            )
            if number == min(100, count // 2):
                first = took(product)
        until(lambda: product.ask("status")["queue"]["relay"] == 0)
        # tables are rewritten once they have rested for `keep_versions_seconds` and 10 ms a row
        until(lambda: versions(product) <= 2, 60)
        last = took(product)
        product.run("stop")
        scattered = files(product.data)
        assert len(rows(product, "SELECT 1 FROM snapshot")) == count
    assert len(scattered) < 500
    assert last <= 1.5 * first + 5, (first, last)

    home = tmp_path / "in one go" / "data"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MNEMO_ENCODERS", "off")
        with mnemo_mcp.open(home) as memory:
            for number in range(count):
                memory.remember(claim(number))
                memory.hook("claude", "turn-end", payload("turn-end", last_assistant_message=answer(number)))
            memory.recall("balancer")
    assert sum(scattered.values()) <= 4 * sum(files(home).values())


@contextmanager
def mounted(*arguments: str, on: Path) -> Iterator[None]:
    """Something mounted on a folder; skips the test where that is not allowed."""
    on.mkdir(parents=True, exist_ok=True)
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting takes root")
    done = subprocess.run(["mount", *arguments, str(on)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(on)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    with mounted("--bind", str(folder), on=folder):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield


def test_maintenance_that_fails_is_told_and_made_good(fresh: Product) -> None:
    configure(fresh, maintenance_seconds=0.5, keep_versions_seconds=0.5)
    for number in range(10):
        fresh.remember(claim(number))
    until(lambda: fresh.ask("status")["queue"]["relay"] == 0)
    with read_only(fresh.data / "search"):
        for number in range(10, 40):
            fresh.ask("remember", what=claim(number))
        until(lambda: bool(fresh.ask("status")["problems"]))
        assert "Read-only file system" in " ".join(fresh.json("status")["problems"])
        log = fresh.data / "log/daemon.log"
        until(lambda: "Maintenance failed" in log.read_text())
        assert log.read_text().count("fall behind") == 1
        assert fresh.ask("recall", query=claim(33))["memories"]
    until(lambda: not fresh.ask("status")["problems"] and not fresh.ask("status")["queue"]["relay"])
    until(lambda: versions(fresh) <= 2)


def test_readers_notice_nothing_of_maintenance(fresh: Product) -> None:
    configure(fresh, maintenance_seconds=0.1, keep_versions_seconds=0.1)
    fresh.run("status")
    server = fresh.stdio()
    server.open()
    for number in range(12):
        fresh.ask("remember", what=claim(number))
        fresh.hook("turn-end", last_assistant_message=answer(number))
        for _ in range(20):
            question = {"query": "who moved behind the balancer?"}
            server.send("tools/call", {"name": "recall", "arguments": question})
        results = [server.read()["result"] for _ in range(20)]
        assert not any(each.get("isError") for each in results), results
    status = fresh.json("status")
    assert status["problems"] == []


# only its owner reads it


def loose(home: Path) -> list[str]:
    """Everything below a folder that others could read, with its mode."""
    found = []
    for each in home.rglob("*"):
        mode = each.lstat().st_mode & 0o777
        if not each.is_symlink() and mode & 0o077:
            found.append(f"{oct(mode)} {each.relative_to(home)}")
    return found


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask,place", [(0o022, "MNEMO_HOME"), (0o000, "the usual place")])
def test_everything_made_is_private(tmp_path: Path, mask: int, place: str) -> None:
    with umask(mask), Product(tmp_path, MNEMO_ENCODERS="off") as product:
        if place != "MNEMO_HOME":
            del product.environ["MNEMO_HOME"]
            product.data = tmp_path / ".local/share/mnemo"
        product.hook("turn-end", last_assistant_message="Deploy day is Thursday.")  # before there is a daemon
        product.hook("session-open", source="startup")
        product.hook("pre-message", prompt="when is deploy day?")
        product.hook_raw("turn-end", b'{"session_id": ')
        configure(product, maintenance_seconds=0.2, keep_versions_seconds=0.2)
        (product.data / "config.toml").chmod(0o600)
        product.http()
        server = product.stdio()
        server.open()
        for number in range(3):
            assert server.call("remember", what=claim(number))[0]
        until(lambda: product.ask("status")["queue"]["relay"] == 0)
        product.run("export", str(tmp_path / "export.jsonl"))
        product.run("backup", str(tmp_path / "copy.db"))
        until(lambda: (product.data / "search/episodes.lance").exists())
        assert (tmp_path / "export.jsonl").exists() and (tmp_path / "copy.db").exists()
        assert loose(tmp_path) == []
    assert loose(tmp_path) == []


def test_open_folder_is_tightened_and_the_log_says_so(fresh: Product) -> None:
    fresh.remember("Deploy day is Thursday.")
    until(lambda: fresh.ask("status")["queue"]["relay"] == 0)
    fresh.run("stop")
    fresh.data.chmod(0o755)
    (fresh.data / "search").chmod(0o755)
    (fresh.data / "mnemo.db").chmod(0o644)
    (fresh.data / "notes.txt").write_text("somebody's own")
    (fresh.data / "notes.txt").chmod(0o644)
    (fresh.data / "outside").symlink_to("/etc/hostname")
    before = Path("/etc/hostname").stat().st_mode
    assert fresh.recall("deploy day")
    assert fresh.data.stat().st_mode & 0o777 == 0o700
    assert loose(fresh.data) == []
    lines = (fresh.data / "log/daemon.log").read_text().splitlines()
    assert len([line for line in lines if "private" in line]) == 1
    assert Path("/etc/hostname").stat().st_mode == before


@pytest.mark.skipif(os.getuid() != 0, reason="giving a folder to somebody else takes root")
@pytest.mark.parametrize("way", ["the folder", "a link to it"])
def test_folder_of_another_person_is_refused(tmp_path: Path, way: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    os.chown(theirs, 12_345, 12_345)
    product = Product(tmp_path, MNEMO_ENCODERS="off")
    if way == "the folder":
        product.environ["MNEMO_HOME"] = str(theirs)
    else:
        product.data.symlink_to(theirs)
    for command in ("status", "doctor"):
        done = product.run(command)
        assert done.returncode == 1 and b"belongs to another user" in done.stdout
    done = product.run("remember", "Deploy day is Thursday.")
    assert done.returncode == 1 and b"belongs to another user" in done.stderr
    assert product.hook("turn-end", last_assistant_message="Deploy day is Thursday.") == ""
    assert theirs.stat().st_mode & 0o777 == 0o755
    assert not (theirs / "mnemo.db").exists()


@linux
def test_words_are_in_no_argument_and_no_environment(fresh: Product) -> None:
    word = "zebra" * 4
    with stopped(fresh), ThreadPoolExecutor() as client:
        hook = client.submit(fresh.hook_raw, "pre-message", payload("pre-message", prompt=f"what is {word}?"))
        until(lambda: len(processes(fresh)) >= 2 or hook.done())
        seen = 0
        for pid, command in processes(fresh).items():
            seen += 1
            assert word not in command
            assert word.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert seen >= 2
        assert quiet(hook.result())


# disks that are full or closed


def test_full_disk_refuses_writes_in_words_and_reads_on(tmp_path: Path) -> None:
    product = Product(tmp_path, MNEMO_ENCODERS="off")
    with mounted("-t", "tmpfs", "-o", "size=12m", "mnemo", on=product.data), product:
        server = product.stdio()
        server.open()
        for number in range(5):
            assert server.call("remember", what=claim(number))[0]
        product.hook("turn-end", last_assistant_message="The gateway has moved.")
        until(lambda: product.ask("status")["queue"]["relay"] == 0)
        with occupied(product.data):
            refuses_writes(product, server)
            went_well, text = server.call("recall", query=claim(3))
            assert went_well and claim(3) in text
            assert {each["what"] for each in product.recall("gateway")} == {claim(each) for each in range(5)}
            status = product.json("status")
            assert status["memories"] == 5 and "0 MB left" in " ".join(status["problems"])
            assert product.run("doctor").returncode == 1
        assert server.call("remember", what=claim(30))[0]
        until(lambda: product.ask("status")["queue"]["relay"] == 0)

        product.run("stop")
        with occupied(product.data):  # not even the room is left that SQLite takes to open a file
            refuses_writes(product, server)
            assert "The disk is full." in " ".join(product.json("status")["problems"])
        assert server.call("remember", what=claim(31))[0]
        assert {each["what"] for each in product.recall("gateway")} >= {claim(3), claim(30), claim(31)}
        assert [each for each in product.json("status")["problems"] if "MB left" not in each] == []


def refuses_writes(product: Product, server: Stdio) -> None:
    for number in range(10, 13):
        went_well, text = server.call("remember", what=claim(number) + "x" * 4_000)
        assert not went_well and "disk is full" in text and NOTHING_STORED in text
    done = product.run("remember", claim(20) + "x" * 4_000)
    assert done.returncode == 1 and b"disk is full" in done.stderr
    for moment, fields in (
        ("session-open", {"source": "startup"}),
        ("pre-message", {"prompt": "where does the gateway listen?" + "x" * 9_000}),
        ("turn-end", {"last_assistant_message": "Nothing fits any more." + "x" * 9_000}),
    ):
        assert quiet(product.hook_raw(moment, payload(moment, "full", **fields)))


@contextmanager
def occupied(folder: Path) -> Iterator[None]:
    """Its disk filled to the last byte for a while."""
    with (folder / "ballast").open("ab", buffering=0) as ballast:
        for size in (1 << 16, 1 << 12, 1 << 9, 1):
            try:
                while ballast.write(b"x" * size):
                    pass
            except OSError:
                continue
    yield
    (folder / "ballast").unlink()


def test_closed_folder_is_told_by_every_verb_and_opens_again(fresh: Product) -> None:
    for number in range(3):
        fresh.remember(claim(number))
    fresh.run("stop")
    before = (fresh.data / "mnemo.db").read_bytes()
    with read_only(fresh.data):
        for command in ("status", "doctor"):
            done = fresh.run(command)
            assert done.returncode == 1 and b"Read-only file system" in done.stdout
        for command in (["recall", "gateway"], ["remember", claim(4)]):
            done = fresh.run(*command)
            assert done.returncode == 1 and b"Read-only file system" in done.stderr, done
            assert b"Traceback" not in done.stderr
        server = fresh.stdio()
        server.open()
        went_well, text = server.call("recall", query="gateway")
        assert not went_well and "mnemo doctor" in text
        for moment in EVENTS:
            fields = {"prompt": "which gateway?", "last_assistant_message": "The gateway."}
            assert quiet(fresh.hook_raw(moment, payload(moment, **fields)))
    assert (fresh.data / "mnemo.db").read_bytes() == before
    assert "gateway" in server.call("recall", query="gateway")[1].lower()
    assert len(fresh.recall("gateway")) == 3


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
    questions = ("when was the balancer bought?", "which round moved the gateway behind the balancer?")
    found = [each for question in questions for each in product.ask("recall", query=question)["episodes"]]
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
