"""Fits the weights of the local usage scorer to the tuned part of the labelled turns and prints them.

The weights in use stand in mnemo_mcp/settings.py; `mnemo eval usage` measures what they give.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import USAGE, Encoders
from mnemo_mcp.standing.evaluation import Row, aside, auc, memory_of, scorer_for, turn_of

DATA = Path(__file__).resolve().parent.parent / "tests/data/usage.jsonl"
RIDGE = 0.3  # on every weight but the base; 1 and 3 gave the same order within 0.01 of AUC
READ = {
    "minilm-l6-v2-int8": ("minilm-l6-v2-int8", True),
    "use-m3": ("use-m3", False),
    "words": ("off", False),
}

Floats = npt.NDArray[np.float64]


def features(rows: Sequence[Row], encoder: str) -> Floats:
    """The traces of each row, read with one encoder alone."""
    pair = EncoderPair(Encoders(encoder, encoder))
    pair.load()
    scorer = scorer_for(rows, pair)
    found = []
    for row in rows:
        ((_, shows, _),) = scorer.traces([memory_of(row)], turn_of(row), "")
        words = [shows.share, shows.mass, shows.exact, shows.told]
        found.append(words if shows.meaning is None else [*words, shows.meaning, shows.lift or 0.0])
    return np.array(found)


def fit(traces: Floats, used: Floats) -> Floats:
    """Logistic regression by Newton's method; the base comes first."""
    rows = np.c_[np.ones(len(traces)), traces]
    ridge = np.diag([1e-6, *[RIDGE] * traces.shape[1]])
    weights = np.zeros(rows.shape[1])
    for _ in range(50):
        share = 1 / (1 + np.exp(-rows @ weights))
        slope = rows.T @ (share - used) + ridge @ weights
        weights -= np.linalg.solve((rows * (share * (1 - share))[:, None]).T @ rows + ridge, slope)
    return weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.data.read_text("utf-8").splitlines()]
    result: dict[str, Any] = {}
    for name, (encoder, english) in READ.items():
        traces = features(rows, encoder)
        used = np.array([float(row["used"]) for row in rows])
        read = np.array([not english or row["lang"] == "en" for row in rows])
        tuned = read & np.array([not aside(row) for row in rows])
        weights = fit(traces[tuned], used[tuned])
        scores = np.c_[np.ones(len(rows)), traces] @ weights
        result[name] = {
            "weights": [round(float(each), 2) for each in weights],
            "auc_tuned": auc([(float(s), bool(u)) for s, u in zip(scores[tuned], used[tuned], strict=True)]),
            "auc_aside": auc(
                [(float(s), bool(u)) for s, u in zip(scores[read & ~tuned], used[read & ~tuned], strict=True)]
            ),
            "in_use": name in USAGE,
        }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
