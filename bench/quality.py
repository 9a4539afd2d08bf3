"""Where the right memory stands for questions in ten languages: by single channels, plain fusion, and recall.

Two sets: `paraphrases` (119 memories, 60 questions that avoid the memories' words, five languages) and
`engineering` (105 memories with entities, dates and successions, 60 questions of all kinds, ten languages).
Weights were set on the questions with an even number; `kept_aside` are the others. Differences are paired, on
the same questions, with a bootstrap interval of 95 %.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import charts
import common
import numpy as np

from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.memory import EntityRef, instant
from mnemo_mcp.ranks import fuse
from mnemo_mcp.recall.channels import Channel, Listed, Meaning, Seen, by_meaning, by_words
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Recall, Settings

DATA = Path(__file__).resolve().parent.parent / "tests/data"
SETS = {
    "paraphrases": ("memories.jsonl", "questions.jsonl"),
    "engineering": ("recall_memories.jsonl", "recall_questions.jsonl"),
}
LANGUAGES = ("en", "es", "fr", "de", "pt", "it", "ja", "zh", "ko", "ru")
_DEPTH = 50
_PLAIN_CONSTANT = 60  # of the plain fusion that peers use: equal weights, k = 60
_RESAMPLINGS = 2_000

Row = dict[str, Any]
Ranks = dict[str, list[float]]
"""By way of ranking: of each question 1 / the place of its first right memory, 0 where none was found."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--pictures", type=Path, help="a folder to draw quality and ablation into")
    given = parser.parse_args()
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
        for name, (memories, questions) in SETS.items():
            common.progress(f"{name} ...")
            with Service.open(settings=Settings(home=Path(folder) / name)) as service:
                result[name] = Measured(service, _rows(memories), _rows(questions)).report()
    if given.pictures:
        _draw(result, given.pictures)
    if given.json:
        print(json.dumps(result))
    else:
        _print(result)


class Measured:
    """One set of memories and questions, ranked in every way."""

    def __init__(self, service: Service, memories: Sequence[Row], questions: Sequence[Row]) -> None:
        self._service = service
        self._names = _told(service, memories)
        self._questions = questions
        service.upkeep.before_answer()
        self._index = service.index.profile("personal")
        self._meanings: dict[str, Meaning] = {}

    def report(self) -> dict[str, Any]:
        by_language = {}
        everything: Ranks = {}
        for language in LANGUAGES:
            asked = [row for row in self._questions if language in row]
            if asked:
                ranks = self._ranks(asked, language)
                by_language[language] = _summary(ranks) | {"kept_aside": _summary(_odd(asked, ranks))}
                for way, values in ranks.items():
                    everything.setdefault(way, []).extend(values)
        return {"languages": by_language, "all": _summary(everything), "ablation": self._ablation()}

    def _ranks(self, asked: Sequence[Row], language: str) -> Ranks:
        ranks: Ranks = {}
        for row in asked:
            for way, ids in self._ranked(row[language]).items():
                ranks.setdefault(way, []).append(self._place(ids, row))
        return ranks

    def _ranked(self, text: str) -> dict[str, list[str]]:
        constants = self._service.settings.recall
        now = instant(self._service.clock())
        seen = Seen(self._index, np.ones(len(self._index), np.bool_), constants, milliseconds(now))
        words, meaning = by_words(seen, read(text)), by_meaning(seen, self._meaning(text))
        lists = [(1.0, self._ids(words)), (1.0, self._ids(meaning))]
        return {
            "words": self._ids(words),
            "meaning": self._ids(meaning),
            "plain fusion": [each for each, _ in fuse(lists, _PLAIN_CONSTANT)],
            "recall": self._recalled(text, constants),
            "recall, votes by ranks": self._recalled(text, replace(constants, votes_by="ranks")),
        }

    def _recalled(self, text: str, constants: Recall) -> list[str]:
        recaller = self._service._recaller
        recaller._constants = constants
        recaller._meaning = lambda question: (self._meaning(question.text), ())  # type: ignore[method-assign]
        ask = Ask(text, "personal", instant(self._service.clock()), _DEPTH, episodes=False, explain=True)
        return [found.memory.id for found in recaller.answer(ask).memories]

    def _ablation(self) -> dict[str, Any]:
        """What recall loses over all languages in mean reciprocal rank where one part is left out."""
        whole = self._service.settings.recall
        parts: dict[str, Recall] = {}
        for channel in Channel:
            name = "words_covering" if channel is Channel.WORDS else str(channel)
            weights = replace(whole.weights, **{name: 0.0})
            if channel is Channel.WORDS:
                weights = replace(weights, identifier=0.0)
            parts[f"without {channel}"] = replace(whole, weights=weights)
        parts["without freshness"] = replace(whole, alike_meaning=2.0, alike_words=2.0)
        parts["without the W asked"] = replace(whole, saying_score=2.0)
        parts["without the past"] = replace(whole, past_gain=0.0)
        full = self._over_all(whole)
        found = {}
        for name, constants in parts.items():
            values = self._over_all(constants)
            found[name] = _difference(full, values)
        return found

    def _over_all(self, constants: Recall) -> list[float]:
        return [
            self._place(self._recalled(row[language], constants), row)
            for language in LANGUAGES
            for row in self._questions
            if language in row
        ]

    def _meaning(self, text: str) -> Meaning:
        if text not in self._meanings:
            encoder = self._service.encoders.for_question(text)
            assert encoder is not None
            self._meanings[text] = Meaning(encoder.id, encoder.encode([text], query=True)[0])
        return self._meanings[text]

    def _ids(self, listed: Listed) -> list[str]:
        return [self._index.id(row) for row in listed.rows.tolist()]

    def _place(self, ids: Sequence[str], row: Row) -> float:
        right = (place for place, each in enumerate(ids, start=1) if self._names[each] in row["gold"])
        return 1 / next(right, float("inf"))


