"""Hooks from the client's command to the disk: the real script, a real daemon, a real store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from product import EVENTS, HOOK, PLUGIN, Product, Stdio, alive, injected, until
from transcripts import Transcript

from mnemo_mcp.thin import link

SESSION = "5b1d0c9e-0000-4000-8000-000000000001"
ATLAS = "/home/dev/atlas"
WHY = "why does atlas use postgres?"
POSTGRES = {"what": "Atlas uses Postgres", "why": "billing needs transactions", "kind": "decision"}
MOMENTS = ("session-open", "pre-message", "turn-end")
NO_ENCODERS = "[encoders]\nenglish = 'off'\nother = 'off'\n"

Done = subprocess.CompletedProcess[bytes]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One daemon for tests that keep to sessions and folders of their own."""
    home = tmp_path_factory.mktemp("shared") / "below/many/folders/home"
    home.mkdir(parents=True)
    with Product(home, MNEMO_ENCODERS="off") as product:
        product.remember(**POSTGRES, project=ATLAS)
        yield product


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Product]:
    """A daemon that a test may do anything to."""
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        product.remember(**POSTGRES, project=ATLAS)
        yield product


def payload_of(moment: str, session: str = SESSION, cwd: str = ATLAS, **fields: Any) -> bytes:
    common = {"session_id": session, "cwd": cwd, "hook_event_name": EVENTS[moment]}
    return json.dumps({**common, **fields}).encode()


def is_silent(done: Done) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def said(product: Product, session: str) -> list[tuple[str, str]]:
    return [(each["role"], each["text"]) for each in product.episodes(session)]


def timed(product: Product, moment: str, payload: bytes) -> tuple[Done, float]:
    """A hook up to the end of its output, which a child left behind would keep open."""
    began = time.monotonic()
    done = product.shell(moment, payload)
    return done, time.monotonic() - began


# a daemon that hangs


def test_hanging_daemon_is_left_in_time_and_speaks_again(own: Product) -> None:
    payloads = {
        "pre-message": payload_of("pre-message", prompt=WHY, prompt_id="t-1"),
        "session-open": payload_of("session-open", source="startup"),
        "turn-end": payload_of("turn-end", prompt_id="t-1", last_assistant_message="For its transactions."),
    }
    pid = own.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(10) as pool:
            calls = {
                moment: [pool.submit(timed, own, moment, payload) for _ in range(5 if "e-" in moment else 2)]
                for moment, payload in payloads.items()
            }
            ran = {moment: [call.result() for call in each] for moment, each in calls.items()}
    finally:
        os.kill(pid, signal.SIGCONT)
    assert all(is_silent(done) for each in ran.values() for done, _ in each)
    for moment, ceiling in (("pre-message", 2.0), ("session-open", 3.0), ("turn-end", 1.5)):
        assert statistics.median(seconds for _, seconds in ran[moment]) < ceiling
    assert "Postgres" in own.hook("pre-message", session=SESSION, prompt=WHY, prompt_id="t-2")
    assert own.pid() == pid
    until(lambda: not list((own.data / "inbox").iterdir()))
    told = [(each["role"], each["turn"]) for each in own.episodes(SESSION)]
    assert sorted(told) == [("assistant", "t-1"), ("person", "t-1"), ("person", "t-2")]
    assert len([line for line in own.log() if "in time" in line]) == 1


