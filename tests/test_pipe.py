"""The stdio pipe: a client's session opens at once, outlives its daemon, and ends when the client does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from thin_place import (
    ENVELOPE,
    Place,
    alive,
    call,
    end,
    installation,
    make_installation,
    request,
    run,
    scripts_of,
    text_of,
    until,
)

HELLO = request("initialize", 0, protocolVersion="2025-11-25")
GREETED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
FILE, DAEMON = {"from": "file"}, {"from": "daemon"}


@pytest.fixture
def place() -> Iterator[Place]:
    with Place() as here:
        yield here


# with a daemon


def test_daemon_that_is_up_answers_everything(place: Place) -> None:
    daemon = place.daemon()
    client = place.pipe(
        CLAUDE_PROJECT_DIR="/home/dev/atlas", CLAUDE_CODE_SESSION_ID="s-1", MNEMO_PROFILE="wörk"
    )
    for message in (HELLO, request("tools/list", 1), request("ping", "p"), request("resources/list", 2)):
        client.send(message)
        answer = client.receive()
        assert answer["id"] == message["id"] and answer["result"]["from"] == "daemon"
    client.send(call("echo", 3, "デプロイ 🙂"))
    assert text_of(client.receive()) == "デプロイ 🙂"
    code, left, told = client.close()
    assert (code, left, told) == (0, [], "")
    assert daemon.sessions[0].hello == {
        "mnemo": "mcp",
        "version": "0.1.0",
        "cwd": str(place.home),
        "project_dir": "/home/dev/atlas",
        "session": "s-1",
        "profile": "wörk",
    }


def test_lines_pass_untouched_in_both_directions(place: Place) -> None:
    daemon = place.daemon()
    client = place.pipe()
    client.send(b'{"jsonrpc":"2.0" , "id":1,"method":"x","params":{"big":"%s"}}\r' % (b"y" * 300_000))
    assert len(client.receive()["result"]["params"]["big"]) == 300_000
    client.send(call("progress", 2))
    assert [client.receive().get("method"), client.receive().get("id")] == ["notifications/progress", 2]
    client.send(call("ask", 3))
    assert client.receive()["method"] == "elicitation/create"
    client.send({"jsonrpc": "2.0", "id": 1, "result": {"yes": True}})
    until(lambda: len(daemon.sessions[0].messages) == 4)
    assert daemon.sessions[0].messages[-1]["result"] == {"yes": True}


def test_broken_lines_are_answered_and_the_session_goes_on(place: Place) -> None:
    place.daemon()
    client = place.pipe()
    for line in (b"nonsense", b'{"id": 1', b"\xff\xfe\x00", b"[]", b"5", b"[" * 100_000):
        client.send(line)
        answer = client.receive()
        assert answer["id"] is None and answer["error"]["code"] == -32700
    client.send(b"", b"  ", b'{"params": [], "method": 5}', call("echo", 7, "still here"))
    assert text_of(client.receive()) == "still here"


def test_nothing_but_messages_reaches_the_client(place: Place) -> None:
    noise = "import os\nprint('noise at start')\n"
    place.python = make_installation(place.home / "env", customisation=noise)
    (place.home / "noisy").mkdir()
    (place.home / "noisy/sitecustomize.py").write_text(noise)
    place.daemon()
    shout = "import os; from mnemo_mcp.thin import pipe; pipe.main(); print('late'); os.write(1, b'later')"
    for command in (["-I", "-m", "mnemo_mcp.thin.pipe"], ["-c", shout]):
        client = place.pipe(
            command=[place.python, *command], PYTHONPATH=str(place.home / "noisy"), PYTHONWARNINGS="always"
        )
        client.send(call("babble", 1, "clean"))
        assert text_of(client.receive()) == "clean"
        code, left, told = client.close()
        assert (code, left) == (0, [])
        assert "noise at start" in told and "no JSON object" in told


def test_runs_by_its_path_without_site_packages(place: Place) -> None:
    place.daemon()
    client = place.pipe(command=[place.python, "-I", "-S", scripts_of(place.python) / "pipe.py"])
    assert client.ask("initialize", 0, protocolVersion="2025-11-25")["result"]["from"] == "daemon"


# before the daemon is up


def test_cold_session_of_the_handshake_era_opens_from_the_file(place: Place) -> None:
    place.script(start_after=1.0)
    began = time.monotonic()
    client = place.pipe()
    assert client.ask("initialize", 0, protocolVersion="2025-06-18")["result"] == {
        **FILE,
        "protocolVersion": "2025-06-18",
    }
    client.send(GREETED)
    assert client.ask("tools/list", 1)["result"] == FILE
    assert client.ask("ping", "p")["result"] == {}
    assert time.monotonic() - began < 1.0
    client.send(call("echo", 2, "by the daemon"))
    assert text_of(client.receive()) == "by the daemon"
    assert client.ask("tools/list", 3)["result"]["from"] == "daemon"
    assert client.close() == (0, [], "")


def test_daemon_hears_the_handshake_it_missed_first_and_once(place: Place) -> None:
    daemon = place.daemon(ready_after=0.6)
    client = place.pipe()
    client.send(HELLO, GREETED, request("tools/list", 1), call("echo", 2, "done"))
    assert [client.receive()["result"]["from"], client.receive()["result"]] == ["file", FILE]
    assert text_of(client.receive()) == "done"
    assert daemon.sessions[0].methods() == ["initialize", "notifications/initialized", "tools/call"]
    assert client.close()[1] == []


def test_cold_session_of_the_newer_era_opens_from_the_file(place: Place) -> None:
    daemon = place.daemon(ready_after=0.6)
    client = place.pipe()
    assert client.ask("server/discover", "probe", **ENVELOPE)["result"]["from"] == "file"
    client.send(request("subscriptions/listen", 1, **ENVELOPE))
    assert client.ask("tools/list", 2, **ENVELOPE)["result"]["resultType"] == "complete"
    client.send(request("tools/call", 3, name="echo", arguments="done", **ENVELOPE))
    assert client.receive()["method"] == "notifications/acknowledged"
    assert text_of(client.receive()) == "done"
    assert daemon.sessions[0].methods() == ["subscriptions/listen", "tools/call"]


def test_unknown_version_is_offered_the_newest_handshake(place: Place) -> None:
    place.daemon(ready_after=0.6)
    answer = place.pipe().ask("initialize", 0, protocolVersion="2031-01-01")
    assert answer["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize(
    "message",
    [
        request("tools/list", 1),
        request("ping", 1),
        request("initialize", 1),
        request("tools/list", 1, cursor="2"),
        request("server/discover", 1, _meta={"io.modelcontextprotocol/protocolVersion": "2031-01-01"}),
        request("tools/list", 1, cursor="2", **ENVELOPE),
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]},
        request("prompts/list", 1),
    ],
)
def test_what_the_file_cannot_know_waits_for_the_daemon(place: Place, message: dict[str, object]) -> None:
    place.daemon(ready_after=0.3)
    client = place.pipe()
    client.send(message)
    assert client.receive()["result"]["from"] == "daemon"


def test_without_the_file_the_daemon_is_waited_for(place: Place) -> None:
    place.python = make_installation(place.home / "env", opening=False)
    place.script(start_after=0.3)
    assert place.pipe().ask("initialize", 0, protocolVersion="2025-11-25")["result"]["from"] == "daemon"


def test_daemon_that_cannot_start_is_told_to_model_and_person(place: Place) -> None:
    place.script(exit=1)
    client = place.pipe()
    assert client.ask("initialize", 0, protocolVersion="2025-11-25")["result"]["from"] == "file"
    client.send(GREETED, call("recall", 1), request("prompts/list", 2))
    answer, error = client.receive(), client.receive()
    assert answer["result"]["isError"] and "mnemo doctor" in text_of(answer)
    assert "mnemo doctor" in error["error"]["message"]
    daemon = place.daemon()
    client.send(call("echo", 3, "works again"))
    assert text_of(client.receive()) == "works again"
    assert daemon.sessions[0].methods()[:2] == ["initialize", "notifications/initialized"]
    code, _, told = client.close()
    assert code == 0 and "mnemo doctor" in told


def test_unusable_data_folder_is_told(place: Place) -> None:
    place.environ["MNEMO_HOME"] = "relative"
    client = place.pipe()
    client.send(call("recall", 1))
    assert "MNEMO_HOME" in text_of(client.receive())


# when the daemon is replaced


def test_session_outlives_its_daemon(place: Place) -> None:
    place.script()
    client = place.pipe()
    client.send(HELLO, GREETED, call("echo", 1, "one"))
    assert [client.receive()["id"], text_of(client.receive())] == [0, "one"]
    [first] = place.pids()
    client.send(call("never", 2), request("tools/list", 3), call("die", 4))
    answers = {answer["id"]: answer for answer in (client.receive(), client.receive(), client.receive())}
    assert answers[3]["result"]["from"] == "daemon"
    assert all(answers[n]["result"]["isError"] and "restarted" in text_of(answers[n]) for n in (2, 4))
    until(lambda: not alive(first))
    time.sleep(0.2)
    assert place.pids() == [first], "nobody asked for anything, yet a daemon was started"
    client.send(call("echo", 5, "two"))
    assert text_of(client.receive()) == "two"
    assert len(place.pids()) == 2
    assert client.close() == (0, [], "")


def test_new_daemon_is_told_what_the_old_one_knew(place: Place) -> None:
    first = place.daemon()
    client = place.pipe()
    client.send(HELLO, GREETED, request("subscriptions/listen", "l"), request("subscriptions/listen", "m"))
    assert [client.receive().get("id") for _ in range(3)] == [0, None, None]
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "m"}})
    until(lambda: len(first.sessions[0].messages) == 5)
    first.close()
    second = place.daemon()
    client.send(call("echo", 3, "again"))
    assert client.receive()["method"] == "notifications/acknowledged"
    assert text_of(client.receive()) == "again"
    assert second.sessions[0].messages == [
        HELLO,
        GREETED,
        request("subscriptions/listen", "l"),
        call("echo", 3, "again"),
    ]
    assert client.close() == (0, [], "")


def test_call_that_no_daemon_has_heard_is_put_to_the_next(place: Place) -> None:
    daemon = place.daemon(manner="hang")
    client = place.pipe()
    client.send(HELLO, GREETED, call("echo", 1, "one"))
    assert [client.receive()["id"], text_of(client.receive())] == [0, "one"]
    daemon.sessions[0].connection.shutdown(socket.SHUT_RD)  # as in the moment before its end is seen
    client.send(call("echo", 2, "two"))
    assert text_of(client.receive()) == "two"
    assert daemon.sessions[1].messages == [HELLO, GREETED, call("echo", 2, "two")]


def test_requests_other_than_calls_fail_as_errors_and_cancelled_ones_not_at_all(place: Place) -> None:
    daemon = place.daemon()
    client = place.pipe()
    newer = request("tools/call", 2, name="never", **ENVELOPE)
    client.send(call("never", 1), newer, request("prompts/get", 3, name="never"))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    until(lambda: daemon.sessions and len(daemon.sessions[0].messages) == 4)
    daemon.close()
    failed, error = client.receive(), client.receive()
    assert failed["id"] == 2 and failed["result"]["isError"]
    assert failed["result"]["resultType"] == "complete"
    assert error["id"] == 3 and "restarted" in error["error"]["message"]
    assert client.close()[1] == []


def test_what_was_not_sent_yet_follows_the_handshake_to_the_new_daemon(place: Place) -> None:
    first = place.daemon()
    client = place.pipe()
    client.send(HELLO, GREETED, call("stall", 1))
    assert client.receive()["id"] == 0
    numbers = range(2, 32)
    for number in numbers:  # more than the socket holds: the last ones cannot have been sent
        client.send(call("echo", number, "z" * 100_000))
    second = place.daemon()
    first.close()
    answers = {answer["id"]: answer["result"] for answer in [client.receive() for _ in range(31)]}
    assert answers[1]["isError"] and not answers[31].get("isError")
    assert second.sessions[0].methods()[:3] == ["initialize", "notifications/initialized", "tools/call"]
    assert client.close() == (0, [], "")


# when the client goes


def test_empty_stdin_ends_at_once_and_starts_nothing(place: Place) -> None:
    ran = run([place.python, "-I", "-m", "mnemo_mcp.thin.pipe"], b"", place.environ)
    assert ran.silent and ran.seconds < 3
    assert not place.data.exists()


def test_answers_under_way_still_arrive_after_the_end_of_stdin(place: Place) -> None:
    place.daemon()
    client = place.pipe()
    client.send(call("slow", 1, "late"), call("echo", 2, "later"))
    code, left, _ = client.close()
    assert code == 0 and [text_of(answer) for answer in left] == ["late", "later"]


def test_answer_that_a_slow_reader_takes_in_parts_is_not_cut(place: Place) -> None:
    daemon = place.daemon()
    client = place.pipe()
    client.send(call("echo", 1, "y" * 300_000))
    until(lambda: daemon.sessions and daemon.sessions[0].messages)
    assert client.process.stdin
    client.process.stdin.close()
    time.sleep(0.3)  # the pipe between us is full by now, and the process would have ended
    assert len(text_of(client.receive())) == 300_000
    assert client.process.wait(5) == 0


def test_answer_that_never_comes_does_not_keep_the_pipe(place: Place) -> None:
    daemon = place.daemon()
    client = place.pipe()
    client.send(request("subscriptions/listen", 1), call("never", 2))
    until(lambda: daemon.sessions and len(daemon.sessions[0].messages) == 2)
    began = time.monotonic()
    assert client.close()[0] == 0
    assert time.monotonic() - began < 5


def test_open_subscription_does_not_delay_the_end(place: Place) -> None:
    daemon = place.daemon()
    client = place.pipe()
    client.send(request("tools/list", 0), request("subscriptions/listen", 1))
    until(lambda: daemon.sessions and len(daemon.sessions[0].messages) == 2)
    began = time.monotonic()
    assert client.close()[0] == 0
    assert time.monotonic() - began < 1.5


def test_daemon_that_hangs_does_not_keep_the_pipe(place: Place) -> None:
    place.script()
    client = place.pipe()
    client.send(call("echo", 1, "up"))
    assert text_of(client.receive()) == "up"
    os.kill(place.pids()[0], signal.SIGSTOP)
    for number in range(2, 12):
        client.send(call("echo", number, "z" * 100_000))
    assert client.close()[0] == 0


def test_pipe_ends_with_a_killed_parent(place: Place) -> None:
    place.daemon()
    parent = (
        "import json, subprocess, sys, time\n"
        "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        f"child.stdin.write({json.dumps(call('never', 1)).encode()!r} + b'\\n'); child.stdin.flush()\n"
        "print(child.pid, flush=True); time.sleep(60)\n"
    )
    command = [str(installation()), "-c", parent, str(place.python), "-I", "-m", "mnemo_mcp.thin.pipe"]
    with subprocess.Popen(command, env=place.environ, stdout=subprocess.PIPE) as process:
        assert process.stdout
        pid = int(process.stdout.readline())
        end(process.pid)
    until(lambda: not alive(pid), 5)


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGINT])
def test_signals_end_the_pipe(place: Place, way: signal.Signals) -> None:
    place.daemon()
    client = place.pipe()
    client.send(call("echo", 1, "up"), call("never", 2))
    client.receive()
    client.process.send_signal(way)
    client.process.wait(5)


def test_removed_working_folder_is_no_obstacle(place: Place) -> None:
    place.daemon()
    folder = place.home / "gone"
    folder.mkdir()
    script = f'cd "{folder}" && rmdir "{folder}" && exec "{place.python}" -I -m mnemo_mcp.thin.pipe'
    client = place.pipe(command=["/bin/sh", "-c", script])
    client.send(call("echo", 1, "here"))
    assert text_of(client.receive()) == "here"
    assert not Path(folder).exists()
