"""Names in a text: whole words of any script, the longest wins, and learning one costs nothing."""

from __future__ import annotations

import random
import string
import time
from pathlib import Path

import pytest
from desk import opened
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mnemo_mcp.index.names import Names
from mnemo_mcp.memory import EntityRef

KNOWN = (
    "Atlas", "atlas-2", "auth", "auth-api", "Kubernetes", "k8s", "O'Brien", "Café Zürich", "결제", "飞书",
    "アトラス",
    "API", "Go", "New  York", "York", "C++", "Don", "ＳＱＬ", "Straße", "api gateway", "ops-1187",
)  # fmt: skip
WRITTEN = {
    "what is atlas-2 and Atlas's port": ["atlas-2", "Atlas"],
    "auth-api or auth?": ["auth-api", "auth"],
    "ATLAS, atlas; (Atlas)": ["ATLAS", "atlas", "Atlas"],
    "OBrien and O'Brien o’brien": ["OBrien", "O'Brien", "o’brien"],
    "CAFE\u0301 ZURICH or café zürich or Cafe Zu\u0308rich": [
        "CAFE\u0301 ZURICH", "café zürich", "Cafe Zu\u0308rich"],
    "결제는 어디에 있나요, 재결제": ["결제"],
    "飞书的插件和アトラスのAPI": ["飞书", "アトラス", "API"],
    "l'API d'Atlas": ["API", "Atlas"],
    "Atlas를 Atlasは": ["Atlas", "Atlas"],
    "new\nyork  and York": ["new\nyork", "York"],
    "C++ and sql, STRASSE": ["C++", "sql", "STRASSE"],
    "Atlas-Server pre-Atlas services/atlas/x": ["Atlas", "Atlas", "atlas"],
    "atlas-3 atlas_x atlases atlas.py xatlas ops-11870 authapi": [],
    "go ahead; Go is fine": ["Go"],
    "I don't and don’t; Don does": ["Don"],
    "the api gateway": ["api gateway"],
    "": [],
}  # fmt: skip


@pytest.fixture(params=["waiting", "tidied", "both"])
def names(request: pytest.FixtureRequest) -> Names:
    """The known names: not yet in the automaton, in it, or half of them."""
    found = Names()
    half = len(KNOWN) // 2 if request.param == "both" else len(KNOWN)
    for name in KNOWN[:half]:
        found.add(name, name.casefold())
    if request.param != "waiting":
        fill(found, 400)
        assert found.tidy()
    for name in KNOWN[half:]:
        found.add(name, name.casefold())
    return found


def fill(names: Names, count: int) -> None:
    chance = random.Random(7)
    for number in range(count):
        names.add(f"zz{''.join(chance.choices(string.ascii_lowercase, k=8))}{number}", f"filler {number}")


@pytest.mark.parametrize("text", WRITTEN)
def test_names_are_found_as_whole_words(names: Names, text: str) -> None:
    found = names.find(text)
    assert [each.name for each in found] == WRITTEN[text]
    assert all(text[each.start : each.end] == each.name for each in found)


@pytest.mark.parametrize("name", ["a", "it", "The", "und", "漢", "12", "", "  ", "!?", "the who", "x" * 500])
def test_names_that_tell_nothing_are_left_out(name: str) -> None:
    names = Names()
    names.add(name, "key")
    assert len(names) == 0
    assert names.find(f"so {name} is it") == []
    names.remove(name, "key")


def test_an_alias_means_its_entity_and_a_name_may_mean_two() -> None:
    names = Names()
    for name, key in (
        ("Kubernetes", "kubernetes"),
        ("k8s", "kubernetes"),
        ("Nomad", "nomad"),
        ("nomad", "the tent"),
    ):
        names.add(name, key)
    assert [each.key for each in names.find("k8s or nomad")] == ["kubernetes", "nomad", "the tent"]


def test_a_name_goes_with_the_last_that_bears_it(names: Names) -> None:
    names.add("ATLAS", "atlas")
    names.remove("atlas", "atlas")
    assert [each.name for each in names.find("atlas or atlas-2")] == ["atlas", "atlas-2"]
    names.remove("atlas", "atlas")
    names.remove("atlas", "atlas")
    names.remove("atlas-2", "somebody else")
    assert [each.name for each in names.find("atlas or atlas-2")] == ["atlas-2"]
    names.remove("New York", "new  york")
    assert [each.name for each in names.find("New York")] == ["York"]
    names.add("atlas", "atlas")
    assert [each.name for each in names.find("atlas or atlas-2")] == ["atlas", "atlas-2"]


def test_tidying_changes_no_answer(names: Names) -> None:
    before = {text: names.find(text) for text in WRITTEN}
    fill(names, 800)
    names.remove("York", "york")
    names.add("York", "york")
    assert names.tidy()
    assert {text: names.find(text) for text in WRITTEN} == before
    assert not names.tidy()


@examples(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), min_size=1, max_size=30), st.text(max_size=40))
def test_any_name_that_is_kept_is_found_where_it_stands(name: str, around: str) -> None:
    names = Names()
    names.add(name, "key")
    for text in (around + name, f"({name})", name):
        for each in names.find(text):
            assert text[each.start : each.end] == each.name
    if len(names) and name[0].isalnum() and name[-1].isalnum() and not (name.isascii() and name.islower()):
        assert [each.name for each in names.find(f"( {name} )")] == [name]


def test_many_names_are_looked_for_at_once() -> None:
    names = Names()
    fill(names, 20_000)
    names.add("Atlas", "atlas")
    text = "Where does Atlas keep the ledger of the gateway? " * 100
    for _ in range(2):
        began = time.thread_time()
        assert len(names.find(text)) == 100
        assert time.thread_time() - began < 1.0
        names.tidy()


def test_names_come_and_go_through_many_tidyings() -> None:
    names, chance = Names(), random.Random(3)
    alive: set[str] = set()
    every = [f"unit{number}" for number in range(1_500)]
    for step in range(6_000):
        name = chance.choice(every)
        if name in alive:
            names.remove(name, name)
            alive.discard(name)
        else:
            names.add(name, name)
            alive.add(name)
        if step % 500 == 0:
            names.tidy()
    assert len(names) == len(alive)
    found = [each.key for each in names.find(" ".join(every))]
    assert found == [name for name in every if name in alive]


def test_aliases_and_merges_of_the_ledger_reach_the_names(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        for name in ("Kubernetes", "the cluster", "Nomad"):
            service.remember(f"{name} runs the jobs", entities=[EntityRef(name)], profile="work")
        entities, records = service.store.entities, service.records
        writer = service.writer("work", "", "cli", "", "person", None)
        assert entities.spellings("work") == frozenset()
        seen, _ = entities.renamed_since(0)
        records.alias("Kubernetes", "k8s", writer)
        records.merge("the cluster", "Kubernetes", writer)
        assert entities.renamed_since(seen)[1] == ["work"]
        assert entities.spellings("work") == {
            ("k8s", "kubernetes"),
            ("k8s", "the cluster"),
            ("Kubernetes", "the cluster"),
            ("the cluster", "kubernetes"),
        }
        names = Names()
        for name, key in entities.spellings("work"):
            names.add(name, key)
        assert [each.key for each in names.find("does k8s run it?")] == ["kubernetes", "the cluster"]
        seen, _ = entities.renamed_since(0)
        records.unmerge("the cluster", writer)
        assert entities.spellings("work") == {("k8s", "kubernetes")}
        assert entities.renamed_since(entities.renamed_since(seen)[0]) == (entities.renamed_since(0)[0], [])
