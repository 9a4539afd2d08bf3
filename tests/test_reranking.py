"""Reranking: scores of a cross-encoder blend with the fused ones; without any, the order stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from desk import StillClock, opened, tell_all, whats

from mnemo_mcp.recall.reranking import WITHOUT, Reranking
from mnemo_mcp.service import Service

TEXTS = ("The gateway door is red", "The gateway door is blue", "The gateway door is green")
QUESTION = "What colour is the gateway door?"


class Scorer:
    """Scores texts by a table, or gives none; stands where the process would."""

    problem = ""
    ready = True

    def __init__(self, liked: str | None) -> None:
        self._liked = liked

    def rerank(self, question: str, texts: Sequence[str], deadline: float) -> list[float] | None:
        assert question == QUESTION
        assert deadline == 1001.0
        return None if self._liked is None else [float(self._liked in text) for text in texts]

    def close(self) -> None: ...


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with opened(tmp_path) as service:
        tell_all(service, TEXTS)
        yield service


def ranked_by(service: Service, liked: str | None) -> None:
    scorer: Any = Scorer(liked)
    service._recaller._reranking = Reranking(scorer, clock=lambda: 1000.0)


@pytest.mark.parametrize("colour", ["red", "blue", "green"])
def test_what_the_cross_encoder_likes_comes_first(service: Service, colour: str) -> None:
    ranked_by(service, colour)
    answer = service.recall(QUESTION)
    assert colour in whats(answer)[0]
    assert set(whats(answer)) == set(TEXTS)
    assert WITHOUT not in answer.notes


def test_without_scores_the_order_stays_and_the_answer_says_so(service: Service) -> None:
    before = service.recall(QUESTION)
    ranked_by(service, None)
    after = service.recall(QUESTION, limit=7)
    assert whats(after) == whats(before)
    assert WITHOUT in after.notes


def test_what_may_be_outdated_stays_behind(service: Service) -> None:
    clock = service.clock
    assert isinstance(clock, StillClock)
    clock.pass_days(30)
    service.remember("The gateway door is yellow now")
    ranked_by(service, "red")
    answer = service.recall(QUESTION)
    places = {each.memory.id: place for place, each in enumerate(answer.memories)}
    assert any(each.outdated_by for each in answer.memories)
    for each in answer.memories:
        assert not each.outdated_by or places[each.outdated_by] < places[each.memory.id]
