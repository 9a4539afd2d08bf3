"""One loader for any ONNX sentence model: text in, unit vectors out, as its options describe."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.errors import ModelError
from mnemo_mcp.models.cut import cut_document, cut_question
from mnemo_mcp.models.encoder import Matrix, in_batches, unit
from mnemo_mcp.models.options import OnnxOptions

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Ids = list[int]

# So many token places go through the model at once. A batch of 16 texts with 256 tokens each grew the process
# by 600 MB and was no faster (MiniLM, one thread, onnxruntime 1.32).
BATCH_PLACES = 512
BYTES_A_TOKEN_AT_MOST = 16  # what lies beyond so many is not even tokenized
_NUMBERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_KNOWN = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
_NOTHING_DIMS = 512  # of an image, video or audio input whose shape does not say


class OnnxEncoder:
    """An encoder made of a model.onnx and a tokenizer.json. Making one loads it, which takes a while.

    Raises `ModelError` when a file or package is missing, damaged or does not fit the options.
    """

    def __init__(self, name: str, options: OnnxOptions, *, fixed_id: bool = False) -> None:
        digests = options.digests()
        self.id = name if fixed_id else options.encoder_id(name, digests)
        self._options = options
        self._tokenizer = _tokenizer(options)
        self._pad_id = int((self._tokenizer.padding or {}).get("pad_id", 0))
        self._tokenizer.no_padding()  # a fixed length would be counted as text
        self._session = _session(options.path)
        self._inputs = [_Input(each.name, each.type, each.shape) for each in self._session.get_inputs()]
        self._output = _output(self._session, options)
        self.dims = options.truncate_dims or options.dims
        self.dims = self._probe()

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
        """Unit vectors of `texts`. Raises `ModelError` when the model fails or gives no numbers."""
        most = self._options.max_tokens
        if query:
            ready = [self._options.query_prefix + cut_question(text) for text in texts]
        else:
            prefix, most_bytes = self._options.document_prefix, most * BYTES_A_TOKEN_AT_MOST
            ready = [prefix + cut_document(text, most_bytes, most * 4) for text in texts]
        return in_batches(ready, self._encode, self.dims)

    def _probe(self) -> int:
        """Encode once, so that a model that does not fit is told when it is loaded, not when it is asked."""
        vector = self._run([self._ids("probe")])
        model_dims = vector.shape[1]
        if self._options.dims not in (0, model_dims) or self._options.truncate_dims > model_dims:
            raise ModelError(
                f"{self._options.path} gives {model_dims} dimensions.",
                "Set `dims` and `truncate_dims` to fit, or leave them out.",
            )
        return int(self._finish(vector).shape[1])

    def _encode(self, texts: list[str]) -> Matrix:
        ids = [self._ids(text) for text in texts]
        return self._finish(np.concatenate([self._run(group) for group in _groups(ids)]))

    def _finish(self, vectors: Matrix) -> Matrix:
        if not np.isfinite(vectors).all():
            raise ModelError(
                f"{self._options.path} gives parts that are no finite numbers.", "Choose another model."
            )
        if kept := self._options.truncate_dims:
            vectors = vectors[:, :kept]
        if self._options.normalise or kept:
            return unit(vectors)
        if (abs(np.linalg.norm(vectors, axis=1) - 1) > 1e-3).any():
            raise ModelError(
                f"{self._options.path} gives vectors of other lengths than one.",
                "Set `normalise = true` for it.",
            )
        return vectors

    def _ids(self, text: str) -> Ids:
        bos, eos = self._options.bos_id, self._options.eos_id
        own = bos is None and eos is None
        ids = list(self._tokenizer.encode(text, add_special_tokens=own).ids)
        framed = [*([] if bos is None else [bos]), *ids, *([] if eos is None else [eos])]
        return framed or [self._pad_id]  # with every place masked, attention divides by nothing

    def _run(self, batch: list[Ids]) -> Matrix:
        longest = max(len(ids) for ids in batch)
        ids = np.full((len(batch), longest), self._pad_id, np.int64)
        mask = np.zeros_like(ids)
        for row, each in enumerate(batch):
            ids[row, : len(each)] = each
            mask[row, : len(each)] = 1
        feeds = {each.name: each.feed(ids, mask) for each in self._inputs}
        with _told(self._options.path):
            output = np.asarray(self._session.run([self._output], feeds)[0], np.float32)
        return _pool(output, mask, self._options)


class _Input:
    """One input of a model and what it is fed."""

    def __init__(self, name: str, kind: str, shape: Sequence[Any]) -> None:
        self.name = name
        self._number = _NUMBERS.get(kind) if name in _KNOWN else None
        self._last = shape[-1] if shape and isinstance(shape[-1], int) else _NOTHING_DIMS
        if self._number is None and kind != "tensor(float)":
            raise ModelError(
                f"The model asks for {name!r} of type {kind}, which is not known.",
                "Choose another export of it.",
            )

    def feed(self, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        if self._number is None:  # no image, no video, no audio
            return np.zeros((0, self._last), np.float32)
        if self.name == "position_ids":
            return np.broadcast_to(np.arange(ids.shape[1], dtype=self._number), ids.shape)
        values = {"input_ids": ids, "attention_mask": mask}.get(self.name)
        return np.zeros(ids.shape, self._number) if values is None else values.astype(self._number)


def _groups(ids: list[Ids]) -> Iterator[list[Ids]]:
    """Neighbours that fit into `BATCH_PLACES` once padded to the longest of them."""
    group: list[Ids] = []
    for each in ids:
        if group and (len(group) + 1) * max(len(each), *(len(one) for one in group)) > BATCH_PLACES:
            yield group
            group = []
        group.append(each)
    yield group


def _pool(output: npt.NDArray[np.float32], mask: npt.NDArray[np.int64], options: OnnxOptions) -> Matrix:
    if options.pooling not in ("mean", "cls"):
        return output
    if options.pooling == "cls":
        return output[:, 0]
    weights = mask[:, :, None].astype(np.float32)
    return np.asarray((output * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1), np.float32)


def _output(session: Any, options: OnnxOptions) -> str:
    """The output that is read: the one named, or the one that holds a vector for each token."""
    pooled = options.pooling not in ("mean", "cls")
    outputs: dict[str, int] = {each.name: len(each.shape) for each in session.get_outputs()}
    fitting = [name for name, rank in outputs.items() if rank == (2 if pooled else 3)]
    wanted = (options.pooling,) if pooled else ("last_hidden_state", "token_embeddings", *fitting)
    for name in wanted:
        if name in fitting:
            return name
    raise ModelError(
        f"{options.path} has no output for the pooling {options.pooling!r}, only {', '.join(outputs)}.",
        "Set `pooling` to mean or cls of token vectors, or to an output with one vector a text.",
    )


def _tokenizer(options: OnnxOptions) -> Tokenizer:
    try:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_buffer(options.tokenizer.read_bytes())
    except ImportError as error:
        raise ModelError(f"The package tokenizers cannot be used: {error}.", "Install mnemo again.") from None
    except ValueError as error:
        raise ModelError(f"{options.tokenizer} is no tokenizer file ({error}).", "Fetch it again.") from None
    added = (options.bos_id is not None) + (options.eos_id is not None)
    tokenizer.enable_truncation(max(1, options.max_tokens - added))
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    return tokenizer


def _session(path: Path) -> Any:
    try:
        os.environ["ORT_DISABLE_TELEMETRY"] = (
            "1"  # read as it is loaded: it would keep a device id and report
        )
        import onnxruntime
    except ImportError as error:
        raise ModelError(
            f"The package onnxruntime cannot be used: {error}.", "Install mnemo again."
        ) from None
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1  # two threads made medians up to 12 times worse on two busy cores
    settings.inter_op_num_threads = 1
    settings.enable_mem_pattern = False  # every shape would keep memory of its own: 30 MB after a few
    settings.log_severity_level = 4  # what matters is raised; standard error belongs to the daemon
    with _told(path):
        return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """What onnxruntime raises, told as a `ModelError`."""
    from onnxruntime.capi import onnxruntime_pybind11_state as raised

    try:
        yield
    except (
        raised.Fail,
        raised.InvalidArgument,
        raised.InvalidGraph,
        raised.InvalidProtobuf,
        raised.NoModel,
        raised.NoSuchFile,
        raised.NotImplemented,
        raised.RuntimeException,
        raised.EPFail,
        RuntimeError,
        ValueError,
    ) as error:
        raise ModelError(
            f"onnxruntime cannot run {path}: {str(error)[:300]}.",
            "Fetch the model again, with every file that belongs beside it.",
        ) from None
