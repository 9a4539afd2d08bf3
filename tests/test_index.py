"""The RAM index: BM25 against others' figures, masks against the memories themselves, vectors, erasure."""

from __future__ import annotations

import logging
import math
import random
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.index.entities import Entities
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.links import Links
from mnemo_mcp.index.postings import BACKGROUND, EVEN, K1, B, Boosts, Postings
from mnemo_mcp.index.profile import ProfileIndex, Scope, indexed_words
from mnemo_mcp.index.snapshot import Snapshot, read
from mnemo_mcp.index.states import States
from mnemo_mcp.index.vectors import VectorMatrix
from mnemo_mcp.memory import Claim, EntityRef, Instant, Kind, Memory, Period, Status, instant
from mnemo_mcp.models.encoder import quantise, unit
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings
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
BOOSTS = st.tuples(*[st.sampled_from((0.5, 1.0, 2.0, 3.5))] * 4)


def at(days: int) -> Instant:
    return instant(START + timedelta(days=days))


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
        f"m{number:012}0",
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


def vectors(count: int, dims: int = 64, seed: int = 3) -> Floats:
    chance = np.random.default_rng(seed)
    spread = chance.lognormal(sigma=0.5, size=dims)
    topics = chance.normal(size=(max(1, count // 30), dims))
    made = topics[chance.integers(len(topics), size=count)] + 1.2 * chance.normal(size=(count, dims))
    return unit((made * spread).astype(np.float32))


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
        told = known.entities_of(range(len(rows)))
        assert told == [
            () if row in gone else tuple(dict.fromkeys(key for key, _ in named))
            for row, named in enumerate(rows)
        ]
    assert {key for key in entities.freeze().keys if key} == {
        key for row, named in enumerate(rows) if row not in gone for key, _ in named
    }


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


# many states, one index


WHATS = (
    "The gateway waits 600 s",
    "Kestrel keeps the ledger",
    "pgBouncer pools logins",
    "Search by night",
    "队列在夜间清空",
)
PEOPLE = st.lists(st.sampled_from(("Kestrel", "Quillon", "nats", "Zoë")), max_size=3, unique=True)
ENCODER = "some-encoder"
ASKED = ("gateway", "kestrel", "ledger", "login", "night", "atla", "队列")


@st.composite
def some_states(draw: st.DrawFn) -> list[Memory]:
    """States of a few memories as a ledger would tell them: asserted, renewed, replaced, erased."""
    told: list[Memory] = []
    now: dict[int, Memory] = {}
    for _ in range(draw(st.integers(1, 25))):
        number = draw(st.integers(0, 9))
        before = now.get(number)
        if before is None:
            entities = tuple(
                EntityRef(name, role=draw(st.sampled_from(("who", "about")))) for name in draw(PEOPLE)
            )
            state = memory(
                number,
                what=draw(st.sampled_from(WHATS)),
                kind=draw(st.sampled_from(list(Kind))),
                entities=entities,
                project=draw(st.sampled_from(("", "atlas"))),
            )
        elif before.erased:
            continue
        elif draw(st.booleans()):
            days = sorted(draw(st.lists(DAYS, max_size=4, unique=True)))
            pieces = tuple(
                Period(at(start), at(end)) for start, end in zip(days[::2], days[1::2], strict=False)
            )
            successor = draw(st.sampled_from(sorted(now)))
            state = replace(
                before,
                periods=pieces,
                replaced_by=tuple(dict.fromkeys((*before.replaced_by, f"m{successor:012}0"))),
                retracted=draw(st.booleans()),
            )
        else:
            state = replace(before, claim=Claim(""), erased=True)
        now[number] = state
        told.append(state)
    return told


def built(states: Iterable[Memory]) -> ProfileIndex:
    """An index of these states; every memory whose number is no multiple of three has a vector."""
    index = ProfileIndex()
    for state in states:
        index.apply(state)
        if int(state.id[1:-1]) % 3:
            (vector,) = quantise(vectors(1, 16, seed=int(state.id[1:-1])))
            index.attach(ENCODER, 16, {state.id: (vector.scale, vector.values)})
    return index


def told_by(index: ProfileIndex) -> list[object]:
    """Everything an index can be asked, by ids."""
    rows = sorted((row for row in range(len(index)) if not index.memory(row).erased), key=index.id)
    every = index.states.everything()
    nearest, cosines = index.matrix(ENCODER, 16).nearest(vectors(1, 16, seed=77)[0], every, 5)
    found = [index.postings.search(ASKED, boosts, every, 4) for boosts in (EVEN, (4.0, 1.0, 1.0, 0.5))]
    current = index.states.having(at(1), Status.CURRENT) & index.inside(Scope(frozenset({"atlas"})))
    return [
        [index.memory(row) for row in rows],
        [[each.id for each in sorted(index.same(what), key=lambda each: each.id)] for what in WHATS],
        [index.entities.entities_of([row]) for row in rows],
        [
            sorted(map(index.id, index.entities.rows_of(key, role)))
            for key in ("kestrel", "zoë")
            for role in (None, "who")
        ],
        [
            sorted(index.id(row) for row in rows if index.inside(Scope(kinds=frozenset({kind})))[row])
            for kind in Kind
        ],
        sorted(index.id(row) for row in rows if current[row]),
        [
            sorted(index.id(old) for old, _ in index.successions().ancestors(row) if old in rows)
            for row in rows
        ],
        [
            [index.is_name(word) for word in ASKED],
            [each.key for each in index.names.find("Kestrel and Zoë ask")],
        ],
        [index.postings.frequency(word) for word in ASKED],
        [index.id(row) for row in nearest],
        [round(float(value), 4) for value in cosines],
        [[index.id(row) for row in rows] for rows, _ in found],
        [[round(float(score), 4) for score in scores] for _, scores in found],
        sorted(map(index.id, index.lacking(ENCODER, 99))),
        index.lacks(ENCODER),
    ]


def sealed_away(index: ProfileIndex) -> ProfileIndex:
    frozen = index.freeze()
    index.adopt(frozen, frozen.sealed())
    return index


def saved_and_read(index: ProfileIndex, folder: Path) -> ProfileIndex:
    frozen = index.freeze()
    made = frozen.sealed()
    index.adopt(frozen, made)
    with Snapshot(folder / "index" / "snapshot") as file:
        frozen.save(file, "p.", made, index.lock)
        file.finish({"format": 0})
        file.publish()
    return ProfileIndex.restored(read(folder / "index" / "snapshot", {"format": 0}).under("p."))


@examples(max_examples=50, deadline=None)
@given(some_states(), st.integers(0, 25))
def test_an_index_that_grew_is_the_one_made_anew(states: list[Memory], seal_at: int) -> None:
    grew = built(states[:seal_at])
    sealed_away(grew)
    for state in built_on(grew, states[seal_at:]):
        grew.apply(state)
    last = {state.id: place for place, state in enumerate(states)}
    anew = built(states[place] for place in sorted(last.values()))
    assert told_by(grew) == told_by(anew)


def built_on(index: ProfileIndex, states: Iterable[Memory]) -> Iterator[Memory]:
    """The states, each with its vector once it is entered."""
    for state in states:
        yield state
        if int(state.id[1:-1]) % 3:
            (vector,) = quantise(vectors(1, 16, seed=int(state.id[1:-1])))
            index.attach(ENCODER, 16, {state.id: (vector.scale, vector.values)})


@examples(max_examples=50, deadline=None)
@given(some_states(), some_states())
def test_a_snapshot_gives_back_the_index_and_can_grow_on(states: list[Memory], later: list[Memory]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = built(states)
        expected = told_by(index)
        back = saved_and_read(index, Path(folder))
        assert told_by(back) == told_by(index) == expected
        more = [replace(each, id=each.id.replace("m0", "m1")) for each in later]
        for each in (index, back):
            for state in built_on(each, more):
                each.apply(state)
        assert told_by(back) == told_by(index)
        assert told_by(saved_and_read(back, Path(folder))) == told_by(index)


# snapshots of a store


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Service]:
    """A store with two profiles; its own index saves nothing."""
    settings = Settings(home=tmp_path / "data", encoders=Encoders(english="off", other="off"))
    with Service(settings) as service:
        for number in range(30):
            entities = [EntityRef(f"Kestrel {number % 4}")]
            service.remember(
                f"Relay {number} of the Kestrel fleet keeps code {7000 + number}", entities=entities
            )
        service.remember("Zephyrine wrote the marker QUILLON", profile="other")
        yield service


def indexed(service: Service) -> Index:
    return Index(service.store, service.settings.index, worth_saving=1)


def with_vectors(service: Service) -> Index:
    """A saved index whose memories have vectors, which no ledger knows of."""
    index = indexed(service)
    for name in ("personal", "other"):
        profile = index.profile(name)
        made = quantise(vectors(len(profile), 16))
        profile.attach(
            ENCODER, 16, {profile.id(row): (each.scale, each.values) for row, each in enumerate(made)}
        )
    assert index.tidy()
    return index


def codes(index: Index, word: str = "7012", profile: str = "personal") -> list[str]:
    found = index.profile(profile)
    rows, _ = found.postings.search([word], EVEN, found.states.everything(), 5)
    return [found.memory(int(row)).claim.what for row in rows]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_start_goes_on_from_the_snapshot(kept: Service, caplog: pytest.LogCaptureFixture) -> None:
    before = with_vectors(kept)
    kept.remember("Relay 31 keeps code 7031")
    after = indexed(kept)
    assert after.profile("personal").lacks(ENCODER) == 1
    assert after.profile("other").lacks(ENCODER) == 0
    assert codes(after) == codes(before) == ["Relay 12 of the Kestrel fleet keeps code 7012"]
    assert codes(after, "7031") == ["Relay 31 keeps code 7031"]
    assert warnings(caplog) == []
    path = kept.settings.index
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert [(each.name, stat.S_IMODE(each.stat().st_mode)) for each in path.iterdir()] == [
        ("snapshot", 0o600)
    ]


def flipped(data: bytes, share: float) -> bytes:
    place = int(share * (len(data) - 1))
    return data[:place] + bytes([data[place] ^ 64]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "one byte long": lambda data: data + b"x",
    "other version": lambda data: data.replace(b'"mnemo":', b'"mnema":'),
    "something else": lambda data: b"PK" * 4000,
    **{
        f"a bit at {share}": partial(flipped, share=share)
        for share in (0.0, 0.2, 0.4, 0.6, 0.8, 0.97, 0.999, 1.0)
    },
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_snapshot_costs_no_answer(
    kept: Service, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    expected = codes(with_vectors(kept))
    file = kept.settings.index / "snapshot"
    file.write_bytes(damage(file.read_bytes()))
    index = indexed(kept)
    assert codes(index) == expected
    assert index.profile("personal").lacks(ENCODER) == 30, "it was read all the same"
    assert len(warnings(caplog)) == 1
    assert index.tidy(), "a good one takes its place"
    assert codes(indexed(kept)) == expected
    assert len(warnings(caplog)) == 1


def test_a_snapshot_of_another_ledger_or_of_a_later_state_is_left_alone(
    kept: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_vectors(kept)
    settings = replace(kept.settings, home=tmp_path / "elsewhere")
    with Service(settings) as other:
        for number in range(60):
            other.remember(f"Depot {number} keeps code {7000 + number}")
        settings.index.mkdir(exist_ok=True)
        shutil.copy(kept.settings.index / "snapshot", settings.index)
        assert codes(indexed(other)) == ["Depot 12 keeps code 7012"]
    with Service(replace(kept.settings, home=tmp_path / "earlier")) as earlier:
        earlier.remember("Depot 12 keeps code 7012")
        earlier.settings.index.mkdir(exist_ok=True)
        shutil.copy(kept.settings.index / "snapshot", earlier.settings.index)
        assert codes(indexed(earlier)) == ["Depot 12 keeps code 7012"]
    assert len(warnings(caplog)) == 2


def test_an_erased_text_is_in_no_file(kept: Service) -> None:
    entities = [EntityRef("Zanzibar-9")]
    gone = kept.remember("The vault code is XYLOPHONE-4471", why="Ullrich said so", entities=entities).id
    index = with_vectors(kept)
    marks = [
        mark.encode() for mark in ("XYLOPHONE", "xylophone", "Ullrich", "ullrich", "Zanzibar", "zanzibar")
    ]
    assert all(mark in (kept.settings.index / "snapshot").read_bytes() for mark in marks[:3])
    source = kept.recall_episode(gone)[0][0].id
    kept.forget(gone, "erase")
    kept.forget(source, "erase")
    for again in (index, indexed(kept)):
        again.catch_up()
        for _ in range(2):
            files = [file for file in kept.settings.home.rglob("*") if file.is_file()]
            assert not [(file, mark) for file in files for mark in marks if mark in file.read_bytes()]
            again.tidy()
        for number in range(3):
            kept.remember(f"Relay {again} is {number}")
        again.catch_up()
        assert again.tidy()
        saved = (kept.settings.index / "snapshot").read_bytes()
        assert b"Kestrel" in saved and not any(mark in saved for mark in marks)
        assert codes(again) == ["Relay 12 of the Kestrel fleet keeps code 7012"]
        assert not codes(again, "4471")


def test_an_erasure_while_a_snapshot_is_written_leaves_none(kept: Service) -> None:
    gone = kept.remember("The vault code is XYLOPHONE-4471").id
    index = indexed(kept)
    profile = index.profile("personal")
    profile.attach(ENCODER, 16, {gone: (1.0, bytes(16))})
    profile.matrices[ENCODER].part = lambda start, stop: _erase_then(kept, index, gone, profile, start, stop)  # type: ignore[method-assign]
    index.tidy()
    assert not (kept.settings.index / "snapshot").exists()
    assert not list(kept.settings.index.iterdir())


def _erase_then(
    service: Service, index: Index, gone: str, profile: ProfileIndex, start: int, stop: int
) -> tuple[Floats, Any]:
    service.forget(gone, "erase")
    index.catch_up()
    return VectorMatrix(16).part(start, stop)


def test_profiles_share_nothing_of_an_index(kept: Service) -> None:
    for index in (with_vectors(kept), indexed(kept)):
        assert codes(index, "quillon", "other") == ["Zephyrine wrote the marker QUILLON"]
        assert not codes(index, "quillon")
        assert not codes(index, "7012", "other")
        assert not index.profile("personal").is_name("quillon")
        assert not index.profile("personal").same("Zephyrine wrote the marker QUILLON")
        assert not index.profile("other").names.find("about Kestrel 1")
        assert [len(index.profile(name)) for name in ("personal", "other", "third")] == [30, 1, 0]


def test_a_small_index_is_not_saved(kept: Service) -> None:
    index = Index(kept.store, kept.settings.index)
    index.profile("personal")
    assert not index.tidy()
    index.close()
    assert not kept.settings.index.exists()
