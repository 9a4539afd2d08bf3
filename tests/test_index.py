"""The RAM index: BM25 against others' figures, masks against the memories themselves, vectors, erasure."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mnemo_mcp.index.postings import BACKGROUND, K1, B, Postings
from mnemo_mcp.index.profile import ProfileIndex, Scope, indexed_words
from mnemo_mcp.index.states import States
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.memory import Claim, EntityRef, Instant, Kind, Memory, Period, Status, instant
from mnemo_mcp.models.encoder import quantise, unit
from mnemo_mcp.words import words

START = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
VOCABULARY = (
    "gateway",
    "queue",
    "ledger",
    "schema",
    "login",
    "billing",
    "search",
    "export",
    "import",
    "backup",
)

Texts = list[list[str]]

TEXTS = st.lists(st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=12), min_size=1, max_size=25)
QUESTION = st.lists(st.sampled_from((*VOCABULARY, "absent")), min_size=1, max_size=6, unique=True)


def at(days: int) -> Instant:
    return instant(START + timedelta(days=days))


def filled(texts: Texts, background: int = BACKGROUND) -> Postings:
    postings = Postings(background)
    for row, text in enumerate(texts):
        postings.add(row, text)
    return postings


def naive(texts: Texts, question: list[str], background: int) -> tuple[list[float], list[float]]:
    """BM25 and coverage, word for word from their definitions."""
    counts = [Counter(text) for text in texts]
    average = sum(map(len, texts)) / len(texts)
    total = len(texts) + background

    def weight(word: str) -> float:
        known = sum(word in text for text in texts)
        return math.log(1 + (total - known + 0.5) / (known + 0.5))

    def score(text: list[str], held: Counter[str]) -> float:
        norm = K1 * (1 - B + B * len(text) / average)
        return sum(
            weight(word) * held[word] * (K1 + 1) / (held[word] + norm) for word in question if held[word]
        )

    whole = sum(map(weight, question))
    covered = [sum(weight(word) for word in question if held[word]) / whole for held in counts]
    return [score(*each) for each in zip(texts, counts, strict=True)], covered


# words


@given(TEXTS, QUESTION, st.sampled_from([0, BACKGROUND]))
def test_scores_are_those_of_the_definition(texts: Texts, question: list[str], background: int) -> None:
    scores, covered = filled(texts, background).scores(question, len(texts))
    expected = naive(texts, question, background)
    assert scores == pytest.approx(expected[0], rel=1e-5)
    assert covered == pytest.approx(expected[1], rel=1e-5)


def test_scores_are_those_of_bm25s() -> None:
    chance = random.Random(5)
    texts = [chance.choices(VOCABULARY, k=chance.randint(3, 30)) for _ in range(200)]
    peer = bm25s.BM25(method="lucene", k1=K1, b=B)
    peer.index(texts, show_progress=False)
    ours = filled(texts, background=0)
    for _ in range(20):
        question = chance.sample(VOCABULARY, 3)
        scores, _ = ours.scores(question, len(texts))
        assert scores == pytest.approx(peer.get_scores(question) * (K1 + 1), rel=1e-4)


@given(TEXTS, QUESTION, st.randoms(use_true_random=False))
def test_what_is_removed_was_never_there(texts: Texts, question: list[str], chance: random.Random) -> None:
    kept = sorted(chance.sample(range(len(texts)), chance.randint(1, len(texts))))
    postings = filled(texts)
    for row in set(range(len(texts))) - set(kept):
        postings.remove(row, texts[row])
    fresh = filled([texts[row] for row in kept])
    scores, covered = postings.scores(question, len(texts))
    expected = fresh.scores(question, len(kept))
    assert scores[kept] == pytest.approx(expected[0], rel=1e-5)
    assert covered[kept] == pytest.approx(expected[1], rel=1e-5)
    gone = [row for row in range(len(texts)) if row not in kept]
    assert not scores[gone].any()
    assert all(postings.frequency(word) == fresh.frequency(word) for word in VOCABULARY)


@given(TEXTS, st.sampled_from((*VOCABULARY, "absent")))
def test_which_rows_hold_a_word(texts: Texts, word: str) -> None:
    postings = filled(texts)
    holding = [row for row in range(len(texts)) if postings.holds(word, row)]
    assert holding == [row for row, text in enumerate(texts) if word in text]
    assert postings.frequency(word) == len(holding)


def test_rows_without_words_may_lie_between() -> None:
    postings = Postings()
    postings.add(0, ["gateway"])
    postings.add(4, ["gateway", "queue"])
    scores, covered = postings.scores(["queue"], 6)
    assert scores.argmax() == 4
    assert list(np.flatnonzero(covered)) == [4]


def test_an_empty_index_scores_nothing() -> None:
    scores, covered = Postings().scores(["gateway"], 0)
    assert len(scores) == len(covered) == 0


# states

DAYS = st.integers(-5, 5)
PERIODS = st.lists(DAYS, max_size=6, unique=True).map(sorted)


def memory(
    number: int = 0,
    periods: tuple[Period, ...] = (Period(at(0)),),
    *,
    what: str = "The gateway waits 600 s",
    kind: Kind = Kind.FACT,
    entities: tuple[EntityRef, ...] = (),
    project: str = "",
    retracted: bool = False,
    erased: bool = False,
    merged_into: str = "",
) -> Memory:
    return Memory(
        f"m{number:013}",
        "personal",
        project,
        Claim(what, kind=kind, entities=entities),
        periods,
        at(0),
        at(0),
        (),
        retracted=retracted,
        erased=erased,
        merged_into=merged_into,
        began=at(0),
    )


@st.composite
def some_memory(draw: st.DrawFn) -> Memory:
    """A memory cut into any periods, the last of them open or not."""
    days = draw(PERIODS)
    pieces = [Period(at(start), at(end)) for start, end in zip(days[::2], days[1::2], strict=False)]
    if len(days) % 2:
        pieces.append(Period(at(days[-1])))
    return memory(
        periods=tuple(pieces),
        retracted=draw(st.booleans()),
        erased=draw(st.booleans()),
        merged_into=draw(st.sampled_from(("", "", "", "m1"))),
    )


@given(st.lists(some_memory(), min_size=1, max_size=8), DAYS)
def test_masks_say_what_the_memories_say(memories: list[Memory], day: int) -> None:
    states = States()
    for row, each in enumerate(memories):
        states.set(row, each)
    for status in Status:
        expected = [each.status(at(day)) is status for each in memories]
        assert list(states.having(at(day), status)) == expected


@given(some_memory(), some_memory(), DAYS)
def test_a_renewed_row_stands_as_the_newer_state(before: Memory, after: Memory, day: int) -> None:
    states = States()
    states.set(0, before)
    states.set(0, after)
    assert states.having(at(day), after.status(at(day)))[0]


def test_many_rows_keep_their_projects_and_kinds() -> None:
    states = States()
    projects, kinds = ("", "atlas", "fact"), list(Kind)
    for row in range(1_000):
        states.set(row, memory(row, project=projects[row % 3], kind=kinds[row % len(kinds)]))
    atlas = states.in_projects(frozenset({"atlas"}))
    assert list(np.flatnonzero(~atlas)) == list(
        range(2, 1_000, 3)
    )  # none of another project, all of no project
    facts = states.of_kinds(frozenset({"fact"}))
    assert list(np.flatnonzero(facts)) == list(range(0, 1_000, len(kinds)))
    assert not states.of_kinds(frozenset({"unheard of"})).any()


# vectors


def test_cosines_are_those_of_the_vectors_and_missing_ones_are_marked() -> None:
    chance = np.random.default_rng(3)
    vectors = unit(chance.normal(size=(600, 64)).astype(np.float32))
    matrix = VectorMatrix(64)
    for row, each in enumerate(quantise(vectors)):
        if row % 7:
            matrix.set(row, each.scale, each.values)
    found = matrix.cosines(vectors[5], 650)
    there = [row for row in range(600) if row % 7]
    assert found[there] == pytest.approx(vectors[there] @ vectors[5], abs=0.01)
    assert (np.delete(found, there) == -1).all()
    matrix.clear(5)
    assert matrix.cosines(vectors[5], 650)[5] == -1
    assert not matrix.has(5)


# one profile


def test_an_erased_memory_leaves_nothing_behind() -> None:
    index = ProfileIndex()
    kept = memory(0, what="The queue is drained at night", entities=(EntityRef("Kestrel"),))
    gone = memory(1, what="Zephyrine told Quillon the code 8841", entities=(EntityRef("Quillon"),))
    index.apply(kept)
    index.apply(gone)
    index.lacking("some-encoder", 9)
    index.attach("some-encoder", 4, {gone.id: (1.0, b"\x01\x02\x03\x04")})
    index.apply(memory(1, what="", erased=True))
    for word in indexed_words(gone):
        assert index.postings.frequency(word) == (word in words(kept.claim.what))
    assert not index.is_name("quillon")
    assert index.is_name("kestrel")
    assert index.same(gone.claim.what) == []
    assert not index.inside(Scope(entities=frozenset({"Quillon"}))).any()
    assert not index.matrices["some-encoder"].has(1)
    assert index.lacking("some-encoder", 9) == [0]


def test_names_are_what_is_written_like_one_or_declared() -> None:
    index = ProfileIndex()
    index.apply(
        memory(0, what="Deploys of Kestrel go through pgBouncer and WG0", entities=(EntityRef("nats"),))
    )
    index.apply(memory(1, what="Mostly harmless. However the docs say: Nothing is lost"))
    assert all(map(index.is_name, ("kestrel", "pgbouncer", "wg0", "nat")))
    assert not any(map(index.is_name, ("deploy", "mostly", "harmless", "however", "nothing")))


@examples(max_examples=50)
@given(st.lists(st.text(max_size=60), min_size=1, max_size=6))
def test_any_text_can_be_entered_found_and_erased(texts: list[str]) -> None:
    index = ProfileIndex()
    for row, text in enumerate(texts):
        index.apply(memory(row, what=text))
    for text in texts:
        assert text in [each.claim.what for each in index.same(text)]
    for row in range(len(texts)):
        index.apply(memory(row, what="", erased=True))
    assert not any(index.same(text) for text in texts)
    assert not any(index.postings.frequency(word) for text in texts for word in words(text))
