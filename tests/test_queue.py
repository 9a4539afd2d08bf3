"""The queue and the record of calls: bounded, on disk, nothing done or asked twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from desk import opened
from language_models import BEGIN, Connected
from openai_server import ModelServer, in_turn, says
from queueing import NOW, ONE, add, after

from mnemo_mcp import errors
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.work import MOST_TRIES, Task
from mnemo_mcp.memory import instant, moment


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "mnemo.db", BEGIN)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda request: says(ONE)) as serving:
        yield serving


@pytest.fixture
def connected(server: ModelServer, tmp_path: Path) -> Connected:
    return Connected(tmp_path, server)


def _take(store: Store, now: str = NOW) -> Task:
    task = store.work.take("distil", now)
    assert task is not None
    return task


def _done(store: Store, task: Task, now: str = NOW) -> None:
    with store.write() as tx:
        store.work.done(tx, task, now)


# The queue


def test_tasks_are_taken_once_in_the_order_they_are_due(store: Store) -> None:
    add(store, "late", due=after(5))
    add(store, "first", "second")
    assert store.work.due("distil", NOW) == 2 and store.work.due("judge", NOW) == 0
    assert [_take(store).subject, _take(store).subject] == ["first", "second"]
    assert store.work.take("distil", NOW) is None
    assert _take(store, after(5)).subject == "late"


def test_a_task_done_is_gone_and_one_asked_for_again_stays(store: Store) -> None:
    add(store, "a", "b")
    a, b = _take(store), _take(store)
    add(store, "b", due=after(60))
    _done(store, a)
    _done(store, b)
    assert store.work.take("distil", NOW) is None
    again = _take(store, after(60))
    assert (again.subject, again.attempts, again.last_error) == ("b", 1, "")
    _done(store, again)
    assert store.work.waiting() == {}


def test_failures_are_kept_with_longer_and_longer_pauses(store: Store) -> None:
    add(store, "a")
    now, pauses = NOW, []
    for attempt in range(1, MOST_TRIES + 3):
        task = _take(store, now)
        assert task.attempts == attempt
        store.work.failed(task, errors.NotUnderstood("No JSON."), now, chance=0.0)
        next_try = store.work.queues(now)[0].next_try
        pauses.append((moment(next_try) - moment(now)).total_seconds())
        assert store.work.take("distil", instant(moment(next_try) - timedelta(seconds=1))) is None
        now = next_try
    assert pauses[:7] == [60, 120, 240, 480, 960, 1800, 1800]
    assert pauses[MOST_TRIES - 1 :] == [86_400] * 3
    queue = store.work.queues(now)[0]
    assert (queue.waiting, queue.running, queue.stuck) == (0, 0, 1)
    assert (queue.error, queue.error_kind) == ("No JSON.", "answer")


def test_chance_shortens_pauses_and_never_lengthens_them(store: Store) -> None:
    for chance in (0.0, 0.5, 1.0):
        add(store, f"at {chance}")
        store.work.failed(_take(store), errors.NotUnderstood("No JSON."), NOW, chance)
    with store.database.read() as connection:
        dues = dict(connection.execute("SELECT subject, due_at FROM work").fetchall())
    assert dues == {"at 0.0": after(60), "at 0.5": after(50), "at 1.0": after(40)}


def test_a_try_that_never_reached_the_server_does_not_count(store: Store) -> None:
    add(store, "a")
    store.work.failed(_take(store), errors.RateLimited("Fewer.", retry_seconds=120.0), NOW, 0.0)
    assert store.work.due("distil", after(119)) == 0
    task = _take(store, after(120))
    assert task.attempts == 1
    store.work.failed(task, errors.Unreachable("Nobody."), after(120), 0.0)
    assert _take(store, after(180)).attempts == 1


def test_new_words_in_a_thread_do_not_hurry_a_task_that_failed(store: Store) -> None:
    add(store, "a")
    store.work.failed(_take(store), errors.NotUnderstood("No JSON."), NOW, 0.0)
    add(store, "a", due=after(1))
    assert store.work.due("distil", after(59)) == 0
    add(store, "a", due=after(90))
    assert store.work.due("distil", after(60)) == 0 and store.work.due("distil", after(90)) == 1


def test_once_one_gets_through_the_others_need_not_wait(store: Store) -> None:
    add(store, "a", "b", "c")
    for _ in range(3):
        store.work.failed(_take(store), errors.ServerFailed("Down."), NOW, 0.0)
    for _ in range(4):
        store.work.failed(_take(store, after(5_000)), errors.ServerFailed("Down."), after(3_000), 0.0)
    task = _take(store, after(9_000))
    _done(store, task, after(9_000))
    assert store.work.due("distil", after(9_000)) == 2


def test_claims_run_out(store: Store) -> None:
    add(store, "a")
    store.work.take("distil", NOW, claim_seconds=10)
    assert store.work.take("distil", after(9)) is None
    late = _take(store, after(10))
    assert late.attempts == 2


def test_who_lost_a_claim_changes_nothing_by_failing_late(store: Store) -> None:
    add(store, "a")
    lost = store.work.take("distil", NOW, claim_seconds=10)
    assert lost is not None
    held = _take(store, after(10))
    store.work.failed(lost, errors.NotUnderstood("No JSON."), after(11), 0.0)
    assert store.work.take("distil", after(900)) is None
    _done(store, held, after(12))
    assert store.work.waiting() == {}


KILLED = """
import os, signal, sys
from datetime import datetime, UTC
from pathlib import Path
from mnemo_mcp.ledger.store import Store
store = Store(Path(sys.argv[1]), datetime.now(UTC))
assert store.work.take("distil", sys.argv[2]).subject == "a"
with store.write() as tx:
    tx.execute("DELETE FROM work")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_task_whose_process_was_killed_comes_back(store: Store, tmp_path: Path) -> None:
    add(store, "a")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "mnemo.db"), NOW]
    assert subprocess.run(command, cwd=Path(__file__).parent.parent).returncode == -signal.SIGKILL
    assert store.work.take("distil", after(60)) is None
    assert store.work.recover(after(60)) == 1
    task = _take(store, after(60))
    assert (task.attempts, task.error_kind) == (2, "crash")


