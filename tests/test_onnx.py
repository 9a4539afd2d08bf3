"""The loader of ONNX models: how texts are fed, how vectors are read, and which models are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_onnx import BOOL, FLOAT, INT64, VECTORS, tiny_model, value_info

from mnemo_mcp.errors import ModelError
from mnemo_mcp.models.encoder import unit
from mnemo_mcp.models.onnx import OnnxEncoder
from mnemo_mcp.models.options import from_settings


def tiny(folder: Path, **options: Any) -> OnnxEncoder:
    return OnnxEncoder("tiny", from_settings("tiny", tiny_model(folder) | options))


def near(row: Any, *wanted: float) -> bool:
    return np.allclose(row, unit(np.array([wanted], np.float32))[0], atol=1e-6)


def test_the_mean_leaves_the_padding_out(tmp_path: Path) -> None:
    short, long = tiny(tmp_path).encode(["north", "north east north east"])
    assert near(short, 1, 0, 0, 0)
    assert near(long, 1, 1, 0, 0)


def test_a_text_without_tokens_has_a_vector_too(tmp_path: Path) -> None:
    assert near(tiny(tmp_path).encode(["", "north"])[0], 1, 1, 1, 1)


def test_the_first_token_or_a_named_output_may_be_the_vector(tmp_path: Path) -> None:
    assert near(tiny(tmp_path, pooling="cls").encode(["east north north"])[0], 0, 1, 0, 0)
    assert near(tiny(tmp_path, pooling="sentence").encode(["east north unknown"])[0], 1, 1, 0, 1)


def test_questions_and_documents_have_their_prefixes(tmp_path: Path) -> None:
    encoder = tiny(tmp_path, query_prefix="query ", document_prefix="document ")
    assert near(encoder.encode(["north"], query=True)[0], 1, 0, 1, 0)
    assert near(encoder.encode(["north"])[0], 1, 0, -1, 0)


def test_own_ids_frame_the_text_within_the_most_tokens(tmp_path: Path) -> None:
    encoder = tiny(tmp_path, bos_id=6, eos_id=7, max_tokens=4)
    assert near(encoder.encode(["north east east east"])[0], 1, 1, 0, 2)
    assert near(tiny(tmp_path, max_tokens=1).encode(["north east east east"])[0], 1, 0, 0, 0)


def test_dimensions_may_be_cut_and_are_of_length_one_again(tmp_path: Path) -> None:
    encoder = tiny(tmp_path, truncate_dims=2, dims=4)
    assert encoder.dims == 2
    assert near(encoder.encode(["north query unknown"])[0], 1, 0)
    assert tiny(tmp_path).dims == 4


def test_every_known_input_is_fed_and_other_senses_are_fed_nothing(tmp_path: Path) -> None:
    table = tiny_model(
        tmp_path,
        value_info("attention_mask", INT64, "batch", "places"),
        value_info("token_type_ids", INT64, "batch", "places"),
        value_info("position_ids", INT64, "batch", "places"),
        value_info("image_features", FLOAT, "images", 512),
        value_info("audio_features", FLOAT, "sounds", "size"),
    )
    assert near(OnnxEncoder("tiny", from_settings("tiny", table)).encode(["east"])[0], 0, 1, 0, 0)


def test_an_unknown_input_is_refused(tmp_path: Path) -> None:
    table = tiny_model(tmp_path, value_info("past", BOOL, "batch"))
    with pytest.raises(ModelError, match="past"):
        OnnxEncoder("tiny", from_settings("tiny", table))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dims": 5}, "4 dimensions"),
        ({"truncate_dims": 5}, "4 dimensions"),
        ({"pooling": "elsewhere"}, "last_hidden_state, sentence"),
        ({"pooling": "last_hidden_state"}, "no output for the pooling"),
        ({"normalise": False, "bos_id": 6}, "other lengths than one"),
        ({"path": "/nowhere/model.onnx"}, "cannot be read"),
        ({"tokenizer": "/nowhere/tokenizer.json"}, "cannot be read"),
        ({"sha256": {"model.onnx": "0" * 64}}, "not the file expected"),
        ({"sha256": {"model.onnx_data": "0" * 64}}, "cannot be read"),
    ],
)
def test_a_model_that_does_not_fit_says_why(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ModelError, match=said) as raised:
        OnnxEncoder("tiny", from_settings("tiny", tiny_model(tmp_path) | options))
    assert raised.value.advice


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("damage", [b"", b"\xff not a model"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, damage: bytes) -> None:
    table = tiny_model(tmp_path)
    (tmp_path / name).write_bytes(damage)
    with pytest.raises(ModelError, match=name):
        OnnxEncoder("tiny", from_settings("tiny", table))


def test_a_model_that_fails_or_gives_no_number_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no finite numbers"):
        tiny(tmp_path).encode(["hole"])
    with pytest.raises(ModelError, match="other lengths than one"):
        tiny(tmp_path, normalise=False).encode(["north east"])
    table = tiny_model(tmp_path, vectors=VECTORS[:3])
    with pytest.raises(ModelError, match="onnxruntime cannot run"):
        OnnxEncoder("tiny", from_settings("tiny", table)).encode(["north", "east"])


def test_the_id_changes_with_all_that_shapes_a_vector(tmp_path: Path) -> None:
    ids = [
        tiny(tmp_path).id,
        tiny(tmp_path, pooling="cls").id,
        tiny(tmp_path, document_prefix="document ").id,
        OnnxEncoder("tiny", from_settings("tiny", tiny_model(tmp_path, vectors=VECTORS * 2))).id,
    ]
    assert len(set(ids)) == len(ids)
    assert ids[0] == tiny(tmp_path / "moved").id
    assert all(each.startswith("tiny-") for each in ids)
