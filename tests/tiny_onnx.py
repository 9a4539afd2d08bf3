"""An ONNX sentence model of a few words, written byte by byte: a table of vectors looked up by word."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

FLOAT, INT64, BOOL = 1, 7, 9
WORDS = ("[PAD]", "[UNK]", "north", "east", "query", "document", "bos", "eos", "hole")
VECTORS = np.array(
    [
        [9, 9, 9, 9],
        [0, 0, 0, 1],
        [1, 0, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, -1, 0],
        [0, 0, 0, 5],
        [0, 0, 0, -3],
        [np.nan] * 4,
    ],
    np.float32,
)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def message(*fields: tuple[int, int | bytes | str]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def value_info(name: str, element: int, *shape: str | int) -> bytes:
    dims = [(1, message((1, dim) if isinstance(dim, int) else (2, dim))) for dim in shape]
    tensor = message((1, element), (2, message(*dims)))
    return message((1, name), (2, message((1, tensor))))


def tiny_model(
    folder: Path, *inputs: bytes, vectors: np.ndarray = VECTORS, words: Sequence[str] = WORDS
) -> dict[str, Any]:
    """Write model.onnx and tokenizer.json; the settings that describe them. `words` has a [UNK]."""
    axis = message((1, "axes"), (8, 1), (20, 7))
    dropped = message((1, "keepdims"), (3, 0), (20, 2))
    graph = message(
        (1, message((1, "table"), (1, "input_ids"), (2, "last_hidden_state"), (4, "Gather"))),
        (1, message((1, "last_hidden_state"), (2, "sentence"), (4, "ReduceMax"), (5, axis), (5, dropped))),
        (2, "tiny"),
        (
            5,
            message(
                *((1, size) for size in vectors.shape),
                (2, FLOAT),
                (8, "table"),
                (9, vectors.astype("<f4").tobytes()),
            ),
        ),
        (11, value_info("input_ids", INT64, "batch", "places")),
        *((11, each) for each in inputs),
        (12, value_info("last_hidden_state", FLOAT, "batch", "places", vectors.shape[1])),
        (12, value_info("sentence", FLOAT, "batch", vectors.shape[1])),
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(message((1, 8), (8, message((1, ""), (2, 13))), (7, graph)))
    tokenizer = Tokenizer(WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    return {"path": str(folder / "model.onnx")}
