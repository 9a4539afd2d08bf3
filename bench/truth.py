"""Scenarios of changing facts: what is true now, was true then, was believed then, and what is told first.

`first`: a right fact stands first. `order`: a right fact is among the first five and no wrong one above it.
Baselines of the same run: the same recall without any date ("plain"), and that with the newest of its first
three put first ("newest first").
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import common
from truth_adapter import SCENARIOS, JudgedMnemo, Mnemo

TYPES = ("now", "true_on", "believed_on")
K = 5

Answers = Callable[[dict[str, Any]], Sequence[str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=SCENARIOS)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    scenarios = [json.loads(line) for line in given.file.read_text("utf-8").splitlines()]
    result: dict[str, Any] = {"questions": sum(len(each["questions"]) for each in scenarios)}
    os.environ["MNEMO_BENCH_SCENARIOS"] = str(given.file)
    for name, adapter, links in (
        ("links given", Mnemo, True),
        ("judged", JudgedMnemo, False),
        ("no links", Mnemo, False),
    ):
        common.progress(f"{name} ...")
        with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
            result[name] = _measure(adapter(Path(folder)), scenarios, links=links)
    common.report(result, given.json)


def _measure(store: Mnemo, scenarios: list[dict[str, Any]], *, links: bool) -> dict[str, Any]:
    handles: dict[str, str] = {}
    facts: dict[str, dict[str, Any]] = {}
    for fact in _by_telling(scenarios):
        named = (
            [handles[each] for each in fact[link]] if links else [] for link in ("closes", "retracts", "cuts")
        )
        handle = store.remember(fact["text"], fact["told"], fact["valid_from"], fact["valid_to"], *named)
        handles[fact["id"]], facts[handle] = handle, fact
    questions = [question for each in scenarios for question in each["questions"]]

    def mnemo(question: dict[str, Any]) -> Sequence[str]:
        valid = None if question["type"] == "now" else question["valid_at"]
        known = question["known_at"] if question["type"] == "believed_on" else None
        return store.recall(question["query"], K, question["asked"], valid, known)

    def plain(question: dict[str, Any]) -> Sequence[str]:
        return store.recall(question["query"], K, question["asked"], None, None)

    def newest(question: dict[str, Any]) -> Sequence[str]:
        found = list(plain(question))
        first = max(found[:3], key=lambda handle: facts[handle]["told"], default=None)
        return [first, *(each for each in found if each != first)] if first else []

    try:
        ways: dict[str, Answers] = {"mnemo": mnemo, "plain": plain, "newest first": newest}
        return {name: _figures(answers, questions, facts) for name, answers in ways.items()}
    finally:
        store.close()


def _by_telling(scenarios: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    facts = [fact for each in scenarios for fact in each["facts"]]
    yield from sorted(facts, key=lambda fact: (fact["told"], fact["id"]))


def _figures(
    answers: Answers, questions: list[dict[str, Any]], facts: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    marks: dict[str, list[tuple[bool, bool]]] = {kind: [] for kind in TYPES}
    for question in questions:
        told = [facts[handle]["id"] for handle in answers(question)]
        good = next((place for place, each in enumerate(told) if each in question["gold"]), K)
        bad = next((place for place, each in enumerate(told) if each in question["wrong"]), K)
        marks[question["type"]].append((good == 0, good < bad))
    everything = [mark for kind in TYPES for mark in marks[kind]]
    return {name: _shares(found) for name, found in (("all", everything), *marks.items())}


def _shares(marks: list[tuple[bool, bool]]) -> dict[str, float]:
    return {
        name: round(sum(mark[place] for mark in marks) / len(marks), 3)
        for place, name in enumerate(("first", "order"))
    }


if __name__ == "__main__":
    main()
