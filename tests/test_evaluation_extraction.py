"""`mnemo eval extraction`: a good model, a greedy one, none, and files that are no use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conversation import answers, memory, number_of, scripted
from desk import DATA
from openai_server import ModelServer, says
from product import Product

SET = DATA / "extraction.jsonl"
NATS = "We will use NATS"
NO_USE = ("[]", "{", '{"id": "a", "lines": 3}', '{"id": "a", "lines": [], "expect": [1]}')


def configured(product: Product, server: ModelServer) -> None:
    product.data.mkdir(mode=0o700, exist_ok=True)
    (product.data / "config.toml").write_text(
        f'[models]\nextraction = "lm"\n[models.endpoint.lm]\nurl = "{server.url}"\nmodel = "a-model"\n'
    )


def test_what_a_model_keeps_is_held_against_what_it_should(tmp_path: Path) -> None:
    script = {
        NATS: lambda request: [
            memory(
                "Atlas uses NATS for events",
                number_of(request, NATS),
                kind="decision",
                why="Kafka is too heavy for two people",
            )
        ],
        "Never squash my commits": lambda request: [
            memory("The person wants commits never squashed", number_of(request, "Never"), kind="preference")
        ],
        "Run the tests": lambda request: [memory("All 312 tests are green", number_of(request, "312"))],
    }
    with ModelServer(scripted(script)) as server, Product(tmp_path, MNEMO_ENCODERS="off") as product:
        configured(product, server)
        found = product.json("eval", "extraction", "--data", str(SET))
    assert (found["conversations"], found["expected"]) == (12, 9)
    assert (found["found"], found["right_kind"]) == (2, 2)
    assert (found["spare"], found["forbidden_kept"]) == (0, 0)  # the checks stopped the work log
    assert (found["recall"], found["precision"]) == (0.222, 1.0)
    assert found["tokens_in"] > 0
    missing = {each["id"] for each in found["failures"]}
    assert {"x01", "x05", "x02", "x10"}.isdisjoint(missing) and "x06" in missing


def test_a_memory_that_must_not_be_kept_is_counted(tmp_path: Path) -> None:
    row = {
        "id": "y1",
        "lines": [{"role": "person", "text": "The gateway listens on port 8443."}],
        "expect": [],
        "forbid": ["The gateway listens on port 8443"],
    }
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row))
    greedy = says(answers(memory("The gateway listens on port 8443.", 1)))
    with ModelServer(lambda request: greedy) as server, Product(tmp_path, MNEMO_ENCODERS="off") as product:
        configured(product, server)
        found = product.json("eval", "extraction", "--data", str(file))
    assert (found["spare"], found["forbidden_kept"], found["precision"]) == (1, 1, 0.0)


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        done = product.run("eval", "extraction", "--data", str(SET))
    assert done.returncode == 1 and b"docs/models.md" in done.stderr


@pytest.mark.parametrize("line", NO_USE)
def test_a_file_of_no_use_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(line)
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        done = product.run("eval", "extraction", "--data", str(file))
    assert done.returncode == 1 and b"line 1" in done.stderr
