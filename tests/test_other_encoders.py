"""Another encoder takes over a store: nothing it holds is lost, nothing is found by vectors of another."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kept_stores import asked, columns, content
from make_schema_fixture import END, hook
from product import EVENTS, ROOT, Product, until
from tiny_onnx import tiny_model

from mnemo_mcp import settings as configuration
from mnemo_mcp.ledger.vectors import text_hash
from mnemo_mcp.memory import Status
from mnemo_mcp.models.encoder import Matrix
from mnemo_mcp.models.onnx import OnnxEncoder
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.recall.answer import Answer, RecalledMemory
from mnemo_mcp.search.projection import Projection
from mnemo_mcp.search.tables import EPISODES, MEMORIES
from mnemo_mcp.service import Service

NUMBER, SAID = 120, 10
SYLLABLES = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
NAMES = ["".join(each) for each in itertools.product(SYLLABLES, repeat=3)][::300]
NOUNS, ALIASES = NAMES[: NUMBER + SAID], NAMES[500 : 500 + NUMBER + SAID]
FRESH, FRESH_ALIAS = NAMES[-2:]
A, OTHER_DIMENSION, SAME_DIMENSION = "a", "b", "c"


def model(folder: Path, dims: int, shift: int = 0) -> dict[str, Any]:
    """An encoder to which each noun and its alias mean the same.

    Shifted by one, it sees in every noun what the encoder of so many dimensions sees in the one before:
    compared with each other their vectors would find the wrong memory, and be sure of it.
    """
    chance = np.random.default_rng(dims)
    meanings = np.roll(chance.standard_normal((NUMBER + SAID, dims)), shift, axis=0)
    fresh = chance.standard_normal((1, dims))
    vectors = np.concatenate([np.zeros((1, dims)), meanings, meanings, fresh, fresh])
    words = ["[UNK]", *NOUNS, *ALIASES, FRESH, FRESH_ALIAS]
    return tiny_model(folder, vectors=vectors.astype(np.float32), words=words)


@dataclass(frozen=True)
class World:
    """A store made with encoder A: the ids of its memories in the order of their nouns, its models."""

    home: Path
    names: tuple[str, ...]
    models: dict[str, dict[str, Any]]

    def copy(self, home: Path) -> World:
        shutil.copytree(self.home, home)
        return World(home, self.names, self.models)

    def choose(self, encoder: str) -> None:
        lines = ["[encoders]", f'english = "{encoder}"', f'other = "{encoder}"']
        for name, table in self.models.items():
            lines += [f"[encoders.onnx.{name}]", f"path = {json.dumps(table['path'])}"]
        (self.home / "config.toml").write_text("\n".join(lines))

    def serve(self, encoder: str) -> Service:
        """The service as a daemon has it, its background work left to the test."""
        self.choose(encoder)
        service = Service(configuration.load(self.home, {}), clock=lambda: END, background=True)
        service.encoders.load()
        return service

    def vectors(self) -> dict[str, int]:
        """How many vectors there are by encoder."""
        return dict(asked(self.home / "mnemo.db", "SELECT encoder, count(*) FROM vectors GROUP BY encoder"))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    models = {
        A: model(folder / A, 32),
        OTHER_DIMENSION: model(folder / OTHER_DIMENSION, 48),
        SAME_DIMENSION: model(folder / SAME_DIMENSION, 32, shift=1),
    }
    world = World(folder / "data", (), models)
    world.home.mkdir(mode=0o700)
    with world.serve(A) as service:
        for noun in NOUNS[NUMBER:]:
            reply = {"session_id": noun, "last_assistant_message": f"A look at the {noun} is worth it."}
            hook(service, "turn-end", EVENTS["turn-end"], **reply)
        names = [
            service.remember(f"The {noun} stands in hall {at}.").id for at, noun in enumerate(NOUNS[:NUMBER])
        ]
        service.forget(names[::20], "close")
        service.forget(names[10::20], "retract")
        settle(service)
        assert by_meaning(service) == dict(zip(ALIASES, names, strict=False))
    return World(world.home, tuple(names), models)


def settle(service: Service) -> None:
    while service.upkeep.embed():
        pass
    while service.upkeep.relay():
        pass


def recalled(service: Service, question: str) -> Answer:
    return service.recall(question, history=True, limit=50)


def by_meaning(service: Service) -> dict[str, str]:
    """For every alias the id of its memory, if that one is found, first among those of its status."""
    found = {}
    for noun, alias in zip(NOUNS[:NUMBER], ALIASES, strict=False):
        firsts: dict[Status, RecalledMemory] = {}
        for each in recalled(service, f"What about the {alias}?").memories:
            firsts.setdefault(each.status, each)
        for each in firsts.values():
            if noun in each.memory.claim.what:
                found[alias] = each.memory.id
    return found


def said(service: Service) -> list[str]:
    """The nouns of the episodes that are found by their aliases."""
    answers = [service.recall(f"What about the {alias}?").episodes for alias in ALIASES[NUMBER:]]
    return [found[0].episode.session for found in answers if found]


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text of the store that an encoder reads from here on."""
    texts: list[str] = []
    encode = OnnxEncoder.encode

    def reading(encoder: OnnxEncoder, given: Sequence[str], *, query: bool = False) -> Matrix:
        texts.extend(() if query else given)
        return encode(encoder, given, query=query)

    monkeypatch.setattr(OnnxEncoder, "encode", reading)
    return texts


