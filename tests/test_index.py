"""The parts of the RAM index, each against a plain way: BM25, masks of states, vectors, links."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from made_up import DAYS, at, memory, vectors

from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.index.entities import Entities
from mnemo_mcp.index.links import Links
from mnemo_mcp.index.postings import BACKGROUND, EVEN, K1, B, Boosts, Postings
from mnemo_mcp.index.states import States
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.memory import EntityRef, Kind, Memory, Period, Status
from mnemo_mcp.models.encoder import quantise, unit

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
BOOSTS = st.tuples(*[st.sampled_from((0.5, 1.0, 2.0, 3.5))] * 4)


def in_fields(text: list[str]) -> list[list[str]]:
    """The words of a text dealt out to the four fields."""
    return [text[field::4] for field in range(4)]


def filled(texts: Texts, background: int = BACKGROUND, seal_at: int | None = None) -> Postings:
    postings = Postings(background)
    for row, text in enumerate(texts):
        if row == seal_at:
            sealed(postings)
        postings.add(row, in_fields(text))
    return postings


def sealed(postings: Postings) -> None:
    frozen = postings.freeze()
    postings.adopt(frozen, frozen.sealed())


def naive(texts: Texts, question: list[str], background: int, boosts: Sequence[float]) -> list[float]:
    """BM25 with boosted counts, word for word from its definition."""
    average = sum(map(len, texts)) / len(texts)
    total = len(texts) + background

    def weight(word: str) -> float:
        known = sum(word in text for text in texts)
        return math.log(1 + (total - known + 0.5) / (known + 0.5))

    def score(text: list[str]) -> float:
        counts = [Counter(field) for field in in_fields(text)]
        norm = K1 * (1 - B + B * len(text) / average)
        found = 0.0
        for word in question:
            held = sum(boost * count[word] for boost, count in zip(boosts, counts, strict=True))
            found += weight(word) * held * (K1 + 1) / (held + norm)
        return found

    return [score(text) for text in texts]


# words


@given(TEXTS, QUESTION, st.sampled_from([0, BACKGROUND]), BOOSTS, st.integers(0, 25))
def test_scores_are_those_of_the_definition(
    texts: Texts, question: list[str], background: int, boosts: Boosts, seal_at: int
) -> None:
    expected = naive(texts, question, background, boosts)
    scores = filled(texts, background, seal_at).scores(question, boosts, np.arange(len(texts)))
    assert scores == pytest.approx(expected, rel=1e-5)


def test_scores_are_those_of_bm25s() -> None:
    chance = random.Random(5)
    texts = [chance.choices(VOCABULARY, k=chance.randint(3, 30)) for _ in range(200)]
    peer = bm25s.BM25(method="lucene", k1=K1, b=B)
    peer.index(texts, show_progress=False)
    ours = filled(texts, background=0, seal_at=120)
    everything = np.ones(len(texts), np.bool_)
    for _ in range(20):
        question = chance.sample(VOCABULARY, 3)
        expected = peer.get_scores(question) * (K1 + 1)
        assert ours.scores(question, EVEN, np.arange(len(texts))) == pytest.approx(expected, rel=1e-4)
        rows, scores = ours.search(question, EVEN, everything, 10)
        assert scores == pytest.approx(np.sort(expected)[::-1][:10], rel=1e-4)
        assert expected[rows] == pytest.approx(scores, rel=1e-4)


@given(TEXTS, QUESTION, BOOSTS, st.integers(1, 8), st.randoms(use_true_random=False))
def test_search_gives_the_best_of_the_allowed(
    texts: Texts, question: list[str], boosts: Boosts, depth: int, chance: random.Random
) -> None:
    postings = filled(texts, seal_at=chance.randrange(len(texts) + 1))
    allowed = np.array([chance.random() < 0.6 for _ in texts])
    rows, scores = postings.search(question, boosts, allowed, depth)
    every = postings.scores(question, boosts, np.arange(len(texts)))
    best = sorted(np.flatnonzero(allowed & (every > 0)).tolist(), key=lambda row: (-every[row], row))
    assert scores == pytest.approx(every[best[:depth]], rel=1e-5)
    assert len(set(rows.tolist())) == len(rows)
    assert every[rows] == pytest.approx(scores, rel=1e-5)
    assert allowed[rows].all()
    again = postings.search(question, boosts, allowed, depth)
    assert (again[0] == rows).all() and (again[1] == scores).all()


def test_long_lists_are_not_gone_through_and_change_no_answer() -> None:
    chance = random.Random(3)
    count = 9_000
    texts = [
        [*chance.choices(("common", "usual", "plain"), k=4), f"w{chance.randrange(600)}"]
        for _ in range(count)
    ]
    postings = filled(texts, seal_at=8_000)
    for question in (["common", "w7"], ["common", "usual", "w7", "w8"], ["common", "plain"]):
        allowed = np.array([chance.random() < 0.5 for _ in range(count)])
        rows, scores = postings.search(question, EVEN, allowed, 10)
        every = np.where(allowed, postings.scores(question, EVEN, np.arange(count)), 0)
        assert scores == pytest.approx(np.sort(every)[::-1][:10], rel=1e-5)
        assert every[rows] == pytest.approx(scores, rel=1e-5)


@given(TEXTS, QUESTION, st.randoms(use_true_random=False))
def test_what_is_removed_was_never_there(texts: Texts, question: list[str], chance: random.Random) -> None:
    kept = sorted(chance.sample(range(len(texts)), chance.randint(1, len(texts))))
    gone = [row for row in range(len(texts)) if row not in kept]
    postings = filled(texts, seal_at=chance.randrange(len(texts) + 1))
    for row in gone:
        postings.remove(row, in_fields(texts[row]))
    fresh = filled([texts[row] for row in kept])
    for _ in range(2):  # before they are sealed away and after
        scores = postings.scores(question, EVEN, np.array(kept))
        assert scores == pytest.approx(fresh.scores(question, EVEN, np.arange(len(kept))), rel=1e-5)
        rows, _ = postings.search(question, EVEN, np.ones(len(texts), np.bool_), len(texts))
        assert not set(rows.tolist()) & set(gone)
        assert not postings.held(question, np.array(gone, np.int64)).any()
        assert all(postings.frequency(word) == fresh.frequency(word) for word in VOCABULARY)
        assert all(postings.weight(word) == pytest.approx(fresh.weight(word)) for word in VOCABULARY)
        sealed(postings)
    held = {word for row in kept for word in texts[row]}
    assert set(postings.freeze().base.words) == held


@given(TEXTS, st.sampled_from((*VOCABULARY, "absent")), st.integers(0, 25))
def test_which_rows_hold_a_word(texts: Texts, word: str, seal_at: int) -> None:
    postings = filled(texts, seal_at=seal_at)
    holding = [row for row in range(len(texts)) if postings.holds(word, row)]
    assert holding == [row for row, text in enumerate(texts) if word in text]
    assert postings.frequency(word) == len(holding)
    held = postings.held([word, "absent"], np.arange(len(texts)))
    assert np.flatnonzero(held[0]).tolist() == holding
    assert not held[1].any() or word == "absent"


def test_rows_without_words_may_lie_between() -> None:
    postings = Postings()
    postings.add(0, [["gateway"], [], [], []])
    postings.add(4, [["gateway"], ["queue"], [], []])
    rows, _ = postings.search(["queue"], EVEN, np.ones(6, np.bool_), 3)
    assert rows.tolist() == [4]


def test_an_empty_index_finds_nothing() -> None:
    rows, scores = Postings().search(["gateway"], EVEN, np.zeros(0, np.bool_), 5)
    assert len(rows) == len(scores) == 0


# states


PERIODS = st.lists(DAYS, max_size=6, unique=True).map(sorted)


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


def test_masks_stay_level_with_what_is_set() -> None:
    """A mask that is kept is the one that would be made anew, whatever was set since."""
    chance = random.Random(8)
    states = States()
    rows: list[Memory] = []
    for _ in range(400):
        days = sorted(chance.sample(range(-20, 21), chance.randrange(0, 5)))
        pieces = [Period(at(start), at(end)) for start, end in zip(days[::2], days[1::2], strict=False)]
        pieces += [Period(at(days[-1]))] if len(days) % 2 else []
        row = chance.randrange(len(rows) + 1)
        made = memory(
            row, tuple(pieces), retracted=chance.random() < 0.1, project=chance.choice(("", "a", "b"))
        )
        rows[row : row + 1] = [made]
        states.set(row, made)
        day, status = chance.randrange(-21, 22), chance.choice(list(Status))
        assert states.having(at(day), status).tolist() == [each.status(at(day)) is status for each in rows]
        inside = states.in_projects(frozenset({"a"}))
        assert inside.tolist() == [each.project in ("", "a") for each in rows]
        assert len(states.everything()) == len(rows)
        assert not inside.flags.writeable


# vectors


def matrix_of(rows: Floats, without: Callable[[int], bool] = lambda row: False) -> VectorMatrix:
    matrix = VectorMatrix(rows.shape[1])
    for row, each in enumerate(quantise(rows)):
        if not without(row):
            matrix.set(row, each.scale, each.values)
    return matrix


def test_cosines_are_those_of_the_vectors_and_missing_ones_are_marked() -> None:
    made = vectors(600)
    matrix = matrix_of(made, without=lambda row: row % 7 == 0)
    found = matrix.cosines(made[5], np.arange(650))
    there = [row for row in range(600) if row % 7]
    assert matrix.filled == len(there)
    assert found[there] == pytest.approx(made[there] @ made[5], abs=0.01)
    assert (np.delete(found, there) == -1).all()
    assert matrix.cosine(5, 6) == pytest.approx(made[5] @ made[6], abs=0.01)
    matrix.clear(5)
    assert matrix.cosines(made[5], np.array([5]))[0] == -1
    assert not matrix.has(5)
    assert matrix.filled == len(there) - 1


@examples(max_examples=40)
@given(st.integers(1, 300), st.integers(1, 30), st.floats(0.05, 1), st.integers(0, 99))
def test_few_rows_are_searched_exactly(count: int, depth: int, share: float, seed: int) -> None:
    made = vectors(count, seed=seed)
    matrix = matrix_of(made, without=lambda row: row % 5 == 1)
    allowed = np.random.default_rng(seed).random(count) < share
    rows, cosines = matrix.nearest(made[0], allowed, depth)
    open_rows = [row for row in range(count) if allowed[row] and matrix.has(row)]
    exact = matrix.cosines(made[0], np.array(open_rows, np.int64))
    expected = sorted(zip(-exact, open_rows, strict=True))[:depth]
    assert rows.tolist() == [row for _, row in expected]
    assert cosines == pytest.approx([-value for value, _ in expected])


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2])
def test_many_rows_are_searched_nearly_exactly(share: float) -> None:
    count = 30_000
    made = vectors(count, 256)
    matrix = VectorMatrix(256)
    quantised = quantise(made)
    scales = np.array([each.scale if row % 9 != 4 else 0 for row, each in enumerate(quantised)], np.float32)
    values = np.frombuffer(b"".join(each.values for each in quantised), np.int8).reshape(count, -1)
    matrix.fill(0, scales, values)
    chance = np.random.default_rng(1)
    allowed = chance.random(count) < share
    found = 0
    questions = unit(made[:40] + 0.03 * chance.normal(size=(40, 256)).astype(np.float32))
    for question in questions:
        rows, cosines = matrix.nearest(question, allowed, 20)
        assert allowed[rows].all()
        assert all(map(matrix.has, rows))
        assert (np.diff(cosines) <= 0).all()
        assert cosines == pytest.approx(matrix.cosines(question, rows))
        found += len(set(rows.tolist()) & set(matrix.exact(question, allowed, 20)[0].tolist()))
    assert found >= 0.95 * 20 * len(questions)


def test_equally_near_rows_are_ordered_by_their_ties() -> None:
    made = np.repeat(vectors(1), 50, axis=0)
    keys = np.random.default_rng(2).permutation(50).astype(np.uint64)
    matrix = VectorMatrix(64, lambda rows: keys[rows])
    for row, each in enumerate(quantise(made)):
        matrix.set(row, each.scale, each.values)
    rows, _ = matrix.nearest(made[0], np.ones(50, np.bool_), 10)
    assert keys[rows].tolist() == list(range(10))


def test_many_rows_set_at_once_are_those_set_one_by_one() -> None:
    made = vectors(70_000, 16)
    quantised = quantise(made)
    one_by_one = matrix_of(made, without=lambda row: row % 3 == 0)
    scales = np.array([each.scale if row % 3 else 0 for row, each in enumerate(quantised)], np.float32)
    values = np.frombuffer(b"".join(each.values for each in quantised), np.int8).reshape(-1, 16)
    at_once = VectorMatrix(16)
    at_once.fill(0, scales, values)
    assert at_once.filled == one_by_one.filled
    everything = np.ones(len(made), np.bool_)
    for question in made[:5]:
        expected = one_by_one.nearest(question, everything, 30)
        assert (at_once.nearest(question, everything, 30)[0] == expected[0]).all()


# links and entities


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from((0.0, 0.25, 0.5, 1.0)))))
def test_links_stand_at_both_ends(pairs: list[tuple[int, int, float]]) -> None:
    links = Links()
    expected: dict[int, dict[int, float]] = {row: {} for row in range(10)}
    for row, other, weight in pairs:
        links.add(row, other, weight)
        if row != other:
            expected[row][other] = expected[other][row] = weight
    for row, others in expected.items():
        assert links.neighbours(row) == {other: weight for other, weight in others.items() if weight}
    links.remove(3)
    assert not links.neighbours(3)
    assert all(3 not in links.neighbours(row) for row in range(10))


NAMED = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("who", "about"))), max_size=4)


@given(st.lists(NAMED, max_size=12), st.integers(0, 12), st.randoms(use_true_random=False))
def test_entities_know_their_rows_and_rows_their_entities(
    rows: list[list[tuple[str, str]]], seal_at: int, chance: random.Random
) -> None:
    entities = Entities()
    for row, named in enumerate(rows):
        if row == seal_at:
            entities.adopt(entities.freeze().sealed())
        entities.add(row, [EntityRef(name.upper(), role=role) for name, role in named])
    gone = {row for row in range(len(rows)) if chance.random() < 0.2}
    for row in gone:
        entities.remove(row)
    for known in (entities, Entities(entities.freeze())):
        for name in "abcde":
            for role in (None, "who", "about"):
                expected = [
                    row
                    for row, named in enumerate(rows)
                    if row not in gone and any(key == name and role in (None, part) for key, part in named)
                ]
                assert known.rows_of(name, role).tolist() == expected
                assert known.rows_of(name, role, most=2).tolist() == expected[-2:]
        told = list(map(known.of, range(len(rows))))
        assert told == [
            () if row in gone else tuple(dict.fromkeys(key for key, _ in named))
            for row, named in enumerate(rows)
        ]
    assert {key for key in entities.freeze().keys if key} == {
        key for row, named in enumerate(rows) if row not in gone for key, _ in named
    }
