"""Effects: what has been judged of a candidate, as ledger rows and an outcome. Nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mnemo_mcp.judge.admission import Proposal, admit
from mnemo_mcp.judge.asking import GROUNDED, Relation
from mnemo_mcp.judge.candidate import Candidate, candidate_of
from mnemo_mcp.judge.weighing import Doubt, Judged
from mnemo_mcp.ledger.fold import without
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import Claim, Instant, LedgerRow, Memory, Operation, Outcome, Period

Cause = Mapping[str, object]

NOTHING, LEFT_OUT, WITHOUT_WHY, ENDED = "nothing", "left out", "added without its why", "ended the claim"
_WORDS = {
    Operation.CONFIRM: "confirmed",
    Operation.CLOSE: "closed",
    Operation.CUT: "cut",
    Operation.RETRACT: "retracted",
    Operation.MERGE: "merged",
}


@dataclass(frozen=True, slots=True)
class Effects:
    """The rows to append, what they amount to, and what the candidate has become ("" for no memory)."""

    rows: tuple[LedgerRow, ...]
    outcome: Outcome
    memory: str
    left_out: str = ""

    def of(self, judged: Judged) -> tuple[str, tuple[str, ...]]:
        """What came of one neighbour, in a word, and the ids of the rows of that."""
        name = judged.neighbour.id
        own = [row for row in self.rows if row.memory == name and row.operation is not Operation.ASSERT]
        other = [row for row in self.rows if name in (row.body.get("by"), row.body.get("into"))]
        done = _WORDS[own[0].operation] if own else NOTHING
        if other:
            done = "merged" if other[0].operation is Operation.MERGE else ENDED
        return done, tuple(row.id for row in (*own, *other))


def proposal_of(
    candidate: Candidate,
    claim: Claim,
    cause: Cause,
    same: Sequence[Memory] = (),
    same_field: Sequence[Memory] = (),
) -> Proposal:
    """A candidate at the door of the ledger."""
    return Proposal(
        claim=claim,
        profile=candidate.profile,
        project=candidate.project,
        known_at=candidate.known_at,
        episode=candidate.episodes[0],
        also=candidate.episodes[1:],
        cause=dict(cause),
        origin=candidate.origin,
        valid_from=candidate.valid_from,
        valid_to=candidate.valid_to,
        assumed=candidate.assumed,
        same=same,
        same_field=same_field,
    )


def storing(
    candidate: Candidate,
    judged: Sequence[Judged],
    doubts: Sequence[Doubt],
    cause: Cause,
    *,
    same: Sequence[Memory],
    same_field: Sequence[Memory],
) -> Effects:
    """What becomes of a new candidate. Raises `Refused` for a period that ends before it begins."""
    standing = {each.name: each for each in doubts if each.holds}
    ungrounded = standing.pop(GROUNDED, None)
    if standing:
        doubt = next(iter(standing.values()))
        reason = f"Kept in its episodes only: {_SAID[doubt.name]} ({doubt.reason})."
        return Effects((), Outcome("refused", "", reason), "", left_out=doubt.name)
    claim = replace(candidate.claim, why="") if ungrounded else candidate.claim
    if survivor := _survivor(judged):
        return _confirming(candidate, survivor, cause)
    late = [each for each in _acting(judged) if _is_late(candidate, each)]
    first = min(late, key=lambda each: each.neighbour.valid_from, default=None)
    admitted = admit(
        replace(
            proposal_of(candidate, claim, cause, same, same_field),
            replaces=_chosen(candidate, judged, Relation.UPDATES, late),
            wrong=_chosen(candidate, judged, Relation.CONTRADICTS, late),
            ended_by=first.neighbour if first else None,
            reasons={each.neighbour.id: _because(each) for each in judged},
        )
    )
    return Effects(admitted.rows, admitted.outcome, admitted.outcome.id)


_SAID = {"lasts": "it will not be true in a month", "useful": "it is of no use elsewhere"}


def _acting(judged: Sequence[Judged]) -> list[Judged]:
    return [each for each in judged if each.relation in (Relation.UPDATES, Relation.CONTRADICTS)]


def _survivor(judged: Sequence[Judged]) -> Judged | None:
    """The neighbour that surely says the same."""
    same = [each for each in judged if each.relation is Relation.SAME]
    return max(same, key=lambda each: (each.shares.get("same", 0.0), each.neighbour.id), default=None)


def _chosen(
    candidate: Candidate, judged: Sequence[Judged], relation: Relation, late: Sequence[Judged]
) -> tuple[Memory, ...]:
    """The neighbours in this relation that lose something to the candidate."""
    return tuple(
        each.neighbour
        for each in judged
        if each.relation is relation and each not in late and not _apart(candidate, each)
    )


def _apart(candidate: Candidate, judged: Judged) -> bool:
    """Whether the two have no time in common, so that one takes nothing from the other."""
    if judged.relation is Relation.CONTRADICTS or candidate.valid_to is None:
        return False
    period = Period(candidate.start, candidate.valid_to)
    return without(judged.neighbour.periods, period) == judged.neighbour.periods


def _is_late(candidate: Candidate, judged: Judged) -> bool:
    """Whether the candidate tells of the time before its neighbour, and so is what was replaced.

    A date outweighs one that is only assumed.
    """
    if judged.relation is not Relation.UPDATES or candidate.valid_to is not None:
        return False
    return candidate.start < judged.neighbour.valid_from and not (
        judged.neighbour.assumed and candidate.dated
    )


def _because(judged: Judged) -> str:
    return f"{judged.relation}: {judged.reason}"


def _confirming(candidate: Candidate, judged: Judged, cause: Cause) -> Effects:
    """One more support for what says the same."""
    known = judged.neighbour
    fresh = tuple(each for each in candidate.episodes if each not in known.episodes)
    reason = f"{known.id} says the same ({judged.reason})."
    row = ledger_row(
        known.profile,
        known.id,
        Operation.CONFIRM,
        known_at=max(candidate.known_at, known.known_at),
        source=candidate.episodes[0],
        cause=cause,
        episodes=fresh,
    )
    return Effects((row,) if fresh else (), Outcome("confirmed", known.id, reason), known.id)


def comparing(memory: Memory, judged: Sequence[Judged], cause: Cause, now: Instant) -> Effects:
    """What becomes of a memory and those it was compared with after it had been stored."""
    if survivor := _survivor(judged):
        rows = merging(memory, survivor.neighbour, _because(survivor), cause, now)
        reason = f"{survivor.neighbour.id} stands for both ({survivor.reason})."
        return Effects(rows, Outcome("merged", memory.id, reason), memory.id)
    candidate = candidate_of(memory)
    changes: list[LedgerRow] = []
    for each in _acting(judged):
        if not _apart(candidate, each):
            changes.append(_changing(candidate, memory, each, cause))
    ids = {
        operation: tuple(row.memory for row in changes if row.operation is operation)
        for operation in (Operation.CLOSE, Operation.RETRACT, Operation.CUT)
    }
    closed, retracted, cut = ids[Operation.CLOSE], ids[Operation.RETRACT], ids[Operation.CUT]
    kind = "corrected" if retracted else "cut" if cut else "updated" if closed else "unchanged"
    return Effects(
        tuple(changes),
        Outcome(kind, memory.id, closed=closed, retracted=retracted, cut=cut),
        memory.id,
    )


def merging(
    absorbed: Memory, kept: Memory, reason: str, cause: Cause, known_at: Instant
) -> tuple[LedgerRow, ...]:
    """The rows that let `kept` stand for both, with the sources of both."""
    given = tuple(each for each in absorbed.episodes if each not in kept.episodes)
    known = max(known_at, absorbed.known_at, kept.known_at)
    merge = ledger_row(
        absorbed.profile,
        absorbed.id,
        Operation.MERGE,
        body={"into": kept.id, "gave": list(given), **({"reason": reason} if reason else {})},
        known_at=known,
        source=absorbed.episodes[0],
        cause=cause,
        episodes=(),
    )
    confirm = ledger_row(
        kept.profile,
        kept.id,
        Operation.CONFIRM,
        known_at=known,
        source=absorbed.id,
        cause=cause,
        episodes=given,
    )
    return (confirm, merge) if given else (merge,)


def _changing(candidate: Candidate, memory: Memory, judged: Judged, cause: Cause) -> LedgerRow:
    old, new, operation = judged.neighbour, memory, Operation.CLOSE
    start: Instant | None = candidate.start
    end: Instant | None = None
    if judged.relation is Relation.CONTRADICTS:
        operation, start = Operation.RETRACT, None
    elif _is_late(candidate, judged):
        old, new, start = memory, judged.neighbour, judged.neighbour.valid_from
    elif candidate.valid_to is not None and (old.valid_to is None or candidate.valid_to < old.valid_to):
        operation, end = Operation.CUT, candidate.valid_to
    return ledger_row(
        memory.profile,
        old.id,
        operation,
        body={"by": new.id, "reason": _because(judged)},
        valid_from=start,
        valid_to=end,
        known_at=max(memory.known_at, judged.neighbour.known_at),
        source=memory.episodes[0],
        cause=cause,
        episodes=memory.episodes,
    )
