"""Caches of recall: a question is embedded once, and no answer outlives what bears on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from desk import OFF, StillClock, opened, said, tell_all, whats

from mnemo_mcp.errors import StoreError
from mnemo_mcp.memory import Status
from mnemo_mcp.recall.answer import Answer
from mnemo_mcp.recall.cache import Answers, Asking, QuestionVectors
from mnemo_mcp.recall.recall import Recaller
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

PORT = "On which port does the gateway listen?"
NOW, LATER = "2026-06-01T12:00:00.000Z", "2026-06-01T13:00:00.000Z"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        yield service


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that were answered anew."""
    asked: list[str] = []
    whole = Recaller._answer

    def counted(self: Recaller, index: Any, ask: Any, asking: Any) -> Answer:
        asked.append(ask.text)
        return whole(self, index, ask, asking)

    monkeypatch.setattr(Recaller, "_answer", counted)
    return asked


def test_the_same_question_is_answered_once(service: Service, built: list[str]) -> None:
    tell_all(service, ["The gateway listens on port 8443"])
    first = service.recall(PORT)
    assert service.recall(PORT) == first
    assert whats(first) == ["The gateway listens on port 8443"]
    assert built == [PORT]


@pytest.mark.parametrize(
    "change",
    [
        lambda service, told: service.remember("The gateway listens on port 9443", replaces=[told]),
        lambda service, told: service.forget(told, "retract"),
        lambda service, told: service.forget(told, "close"),
        lambda service, told: service.forget(told, "erase"),
        lambda service, told: service.keep(told),
        lambda service, told: service.keep(told, False),
    ],
)
def test_whatever_is_written_ends_every_answer(service: Service, built: list[str], change: Any) -> None:
    told = tell_all(service, ["The gateway listens on port 8443"])[0]
    service.recall(PORT)
    change(service, told)
    fresh = service.recall(PORT)
    assert len(built) == 2
    assert fresh == service._recaller._answer(service.index.profile("personal"), _last_ask(service), None)


def _last_ask(service: Service) -> Any:
    from mnemo_mcp.recall.recall import Ask

    constants = service.settings.recall
    return Ask(PORT, "personal", service._now(), constants.limit, zone=service.zone)


def test_another_profile_scope_or_date_is_another_answer(service: Service, built: list[str]) -> None:
    told = tell_all(service, ["The gateway listens on port 8443"])[0]
    service.remember("The gateway listens on port 7443", profile="other")
    clock = service.clock
    assert isinstance(clock, StillClock)
    before = service._now()
    clock.pass_days(1)
    service.forget(told, "close")
    clock.pass_days(1)
    assert [found.status for found in service.recall(PORT).memories] == [Status.CLOSED]
    assert [found.status for found in service.recall(PORT, valid_at=before).memories] == [Status.CURRENT]
    assert whats(service.recall(PORT, profile="other")) == ["The gateway listens on port 7443"]
    assert not service.recall(PORT, kinds=["decision"]).memories
    assert len(built) == 4


def test_episodes_that_reach_the_search_tables_end_every_answer(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "data", zone="UTC", encoders=OFF)
    with Service(settings, StillClock(), background=True) as service:
        service.remember("The gateway listens on port 8443")
        said(service, "turn-end", last_assistant_message="The runbook of the gateway lies beside its charts.")
        question = "Where does the runbook of the gateway lie?"
        first = service.recall(question)
        assert first.memories and not first.episodes
        while service.upkeep.relay():
            pass
        assert service.recall(question).episodes


def test_an_answer_ends_with_what_it_tells(service: Service, built: list[str]) -> None:
    clock = service.clock
    assert isinstance(clock, StillClock)
    end = (clock() + timedelta(minutes=10)).isoformat()
    service.remember("The gateway listens on port 8443", valid_to=end)
    seen = []
    for _ in range(4):
        seen.append(service.recall(PORT).memories[0].status)
        clock.now += timedelta(minutes=4)
    assert seen == [Status.CURRENT, Status.CURRENT, Status.CURRENT, Status.CLOSED]
    assert len(built) == 2


