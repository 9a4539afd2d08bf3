"""Measuring a decisions model on labelled pairs: how often it is right, and how sure it is of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mnemo_mcp.judge.asking import Relation, context, questions, relation_name
from mnemo_mcp.judge.candidate import Candidate
from mnemo_mcp.judge.weighing import Kept, weigh
from mnemo_mcp.memory import Claim, Instant, Memory, Period, Role
from mnemo_mcp.models.questions import Answer, Question
from mnemo_mcp.settings import Judging

NO_ANSWER = "none"

_BINS = 10
_OLD, _NEW = "2026-01-05T09:00:00.000Z", "2026-02-02T09:00:00.000Z"


class Model(Protocol):
    """What is needed of a decisions model."""

    def decide(
        self, context: str, questions: Sequence[Question], *, purpose: str, sources: Sequence[str] = ()
    ) -> Mapping[str, Answer]: ...


@dataclass(frozen=True, slots=True)
class Measured:
    """One pair: what it is, what the model said and how surely, and what the judge would have done."""

    id: str
    label: str
    said: str
    share: float | None
    decided: str


def measured(model: Model, pairs: Iterable[Mapping[str, Any]], constants: Judging) -> list[Measured]:
    """Ask about each pair (`id`, `label`, `old`, `new`), one request each. Raises an `EndpointError`."""
    return [_measured(model, pair, constants) for pair in pairs]


def _measured(model: Model, pair: Mapping[str, Any], constants: Judging) -> Measured:
    candidate = Candidate(
        Claim(str(pair["new"])), ("e",), "eval", "", _NEW, None, _NEW, False, Role.PERSON, memory="m"
    )
    known = _known(str(pair["old"]), _OLD)
    answers = model.decide(context(candidate), questions(candidate, [known]), purpose="eval")
    answer = answers[relation_name(0)]
    said, share = answer.best
    judged = weigh(candidate, known, answer, Kept(), constants)
    return Measured(
        str(pair["id"]),
        str(pair["label"]),
        said or NO_ANSWER,
        share if answer.probabilities else None,
        str(judged.relation),
    )


def _known(text: str, at: Instant) -> Memory:
    return Memory("m0", "eval", "", Claim(text), (Period(at),), at, at, ("e0",))


def report(found: Sequence[Measured]) -> dict[str, Any]:
    """Accuracy by label, confusion, calibration, and what the judge would have done rightly and wrongly."""
    labels = list(map(str, Relation))
    confusion = {
        label: {said: count for said in (*labels, NO_ANSWER) if (count := _count(found, label, said))}
        for label in labels
    }
    acted = [each for each in found if each.decided != Relation.DIFFERENT]
    bins = _bins([each for each in found if each.share is not None])
    sure = sum(each["pairs"] for each in bins)
    return {
        "pairs": len(found),
        "accuracy": _share(sum(each.said == each.label for each in found), len(found)),
        "by_label": {
            label: {"pairs": sum(row.values()), "accuracy": _share(row.get(label, 0), sum(row.values()))}
            for label, row in confusion.items()
        },
        "confusion": confusion,
        "calibration_error": round(
            sum(each["pairs"] * abs(each["right"] - each["said"]) for each in bins) / sure, 4
        )
        if sure
        else None,
        "bins": bins,
        "acted": len(acted),
        "acted_wrongly": sum(each.decided != each.label for each in acted),
        "merged_wrongly": sum(
            each.decided == Relation.SAME and each.label != Relation.SAME for each in acted
        ),
    }


def _count(found: Iterable[Measured], label: str, said: str) -> int:
    return sum(each.label == label and each.said == said for each in found)


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _bins(found: Sequence[Measured]) -> list[dict[str, Any]]:
    """Pairs by how sure the model was: what it said on average, and how often it was right."""
    places = Counter(min(_BINS - 1, int((each.share or 0.0) * _BINS)) for each in found)
    bins = []
    for place in sorted(places):
        inside = [each for each in found if min(_BINS - 1, int((each.share or 0.0) * _BINS)) == place]
        bins.append(
            {
                "from": place / _BINS,
                "to": (place + 1) / _BINS,
                "pairs": len(inside),
                "said": round(sum(each.share or 0.0 for each in inside) / len(inside), 4),
                "right": round(sum(each.said == each.label for each in inside) / len(inside), 4),
            }
        )
    return bins