def _told(service: Service, memories: Sequence[Row]) -> dict[str, str]:
    """Store a set; the name of each memory by its id."""
    ids: dict[str, str] = {}
    for row in memories:
        told = row.get("valid_from")
        outcome = service.remember(
            **{part: row.get(part, "") for part in ("what", "why", "how", "who", "where")},
            kind=row["kind"],
            entities=[EntityRef(**each) for each in row.get("entities", ())],
            project=row.get("project", ""),
            valid_from=told,
            replaces=[ids[each] for each in row.get("replaces", ())],
            at=f"{told}T12:00:00Z" if told else None,
        )
        ids[row["id"]] = outcome.id
    return {memory: name for name, memory in ids.items()}


def _rows(name: str) -> list[Row]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def _odd(asked: Sequence[Row], ranks: Ranks) -> Ranks:
    """The questions the weights were not set on."""
    odd = [place for place, row in enumerate(asked) if int(row["id"][1:]) % 2]
    return {way: [values[place] for place in odd] for way, values in ranks.items()}


def _summary(ranks: Ranks) -> dict[str, Any]:
    ours = ranks["recall"]
    return {
        way: {
            "questions": len(values),
            "first": sum(value == 1 for value in values),
            "top_three": sum(value >= 1 / 3 for value in values),
            "mrr": round(fmean(values), 3),
            **({} if way == "recall" else {"recall_minus_this": _difference(ours, values)}),
        }
        for way, values in ranks.items()
    }


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """The mean of the paired differences of reciprocal ranks, and where 95 % of resampled means lie."""
    pairs = [one - other for one, other in zip(ours, theirs, strict=True)]
    chance = random.Random(11)
    means = sorted(fmean(chance.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLINGS))
    low, high = means[int(0.025 * _RESAMPLINGS)], means[int(0.975 * _RESAMPLINGS)]
    return {"mean": round(fmean(pairs), 3), "low": round(low, 3), "high": round(high, 3)}


def _print(result: Mapping[str, Any]) -> None:
    for name, found in result.items():
        print(name)
        for language, ways in [*found["languages"].items(), ("all", found["all"])]:
            for way, row in ways.items():
                if way != "kept_aside":
                    print(f"  {language:4} {way:24} {_line(row)}")
            if "kept_aside" in ways:
                print(f"  {language:4} {'recall, kept aside':24} {_line(ways['kept_aside']['recall'])}")
        for part, row in found["ablation"].items():
            print(f"  {part:29} costs {_interval(row)}")


def _line(row: Mapping[str, Any]) -> str:
    told = f"first {row['first']:3} three {row['top_three']:3} of {row['questions']:3}  mrr {row['mrr']:.3f}"
    less = row.get("recall_minus_this")
    return told + (f"  recall is better by {_interval(less)}" if less else "")


def _interval(row: Mapping[str, float]) -> str:
    return f"{row['mean']:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"


def _draw(result: Mapping[str, Any], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ways = ("words", "meaning", "plain fusion", "recall")
    for name, found in result.items():
        groups = {
            language: {way: each[way]["mrr"] for way in ways} for language, each in found["languages"].items()
        }
        title = f"Mean reciprocal rank of the right memory, by language ({name})"
        (folder / f"quality-{name}.svg").write_text(charts.bars(title, groups), "utf-8")
    losses = {
        part.removeprefix("without "): {
            name: max(0.0, found["ablation"][part]["mean"]) for name, found in result.items()
        }
        for part in next(iter(result.values()))["ablation"]
        if part != "without meaning"
    }
    title = "What recall loses without a part (mean reciprocal rank, all languages)"
    most = max(value for each in losses.values() for value in each.values()) or 1.0
    (folder / "ablation.svg").write_text(charts.bars(title, losses, most), "utf-8")


if __name__ == "__main__":
    main()