@pytest.mark.parametrize("other", [OTHER_DIMENSION, SAME_DIMENSION])
def test_other_encoder_takes_over(world: World, tmp_path: Path, encoded: list[str], other: str) -> None:
    world = world.copy(tmp_path / "data")
    file, everything = world.home / "mnemo.db", dict(zip(ALIASES, world.names, strict=False))
    kept = ("ledger", "episodes", "snapshot", "vectors")
    listed = {table: names for table, names in columns(file).items() if table in kept}
    before, made_before = content(file, listed), set(world.vectors())
    with world.serve(other) as service:
        for noun, name in zip(NOUNS, world.names, strict=False):
            answer = recalled(service, f"Where is the {noun}?")
            assert [each.memory.id for each in answer.memories] == [name]
            assert f"Vectors of {NUMBER} memories are not ready yet" in answer.notes[0]
        assert by_meaning(service) == {}
        while service.status()["queue"]["embed"] > NUMBER:  # the former encoder's come back first
            assert service.upkeep.embed(16)
        assert service.encoders.moving and set(world.vectors()) == made_before
        assert by_meaning(service) == everything and said(service) == NOUNS[NUMBER:]

        fresh = service.remember(f"The {FRESH} stands outside.").id
        assert recalled(service, f"Where is the {FRESH}?").memories[0].memory.id == fresh
        while service.upkeep.embed(64) < 64:  # that one, too, gets its former vector first
            pass
        assert service.encoders.moving and set(world.vectors()) > made_before
        assert by_meaning(service) == everything, "found by a vector of another encoder"

        settle(service)
        assert service.status()["queue"] == {"distil": SAID, "usage": SAID, "embed": 0, "relay": 0}
        assert not service.encoders.moving
        assert by_meaning(service) == everything and said(service) == NOUNS[NUMBER:]
        assert recalled(service, f"What about the {FRESH_ALIAS}?").memories[0].memory.id == fresh
        assert recalled(service, f"What about the {ALIASES[0]}?").notes == ()
    after = content(file, listed)
    assert all(not before[table] - after[table] for table in kept)
    filled(world)

    encoded.clear()
    with world.serve(A) as service:
        service.recall("hall")
        settle(service)
        assert by_meaning(service) == everything and said(service) == NOUNS[NUMBER:]
        assert recalled(service, f"What about the {FRESH_ALIAS}?").memories[0].memory.id == fresh
        assert not encoded, "what was read once is not read again"
        service.forget([fresh], "erase")
        text = text_hash(f"The {FRESH} stands outside.")
        assert not service.store.vectors.get(service.encoders.encoders[0].id, [text])
    assert asked(file, f"SELECT count(*) FROM vectors WHERE hash = x'{text.hex()}'") == [(0,)]


def filled(world: World) -> None:
    """The search tables hold a vector of the encoder in use in every row."""
    pair = EncoderPair(configuration.load(world.home, {}).encoders)
    pair.load()
    (encoder,) = pair.encoders
    tables = Projection(world.home / "search", {encoder.id: encoder.dims})
    assert tables.count(MEMORIES) >= NUMBER and tables.count(EPISODES) >= NUMBER + SAID
    assert tables.lacking(MEMORIES, encoder.id, 1) == tables.lacking(EPISODES, encoder.id, 1) == []


BROKEN_OFF = """
import os, signal, sys
from mnemo_mcp import settings
from mnemo_mcp.service import Service
service = Service(settings.load(sys.argv[1], {}), background=True)
service.encoders.load()
service.upkeep.before_answer()
while service.upkeep.moving().split(": ")[1].split()[0] != "80":
    assert service.upkeep.embed(16)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_while_embedding_it_goes_on_where_it_was(
    world: World, tmp_path: Path, encoded: list[str]
) -> None:
    world = world.copy(tmp_path / "data")
    world.choose(OTHER_DIMENSION)
    done = subprocess.run([sys.executable, "-c", BROKEN_OFF, str(world.home)], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert sorted(world.vectors().values())[0] == 80
    with world.serve(OTHER_DIMENSION) as service:
        service.recall("hall")
        while service.upkeep.embed():
            pass
        assert by_meaning(service) == dict(zip(ALIASES, world.names, strict=False))
        assert len(set(encoded)) == len(encoded) == NUMBER - 80


def test_daemon_changes_its_encoder(world: World, tmp_path: Path) -> None:
    with Product(tmp_path) as product:
        world = world.copy(product.data)
        before = set(world.vectors())
        everything = dict(zip(ALIASES, world.names, strict=False))

        def found() -> dict[str, str]:
            answers = {
                alias: product.ask("recall", query=f"What about the {alias}?", history=True, limit=50)
                for alias in everything
            }
            return {
                alias: name
                for alias, name in everything.items()
                if name in [each["id"] for each in answers[alias]["memories"]]
            }

        def made() -> int:
            return sum(count for encoder, count in world.vectors().items() if encoder not in before)

        def settled() -> bool:
            status = product.ask("status")
            return bool(status["encoders"]) and not status["moving"]

        world.choose(OTHER_DIMENSION)
        assert product.recall(NOUNS[0], "--history")[0]["id"] == world.names[0]
        until(lambda: made() > 0)
        product.kill()
        assert 0 < made() < NUMBER + SAID, "killed too late"

        assert product.recall(NOUNS[1])[0]["id"] == world.names[1]
        until(settled)
        assert found() == everything
        until(lambda: len(product.ask("recall", query=f"What about the {ALIASES[-1]}?")["episodes"]) > 0)
        assert made() == NUMBER + SAID
        product.run("stop")
        filled(world)

        world.choose(A)
        total = world.vectors()
        product.run("status")
        until(settled)
        assert found() == everything
        assert world.vectors() == total
