"""How well use is judged: the local scorer against labelled turns."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED, Opinion
from mnemo_mcp.memory import Claim, Kind, Memory, Period
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.standing.judges import LocalScorer, cited
from mnemo_mcp.standing.scorer import Turn
from mnemo_mcp.words import words

BACKGROUND = 50  # as many other memories are thought to exist, as the index does
_BINS = 10
_AT = "2026-01-01T00:00:00.000Z"

Row = Mapping[str, Any]
"""A labelled turn: `id`, `lang`, `kind`, `memory`, `prompt`, `answer`, `used`."""


def aside(row: Row) -> bool:
    """Whether a row is kept aside from all tuning; its id decides."""
    return int(hashlib.sha256(str(row["id"]).encode()).hexdigest(), 16) % 3 == 0


def memory_of(row: Row) -> Memory:
    """The memory of a row."""
    claim = Claim(str(row["memory"]), kind=Kind(row.get("kind", "fact")))
    return Memory(str(row["id"]), "", "", claim, (Period(_AT),), _AT, _AT, ())


def turn_of(row: Row) -> Turn:
    """The turn of a row."""
    return Turn(str(row["prompt"]), str(row["answer"]), str(row.get("acts", "")))


def scorer_for(rows: Sequence[Row], encoders: EncoderPair) -> LocalScorer:
    """A scorer that weighs words among the memories of `rows`."""
    texts = list(dict.fromkeys(str(row["memory"]) for row in rows))
    known = Counter(word for text in texts for word in set(words(text)))
    size = len(texts) + BACKGROUND

    def tells(word: str) -> float:
        return math.log(1 + (size - known[word] + 0.5) / (known[word] + 0.5))

    def weigh(_: str, wanted: Iterable[str]) -> dict[str, float]:
        return {word: tells(word) / tells("") for word in wanted}

    return LocalScorer(weigh, encoders, lambda encoder, texts: encoder.encode(texts))


def evaluate(rows: Sequence[Row], encoders: EncoderPair) -> dict[str, Any]:
    """AUC, calibration and confusion of the scorer, on the tuned part and on the part kept aside."""
    scorer = scorer_for(rows, encoders)
    judged = [(row, _judged(row, scorer)) for row in rows]
    parts: Mapping[str, Callable[[Row], bool]] = {
        "all": lambda row: True,
        "tuned": lambda row: not aside(row),
        "aside": aside,
        "english": lambda row: row["lang"] == "en",
        "other languages": lambda row: row["lang"] != "en",
    }
    return {
        "rows": len(rows),
        "judges": dict(Counter(opinion.judge for _, opinion in judged)),
        "parts": {name: _figures([each for each in judged if of(each[0])]) for name, of in parts.items()},
    }


def _judged(row: Row, scorer: LocalScorer) -> Opinion:
    memory, turn = memory_of(row), turn_of(row)
    return cited(memory, turn) or scorer.opinions([memory], turn, "")[memory.id]


def _figures(judged: Sequence[tuple[Row, Opinion]]) -> dict[str, Any]:
    labelled = [(opinion.probability, bool(row["used"])) for row, opinion in judged]
    verdicts = Counter((bool(row["used"]), opinion.verdict) for row, opinion in judged)
    return {
        "turns": len(judged),
        "auc": auc(labelled),
        "ece": calibration_error(labelled),
        "confusion": {
            label: {verdict: verdicts[used, verdict] for verdict in (USED, UNSURE, UNUSED)}
            for label, used in (("was used", True), ("was not", False))
        },
    }


def auc(labelled: Sequence[tuple[float, bool]]) -> float | None:
    """How often one that was used scores above one that was not; None where one kind is missing."""
    used = [score for score, label in labelled if label]
    unused = [score for score, label in labelled if not label]
    if not used or not unused:
        return None
    above = sum((one > other) + (one == other) / 2 for one in used for other in unused)
    return round(above / (len(used) * len(unused)), 4)


def calibration_error(labelled: Sequence[tuple[float, bool]]) -> float | None:
    """Expected calibration error over ten bins of equal width."""
    if not labelled:
        return None
    bins: dict[int, list[tuple[float, bool]]] = {}
    for score, label in labelled:
        bins.setdefault(min(int(score * _BINS), _BINS - 1), []).append((score, label))
    error = sum(
        abs(sum(score for score, _ in each) - sum(label for _, label in each)) for each in bins.values()
    )
    return round(error / len(labelled), 4)
