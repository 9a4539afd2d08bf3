"""The server as clients meet it: its start and end, its neighbours, its one daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes import cpu_seconds, daemons, linux, parent, processes
from product import EVENTS, HOOK, PLUGIN, ROOT, Product, Stdio, alive, until
from stores import fill

from mnemo_mcp.thin import link

SLACK = 4  # the ceilings are against hanging; the machine may be at work on something else
SERVER = [sys.executable, "-m", "mnemo_mcp.cli", "mcp"]
TOOLS = ["recall", "remember", "forget", "keep", "recall_episode"]
NO_MODEL = """
[encoders]
english = "absent"
other = "absent"
[encoders.onnx.absent]
path = "/nowhere/model.onnx"
"""
NO_ENCODERS = '[encoders]\nenglish = "off"\nother = "off"\n'


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with 6,000 memories that have no vectors."""
    home = tmp_path_factory.mktemp("large")
    fill(home / "data", 6_000)
    return home / "data"


def payload(moment: str, **fields: Any) -> bytes:
    common = {"session_id": "s-1", "cwd": "/home/dev/atlas", "hook_event_name": EVENTS[moment]}
    return json.dumps({**common, **fields}).encode()


HOOKS = {
    "session-open": payload("session-open", source="startup"),
    "pre-message": payload("pre-message", prompt="which queue do we use?"),
    "turn-end": payload("turn-end", last_assistant_message="The queue is NATS."),
}


