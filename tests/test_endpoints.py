"""Endpoints that fail or cost: they rest, have a ceiling, and are told in words."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from desk import opened
from language_models import BEGIN, Connected
from openai_server import ModelServer, Reply, Request, fails, in_turn, says
from product import Product, until
from queueing import NOW, ONE, add, after

from mnemo_mcp import errors
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.work import Task
from mnemo_mcp.memory import instant
from mnemo_mcp.tasks import Finish, Tasks


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda request: says(ONE)) as serving:
        yield serving


@pytest.fixture
def connected(server: ModelServer, tmp_path: Path) -> Connected:
    return Connected(tmp_path, server)


# Endpoints rest


def _fail(
    connected: Connected, error: type[errors.EndpointError], content: str = "x"
) -> errors.EndpointError:
    with pytest.raises(errors.EndpointError) as raised:
        connected.read(content)
    assert type(raised.value) is error, raised.value
    return raised.value


def test_failures_in_a_row_open_the_circuit_and_one_try_closes_it(
    server: ModelServer, connected: Connected
) -> None:
    server.answer = lambda request: fails(500, "out of memory")
    for _ in range(3):
        _fail(connected, errors.ServerFailed)
    resting = _fail(connected, errors.Resting)
    assert resting.retry_seconds == 30 and len(server.asked()) == 3
    connected.again()  # a restart changes nothing
    connected.later(29)
    assert connected.models.rests("extraction")
    _fail(connected, errors.Resting)
    rests = []
    for _ in range(8):
        connected.later(connected_rest(connected))
        assert not connected.models.rests("extraction")
        _fail(connected, errors.ServerFailed)
        rests.append(connected_rest(connected))
    assert rests == [60, 120, 240, 480, 960, 1_800, 1_800, 1_800]
    server.answer = lambda request: says(ONE)
    connected.later(1_800)
    connected.read()
    assert not connected.models.rests("extraction") and connected.models.problems({}) == []
    server.answer = lambda request: fails(500)
    _fail(connected, errors.ServerFailed, "other")  # the count begins anew
    assert not connected.models.rests("extraction")


def connected_rest(connected: Connected) -> float:
    """Seconds until the endpoint may be asked again."""
    return _fail(connected, errors.Resting).retry_seconds or 0.0


def test_after_a_rest_only_one_is_let_through(server: ModelServer, connected: Connected) -> None:
    server.answer = lambda request: fails(503, retry_after="60")
    _fail(connected, errors.ServerFailed)
    connected.later(61)
    second = Connected(connected.folder, server, now=connected.now)

    def meanwhile(request: Request) -> Reply:
        _fail(second, errors.Resting)
        return says(ONE)

    server.answer = meanwhile
    assert connected.read().parsed == json.loads(ONE)
    server.answer = lambda request: says(ONE)
    second.read("other")


def test_no_call_before_the_server_wants_one(server: ModelServer, connected: Connected) -> None:
    server.answer = in_turn(fails(429, "slow down", retry_after="120"), says(ONE))
    assert _fail(connected, errors.RateLimited).retry_seconds == 120
    connected.later(119)
    _fail(connected, errors.Resting)
    assert len(server.asked()) == 1
    connected.later(1)
    assert connected.read().parsed == json.loads(ONE)


@pytest.mark.parametrize(
    ("reply", "error"),
    [(fails(401), errors.KeyRefused), (fails(404, "model not found"), errors.ModelUnknown)],
)
def test_what_only_a_person_can_mend_is_not_tried_again(
    server: ModelServer, connected: Connected, reply: Reply, error: type[errors.EndpointError]
) -> None:
    server.answer = lambda request: reply
    told = str(_fail(connected, error))
    connected.later(30 * 86_400)
    connected.again()
    _fail(connected, errors.Resting)
    assert len(server.asked()) == 1
    (problem,) = connected.models.problems({"extraction": "2 threads"})
    assert problem.startswith(told) and "2 threads wait" in problem and "2026-09-14 09:30" in problem
    assert "until the settings change" in problem
    server.answer = lambda request: says(ONE)
    connected.again(extra_body={"changed": 1})
    assert connected.read().parsed == json.loads(ONE)


def test_doctor_finds_it_well_again(server: ModelServer, connected: Connected) -> None:
    server.answer = lambda request: fails(401)
    _fail(connected, errors.KeyRefused)
    assert connected.models.probe()[0].problem == ""
    _fail(connected, errors.KeyRefused)
    server.models = ("another", "third")
    (found,) = connected.models.probe()
    assert "has no model 'test-model'" in found.problem and "another, third" in found.problem


def test_a_request_of_its_own_fault_does_not_rest_the_endpoint(
    server: ModelServer, connected: Connected
) -> None:
    server.answer = in_turn(fails(400), fails(400), says("no JSON"), says(""), says("{", "length"), says(ONE))
    for number in range(4):
        with pytest.raises(errors.EndpointError):
            connected.read(str(number))
    assert connected.read("well").parsed == json.loads(ONE)


# Ceiling and words


def test_the_ceiling_of_a_day_holds_until_the_persons_midnight(server: ModelServer, tmp_path: Path) -> None:
    madrid_in_winter = timezone(timedelta(hours=1))
    connected = Connected(tmp_path, server, limits={"daily_tokens": 300}, zone=madrid_in_winter)
    connected.now = datetime(2026, 1, 10, 22, 0, tzinfo=UTC)
    connected.read("one")
    connected.read("two")
    reached = _fail(connected, errors.CeilingReached, "three " * 60)
    assert reached.retry_seconds == 3_600 and len(server.asked()) == 2
    connected.read("one")  # what is at hand costs nothing
    connected.later(3_600)
    connected.read("three")
    assert connected.models.tokens_today == 120


def test_the_cost_is_told_by_day_and_purpose(server: ModelServer, tmp_path: Path) -> None:
    connected = Connected(tmp_path, server, endpoint={"price_in": 0.5, "price_out": 2.0})
    connected.read("one")
    connected.later(86_400)
    connected.read("two")
    connected.read("three")
    entries = connected.models.status()["spent"]
    assert [(each["day"], each["calls"]) for each in entries] == [("2026-09-15", 2), ("2026-09-14", 1)]
    assert entries[0]["purpose"] == "distil" and entries[0]["tokens_in"] == 200
    assert entries[0]["cost"] == pytest.approx((200 * 0.5 + 40 * 2.0) / 1_000_000)


def test_a_ceiling_reached_is_told(server: ModelServer, tmp_path: Path) -> None:
    connected = Connected(tmp_path, server, limits={"daily_tokens": 100})
    connected.read()
    (problem,) = connected.models.problems({"extraction": "1 thread", "decisions": ""})
    assert "100 tokens of this day are used up; 1 thread" in problem
    assert connected.models.problems({"extraction": "", "decisions": ""}) == []


def test_a_stall_is_told_with_its_cause_and_what_waits(server: ModelServer, connected: Connected) -> None:
    connected.zone = timezone(timedelta(hours=2))
    connected.again()
    server.answer = lambda request: fails(429, retry_after="420")
    tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 0.0)
    add(connected.store, *(str(number) for number in range(14)))
    assert tasks.run("distil", _reading(connected))
    assert not tasks.run("distil", _reading(connected))
    (problem,) = tasks.problems()
    assert "wants fewer requests" in problem and "So since 11:30. 14 threads wait. Next try 11:37." in problem
    assert tasks.status()["models"]["endpoints"][0]["state"] == "resting"
    server.answer = lambda request: says(ONE)
    connected.later(420)
    while tasks.run("distil", _reading(connected)):
        pass
    assert connected.store.work.waiting() == {} and tasks.problems() == []


def _reading(connected: Connected, finish: Finish = lambda tx: None) -> Callable[[Task], Finish]:
    def do(task: Task) -> Finish:
        connected.read(f"thread {task.subject}")
        return finish

    return do


def test_nothing_of_a_task_that_fails_is_kept(connected: Connected) -> None:
    tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 0.0)
    add(connected.store, "a")

    def half(tx: Connection) -> None:
        tx.execute("INSERT INTO upgrades (schema, version, at) VALUES (99, 'x', 'x')")
        raise errors.Refused("It cannot be.")

    assert tasks.run("distil", _reading(connected, half))
    with connected.store.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM upgrades WHERE schema = 99").fetchone() == (0,)
    assert connected.store.work.queues(NOW)[0].error == "It cannot be."


def test_a_fault_of_our_own_holds_nothing_up(connected: Connected) -> None:
    tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 0.0)
    add(connected.store, "a")

    def faulty(task: Task) -> Finish:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tasks.run("distil", faulty)
    assert store_error(connected) and connected.store.work.due("distil", after(60)) == 1


def store_error(connected: Connected) -> str:
    return connected.store.work.queues(instant(connected.now))[0].error


VARIANTS = {
    "no JSON": lambda request: says("I would rather not."),
    "400": lambda request: fails(400, "no"),
    "500": lambda request: fails(500, "no"),
}


@pytest.mark.parametrize("variant", [*VARIANTS, "silent"])
def test_calls_are_bounded_whatever_fails(server: ModelServer, tmp_path: Path, variant: str) -> None:
    """5 threads, 24 hours, 3 restarts: at most 3 calls a thread and pass, at most 12 a thread in all."""
    server.answer = VARIANTS.get(variant, lambda request: Reply(hang=True))
    connected = Connected(tmp_path, server, endpoint={"timeout_seconds": 0.1 if variant == "silent" else 5.0})
    names = [f"thread {number}" for number in range(5)]
    add(connected.store, *(name.removeprefix("thread ") for name in names))
    tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 1.0)
    most_in_a_pass = 0
    for minute in range(0, 24 * 60, 2):
        if minute in (8, 300, 900):
            connected.again()
            tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 1.0)
        before = len(server.asked())
        while tasks.run("distil", _reading(connected)):
            most_in_a_pass = max(most_in_a_pass, len(server.asked()) - before)
            before = len(server.asked())
        connected.later(120)
    calls = {name: sum(each.text == name for each in server.asked()) for name in names}
    assert most_in_a_pass <= 3
    assert all(1 <= count <= 12 for count in calls.values()), calls
    queue = connected.store.work.queues(instant(connected.now))[0]
    assert queue.waiting + queue.stuck == 5 and queue.error and queue.next_try
    assert tasks.problems()


def test_limits_outages_and_recovery(tmp_path: Path) -> None:
    """A 429, a 503, ten minutes of nobody at home, then it answers: each thread is read once."""
    asked: list[tuple[float, str]] = []

    def answer(request: Request) -> Reply:
        asked.append(((connected.now - BEGIN).total_seconds(), request.text))
        return [fails(429, retry_after="120"), fails(503)][len(asked) - 1] if len(asked) < 3 else says(ONE)

    done: list[str] = []

    def reading(task: Task) -> Finish:
        connected.read(task.subject)
        return lambda tx: done.append(task.subject)

    def run_until(condition: Callable[[], bool]) -> None:
        for _ in range(400):
            if condition():
                return
            tasks.work_off()
            connected.later(10)
        raise AssertionError(asked)

    with ModelServer(answer) as first:
        connected = Connected(tmp_path, first)
        tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 0.5)
        tasks.serve("distil", reading)
        add(connected.store, "first", "second")
        run_until(lambda: len(asked) == 2)
        port = int(first.url.removesuffix("/v1").rpartition(":")[2])
    down = connected.now
    run_until(lambda: connected.now - down >= timedelta(minutes=10))
    assert "does not answer" in tasks.problems()[0] and "2 threads wait" in tasks.problems()[0]
    with ModelServer(answer, port=port):
        run_until(lambda: len(done) == 2)
    assert sorted(done) == ["first", "second"]
    assert sorted(text for _, text in asked[2:]) == ["first", "second"]
    assert asked[1][0] - asked[0][0] >= 120
    assert connected.now - down < timedelta(minutes=10 + 30)
    assert connected.store.work.waiting() == {} and tasks.problems() == []


def test_one_task_of_each_kind_a_round(connected: Connected) -> None:
    tasks = Tasks(connected.store, connected.models, lambda: connected.now, chance=lambda: 0.0)
    did: list[str] = []

    def noting(task: Task) -> Finish:
        return lambda tx: did.append(f"{task.kind} {task.subject}")

    for kind in ("distil", "judge", "else"):
        tasks.serve(kind, noting)
        add(connected.store, "a", "b", kind=kind)
    add(connected.store, "a", kind="nobody's")
    assert tasks.work_off() and did == ["distil a", "judge a", "else a"]
    assert tasks.work_off() and len(did) == 6
    assert not tasks.work_off() and connected.store.work.waiting() == {"nobody's": 1}


def test_without_an_endpoint_nothing_is_tried_or_told(tmp_path: Path) -> None:
    service = opened(tmp_path)
    add(service.store, "a")
    status = service.status()
    assert status["problems"] == [] and status["tasks"]["distil"]["waiting"] == 1
    assert status["models"]["endpoints"] == [] and status["models"]["decisions_api"] == "off"
    service.close()


# The product


def _configure(product: Product, server: ModelServer, **more: Any) -> None:
    product.data.mkdir(mode=0o700, exist_ok=True)
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in server.settings(**more).items())
    text = f'[models]\nextraction = "lm"\ndecisions = "lm"\n[models.endpoint.lm]\n{lines}\n'
    (product.data / "config.toml").write_text(text)


def test_doctor_names_what_is_wrong_with_a_model(product: Product, server: ModelServer) -> None:
    """And no proxy of the environment comes between, which here is one that nobody answers for."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        product.environ |= {name: "http://127.0.0.1:9", name.lower(): "http://127.0.0.1:9"}
    _configure(product, server)
    assert product.json("status", MNEMO_ENCODERS="off")["models"]["endpoints"][0]["url"] == server.url
    assert not server.requests  # looking costs nothing
    assert product.run("doctor", "--probe").returncode == 0
    assert [each.path for each in server.requests] == ["/models"]
    server.models = ("another",)
    found = product.run("doctor", "--probe")
    assert (
        found.returncode == 1 and b"has no model 'test-model'" in found.stdout and b"another" in found.stdout
    )
    server.reply = lambda request: fails(401)  # type: ignore[method-assign]
    found = product.run("doctor", "--probe")
    assert found.returncode == 1 and found.stdout.count(b"does not accept the key") == 1
    assert b"does not accept the key" in product.run("status").stdout
    assert product.run("doctor", "--probe").stdout.count(b"does not accept the key") == 1
    del server.reply  # type: ignore[method-assign]
    server.models = ("test-model",)
    assert product.run("doctor", "--probe").returncode == 0


