"""A decisions model made of the truth of the scenarios, which errs now and then, served over real HTTP.

It knows which fact replaces, corrects or cuts which. By the hash of each pair it is more or less sure of what
it says, and sometimes wrong: in one pair of twenty within a scenario, whose facts look alike, and in one of a
hundred others it takes two facts for different that are not, or the other way round. So a run measures the
way from a verdict to an answer, not a model.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openai_server import ModelServer, Reply, Request, decided

ERRING, ERRING_ELSEWHERE = 0.05, 0.01
_RELATIONS = ("same", "updates", "contradicts", "different")
_LINKS = {"closes": "updates", "cuts": "updates", "retracts": "contradicts"}
_QUOTED = re.compile(r'\{"what":.*\}')


def serving(scenarios: Iterable[Mapping[str, Any]]) -> ModelServer:
    """The server; it listens while its context is open."""
    return ModelServer(_Script(scenarios), routes=("/decisions",))


class _Script:
    def __init__(self, scenarios: Iterable[Mapping[str, Any]]) -> None:
        told = list(scenarios)
        facts = {fact["id"]: fact for each in told for fact in each["facts"]}
        self._scenario = {fact["text"]: each["id"] for each in told for fact in each["facts"]}
        self._truth = {
            (fact["text"], facts[old]["text"]): relation
            for fact in facts.values()
            for link, relation in _LINKS.items()
            for old in fact[link]
        }

    def __call__(self, request: Request) -> Reply:
        claim = _what(str(request.body["input"]))
        return decided(
            request,
            {
                each["name"]: self._of(claim, _what(each["instructions"]))
                for each in request.body["questions"]
            },
        )

    def _of(self, claim: str, known: str) -> dict[str, float]:
        digest = hashlib.sha256(f"{claim}\n{known}".encode()).digest()
        erring = ERRING if self._scenario[claim] == self._scenario[known] else ERRING_ELSEWHERE
        errs, sure = int.from_bytes(digest[:2]) / 65_535 < erring, 0.62 + 0.37 * digest[2] / 255
        true = self._truth.get((claim, known), "different")
        said = ("updates" if true == "different" else "different") if errs else true
        rest = (1 - sure) / 3
        return {name: sure if name == said else rest for name in _RELATIONS}


def _what(text: str) -> str:
    found = _QUOTED.search(text)
    if found is None:
        raise ValueError(f"no claim in {text!r}")
    return str(json.loads(found[0])["what"])
