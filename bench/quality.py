"""Where the right memory stands for 60 questions in five languages: by words, by meaning, and fused."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import common
import numpy as np
from floor import remember

from mnemo_mcp.recall.channels import Meaning, by_meaning, by_words, score
from mnemo_mcp.recall.question import read
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

DATA = Path(__file__).resolve().parent.parent / "tests/data"
LANGUAGES = ("en", "es", "fr", "de", "ja")
_DEPTH = 50

Row = dict[str, Any]


def main() -> None:
    given = common.options(__doc__)
    memories, questions = (_rows(f"{name}.jsonl") for name in ("memories", "questions"))
    with (
        tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder,
        Service.open(settings=Settings(home=Path(folder) / "data")) as service,
    ):
        names = {remember(service, row): row["id"] for row in memories}
        found = {language: _measured(service, names, questions, language) for language in LANGUAGES}
    common.report(found, given.json)


def _rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def _measured(
    service: Service, names: Mapping[str, str], questions: Sequence[Row], language: str
) -> dict[str, Any]:
    asked = [row for row in questions if language in row]
    places: dict[str, list[int]] = {"words": [], "meaning": [], "fused": []}
    for row in asked:
        for channel, ids in _ranked(service, row[language]).items():
            right = [place for place, each in enumerate(ids, start=1) if names[each] in row["gold"]]
            places[channel].append(right[0] if right else 0)
    return {"questions": len(asked)} | {channel: _summary(found) for channel, found in places.items()}


def _ranked(service: Service, text: str) -> dict[str, list[str]]:
    """The ids that each channel alone and recall itself give, best first."""
    answer = service.recall(text, limit=_DEPTH)
    index = service.index.profile("personal")
    question = read(text)
    encoder = service.encoders.for_question(text)
    meaning = Meaning(encoder.id, encoder.encode([text], query=True)[0]) if encoder else None
    scores, everything = score(index, question, meaning), np.ones(len(index), np.bool_)
    return {
        "words": [index.memories[row].id for row in by_words(index, scores, everything, _DEPTH)],
        "meaning": [index.memories[row].id for row in by_meaning(index, scores, everything, _DEPTH)],
        "fused": [each.memory.id for each in answer.memories],
    }


def _summary(places: Sequence[int]) -> dict[str, float]:
    """First places, places among three, and the mean reciprocal rank; 0 is nowhere."""
    mrr = sum(1 / place for place in places if place) / len(places)
    return {
        "first": sum(place == 1 for place in places),
        "top_three": sum(0 < place <= 3 for place in places),
        "mrr": round(mrr, 3),
    }


if __name__ == "__main__":
    main()
