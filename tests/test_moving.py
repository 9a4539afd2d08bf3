"""A change of encoders: the old vectors answer until the new ones are complete, whatever comes between."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from embeddings_server import EmbeddingsServer
from product import Product, until
from tiny_onnx import tiny_model

from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

FACTS = (
    "The gateway listens on port 8443",
    "Atlas stores its data in PostgreSQL",
    "The queue keeps messages for seven days",
    "Deployments happen on Tuesday",
    "The cache holds four gigabytes",
)
ASKED = "On which port does the gateway listen?"
PROMPT = {"session_id": "s-1", "cwd": "/home/dev/atlas", "hook_event_name": "UserPromptSubmit"}


class World:
    """One data folder, and two servers of encoders: `a`, which served first, and `b`."""

    def __init__(self, home: Path, a: EmbeddingsServer, b: EmbeddingsServer) -> None:
        self.home, self.a, self.b = home, a, b

    @property
    def record(self) -> Path:
        return self.home / "models" / "serving.json"

    def tables(self) -> dict[str, Any]:
        patient = {"question_timeout_seconds": 20.0}
        return {"a": self.a.table(**patient), "b": self.b.table(model="other words", **patient)}

    def open(self, english: str, other: str = "", *, background: bool = True, **kinds: Any) -> Service:
        encoders = Encoders(english, other or english, **{"endpoint": self.tables(), **kinds})
        service = Service(Settings(self.home, encoders=encoders), background=background)
        service.encoders.load()
        service.index.catch_up()
        return service

    def begin(self, english: str = "a", other: str = "", **kinds: Any) -> None:
        """Every fact is stored and has its vectors."""
        with self.open(english, other, **kinds) as service:
            for fact in FACTS:
                service.remember(fact)
            follow(service)
            assert service.status()["moving"] == ""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        a, b = (stack.enter_context(EmbeddingsServer(dims)) for dims in (48, 32))
        yield World(tmp_path / "home", a, b)


def follow(service: Service) -> None:
    """What the worker does, until there is nothing to do."""
    service.index.catch_up()
    while service.upkeep.embed() or service.upkeep.relay():
        pass


def asks(service: Service, server: EmbeddingsServer, question: str = ASKED) -> bool:
    """Whether this server is asked for the vector of a question, which is then found by meaning."""
    server.requests.clear()
    answer = service.recall(question)
    assert answer.memories[0].memory.claim.what == FACTS[0]
    sent = any(question in text for text in server.texts)
    assert not sent or "meaning" in answer.memories[0].ranks
    assert not sent or answer.notes == ()
    return sent


def test_old_vectors_answer_until_the_new_ones_are_complete(world: World) -> None:
    world.begin()
    with world.open("b") as service:
        service.upkeep.embed()  # the old vectors come back into memory first, from the store
        world.b.requests.clear()
        first = service.encoders.serving()[0].id
        assert first.startswith("a-")
        told = service.status()["moving"]
        assert told.startswith(f"moving from {first} to b-")
        assert told.endswith("0 of 5 memories")
        assert asks(service, world.a)
        assert service.status()["queue"]["embed"] == 5

        service.upkeep.embed(2)
        assert service.status()["moving"].endswith(": 2 of 5 memories")
        assert asks(service, world.a, f"{ASKED} Tell me.")

        service.upkeep.embed()
        assert service.status()["moving"].endswith(": 5 of 5 memories; episodes follow")
        assert asks(service, world.a, f"{ASKED} Now.")

        follow(service)
        assert service.status()["moving"] == ""
        assert asks(service, world.b)
        assert not asks(service, world.a, f"{ASKED} Once more.")
        assert [encoder[:2] for encoder in service.status()["encoders"]] == ["b-"]
        assert [encoder[:2] for encoder in service.index.profile("personal").matrices] == ["b-"]
    world.a.close()
    with world.open("b") as service:
        follow(service)
        assert asks(service, world.b)
        assert service.status()["problems"] == []


def test_a_restart_goes_on_where_it_was(world: World) -> None:
    world.begin()
    with world.open("b") as service:
        service.upkeep.embed()
        service.upkeep.embed(2)
    with world.open("b") as service:
        service.upkeep.embed()
        assert asks(service, world.a)
        follow(service)
        assert service.status()["moving"] == ""
    documents = [text for text in world.b.texts if text != ASKED]
    assert len(documents) == len(set(documents)) > 0


def test_what_is_said_meanwhile_is_found_by_old_vectors(world: World) -> None:
    world.begin()
    with world.open("b") as service:
        service.upkeep.embed()
        service.upkeep.embed(1)
        service.remember("The harbour has three cranes")
        service.index.catch_up()
        service.upkeep.embed(1)
        answer = service.recall("How many cranes does the harbour have?")
        assert answer.memories[0].memory.claim.what == "The harbour has three cranes"
        assert "meaning" in answer.memories[0].ranks
        assert service.status()["moving"].endswith(": 1 of 6 memories")


def test_the_old_description_need_not_be_in_the_settings_any_more(world: World) -> None:
    world.begin()
    with world.open("b", endpoint={"b": world.tables()["b"]}) as service:
        service.upkeep.embed()
        assert asks(service, world.a)


def test_words_answer_where_the_old_encoder_is_gone_and_the_answer_says_so(
    world: World, tmp_path: Path
) -> None:
    table = tiny_model(tmp_path / "tiny")
    world.begin("tiny", onnx={"tiny": table})
    (tmp_path / "tiny" / "model.onnx").unlink()
    with world.open("b") as service:
        answer = service.recall(ASKED)
        assert answer.memories[0].memory.claim.what == FACTS[0]
        assert "meaning" not in answer.memories[0].ranks
        assert any("answered from words alone" in note for note in answer.notes)
        status = service.status()
        assert status["moving"].endswith("0 of 5 memories")
        (problem,) = status["problems"]
        assert problem.startswith("Words alone answer until the new encoder has all its vectors: ")
        assert "model.onnx cannot be read" in problem
        follow(service)
        assert asks(service, world.b)
        assert service.status()["problems"] == []


def test_a_file_replaced_under_its_name_is_another_encoder(world: World, tmp_path: Path) -> None:
    table = tiny_model(tmp_path / "tiny", words=("[PAD]", "[UNK]", "gateway", "port"))
    world.begin("tiny", onnx={"tiny": table})
    tiny_model(tmp_path / "tiny")
    with world.open("tiny", onnx={"tiny": table}) as service:
        assert any("answered from words alone" in note for note in service.recall(ASKED).notes)
        assert "its files are others now" in service.status()["problems"][0]
        follow(service)
        assert service.status()["problems"] == []
        assert service.recall(ASKED).notes == ()


def test_without_a_note_of_who_served_the_vectors_tell(world: World) -> None:
    world.begin()
    world.record.unlink()
    with world.open("b") as service:
        service.upkeep.embed()
        assert asks(service, world.a)
    world.record.unlink(missing_ok=True)
    with world.open("a") as service:
        assert service.status()["moving"] == ""


@pytest.mark.parametrize("note", ["", "[]", '{"english": 1}', "\0"])
def test_vectors_nobody_knows_the_maker_of(world: World, note: str) -> None:
    world.begin()
    world.record.write_text(note)
    with world.open("b", endpoint={"b": world.tables()["b"]}) as service:
        assert any("answered from words alone" in note for note in service.recall(ASKED).notes)
        assert "cannot be loaded any more" in service.status()["problems"][0]
        follow(service)
        assert asks(service, world.b)


def test_a_new_encoder_that_cannot_be_had_leaves_the_old_one_at_work(world: World, tmp_path: Path) -> None:
    world.begin()
    with world.open("tiny", onnx={"tiny": {"path": str(tmp_path / "none.onnx")}}) as service:
        follow(service)
        assert asks(service, world.a)
        (problem,) = service.status()["problems"]
        assert problem.startswith("The encoder tiny is not available, questions are still read by a-")
        assert service.status()["moving"].endswith("to tiny: 0 of 5 memories")


def test_another_address_of_the_same_model_is_no_move(world: World) -> None:
    world.begin()
    moved = {"a": {**world.tables()["a"], "url": world.a.url.replace("127.0.0.1", "localhost")}}
    world.a.requests.clear()
    with world.open("a", endpoint=moved) as service:
        assert service.status()["moving"] == ""
        follow(service)
        assert world.a.requests == []
    assert "localhost" in json.loads(world.record.read_text())["tables"]["a"]["url"]


def test_half_a_change_loads_what_stays_once(world: World) -> None:
    world.begin()
    with world.open("b", "a") as service:
        assert len(service.encoders.ready_encoders()) == 2
        service.upkeep.embed()
        assert asks(service, world.a)
        follow(service)
        assert service.status()["moving"] == ""
        assert len(service.encoders.ready_encoders()) == 2
        assert asks(service, world.b)


def test_episodes_are_found_by_old_vectors_too(world: World) -> None:
    world.begin()
    said = "The zeppelin hangar was moved to the harbour in May"
    with world.open("a") as service:
        service.hook("claude", "pre-message", json.dumps({**PROMPT, "prompt": said}).encode())
        follow(service)
    with world.open("b") as service:
        service.upkeep.embed()
        while not service.status()["moving"].endswith("episodes follow"):
            service.upkeep.embed()
        world.b.requests.clear()
        answer = service.recall("zeppelin hangar harbour")
        assert [each.episode.text for each in answer.episodes] == [said]
        assert world.b.requests == []
        follow(service)
        assert any(said in text for text in world.b.texts)
        answer = service.recall("zeppelin hangar harbour?")
        assert [each.episode.text for each in answer.episodes] == [said]


def test_in_process_the_move_is_made_before_the_answer(world: World) -> None:
    world.begin()
    with world.open("b", background=False) as service:
        assert asks(service, world.b)
        assert service.status()["moving"] == ""


def test_turned_off_for_a_while_is_no_move(world: World) -> None:
    world.begin()
    with world.open("off") as service:
        assert service.status()["moving"] == ""
        assert service.recall(ASKED).memories[0].memory.claim.what == FACTS[0]
    world.a.requests.clear()
    with world.open("a") as service:
        assert service.status()["moving"] == ""
        follow(service)
        assert world.a.requests == []


def test_a_store_of_the_packaged_pair_moves_without_a_note(world: World) -> None:
    packaged = Encoders()
    world.begin(packaged.english, other=packaged.other)
    world.record.unlink()
    with world.open("b") as service:
        assert [encoder.id for encoder in service.encoders.serving()] == ["minilm-l6-v2-int8", "use-m3"]
        service.upkeep.embed()
        answer = service.recall("What is the port of the gateway?")
        assert "meaning" in answer.memories[0].ranks
        assert service.encoders.for_question(ASKED) is service.encoders.serving()[0]
        assert service.encoders.for_question("¿Qué puerto?") is service.encoders.serving()[1]


def test_status_tells_how_far_a_move_is(world: World, product: Product) -> None:
    world.begin()
    product.data = world.home
    product.environ["MNEMO_HOME"] = str(world.home)
    world.b.answer = lambda request: (503, b"busy")
    settings = {"encoders": {"english": "b", "other": "b", "endpoint": world.tables()}}
    (world.home / "config.toml").write_text(tomli_w.dumps(settings), "utf-8")
    until(lambda: len(product.json("status")["encoders"]) == 2)
    told = product.run("status").stdout.decode()
    assert "\nmoving from a-words-48-" in told
    assert ": 0 of 5 memories\n" in told
    assert product.json("recall", ASKED)["memories"][0]["what"] == FACTS[0]
    assert any(ASKED in text for text in world.a.texts)
    # the former vectors are taken from the cache in the background; the new ones cannot be made
    until(lambda: product.json("status")["queue"]["embed"] == 5)


def test_a_former_server_that_is_gone_for_good_holds_nothing_up(world: World) -> None:
    world.begin()
    world.a.answer = lambda request: (503, b"gone")
    with world.open("b") as service:
        service.remember("The harbour has three cranes")
        service.hook("claude", "pre-message", json.dumps({**PROMPT, "prompt": "Look at the quay"}).encode())
        assert any("words alone" in note for note in service.recall(ASKED).notes)
        follow(service)
        assert service.status()["moving"] == ""
        assert service.recall(ASKED).notes == ()
        assert asks(service, world.b, f"{ASKED} Now.")
        follow(service)
        assert service.status()["problems"] == []