def test_a_task_that_kills_its_process_is_not_run_without_end(store: Store) -> None:
    add(store, "a")
    for _ in range(MOST_TRIES):
        _take(store)
        store.work.recover(NOW)
    assert store.work.take("distil", after(3_600)) is None
    assert _take(store, after(86_400)).attempts == MOST_TRIES + 1


def test_several_processes_take_each_task_once(store: Store, tmp_path: Path) -> None:
    add(store, *(str(number) for number in range(60)))
    code = (
        "import sys\nfrom datetime import datetime, UTC\nfrom pathlib import Path\n"
        "from mnemo_mcp.ledger.store import Store\nstore = Store(Path(sys.argv[1]), datetime.now(UTC))\n"
        "while task := store.work.take('distil', sys.argv[2]):\n"
        "    print(task.subject)\n"
        "    with store.write() as tx: store.work.done(tx, task, sys.argv[2])\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "mnemo.db"), NOW]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parent.parent) for _ in range(3)
    ]
    taken = [line for each in running for line in each.communicate(timeout=60)[0].split()]
    assert sorted(map(int, taken)) == list(range(60))
    assert store.work.waiting() == {}


# Calls are not repeated


def test_a_call_made_before_is_not_made_again(server: ModelServer, connected: Connected) -> None:
    first = connected.read()
    connected.again()
    assert connected.read() == first
    assert len(server.asked()) == 1 and connected.models.tokens_today == 120
    connected.read("other words")
    connected.again(model="other-model")
    connected.read()
    assert len(server.asked()) == 3


def test_an_answer_nobody_could_use_is_asked_for_again(server: ModelServer, connected: Connected) -> None:
    server.answer = in_turn(says("no JSON"), says(ONE))
    with pytest.raises(errors.NotUnderstood):
        connected.read()
    assert connected.read().parsed == json.loads(ONE)
    assert connected.models.tokens_today == 240  # both were paid for


def test_kept_answers_go_with_time_and_accounts_stay(server: ModelServer, connected: Connected) -> None:
    connected.read(sources=["e1"])
    connected.store.calls.purge(after(6.9 * 86_400))
    connected.read(sources=["e1"])
    assert len(server.asked()) == 1
    connected.store.calls.purge(after(7.1 * 86_400))
    connected.read(sources=["e1"])
    assert len(server.asked()) == 2
    assert sum(each.calls for each in connected.store.calls.account("", "9")) == 2
    connected.store.calls.purge(after(401 * 86_400))
    assert connected.store.calls.account("", "9") == []
    with connected.store.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM call_sources").fetchone() == (0,)


def test_what_is_erased_is_gone_from_kept_answers(tmp_path: Path) -> None:
    with ModelServer(
        lambda request: says('{"memories": [{"what": "The door code is in the safe"}]}')
    ) as server:
        connected = Connected(tmp_path, server)
        service = opened(tmp_path)
        service.hook(
            "claude",
            "turn-end",
            json.dumps(
                {"session_id": "s-1", "cwd": "/home/dev/atlas", "hook_event_name": "Stop",
                 "last_assistant_message": "Noted."}
            ).encode(),
        )  # fmt: skip
        memory = service.remember("The door code is in the safe")
        (source,) = service.store.truth.get(memory.id, "personal").episodes
        connected.read("of the memory", sources=[memory.id])
        connected.read("of its episode", sources=[source])
        connected.read("of others", sources=["e-other"])
        service.forget(memory.id, "erase")
        bodies = _kept_bodies(service.store)
        assert len(bodies) == 1
        service.close()
    for file in tmp_path.glob("mnemo.db*"):
        assert (
            file.read_bytes().count(b"The door code is in the safe") <= len(bodies) + 1
        )  # the episode stays


def _kept_bodies(store: Store) -> list[str]:
    with store.database.read() as connection:
        return [body for (body,) in connection.execute("SELECT body FROM calls WHERE body <> ''")]