def test_store_held_by_another_process_is_not_waited_for(own: Product) -> None:
    asking = payload_of("pre-message", prompt=WHY, prompt_id="t-1")
    opening = payload_of("session-open", source="startup")
    with closing(sqlite3.connect(own.data / "mnemo.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(timed, own, "session-open", opening)
            second = pool.submit(timed, own, "pre-message", asking)
        other.execute("ROLLBACK")
    for (done, seconds), ceiling in ((first.result(), 3.0), (second.result(), 2.0)):
        assert is_silent(done) and seconds < ceiling
    assert "Postgres" in own.hook("pre-message", session=SESSION, prompt=WHY, prompt_id="t-2")


# the end of a turn


def test_turn_end_is_quick_and_what_it_brought_can_be_read_at_once(shared: Product) -> None:
    answer = "The gateway timeout is 600 s because the load balancer cut streams at 120 s."
    seconds = []
    for number in range(5):
        payload = payload_of("turn-end", "hk-03", prompt_id=f"t-{number}", last_assistant_message=answer)
        done, took = timed(shared, "turn-end", payload)
        assert is_silent(done)
        assert len(said(shared, "hk-03")) == number + 1
        seconds.append(took)
    assert statistics.median(seconds) < 1.0
    first = shared.episodes("hk-03")[0]
    [episode] = shared.json("episode", first["id"])["episodes"]
    assert (episode["text"], episode["role"], episode["project"]) == (answer, "assistant", ATLAS)


@pytest.mark.parametrize("fields", [{"prompt_id": "t-1"}, {}])
def test_turn_end_is_recorded_once_and_never_keeps_the_agent_going(
    shared: Product, fields: dict[str, str]
) -> None:
    session = f"hk-02-{len(fields)}"
    bare = payload_of("turn-end", session, stop_hook_active=False, **fields)
    assert is_silent(shared.shell("turn-end", bare))
    for active in (False, True, False):
        payload = payload_of(
            "turn-end", session, stop_hook_active=active, last_assistant_message="Done.", **fields
        )
        assert is_silent(shared.shell("turn-end", payload))
    assert said(shared, session) == [("assistant", "Done.")]


def test_whole_turn_is_stored_once(shared: Product) -> None:
    session = "whole-turn"
    log = Transcript(shared.home, session)
    where = {"transcript_path": str(log.path), "prompt_id": "t-1"}
    asking = payload_of("pre-message", session, prompt="which port has the gateway?", **where)
    assert is_silent(shared.shell("pre-message", asking))
    log.prompt("which port has the gateway?", "t-1", origin={"kind": "human"})
    log.tool("mcp__plugin_mnemo_mnemo__recall", "- [fact] what mnemo itself handed out", "t-1")
    log.tool("Bash", "gateway: listening on 8443", "t-1")
    log.prompt("find the port", "t-1", isSidechain=True, agentId="a1")
    log.says("8443, says the log.")
    ending = payload_of("turn-end", session, last_assistant_message="8443, says the log.", **where)
    for moment in ("turn-end", "turn-end", "session-end"):
        assert is_silent(shared.shell(moment, ending))
    assert said(shared, session) == [
        ("person", "which port has the gateway?"),
        ("tool", "gateway: listening on 8443"),
        ("assistant", "8443, says the log."),
    ]


def test_turn_that_ended_without_a_daemon_is_stored_by_the_next(own: Product) -> None:
    log = Transcript(own.home, SESSION)
    where = {"transcript_path": str(log.path), "prompt_id": "t-1"}
    log.prompt("which port?", "t-1")
    log.tool("Bash", "listening on 8443", "t-1")
    own.kill()
    ending = payload_of("turn-end", last_assistant_message="8443.", **where)
    assert is_silent(own.shell("turn-end", ending))
    expected = [("person", "which port?"), ("tool", "listening on 8443"), ("assistant", "8443.")]
    until(lambda: said(own, SESSION) == expected)
    until(lambda: not list((own.data / "inbox").iterdir()))
    assert is_silent(own.shell("turn-end", ending))
    assert said(own, SESSION) == expected


def test_queued_prompt_is_stored_once(shared: Product) -> None:
    session = "queued"
    log = Transcript(shared.home, session)
    where = {"transcript_path": str(log.path)}
    for prompt in ("build the gateway", "then run its tests"):
        shared.hook("pre-message", session=session, prompt=prompt, prompt_id="t-1", **where)
    for turn, prompt in (("t-1", "build the gateway"), ("t-2", "then run its tests")):
        log.prompt(prompt, turn)
        ending = payload_of("turn-end", session, prompt_id=turn, last_assistant_message=f"{turn}.", **where)
        assert is_silent(shared.shell("turn-end", ending))
    assert said(shared, session) == [
        ("person", "build the gateway"),
        ("person", "then run its tests"),
        ("assistant", "t-1."),
        ("assistant", "t-2."),
    ]


# what a hook prints


@pytest.mark.parametrize(
    ("moment", "fields"), [("pre-message", {"prompt": WHY}), ("session-open", {"source": "startup"})]
)
def test_injection_has_the_one_accepted_shape(shared: Product, moment: str, fields: dict[str, str]) -> None:
    done = shared.shell(moment, payload_of(moment, f"hk-04-{moment}", **fields))
    assert (done.returncode, done.stderr) == (0, b"")
    assert "Postgres" in injected(done.stdout)
    assert json.loads(done.stdout)["hookSpecificOutput"]["hookEventName"] == EVENTS[moment]


def test_hooks_at_the_same_moment_say_a_thing_once(shared: Product) -> None:
    payload = payload_of("pre-message", "at-once", prompt=WHY)
    with ThreadPoolExecutor(6) as pool:
        answers = [done.stdout for done in pool.map(lambda _: shared.shell("pre-message", payload), range(6))]
    assert [b"Postgres" in answer for answer in sorted(answers)] == [False] * 5 + [True]


def test_nothing_to_say_is_no_output_at_all(shared: Product) -> None:
    nothing = payload_of("pre-message", "hk-04", prompt="zzqx unmatched words only")
    assert is_silent(shared.shell("pre-message", nothing))
    ending = payload_of("turn-end", "hk-04", last_assistant_message="Postgres, for its transactions.")
    assert is_silent(shared.shell("turn-end", ending))


# any environment, any folder


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Product]:
    """A home with the plugin in it and the data folder where it is without any setting."""
    home = tmp_path / "Zoë O'Brien (dev) & co"
    home.mkdir()
    product = Product(home)
    del product.environ["MNEMO_HOME"]
    product.data = home / ".local/share/mnemo"
    product.data.mkdir(mode=0o700, parents=True)
    (product.data / "config.toml").write_text(NO_ENCODERS)
    link.write_pointer(str(product.data))
    shutil.copytree(PLUGIN, plugin_of(product))
    with product:
        yield product


def plugin_of(product: Product) -> Path:
    return product.home / ".claude/plugins/cache/mnemo/0.1.0"


def test_foreign_programs_and_variables_change_nothing(installed: Product) -> None:
    decoys = installed.home / "decoys"
    decoys.mkdir()
    for name in ("python", "python3", "uv", "node"):
        (decoys / name).write_text(f"#!/bin/sh\n: >'{installed.home.parent}/decoy-ran'\nexit 1\n")
        (decoys / name).chmod(0o755)
    installed.remember(**POSTGRES, project=ATLAS)
    normal = dict(installed.environ)
    bare = {"HOME": normal["HOME"], "PATH": "/usr/bin:/bin"}
    foreign = dict.fromkeys(("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"), "/nowhere")
    answers = []
    for number, environ in enumerate((normal, bare, {**bare, "PATH": f"{decoys}:/usr/bin:/bin", **foreign})):
        installed.environ = environ
        fields = {"prompt": WHY, "source": "startup", "last_assistant_message": "For billing."}
        ran = [
            installed.shell(
                moment, payload_of(moment, f"{moment}-{number}", **fields), plugin=plugin_of(installed)
            )
            for moment in MOMENTS
        ]
        assert all((done.returncode, done.stderr) == (0, b"") for done in ran)
        answers.append([done.stdout for done in ran])
        assert said(installed, f"turn-end-{number}") == [("assistant", "For billing.")]
    installed.environ = normal
    assert answers[1:] == answers[:1] * 2
    assert all(b"Postgres" in answer for answer in answers[0][:2])
    assert not (installed.home.parent / "decoy-ran").exists()


def test_first_hook_of_all_starts_the_daemon(installed: Product) -> None:
    installed.environ = {"HOME": str(installed.home), "PATH": "/nowhere"}
    ending = payload_of("turn-end", last_assistant_message="For billing.")
    assert is_silent(installed.shell("turn-end", ending, plugin=plugin_of(installed)))
    until(lambda: (installed.data / "mnemo.db").exists() and not list((installed.data / "inbox").iterdir()))
    assert said(installed, SESSION) == [("assistant", "For billing.")]


def test_any_name_of_a_folder(installed: Product) -> None:
    home, around = installed.home, installed.home.parent
    project = home / "café #1 [atlas]"
    project.mkdir()
    trap = around / "Zoë"
    trap.write_text(f"#!/bin/sh\n: >'{around}/trapped'\n")
    trap.chmod(0o755)
    outside = sorted(around.iterdir())
    manifest = json.loads((plugin_of(installed) / ".mcp.json").read_text("utf-8"))["mcpServers"]["mnemo"]
    arguments = [
        each.replace("${CLAUDE_PLUGIN_ROOT}", str(plugin_of(installed))) for each in manifest["args"]
    ]
    server = Stdio([manifest["command"], *arguments], installed.environ)
    try:
        server.open()
        well, _ = server.call("remember", **POSTGRES, project=str(project))
        assert well
        for moment, fields in (
            ("pre-message", {"prompt": WHY}),
            ("session-open", {"source": "startup"}),
            ("turn-end", {"last_assistant_message": "The quokka service listens on 8443."}),
        ):
            payload = payload_of(moment, moment, str(project), **fields)
            done = installed.shell(moment, payload, plugin=plugin_of(installed), cwd=project)
            assert (done.returncode, done.stderr) == (0, b"")
            assert ("Postgres" in injected(done.stdout)) == (moment != "turn-end")
        asked = [("why postgres?", "billing"), ("where does the quokka service listen?", "8443")]
        until(
            lambda: all(
                answer in server.call("recall", query=question, project=str(project))[1]
                for question, answer in asked
            )
        )
    finally:
        server.end()
    installed.run("stop")
    assert sorted(around.iterdir()) == outside
    assert not list(project.iterdir())


# any stdin

BROKEN = [
    b"",
    b"\n",
    b"null",
    b"[]",
    b"{",
    b'{"prompt": 5}',
    b'{"prompt": null, "session_id": null}',
    b'{"session_id":"hk-07","hook_event_name":"Stop","transcript_path":"/home/dev/does-not-exist.jsonl"}',
    b'{"session_id":"hk-07"}{"session_id":"t"}',
    b'{"session_id":"hk-07","prompt":["hello"]}',
]
FRAMED = [
    b'\xef\xbb\xbf{"session_id":"hk-07-bom","cwd":"/home/dev/atlas","prompt":"hello postgres atlas"}',
    b'{\r\n"session_id":"hk-07-crlf",\r\n"cwd":"/home/dev/atlas",\r\n"prompt":"hello postgres atlas"}\r\n',
]


def test_nothing_is_stored_for_broken_stdin(shared: Product) -> None:
    before = shared.episodes()
    for stdin in BROKEN:
        for moment in MOMENTS:
            done, seconds = timed(shared, moment, stdin)
            assert (done.returncode, done.stderr) == (0, b"") and seconds < 1.5
            assert not done.stdout or (moment == "session-open" and b"hk-07" in stdin)
    assert shared.episodes() == before
    assert not list((shared.data / "inbox").iterdir())


@pytest.mark.parametrize("stdin", FRAMED)
def test_marks_and_line_ends_of_other_systems_are_read(shared: Product, stdin: bytes) -> None:
    assert "Postgres" in injected(shared.shell("pre-message", stdin).stdout)
    session = json.loads(stdin.decode("utf-8-sig"))["session_id"]
    assert said(shared, session) == [("person", "hello postgres atlas")]


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
)
STDIN = st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode)


