"""Reranking: an optional cross-encoder reads question and memory together and may reorder the first few."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from mnemo_mcp.models.cross_encoder import CrossEncoder, blended
from mnemo_mcp.recall.answer import RecalledMemory
from mnemo_mcp.recall.question import Question

WITHOUT = "The cross-encoder gave no scores in time: the order is the fused one."

_MOST = 30
_SECONDS = 1.0  # an answer waits no longer for it


class Reranking:
    """Off where there is no cross-encoder; then every order stays as it is."""

    def __init__(self, encoder: CrossEncoder | None, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is the one the encoder's deadlines are told by, in seconds."""
        self._encoder = encoder
        self._clock = clock

    @property
    def ready(self) -> bool:
        return self._encoder is not None and self._encoder.ready

    @property
    def problems(self) -> list[str]:
        return [self._encoder.problem] if self._encoder is not None and self._encoder.problem else []

    def apply(
        self, question: Question, found: Sequence[RecalledMemory]
    ) -> tuple[list[RecalledMemory], tuple[str, ...]]:
        """The first memories that stand alike, in their blended order, the rest after them; and a note."""
        if self._encoder is None or not found:
            return list(found), ()
        first = [each for each in found[:_MOST] if each.status is found[0].status]
        texts = [each.memory.claim.text() for each in first]
        scores = self._encoder.rerank(question.text, texts, self._clock() + _SECONDS)
        if scores is None:
            return list(found), (WITHOUT,)
        both = blended(scores, [each.score for each in first], about_time=question.time is not None)
        scored = [replace(each, score=score) for each, score in zip(first, both, strict=True)]
        scored.sort(key=lambda each: (-each.score, each.memory.id))
        return [*_newer_first(scored), *(each for each in found if each not in first)], ()

    def close(self) -> None:
        if self._encoder is not None:
            self._encoder.close()


def _newer_first(scored: Sequence[RecalledMemory]) -> list[RecalledMemory]:
    """What may be outdated stays behind what may have outdated it."""
    ordered: list[RecalledMemory] = []
    waiting = list(scored)
    while waiting:
        left = {each.memory.id for each in waiting}
        free = next((each for each in waiting if each.outdated_by not in left), waiting[0])
        ordered.append(free)
        waiting.remove(free)
    return ordered
