"""Admission: one claim, what its writer says it replaces and what it must not overlap become ledger rows.

The world changed: the old memory is closed. We were wrong: it is retracted. A late fact about the past:
the old memory is cut around it. A claim that is already known and live is confirmed, not stored twice.
Values of one subject and field never overlap: a new one takes its time from those that held it, and one that
is told late and without an end holds until the next value that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mnemo_mcp.errors import Refused
from mnemo_mcp.guard import repeats
from mnemo_mcp.ledger.fold import claim_body, without
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import (
    Claim,
    Instant,
    LedgerRow,
    Memory,
    Operation,
    Outcome,
    Period,
    Role,
    identity,
    same_text,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A claim at the door. `valid_from` None is unknown: the world date is then the known time, assumed.

    `replaces` is closed, cut or, by a `correction`, retracted; `wrong` is retracted in any case; a claim that
    is told late is `ended_by` the one that replaced it. `reasons` are those of single memories, by id.
    """

    claim: Claim
    profile: str
    project: str
    known_at: Instant
    episode: str
    cause: dict[str, object]
    origin: Role = Role.ASSISTANT
    valid_from: Instant | None = None
    valid_to: Instant | None = None
    replaces: tuple[Memory, ...] = ()
    correction: bool = False
    reason: str = ""
    same: Sequence[Memory] = ()
    same_field: Sequence[Memory] = ()
    wrong: tuple[Memory, ...] = ()
    ended_by: Memory | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()  # further episodes that support it
    assumed: bool = False

    @property
    def dated(self) -> bool:
        return self.valid_from is not None and not self.assumed

    @property
    def episodes(self) -> tuple[str, ...]:
        return (self.episode, *self.also)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The rows to append, and what they amount to."""

    rows: tuple[LedgerRow, ...]
    outcome: Outcome


def admit(proposal: Proposal) -> Admitted:
    """The ledger rows of a proposal. Raises `Refused` for a period that ends before it begins."""
    start = proposal.valid_from or proposal.known_at
    if proposal.valid_to is not None and proposal.valid_to <= start:
        raise Refused(
            f"The period ends ({proposal.valid_to}) before or when it begins ({start}).",
            "Give valid_from earlier than valid_to; the end is not part of the period.",
        )
    period = Period(start, proposal.valid_to or _next_value(proposal, start))
    if not (proposal.replaces or proposal.wrong or proposal.ended_by) and (known := _known(proposal, period)):
        return _confirmed(proposal, known)
    return _asserted(proposal, period)


def _next_value(proposal: Proposal, start: Instant) -> Instant | None:
    """When the next known value of the same subject and field begins, which a late fact does not outlast."""
    replaced = {memory.id for memory in (*proposal.replaces, *proposal.wrong)}
    later = (
        period.start
        for memory in proposal.same_field
        if memory.id not in replaced and not _gone(memory)
        for period in memory.periods
        if period.start > start
    )
    return min(later, default=None)


def _known(proposal: Proposal, period: Period) -> Memory | None:
    """The live memory that says the very same of the same time."""
    for memory in proposal.same:
        alike = memory.project == proposal.project and says_again(proposal.claim, memory.claim)
        if alike and not _gone(memory) and covers(memory, period, dated=proposal.dated):
            return memory
    return None


def covers(memory: Memory, period: Period, *, dated: bool) -> bool:
    """Whether a memory holds in all of a period; said without a date, it is said of the present."""
    for held in memory.periods:
        begins = held.start <= period.start
        if begins and held.end == period.end and (held.start == period.start or not dated):
            return True
        if begins and dated and _ends_within(period, held):
            return True
    return False


def _ends_within(period: Period, held: Period) -> bool:
    return held.end is None or (period.end is not None and period.end <= held.end)


def _gone(memory: Memory) -> bool:
    return memory.retracted or memory.erased or bool(memory.merged_into)


def says_again(claim: Claim, known: Claim) -> bool:
    """Whether a claim says nothing but what is known: all parts alike, and `what` in the same words."""
    if _around(claim) != _around(known):
        return False
    return same_text(claim.what) == same_text(known.what) or repeats(claim.what, known.what)


def _around(claim: Claim) -> tuple[str, ...]:
    return (*map(same_text, (claim.why, claim.how, claim.who, claim.where, claim.when)), claim.kind)


def _confirmed(proposal: Proposal, known: Memory) -> Admitted:
    fresh = tuple(each for each in proposal.episodes if each not in known.episodes)
    if not fresh:
        return Admitted((), Outcome("confirmed", known.id, "This was stored already; nothing changed."))
    row = ledger_row(
        proposal.profile,
        known.id,
        Operation.CONFIRM,
        known_at=proposal.known_at,
        source=proposal.episode,
        cause=proposal.cause,
        episodes=fresh,
    )
    more = "one more episode supports" if len(fresh) == 1 else f"{len(fresh)} more episodes support"
    return Admitted((row,), Outcome("confirmed", known.id, f"The same is known already; {more} it."))


def _asserted(proposal: Proposal, period: Period) -> Admitted:
    claim = claim_body(proposal.claim)
    name = identity(
        "m",
        proposal.profile,
        proposal.project,
        claim,
        period.start,
        period.end,
        proposal.known_at,
        proposal.episode,
    )
    changes = [_replaced(proposal, old, name, period) for old in proposal.replaces]
    changes += [_change(proposal, old, name, Operation.RETRACT, None, None) for old in proposal.wrong]
    changes += _displaced(proposal, name, period)
    body = {
        "claim": claim,
        "project": proposal.project,
        "replaces": [row.memory for row in changes],
        "origin": str(proposal.origin),
        "assumed": not proposal.dated,
    }
    first = ledger_row(
        proposal.profile,
        name,
        Operation.ASSERT,
        body={key: value for key, value in body.items() if value},
        valid_from=period.start,
        valid_to=period.end,
        known_at=proposal.known_at,
        source=proposal.episode,
        cause=proposal.cause,
        episodes=proposal.episodes,
    )
    return Admitted((first, *_ending(proposal, name), *changes), _outcome(name, changes))


def _ending(proposal: Proposal, name: str) -> list[LedgerRow]:
    """The end of a claim that was replaced before it was told."""
    other = proposal.ended_by
    if other is None:
        return []
    reason = proposal.reasons.get(other.id, proposal.reason)
    return [
        ledger_row(
            proposal.profile,
            name,
            Operation.CLOSE,
            body={"by": other.id, **({"reason": reason} if reason else {})},
            valid_from=other.valid_from,
            known_at=max(proposal.known_at, other.known_at),
            source=proposal.episode,
            cause=proposal.cause,
            episodes=proposal.episodes,
        )
    ]


def _replaced(proposal: Proposal, old: Memory, new: str, period: Period) -> LedgerRow:
    """What becomes of a memory that the writer says is replaced."""
    if _gone(old):
        raise Refused(f"{old.id} is already retracted.", "Leave it out of `replaces`.")
    if proposal.correction:
        return _change(proposal, old, new, Operation.RETRACT, None, None)
    last = old.valid_to
    if proposal.valid_to is not None and (last is None or proposal.valid_to < last):
        return _change(proposal, old, new, Operation.CUT, period.start, period.end)
    return _change(proposal, old, new, Operation.CLOSE, period.start, None)


def _displaced(proposal: Proposal, new: str, period: Period) -> list[LedgerRow]:
    """The values of the same subject and field that gave up time to the new one."""
    named = {memory.id for memory in (*proposal.replaces, *proposal.wrong)}
    rows = []
    for old in proposal.same_field:
        if old.id in named or _gone(old) or without(old.periods, period) == old.periods:
            continue
        operation = Operation.CLOSE if period.end is None else Operation.CUT
        rows.append(_change(proposal, old, new, operation, period.start, period.end))
    return rows


def _change(
    proposal: Proposal,
    old: Memory,
    new: str,
    operation: Operation,
    start: Instant | None,
    end: Instant | None,
) -> LedgerRow:
    reason = proposal.reasons.get(old.id, proposal.reason)
    return ledger_row(
        proposal.profile,
        old.id,
        operation,
        body={"by": new, **({"reason": reason} if reason else {})},
        valid_from=start,
        valid_to=end,
        known_at=proposal.known_at,
        source=proposal.episode,
        cause=proposal.cause,
        episodes=proposal.episodes,
    )


def _outcome(name: str, changes: Iterable[LedgerRow]) -> Outcome:
    ids = {
        operation: tuple(row.memory for row in changes if row.operation is operation)
        for operation in (Operation.CLOSE, Operation.RETRACT, Operation.CUT)
    }
    closed, retracted, cut = ids[Operation.CLOSE], ids[Operation.RETRACT], ids[Operation.CUT]
    done = [
        f"{verb} {', '.join(touched)}{after}."
        for verb, touched, after in (
            ("Retracted", retracted, ""),
            ("Cut", cut, " around this period"),
            ("Closed", closed, ""),
        )
        if touched
    ]
    kind = "corrected" if retracted else "cut" if cut else "updated" if closed else "added"
    return Outcome(kind, name, " ".join(done) or "Stored.", closed=closed, retracted=retracted, cut=cut)


def forgetting(
    memory: Memory, mode: Operation, known_at: Instant, source: str, reason: str, cause: dict[str, object]
) -> LedgerRow:
    """The row that closes, retracts or erases a memory on request."""
    return ledger_row(
        memory.profile,
        memory.id,
        mode,
        body={"reason": reason} if reason else {},
        valid_from=known_at if mode is Operation.CLOSE else None,
        known_at=known_at,
        source=source,
        cause=cause,
        episodes=(),
    )
