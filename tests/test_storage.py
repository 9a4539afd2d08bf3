"""What is acknowledged is on disk: many writers, kills, disk use that follows content."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from product import Product, alive, until
from storing import (
    NOTHING_STORED,
    answer,
    claim,
    configure,
    payload,
    quiet,
    read_only,
    rows,
    stopped,
)

import mnemo_mcp
from mnemo_mcp.ledger.database import BUSY_SECONDS
from mnemo_mcp.thin import link

SLACK = 4  # the ceilings are against hanging; the machine may be at work on something else
HOOK_SECONDS = 5.0  # what clients give a hook


def sound(product: Product) -> bool:
    """Whether the store's own check finds nothing: the file, the triggers, the snapshot and its ledger."""
    return product.json("doctor")["problems"] == []


# many writers


def test_writers_at_the_same_time_lose_nothing(fresh: Product) -> None:
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


def test_kill_while_writing_loses_nothing_acknowledged(fresh: Product) -> None:
    count, chance, acknowledged = 8, random.Random(8), set()
    for turn in range(count):
        pid = fresh.pid()
        # later and later, so that on any machine some turns get something acknowledged
        delay = 0.05 * turn + chance.uniform(0, 0.06)
        killer = threading.Timer(delay, os.kill, (pid, signal.SIGKILL))
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


def took(product: Product) -> float:
    return statistics.median(product.ask("recall", query=claim(7))["took_ms"] for _ in range(30))


def test_disk_use_follows_content(tmp_path: Path) -> None:
    count, restarts = 100, 3
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
            if number == count // 2:
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