def quiet(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


# the wire


class Recorded(Stdio):
    """A client that keeps what it has read."""

    def __init__(self, command: list[str], product: Product) -> None:
        super().__init__(command, product.environ)
        self.messages: list[dict[str, Any]] = []

    def read(self, seconds: float = 30) -> dict[str, Any]:
        self.messages.append(super().read(seconds))
        return self.messages[-1]


@pytest.mark.parametrize("command", ["mnemo mcp", "the plugin's launcher"])
def test_nothing_but_messages_is_on_stdout(tmp_path: Path, command: str) -> None:
    chatty = tmp_path / "site"
    chatty.mkdir()
    (chatty / "sitecustomize.py").write_text("print('a line that belongs to nobody')\n")
    loud = {"PYTHONPATH": str(chatty), "PYTHONWARNINGS": "always", "MNEMO_ENCODERS": "off"}
    with Product(tmp_path, **loud) as product:
        product.run("status")  # from then on the launcher knows the way
        launcher = ["/bin/sh", str(PLUGIN / "hooks/mnemo-run"), "mcp"]
        server = Recorded(SERVER if command == "mnemo mcp" else launcher, product)
        server.open()
        stored = server.call("remember", what="Queue is NATS.")[1].split()[1].rstrip(".")
        for tool, arguments in [
            ("recall", {"query": "queue"}),
            ("recall_episode", {"id": stored}),
            ("keep", {"id": stored}),
            ("forget", {"id": stored}),
        ]:
            assert server.call(tool, **arguments)[0]
        assert not server.call("destroy")[0]
        server.write(b'{"jsonrpc": "2.0", "id": 1, "method\n')
        assert server.call("recall", query="queue")[0]
        assert server.process.stdin and server.process.stdout
        server.process.stdin.close()
        rest = server.process.stdout.read().splitlines()
        assert server.process.wait(5 * SLACK) == 0
        messages = [*server.messages, *map(json.loads, rest)]
        assert {each["jsonrpc"] for each in messages} == {"2.0"} and len(messages) >= 8
        server.end()


# a store that is far from ready


def opened(product: Product) -> tuple[Stdio, dict[str, float], str]:
    """A cold server asked three things, how long each took, and what it recalled."""
    took = {}
    began = time.monotonic()
    server = product.stdio()
    server.open()
    took["initialize"] = time.monotonic() - began
    began = time.monotonic()
    tools = server.answer(server.send("tools/list", {}))["result"]["tools"]
    took["tools/list"] = time.monotonic() - began
    assert [each["name"] for each in tools] == TOOLS
    began = time.monotonic()
    went_well, text = server.call("recall", query="postgres")
    took["recall"] = time.monotonic() - began
    assert went_well
    return server, took, text


def test_handshake_and_words_wait_for_no_model(large: Path, tmp_path: Path) -> None:
    shutil.copytree(large, tmp_path / "data")
    (tmp_path / "data/config.toml").write_text(NO_MODEL)
    with Product(tmp_path) as product:
        server, took, text = opened(product)
        assert "postgres" in text
        assert "Vectors are not ready" in text
        began = time.monotonic()
        assert "redis" in server.call("recall", query="redis")[1]
        assert time.monotonic() - began < 3.0 * SLACK
        problems = " ".join(product.json("status")["problems"])
        assert "absent" in problems and "/nowhere/" in problems
    assert took["initialize"] < 2.0 * SLACK, took
    assert took["tools/list"] < 0.5 * SLACK, took
    assert took["recall"] < 3.0 * SLACK, took


def test_backlog_of_vectors_is_told_and_keeps_nobody_waiting(large: Path, tmp_path: Path) -> None:
    shutil.copytree(large, tmp_path / "data")
    with Product(tmp_path) as product:
        server, took, text = opened(product)
        assert took["recall"] < 3.0 * SLACK
        assert "Vectors are not ready" in text or "memories are not ready yet" in text
        until(lambda: len(product.ask("status")["encoders"]) == 2)
        for _ in range(5):
            began = time.monotonic()
            text = server.call("recall", query="redis and postgres")[1]
            assert time.monotonic() - began < 3.0 * SLACK
            assert "memories are not ready yet" in text
        waiting = product.json("status")["queue"]["embed"]
        until(lambda: product.ask("status")["queue"]["embed"] < waiting)
        pid, began = product.pid(), time.monotonic()
        os.kill(pid, signal.SIGTERM)
        until(lambda: not alive(pid), 5.0 * SLACK)


# the end of a client


def test_empty_stdin_ends_the_server(fresh: Product) -> None:
    began = time.monotonic()
    assert quiet(fresh.run("mcp"))
    assert time.monotonic() - began < 3.0 * SLACK
    assert not (fresh.data / "run").exists(), "nobody asked for anything, so no daemon was needed"


@linux
def test_server_ends_with_its_client(fresh: Product) -> None:
    server = fresh.stdio()
    server.open()
    server.send("tools/call", {"name": "recall", "arguments": {"query": "queue"}})
    assert server.process.stdin
    server.process.stdin.close()
    assert server.process.wait(5 * SLACK) == 0
    until(lambda: len(processes(fresh)) == 1)  # the daemon, which serves the next

    program = (
        f"import subprocess, sys, time; subprocess.Popen({SERVER!r}, stdin=subprocess.PIPE); time.sleep(99)"
    )
    client = subprocess.Popen([sys.executable, "-c", program], env=fresh.environ, cwd=ROOT)
    until(lambda: any(" mcp" in command for command in processes(fresh).values()))
    client.kill()
    client.wait()
    until(lambda: list(processes(fresh)) == daemons(fresh), 5.0 * SLACK)


def test_what_was_answered_before_a_signal_is_there(fresh: Product) -> None:
    server = fresh.stdio()
    server.open()
    for number in range(5):
        assert server.call("remember", what=f"Gateway {number} listens on port 900{number}.")[0]
    server.process.terminate()
    os.kill(fresh.pid(), signal.SIGTERM)
    server.process.wait(5 * SLACK)
    assert fresh.json("status")["memories"] == 5


@linux
def test_idle_daemon_rests(product: Product) -> None:
    product.remember("Queue is NATS.")
    product.hook("turn-end", last_assistant_message="The queue is NATS.")
    server = product.stdio()
    server.open()
    product.settled()
    pid = product.pid()
    shares = []
    while len(shares) < 4 and min(shares, default=1) >= 0.01:  # the first may still see the end of some work
        used = cpu_seconds(pid)
        time.sleep(3)
        shares.append((cpu_seconds(pid) - used) / 3)
    assert shares[-1] < 0.01, shares
    assert cpu_seconds(server.process.pid) < 1.0


def test_daemon_ends_by_itself_when_nobody_needs_it(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off", MNEMO_IDLE_SECONDS="1") as product:
        server = product.stdio()
        server.open()
        server.call("remember", what="Queue is NATS.")
        pid = product.pid()
        time.sleep(2.5)
        assert alive(pid), "a client is connected"
        server.end()
        until(lambda: not alive(pid), 3 * SLACK)
        assert not (product.data / "run/mnemo.sock").exists()
        assert [each["what"] for each in product.recall("queue")] == ["Queue is NATS."]


def test_clean_end_leaves_nothing_behind(fresh: Product) -> None:
    server = fresh.stdio()
    server.open()
    server.call("remember", what="Queue is NATS.")
    pid = fresh.pid()
    assert fresh.json("stop") == {"stopped": True}
    until(lambda: not alive(pid))
    assert not (fresh.data / "run/mnemo.sock").exists()
    assert not (fresh.data / "mnemo.db-wal").exists()
    lines = (fresh.data / "log/daemon.log").read_text().splitlines()
    assert [line.split()[2] for line in lines] == ["INFO"] * len(lines), lines
    assert "mnemo ends" in lines[-1]
    assert fresh.json("stop") == {"stopped": False}
    assert "NATS" in server.call("recall", query="queue")[1]


# one daemon


RACER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from thin import link
link.connect(link.data_folder(), time.monotonic() + 60).close()
"""


@linux
def test_racing_clients_share_one_daemon(fresh: Product) -> None:
    rounds = 5
    command = [sys.executable, "-I", "-S", "-c", RACER, str(ROOT / "mnemo_mcp")]
    for number in range(rounds):
        racers = [subprocess.Popen(command, env=fresh.environ) for _ in range(2)]
        assert [racer.wait(60) for racer in racers] == [0, 0]
        pid = fresh.ask("status")["pid"]
        until(lambda pid=pid: daemons(fresh) == [pid])
        fresh.ask("remember", what=f"Round {number} was won.")
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: not alive(pid))
    assert fresh.json("status")["memories"] == rounds


def test_client_outlasts_a_daemon_that_is_ending(fresh: Product) -> None:
    """Its socket is gone and its lock is not: whoever comes then starts one in vain, and once more."""
    fresh.json("status")
    fresh.run("stop")
    lock = os.open(fresh.data / "run/lock", os.O_RDWR)
    import fcntl

    fcntl.flock(lock, fcntl.LOCK_EX)
    with ThreadPoolExecutor() as clients:
        asked = clients.submit(fresh.json, "status")
        until(lambda: bool(daemons(fresh)))
        until(lambda: not daemons(fresh))
        os.close(lock)
        assert asked.result(30)["pid"]


def a_socket_nobody_serves(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(place.parent)
        listener.bind(place.name)
        os.chdir(here)


STALE: dict[str, Callable[[Path, int], object]] = {
    "the id of another process": lambda place, pid: place.write_text(f"{pid}\n"),
    "an id nobody has": lambda place, pid: place.write_text("999999\n"),
    "empty": lambda place, pid: place.touch(),
    "a link into nothing": lambda place, pid: place.symlink_to("/nowhere/at/all"),
    "a pipe": lambda place, pid: os.mkfifo(place),
    "a folder": lambda place, pid: place.mkdir(),
    "a dead socket": lambda place, pid: a_socket_nobody_serves(place),
}


@pytest.mark.parametrize("kind", STALE)
def test_stale_files_are_no_obstacle(fresh: Product, kind: str) -> None:
    run = fresh.data / "run"
    run.mkdir(parents=True)
    other = subprocess.Popen(["sleep", "60"])
    try:
        STALE[kind](run / "mnemo.sock", other.pid)
        for name in ("lock", "mnemo.pid", "launch"):
            if kind in ("the id of another process", "an id nobody has", "empty"):
                STALE[kind](run / name, other.pid)
        if os.getuid() == 0 and kind == "the id of another process":
            os.chown(run / "mnemo.pid", 12_345, 12_345)
        assert fresh.remember("Queue is NATS.")["outcome"] == "added"
        assert [each["what"] for each in fresh.recall("queue")] == ["Queue is NATS."]
        assert all(fresh.hook_raw(moment, given).returncode == 0 for moment, given in HOOKS.items())
        assert fresh.json("status")["episodes"] >= 2
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@linux
def test_processes_stay_few(fresh: Product) -> None:
    servers = [fresh.stdio() for _ in range(5)]
    for server in servers:
        server.open()
        server.call("recall", query="queue")
    moments = [("pre-message", number) for number in range(100)]
    moments += [("turn-end", number) for number in range(100)]

    def hook(each: tuple[str, int]) -> bool:
        moment, number = each
        fields = {"prompt": f"which queue in round {number}?", "last_assistant_message": f"Round {number}."}
        return quiet(fresh.hook_raw(moment, payload(moment, **fields)))

    most, orphans = 0, set()
    with ThreadPoolExecutor(10) as clients:
        for start in range(0, 200, 10):
            batch = clients.map(hook, moments[start : start + 10])
            ours = processes(fresh)
            most = max(most, len([pid for pid, command in ours.items() if str(HOOK) not in command]))
            orphans |= {pid for pid in ours if alive(pid) and _parent(pid) == 1}
            assert all(batch)
            if start == 100:
                for server in servers[:2]:
                    server.process.kill()
    assert most <= 6, "five servers and one daemon"
    assert orphans <= {fresh.pid()}
    for server in servers:
        server.end()
    until(lambda: list(processes(fresh)) == [fresh.pid()])
    assert fresh.json("status")["episodes"] == 200


def _parent(pid: int) -> int:
    try:
        return parent(pid)
    except OSError:
        return 0


def test_serve_takes_over_and_a_session_goes_on(fresh: Product) -> None:
    server = fresh.stdio()
    server.open()
    server.call("remember", what="Queue is NATS.")
    serving, before = None, fresh.pid()
    for _ in range(2):  # from a daemon that a client started, then from the one a person did
        serving = subprocess.Popen(
            [sys.executable, "-m", "mnemo_mcp.cli", "serve"], cwd=ROOT, env=fresh.environ
        )
        until(lambda before=before: not alive(before))
        assert "NATS" in server.call("recall", query="queue")[1]
        until(lambda serving=serving: fresh.pid() == serving.pid)
        before = serving.pid
    fresh.run("stop")
    assert serving and serving.wait(5 * SLACK) == 0


# arguments and answers


def test_arguments_are_read_as_models_send_them(fresh: Product) -> None:
    server = fresh.stdio()
    server.open()
    good = [
        ("remember", {"text": "Queue is NATS.", "tags": '["infra", "queue"]'}),
        ("remember", {"text": "Queue is NATS since March.", "tags": "infra"}),
        ("recall", {"query": "queue", "limit": "5"}),
        ("recall", {"query": "queue", "limit": None}),
        ("recall", {"query": "queue", "unknown_field": [{}, "[{"]}),
    ]
    assert [server.call(tool, **arguments)[0] for tool, arguments in good] == [True] * 5
    before = fresh.json("status")
    bad = [
        ("remember", {}, "what"),
        ("remember", {"text": "   "}, "what"),
        ("remember", {"text": "x", "kind": "no-such-kind"}, "kind"),
        ("recall", {"query": "queue", "limit": "many"}, "limit"),
        ("recall", {"query": ""}, "query"),
        ("forget", {"id": "no-such-id"}, "id"),
        ("forget", {"id": "no-such-id", "mode": "shred"}, "mode"),
        ("keep", {"id": ""}, "id"),
        ("recall_episode", {"id": "e" * 14}, "id"),
    ]
    for tool, arguments, named in bad:
        went_well, text = server.call(tool, **arguments)
        assert not went_well, (tool, arguments)
        assert named in text and len(text) < 300 and text.endswith((".", "]", "}")), text
    after = fresh.json("status")
    assert (after["memories"], after["episodes"]) == (before["memories"], before["episodes"]) == (2, 2)


def test_answers_stay_small(large: Path, tmp_path: Path) -> None:
    shutil.copytree(large, tmp_path / "data")
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        server = product.stdio()
        server.open()
        long = "The service manual says: " + "turn the service valve slowly. " * 10_000
        assert len(long) > 300_000
        stored = re.findall(r"\bm\w{13}\b", server.call("remember", what=long)[1])[0]
        product.hook(
            "turn-end", last_assistant_message="An episode says: " + "open the service hatch. " * 13_000
        )
        for arguments in ({"query": "service"}, {"query": "service", "limit": 100_000}):
            went_well, text = server.call("recall", **arguments)
            assert went_well and len(text) <= 25_000
            assert re.search(r"\d+ more left out|ask more narrowly", text), text[-300:]
        assert text.count("What:") == 50
        source = re.findall(r"\be\w{13}\b", server.call("recall_episode", id=stored)[1])[0]
        text, told, offset = "", "", 0
        while "more characters; pass offset" in told or not told:
            went_well, told = server.call("recall_episode", id=source, offset=offset)
            assert went_well and len(told) <= 25_000
            body = re.sub(r"^.*?\n.*?\n", "", told, count=1)
            text += re.sub(r"\n\(\d+ more characters.*\)$", "", body)
            if found := re.search(r"pass offset (\d+)", told):
                offset = int(found[1])
        assert text == long.strip()


# a data folder that cannot be served


@pytest.mark.parametrize("kind", ["a file", "below a file", "unknown setting", "a file for a folder"])
def test_what_keeps_a_daemon_from_starting_is_told(tmp_path: Path, kind: str) -> None:
    product = Product(tmp_path)
    expected = "it is not a folder"
    if kind == "a file":
        product.data.write_text("occupied")
    elif kind == "below a file":
        product.data.write_text("occupied")
        product.environ["MNEMO_HOME"] = str(product.data / "below")
    elif kind == "unknown setting":
        product.data.mkdir()
        (product.data / "config.toml").write_text("colour = 'red'\n")
        expected = "unknown setting 'colour'"
    else:
        product.data.mkdir()
        (product.data / "log").write_text("occupied")
    for command in (["status"], ["doctor"], ["recall", "queue"], ["remember", "Queue is NATS."]):
        done = product.run(*command)
        assert done.returncode == 1
        assert expected in (done.stdout + done.stderr).decode()
        assert b"Traceback" not in done.stderr
    status = json.loads(product.run("status", "--json").stdout)
    assert (status["pid"], status["memories"]) == (None, None)
    assert expected in status["problems"][0]
    for moment, given in HOOKS.items():
        assert quiet(product.hook_raw(moment, given))
    server = product.stdio()
    server.open()
    assert len(server.answer(server.send("tools/list", {}))["result"]["tools"]) == 5
    went_well, text = server.call("recall", query="queue")
    assert not went_well and "mnemo doctor" in text
    product.close()


def test_installation_that_is_not_whole_is_told(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (site / "mnemo.pth").write_text(f"{ROOT}\n")  # the product alone, nothing of what it needs
    command = [str(tmp_path / "venv/bin/python"), "-m", "mnemo_mcp.cli", "status"]
    environ = Product(tmp_path).environ
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True)
    assert done.returncode == 1 and done.stderr == b""
    assert b"is not whole (No module named" in done.stdout
    assert not (tmp_path / "data").exists()


@linux
def test_daemon_that_hangs_is_told_of(fresh: Product) -> None:
    pid = fresh.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(link.Unreachable, match="in time"):
            link.request(str(fresh.data), "/api/status", b"{}", time.monotonic() + 1)
        program = "from mnemo_mcp.daemon.diagnosis import cause; print(cause('it did not answer in time'))"
        done = subprocess.run(
            [sys.executable, "-c", program], env=fresh.environ, cwd=ROOT, capture_output=True
        )
        assert b"it did not answer in time" in done.stdout and b"owns" in done.stdout
    finally:
        os.kill(pid, signal.SIGCONT)
