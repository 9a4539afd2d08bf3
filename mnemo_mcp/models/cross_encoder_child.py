"""The process of the cross-encoder: scores pairs of a question and a text, a line of JSON for each request.

A script by itself: it needs onnxruntime and tokenizers, nothing of mnemo, and ends with its standard input.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any

_BATCH_PAIRS = 8
_MOST_TOKENS = 512
_QUESTION_CHARACTERS, _TEXT_CHARACTERS = 1_000, 4_000
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")

Line = dict[str, Any]


class Model:
    """model.onnx and tokenizer.json of one folder."""

    def __init__(self, folder: Path) -> None:
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_buffer((folder / "tokenizer.json").read_bytes())
        self._tokenizer.enable_truncation(_MOST_TOKENS)
        self._tokenizer.enable_padding(**_padding(self._tokenizer))
        self._tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = settings.inter_op_num_threads = 1
        settings.enable_mem_pattern = False
        settings.log_severity_level = 4
        path = str(folder / "model.onnx")
        self._session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
        self._inputs = [each.name for each in self._session.get_inputs()]
        unknown = set(self._inputs) - set(_INPUTS)
        if unknown:
            raise ValueError(f"the model asks for {', '.join(sorted(unknown))}")
        self._output = _output({each.name: len(each.shape) for each in self._session.get_outputs()})
        self.scores("probe", ["probe"])

    def scores(self, question: str, texts: list[str]) -> list[float]:
        """How well each text answers the question; like lengths share a batch, so that little is padded."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        found = [0.0] * len(texts)
        for start in range(0, len(order), _BATCH_PAIRS):
            part = order[start : start + _BATCH_PAIRS]
            asked = _sound(question, _QUESTION_CHARACTERS)
            pairs = [(asked, _sound(texts[at], _TEXT_CHARACTERS)) for at in part]
            for at, score in zip(part, self._run(pairs), strict=True):
                found[at] = score
        return found

    def _run(self, pairs: list[tuple[str, str]]) -> list[float]:
        import numpy as np

        read = self._tokenizer.encode_batch(pairs)
        rows = {
            "input_ids": [each.ids for each in read],
            "attention_mask": [each.attention_mask for each in read],
            "token_type_ids": [each.type_ids for each in read],
        }
        feeds = {name: np.array(rows[name], np.int64) for name in self._inputs}
        logits = np.asarray(self._session.run([self._output], feeds)[0], np.float64).reshape(len(pairs), -1)
        if logits.shape[1] > 2 or not np.isfinite(logits).all():
            raise ValueError(f"the model gives {logits.shape[1]} numbers a pair, or none that is finite")
        return [float(row[-1]) for row in logits]  # of two classes the second means "answers it"


def main() -> None:
    """Load, say so, and answer. A model that cannot be loaded ends the process with what was raised."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints is not an answer
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    model = Model(Path(sys.argv[1]))
    answers.write(json.dumps({"ready": True}) + "\n")
    while True:
        answers.write(json.dumps(_answer(model, asked.get())) + "\n")


def _read(asked: queue.SimpleQueue[str]) -> None:
    """Take lines in while the model computes; at their end nobody waits for an answer any more."""
    for line in sys.stdin:
        asked.put(line)
    os._exit(0)


def _answer(model: Model, line: str) -> Line:
    from onnxruntime.capi import onnxruntime_pybind11_state as raised

    request = json.loads(line)
    try:
        return {"id": request["id"], "scores": model.scores(request["question"], request["texts"])}
    except (raised.Fail, raised.InvalidArgument, raised.RuntimeException, RuntimeError, ValueError) as error:
        return {"id": request["id"], "error": f"{type(error).__name__}: {error}"[:500]}


def _output(ranks: dict[str, int]) -> str:
    """The output with the scores: the one called logits, else the first with a few numbers for each pair."""
    fitting = [name for name, rank in ranks.items() if rank <= 2]
    if not fitting:
        raise ValueError(f"the model gives no score but {', '.join(ranks)}")
    return "logits" if "logits" in fitting else fitting[0]


def _padding(tokenizer: Any) -> Line:
    known = tokenizer.padding or {}
    return {name: known[name] for name in ("pad_id", "pad_type_id", "pad_token") if name in known}


def _sound(text: str, most: int) -> str:
    return text[:most].encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


if __name__ == "__main__":
    main()