@given(st.lists(st.tuples(st.sampled_from(MOMENTS), STDIN), min_size=6, max_size=6))
@examples(max_examples=6, deadline=None)
def test_any_stdin_is_harmless(shared: Product, calls: list[tuple[str, bytes]]) -> None:
    pid = shared.pid()
    for moment, stdin in calls:
        done = shared.hook_raw(moment, b"{" + stdin if len(stdin) % 2 else stdin)
        assert is_silent(done)
    assert shared.pid() == pid and alive(pid)


def test_texts_are_utf8_whatever_the_locale_says(shared: Product) -> None:
    cwd, session = "/home/dev/日本", "hk-08"
    what, prompt, answer = "デプロイは木曜日", 'デプロイ の曜日は? \\ " ソ 表 é 🙂', "デプロイは木曜日です 🙂"
    shared.remember(what, project=cwd)
    ascii_only = {"LC_ALL": "C", "LANG": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    asking = {"session_id": session, "cwd": cwd, "prompt": prompt, "hook_event_name": "UserPromptSubmit"}
    done = shared.shell("pre-message", json.dumps(asking, ensure_ascii=False).encode(), **ascii_only)
    assert what.encode() in done.stdout and what in injected(done.stdout)
    ending = payload_of("turn-end", session, cwd, last_assistant_message=answer)
    assert is_silent(shared.shell("turn-end", ending, **ascii_only))
    assert said(shared, session) == [("person", prompt), ("assistant", answer)]


# megabytes


# A process counts as its own the memory of the one that started it, so a small one does.
WEIGHED = """
import os, sys
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(process, 0)
print(usage.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_end_of_a_long_prompt_counts(shared: Product) -> None:
    shared.remember("Error E4312 means that the replica lag is over 30 s", project="/home/dev/logs")
    log = "2026-03-02T09:00:00Z INFO worker-3 request 8f2a took 35 ms, path /api/v1/items?token=x1\n" * 58_000
    prompt = f"{log}why E4312?"
    assert len(prompt) > 5_000_000
    payload = payload_of("pre-message", "hk-09", "/home/dev/logs", prompt=prompt)
    hook = [sys.executable, "-I", "-S", str(HOOK), "claude", "pre-message"]
    command = [sys.executable, "-I", "-S", "-c", WEIGHED, *hook]
    pipe = subprocess.PIPE
    began = time.monotonic()
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=shared.environ) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(payload[:-1])
        process.stdin.flush()
        told_elsewhere = [pid for pid in Path("/proc").glob("[0-9]*") if b"worker-3 request" in told_to(pid)]
        process.stdin.write(payload[-1:])
        process.stdin.close()
        answer, kilobytes = process.stdout.read(), int(process.stderr.read())
    assert process.returncode == 0 and time.monotonic() - began < 3.0
    assert "replica lag" in injected(answer)
    assert not told_elsewhere
    assert kilobytes < 500 << 10
    assert said(shared, "hk-09") == [("person", prompt)]


def told_to(process: Path) -> bytes:
    """The command line and the environment of a process."""
    try:
        return (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return b""


def test_long_answer_is_stored_once(shared: Product) -> None:
    answer = "é a line of a very long answer\n" * 170_000
    done, seconds = timed(
        shared, "turn-end", payload_of("turn-end", "hk-09-end", last_assistant_message=answer)
    )
    assert is_silent(done) and seconds < 2.0
    until(lambda: said(shared, "hk-09-end") == [("assistant", answer)])


def test_end_of_a_long_question_counts(shared: Product) -> None:
    shared.remember("Error E4313 means that the disk is full", project="/home/dev/logs")
    server = shared.stdio()
    server.open()
    began = time.monotonic()
    well, text = server.call("recall", query="a line of a log " * 12_500 + "E4313", project="*")
    assert well and "the disk is full" in text
    assert time.monotonic() - began < 3.0


# notices


def test_notices_are_not_questions(shared: Product) -> None:
    cwd, session = "/home/dev/ci", "hk-10"
    shared.remember("PR 6342 broke CI because the runner lost its cache", project=cwd)
    notices = [
        "<task-notification> <task-id>b5</task-id> <summary>PR 6342 failed CI</summary></task-notification>",
        "<task-notification>\n<task-id>b5</task-id>\n<result>PR 6342 failed</result>\n</task-notification>\n",
        "<system-reminder>PR 6342 changed</system-reminder>",
        "[SYSTEM NOTIFICATION - NOT USER INPUT] PR 6342 finished",
    ]
    for notice in notices:
        payload = payload_of("pre-message", session, cwd, prompt=notice)
        assert is_silent(shared.shell("pre-message", payload))
    assert {role for role, _ in said(shared, session)} == {"notice"}
    assert spent(shared, session) == 0
    first = shared.hook("pre-message", session=session, cwd=cwd, prompt="what broke CI on PR 6342?")
    assert "lost its cache" in first
    quoting = "why does my log say <task-notification> for PR 6342?"
    second = shared.hook("pre-message", session=f"{session}-2", cwd=cwd, prompt=quoting)
    assert "lost its cache" in second
    assert said(shared, f"{session}-2") == [("person", quoting)]


def rows(product: Product, query: str, *given: str) -> list[Any]:
    with closing(sqlite3.connect(f"file:{product.data}/mnemo.db?mode=ro", uri=True)) as connection:
        return connection.execute(query, given).fetchall()


def spent(product: Product, session: str) -> int:
    [(tokens,)] = rows(product, "SELECT sum(tokens) FROM injections WHERE session = ?", session)
    return int(tokens)


# nothing is started


def test_no_agent_is_ever_started(tmp_path: Path) -> None:
    decoys = tmp_path / "decoys"
    decoys.mkdir()
    for name in ("claude", "codex"):
        (decoys / name).write_text(f"#!/bin/sh\n: >'{tmp_path}/ran'\n")
        (decoys / name).chmod(0o755)
    path = f"{decoys}:{os.environ['PATH']}"
    with Product(tmp_path, MNEMO_ENCODERS="off", PATH=path) as product:
        product.remember(**POSTGRES, project=ATLAS)
        for number in range(10):
            turn = f"t-{number}"
            product.hook("session-open", session=SESSION, source="resume")
            product.hook("pre-message", session=SESSION, prompt=f"question {number}?", prompt_id=turn)
            product.hook("turn-end", session=SESSION, last_assistant_message="Yes.", prompt_id=turn)
        until(lambda: product.json("status")["queue"]["relay"] == 0)
        before = product.episodes()
        assert len(said(product, SESSION)) == 20
        assert rows(product, "SELECT DISTINCT session FROM sessions") == [(SESSION,)]
        for moment in [*MOMENTS, "session-end"]:
            payload = payload_of(moment, "nested", prompt=WHY, last_assistant_message="Nested.")
            assert is_silent(product.shell(moment, payload, MNEMO_NESTED="1"))
            assert is_silent(product.run("hook", "claude", moment, given=payload, MNEMO_NESTED="1"))
        assert product.episodes() == before
        assert not rows(product, "SELECT 1 FROM injections WHERE session = 'nested'")
        assert not list((product.data / "inbox").iterdir())
    assert not (tmp_path / "ran").exists()


# memory that is down


def test_memory_that_is_down_locks_nobody_out(own: Product) -> None:
    away = own.home / "away"
    own.data.rename(away)
    own.data.write_text("not a folder")
    ran = [own.shell("pre-message", payload_of("pre-message", prompt=WHY)) for _ in range(20)]
    ran += [own.shell(moment, payload_of(moment, last_assistant_message="x")) for moment in MOMENTS[::2]]
    assert all(is_silent(done) for done in ran)
    troubles = [line.split(": ", 1)[1] for line in own.log()]
    assert troubles and len(troubles) == len(set(troubles))
    own.data.unlink()
    away.rename(own.data)
    assert "Postgres" in own.hook("pre-message", session=SESSION, prompt=WHY)


def test_store_that_is_no_store_locks_nobody_out(own: Product) -> None:
    own.run("stop")
    database, away = own.data / "mnemo.db", own.home / "away"
    database.rename(away)
    database.write_bytes(b"not a database, but as long as one begins" * 100)
    for moment in (*MOMENTS, "pre-message"):
        assert is_silent(
            own.shell(moment, payload_of(moment, prompt=WHY, last_assistant_message="For billing."))
        )
    assert any("damaged" in problem for problem in own.json("status")["problems"])
    assert database.read_bytes().startswith(b"not a database")
    away.rename(database)
    assert "Postgres" in own.hook("pre-message", session=SESSION, prompt=WHY)
    until(lambda: ("assistant", "For billing.") in said(own, SESSION))


# names that could be paths


def test_names_from_payloads_never_become_paths(shared: Product) -> None:
    outside = listing(shared)
    names = [
        "../../../../evil",
        "/home/dev/evil",
        "a\0b",
        "a\0c",
        "a",
        "x" * 5_000,
        "x" * 5_001,
        "'; --",
        "%2e%2e",
    ]
    for name in names:
        assert "Postgres" in shared.hook("pre-message", session=name, prompt=WHY)
        assert shared.hook("pre-message", session=name, prompt=WHY) == ""
        shared.hook("session-open", session=name, source="startup", cwd="../..")
        shared.hook("turn-end", session=name, last_assistant_message="For billing.")
        shared.hook("turn-end", session=name, transcript_path="/etc/passwd")
        shared.hook("turn-end", session=name, transcript_path=f"{shared.home}/../../../etc/passwd")
        assert said(shared, name) == [("person", WHY), ("assistant", "For billing.")]
    server = shared.stdio()
    server.open()
    for name in ("../../../../etc/passwd", "%2e%2e%2fetc%2fpasswd", "/etc/passwd", "m" + "../" * 5, ""):
        well, text = server.call("recall_episode", id=name)
        assert not well and "root:" not in text
    well, _ = server.call("remember", what="The odd project is odd", project="../../evil")
    assert well
    until(lambda: shared.json("status")["queue"]["relay"] == 0)
    assert listing(shared) == outside


def listing(product: Product) -> list[Path]:
    """Everything in the home and around it, but not in the data folder itself."""
    around = product.home.parents[3]
    return sorted(path for path in around.rglob("*") if not path.is_relative_to(product.data))