def test_what_is_relative_to_today_ends_at_midnight(service: Service, built: list[str]) -> None:
    clock = service.clock
    assert isinstance(clock, StillClock)
    tell_all(service, ["The gateway was moved to port 8443"])
    assert service.recall("what happened today?").memories
    clock.pass_days(1)
    assert not service.recall("what happened today?").memories
    assert service.recall("what happened yesterday?").memories


# The parts by themselves

ANSWER = Answer(notes=("one",))


@pytest.fixture
def some(service: Service) -> Answer:
    tell_all(service, ["The gateway listens on port 8443"])
    return service.recall(PORT)


def test_fifty_who_ask_at_once_wait_for_one(some: Answer) -> None:
    answers, began, builds = Answers(2.0), threading.Event(), []

    def build() -> tuple[Answer, str]:
        builds.append(1)
        began.wait(5)
        return some, LATER

    with ThreadPoolExecutor(50) as pool:
        waiting = [pool.submit(answers.get, Asking("q", "s", NOW), build) for _ in range(50)]
        began.set()
        assert all(each.result(10) is some for each in waiting)
    assert len(builds) == 1


def test_a_builder_that_fails_frees_the_others(some: Answer) -> None:
    answers, tries = Answers(2.0), []

    def build() -> tuple[Answer, str]:
        tries.append(1)
        if len(tries) == 1:
            raise StoreError("The disk is full.")
        return some, LATER

    with pytest.raises(StoreError):
        answers.get(Asking("q", "s", NOW), build)
    assert answers.get(Asking("q", "s", NOW), build) is some
    assert len(tries) == 2


def test_a_builder_that_hangs_is_not_waited_for_for_ever(some: Answer) -> None:
    answers, hold, begun = Answers(2.0, patience=0.05), threading.Event(), threading.Event()

    def hang() -> tuple[Answer, str]:
        begun.set()
        hold.wait(10)
        return some, LATER

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(answers.get, Asking("q", "s", NOW), hang)
        assert begun.wait(5)
        own = replace(some, notes=("its own",))
        assert answers.get(Asking("q", "s", NOW), lambda: (own, LATER)) is own
        hold.set()
        assert slow.result(5) is some


def test_empty_answers_and_those_past_their_time_are_made_anew(some: Answer) -> None:
    answers, builds = Answers(2.0), []

    def build(answer: Answer, until: str) -> Any:
        return lambda: builds.append(1) or (answer, until)

    for _ in range(2):
        answers.get(Asking("empty", "s", NOW), build(ANSWER, LATER))
    for now in (NOW, LATER):
        answers.get(Asking("timed", "s", now), build(some, LATER))
    assert len(builds) == 4


def test_only_so_many_are_kept(some: Answer) -> None:
    answers, builds = Answers(2.0, most=3), []
    for text in ("a", "b", "c", "d", "a", "d"):
        answers.get(Asking(text, "s", NOW), lambda: builds.append(1) or (some, LATER))
    assert len(builds) == 5


def _unit(*values: float) -> Any:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(
    ("text", "vector", "scope", "serves"),
    [
        ("Why is the gateway timeout 120 seconds?", (1.0, 0.01), "s", True),
        ("Why is the gateway timeout 600 s?", (1.0, 0.01), "s", False),
        ("Why is the gateway timeout 2 min?", (1.0, 1.0), "s", False),
        ("Why is the gateway timeout 120 seconds?", (1.0, 0.01), "another", False),
    ],
)
def test_the_answer_to_another_question_serves_behind_the_guard(
    some: Answer, text: str, vector: Sequence[float], scope: str, serves: bool
) -> None:
    answers = Answers(0.98)
    asked = Asking("Why is the gateway timeout 120 s?", "s", NOW)
    answers.get(asked, lambda: answers.remember_vector(asked, _unit(1.0, 0.0)) or (some, LATER))
    assert (answers.near(Asking(text, scope, NOW), _unit(*vector)) is some) is serves


def test_a_question_is_embedded_once_by_each_encoder() -> None:
    vectors, made = QuestionVectors(most=2), []

    def embed() -> Any:
        made.append(1)
        return _unit(1.0, 0.0)

    for encoder, text in (("a", "q"), ("a", "q"), ("b", "q"), ("a", "r"), ("a", "q")):
        vectors.of(encoder, text, embed)
    assert len(made) == 4
