"""Episodes that were found, as they are told: the passage that matters, and what stands around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from mnemo_mcp.ledger.episodes import Episodes
from mnemo_mcp.memory import Episode
from mnemo_mcp.recall.answer import RecalledEpisode
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.recall.passage import WINDOW, beside, passage
from mnemo_mcp.recall.question import Question
from mnemo_mcp.recall.recall import Ask, floor_of
from mnemo_mcp.search.episodes import Hit

USUAL = 3
"""So many passages an answer gives, and so many are shown with what stands around them."""


def most_told(ask: Ask, usual_limit: int) -> int:
    """How many passages somebody wants: the usual few, or up to the limit where that is more than usual."""
    return ask.limit if ask.limit > usual_limit else min(USUAL, ask.limit)


def told(
    store: Episodes,
    hits: Sequence[Hit],
    ask: Ask,
    question: Question,
    meaning: Meaning | None,
    most: int,
    weak: bool,
) -> list[RecalledEpisode]:
    """Up to `most` of the hits that still have a text, in their order; without the weak ones unless wanted.

    The first few come with what their neighbours in the thread add.
    """
    episodes = store.many(hit.id for hit in hits)
    there = (hit for hit in hits if hit.id in episodes and episodes[hit.id].text)
    found = (_recalled(hit, episodes[hit.id], question, meaning) for hit in there)
    kept = list(islice((each for each in found if weak or not each.weak), most))
    return [_with_neighbours(store, each, ask, question) for each in kept[:USUAL]] + kept[USUAL:]


def _recalled(hit: Hit, episode: Episode, question: Question, meaning: Meaning | None) -> RecalledEpisode:
    """The passage of one hit; weak unless it holds enough of the question, or is near enough in meaning."""
    if len(episode.text) <= WINDOW:
        text, share = episode.text.strip(), hit.held  # as `passage` has it, without reading the text again
    else:
        text, share = passage(episode.text, question.words)
    floor = floor_of(meaning)
    near = hit.cosine is not None and hit.cosine >= floor.meaning_alone
    return RecalledEpisode(episode, text, hit.score, weak=share < 2 * floor.words_asked and not near)


def _with_neighbours(
    store: Episodes, found: RecalledEpisode, ask: Ask, question: Question
) -> RecalledEpisode:
    def text(near: Sequence[Episode]) -> str:
        return "".join(each.text for each in near if _inside(ask, each))

    thread = store.around(found.episode, 1, 1)
    place = [each.id for each in thread].index(found.episode.id)
    before, after = text(thread[:place]), text(thread[place + 1 :])
    ahead, rest = beside(found.passage, before, after, question.words)
    return replace(found, before=ahead, after=rest)


def _inside(ask: Ask, episode: Episode) -> bool:
    return ask.projects is None or episode.project in ask.projects or not episode.project