def test_a_daemon_that_is_killed_gives_its_tasks_back(product: Product, server: ModelServer) -> None:
    _configure(product, server)
    product.json("status", MNEMO_ENCODERS="off")
    product.hook("turn-end", last_assistant_message="The gateway listens on port 8443.")
    until(lambda: product.json("status")["queue"].get("distil") == 1)
    product.kill()
    store = Store(product.data / "mnemo.db", datetime.now(UTC))
    far = instant(datetime.now(UTC) + timedelta(days=1))
    assert store.work.take("distil", far) is not None
    store.close()
    tasks = product.json("status", MNEMO_ENCODERS="off")["tasks"]["distil"]
    assert tasks["running"] == 0 and "process ended" in tasks["error"]


READING = """
from mnemo_mcp.daemon import main, resident
from mnemo_mcp.service import Service

class Reading(Service):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        with self.store.write() as tx:
            self.store.work.add(tx, "reading", "personal", "a thread", "2026-01-01T00:00:00.000Z")
        self.tasks.serve("reading", self.read)

    def read(self, task):
        messages = [{"role": "user", "content": task.subject}]
        self.models.chat.complete(messages, purpose="reading")
        return lambda tx: None

resident.Service = Reading
main.serve()
"""


def test_a_silent_model_holds_up_neither_the_daemon_nor_its_end(server: ModelServer, tmp_path: Path) -> None:
    """A task waits for a model that never answers; memories are stored and found, and the daemon ends."""
    server.answer = lambda request: Reply(hang=True)
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        _configure(product, server, timeout_seconds=600)
        root = Path(__file__).parent.parent
        daemon = subprocess.Popen([sys.executable, "-c", READING], env=product.environ, cwd=root)
        try:
            until(lambda: len(server.asked()) == 1)
            assert product.json("status")["tasks"]["reading"]["running"] == 1
            assert product.json("status")["pid"] == daemon.pid
            product.remember("The gateway listens on port 8443")
            assert product.recall("which port does the gateway listen on?")
            product.run("stop")
            assert daemon.wait(15) == 0
        finally:
            daemon.kill()
