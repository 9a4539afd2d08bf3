"""Order: fused ranks become one list, what is true before what was, what answers before what might."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.arrays import Mask
from mnemo_mcp.memory import Memory, Status
from mnemo_mcp.ranks import fuse
from mnemo_mcp.recall.answer import RecalledMemory
from mnemo_mcp.recall.channels import Scores, by_meaning, by_words
from mnemo_mcp.recall.question import Question
from mnemo_mcp.recall.relevance import survey, weigh
from mnemo_mcp.settings import Floor, Recall


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row with its fused score, whether its relevance is sure, and its rank in each channel."""

    row: int
    score: float
    sure: bool
    ranks: Mapping[str, int]


def ranked(
    index: ProfileIndex,
    question: Question,
    scores: Scores,
    allowed: Mask,
    floor: Floor,
    constants: Recall,
    most: int,
) -> list[Ranked]:
    """At most `most` rows of one mask that are relevant, best first."""
    lists = {
        "meaning": by_meaning(index, scores, allowed, constants.channel_depth),
        "words": by_words(index, scores, allowed, constants.channel_depth),
    }
    weights = {"meaning": 1.0, "words": words_weight(question, scores, lists["words"], index)}
    ids = {name: [index.memories[row].id for row in rows] for name, rows in lists.items()}
    fused = fuse([(weights[name], ids[name]) for name in lists], constants.rank_constant)
    field = survey(index, question, scores, allowed, floor, constants)
    successions = index.successions()
    found: list[Ranked] = []
    for memory_id, score in fused:
        row = index.row(memory_id)
        if row is None:
            continue
        if len(found) == most:
            break
        # what speaks for a memory that was replaced speaks for the one that replaced it
        weighed = [
            weigh(index, question, scores, each, field) for each in (row, *successions.replaced_by(row))
        ]
        sure = any(evidence.sure(floor) for evidence in weighed)
        if sure or any(evidence.worth_an_answer(floor) for evidence in weighed):
            ranks = {name: ids[name].index(memory_id) + 1 for name in ids if memory_id in ids[name]}
            found.append(Ranked(row, score, sure, ranks))
    return found


def words_weight(question: Question, scores: Scores, rows: list[int], index: ProfileIndex) -> float:
    """How much the words channel may say against meaning: the cube of the best coverage.

    Where words cover little of a question their order is mostly chance, and equal votes cost first places
    (measured by `bench/quality.py`); where the very identifier asked for is found, they lead.
    """
    if not rows:
        return 0.0
    if any(index.postings.frequency(word) for word in question.identifiers):
        return 2.0
    return float(scores.coverage[rows].max()) ** 3


def arranged(
    ranks: Sequence[Ranked],
    index: ProfileIndex,
    view: Mapping[int, Memory],
    status: Status,
    outdated: Mapping[int, int],
) -> list[RecalledMemory]:
    """Ranked rows as recalled memories."""
    return [
        RecalledMemory(
            view.get(each.row, index.memories[each.row]),
            status,
            each.score,
            each.sure,
            each.ranks,
            index.memories[outdated[each.row]].id if each.row in outdated else "",
        )
        for each in ranks
    ]
