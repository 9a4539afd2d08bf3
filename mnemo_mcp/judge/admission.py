"""Admission: one claim and what its writer says it replaces become ledger rows.

The world changed: the old memory is closed. We were wrong: it is retracted. A late fact about the past:
the old memory is cut around it. A claim that is already known and live is confirmed, not stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mnemo_mcp.errors import Refused
from mnemo_mcp.ledger.fold import claim_body
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import (
    Claim,
    Instant,
    LedgerRow,
    Memory,
    Operation,
    Outcome,
    Role,
    Status,
    identity,
    same_text,
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A claim at the door. `valid_from` None is unknown: the world date is then the known time, assumed."""

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
    same: Sequence[Memory] = field(default_factory=tuple)


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
    if not proposal.replaces and (known := _known(proposal, start)):
        return _confirmed(proposal, known)
    return _asserted(proposal, start)


def _known(proposal: Proposal, start: Instant) -> Memory | None:
    """The live memory that says the very same of the same time."""
    for memory in proposal.same:
        alike = _content(memory.claim) == _content(proposal.claim) and memory.project == proposal.project
        dated = proposal.valid_from is None or memory.valid_from == start
        if alike and dated and memory.valid_to == proposal.valid_to and _live(memory):
            return memory
    return None


def _content(claim: Claim) -> tuple[str, ...]:
    parts = (claim.what, claim.why, claim.how, claim.who, claim.where, claim.when)
    return (*map(same_text, parts), claim.kind)


def _live(memory: Memory) -> bool:
    return memory.status(memory.valid_from) is Status.CURRENT


def _confirmed(proposal: Proposal, known: Memory) -> Admitted:
    if proposal.episode in known.episodes:
        return Admitted((), Outcome("confirmed", known.id, "This was stored already; nothing changed."))
    row = ledger_row(
        proposal.profile,
        known.id,
        Operation.CONFIRM,
        known_at=proposal.known_at,
        source=proposal.episode,
        cause=proposal.cause,
        episodes=(proposal.episode,),
    )
    return Admitted(
        (row,), Outcome("confirmed", known.id, "The same is known already; one more episode supports it.")
    )


def _asserted(proposal: Proposal, start: Instant) -> Admitted:
    replaced = tuple(memory.id for memory in proposal.replaces)
    claim = claim_body(proposal.claim)
    name = identity(
        "m",
        proposal.profile,
        proposal.project,
        claim,
        start,
        proposal.valid_to,
        proposal.known_at,
        proposal.episode,
    )
    body = {
        "claim": claim,
        "project": proposal.project,
        "replaces": list(replaced),
        "origin": str(proposal.origin),
        "assumed": proposal.valid_from is None,
    }
    first = ledger_row(
        proposal.profile,
        name,
        Operation.ASSERT,
        body={key: value for key, value in body.items() if value},
        valid_from=start,
        valid_to=proposal.valid_to,
        known_at=proposal.known_at,
        source=proposal.episode,
        cause=proposal.cause,
        episodes=(proposal.episode,),
    )
    changes = [_change(proposal, memory, name, start) for memory in proposal.replaces]
    return Admitted((first, *changes), _outcome(name, changes))


def _change(proposal: Proposal, old: Memory, new: str, start: Instant) -> LedgerRow:
    operation = _operation(proposal, old)
    return ledger_row(
        proposal.profile,
        old.id,
        operation,
        body={"by": new, **({"reason": proposal.reason} if proposal.reason else {})},
        valid_from=None if operation is Operation.RETRACT else start,
        valid_to=proposal.valid_to if operation is Operation.CUT else None,
        known_at=proposal.known_at,
        source=proposal.episode,
        cause=proposal.cause,
        episodes=(proposal.episode,),
    )


def _operation(proposal: Proposal, old: Memory) -> Operation:
    if old.retracted or old.erased:
        raise Refused(f"{old.id} is already retracted.", "Leave it out of `replaces`.")
    if proposal.correction:
        return Operation.RETRACT
    ends_earlier = proposal.valid_to is not None and (
        old.valid_to is None or proposal.valid_to < old.valid_to
    )
    return Operation.CUT if ends_earlier else Operation.CLOSE


def _outcome(name: str, changes: Iterable[LedgerRow]) -> Outcome:
    ids = {
        operation: tuple(row.memory for row in changes if row.operation is operation)
        for operation in (Operation.CLOSE, Operation.RETRACT, Operation.CUT)
    }
    closed, retracted, cut = ids[Operation.CLOSE], ids[Operation.RETRACT], ids[Operation.CUT]
    if retracted:
        return Outcome("corrected", name, f"Retracted {', '.join(retracted)}.", retracted=retracted)
    if cut:
        return Outcome("cut", name, f"Cut {', '.join(cut)} around this period.", closed=closed, cut=cut)
    if closed:
        return Outcome("updated", name, f"Closed {', '.join(closed)}.", closed=closed)
    return Outcome("added", name, "Stored.")


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
