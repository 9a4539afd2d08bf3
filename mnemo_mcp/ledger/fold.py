"""Folding: the life of a memory as a pure function of its ledger rows.

A memory holds in a set of half-open periods. Asserting gives the first one; closing, cutting and
retracting only ever take time away from it, so the order of rows known at one instant cannot
matter, and a row known later can never change what was answered before. An undo names an earlier row
that counts no more from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from mnemo_mcp.memory import (
    Claim,
    Entity,
    EntityRef,
    Instant,
    Kind,
    LedgerRow,
    Memory,
    Operation,
    Period,
    Role,
    faithful,
    same_text,
)

_CLAIM = tuple(each.name for each in fields(Claim))
_MEMORY = tuple(each.name for each in fields(Memory))
_UNDOABLE = frozenset((Operation.CONFIRM, Operation.CLOSE, Operation.CUT, Operation.RETRACT, Operation.MERGE))


def fold(rows: Iterable[LedgerRow], known_at: Instant | None = None) -> Memory | None:
    """The memory that `rows` (all of one memory) make, by what was known at `known_at` (None: by now).

    None while nothing had been asserted by then.
    """
    known = sorted(
        (row for row in rows if known_at is None or row.known_at <= known_at),
        key=lambda row: (row.known_at, row.seq),
    )
    first = next((row for row in known if row.operation is Operation.ASSERT), None)
    if first is None:
        return None
    undone = {row.body.get("row") for row in known if row.operation is Operation.UNDO}
    memory = _asserted(first)
    for row in known:
        if row is not first and not (row.id in undone and row.operation in _UNDOABLE):
            memory = _apply(memory, row)
    return memory


def _asserted(row: LedgerRow) -> Memory:
    start = row.valid_from or row.known_at
    return Memory(
        id=row.memory,
        profile=row.profile,
        project=str(row.body.get("project", "")),
        claim=claim_of(row.body.get("claim", {})),
        periods=(Period(start, row.valid_to),),
        known_at=row.known_at,
        changed_at=row.known_at,
        episodes=row.episodes,
        assumed=bool(row.body.get("assumed", False)),
        replaces=tuple(row.body.get("replaces", ())),
        origin=Role(row.body.get("origin", Role.ASSISTANT)),
        began=start,
    )


def _apply(memory: Memory, row: LedgerRow) -> Memory:
    memory = replace(memory, changed_at=row.known_at)
    other = str(row.body.get("by", ""))
    named = (*memory.replaced_by, other) if other and other not in memory.replaced_by else memory.replaced_by
    reason = str(row.body.get("reason", "")) or memory.reason
    match row.operation:
        case Operation.CONFIRM:
            cited = memory.episodes + tuple(each for each in row.episodes if each not in memory.episodes)
            return replace(memory, episodes=cited)
        case Operation.CLOSE:
            end = row.valid_from or row.known_at
            return replace(
                memory, periods=without(memory.periods, Period(end)), replaced_by=named, reason=reason
            )
        case Operation.CUT:
            gap = Period(row.valid_from or row.known_at, row.valid_to)
            return replace(memory, periods=without(memory.periods, gap), replaced_by=named, reason=reason)
        case Operation.RETRACT:
            return replace(memory, retracted=True, replaced_by=named, reason=reason)
        case Operation.MERGE:
            return replace(memory, merged_into=str(row.body.get("into", "")), reason=reason)
        case Operation.UNMERGE:
            given_back = set(row.body.get("episodes", ()))
            kept = tuple(each for each in memory.episodes if each not in given_back)
            return replace(memory, merged_into="", episodes=kept or memory.episodes)
        case Operation.ERASE:
            return replace(memory, claim=Claim(""), erased=True, reason="")
        case Operation.ASSERT | Operation.ALIAS | Operation.UNDO:
            return memory  # the same claim asserted twice: the first one counts


def fold_entity(entity: Entity, rows: Iterable[LedgerRow], known_at: Instant | None = None) -> Entity:
    """An entity as its ledger rows make it: further names, and the entity it turned out to be."""
    aliases: list[str] = []
    merged_into = ""
    for row in sorted(rows, key=lambda row: (row.known_at, row.seq)):
        if known_at is not None and row.known_at > known_at:
            continue
        if row.operation is Operation.ALIAS and (alias := str(row.body.get("alias", ""))):
            aliases += [] if alias in aliases else [alias]
        elif row.operation is Operation.MERGE:
            merged_into = str(row.body.get("into", ""))
        elif row.operation is Operation.UNMERGE:
            merged_into = ""
    return replace(entity, aliases=tuple(aliases), merged_into=merged_into)


def without(periods: Iterable[Period], gap: Period) -> tuple[Period, ...]:
    """`periods` less `gap`; pieces of no length are not made."""
    if gap.end is not None and gap.end <= gap.start:
        return tuple(periods)
    pieces: list[Period] = []
    for period in periods:
        if (gap.end is not None and gap.end <= period.start) or (
            period.end is not None and period.end <= gap.start
        ):
            pieces.append(period)
            continue
        if period.start < gap.start:
            pieces.append(Period(period.start, gap.start))
        if gap.end is not None and (period.end is None or gap.end < period.end):
            pieces.append(Period(gap.end, period.end))
    return tuple(pieces)


def claim_body(claim: Claim) -> dict[str, Any]:
    """A claim as the ledger keeps it: empty parts left out."""
    body = {name: part for name in _CLAIM if (part := getattr(claim, name))}
    return {**body, "entities": [asdict(each) for each in claim.entities]} if claim.entities else body


def claim_of(body: Mapping[str, Any]) -> Claim:
    """The claim a ledger body holds; an erased body is an empty claim."""
    parts = dict(body)
    entities = tuple(EntityRef(**each) for each in parts.pop("entities", ()))
    kind = Kind(parts.pop("kind", Kind.FACT))
    return Claim(**{"what": "", **parts}, kind=kind, entities=entities)


def field_key(claim: Claim) -> str:
    """What a claim is the value of, in the form in which it is looked up; "" for a claim that is none."""
    return f"{same_text(claim.subject)}\x1f{same_text(claim.field)}" if claim.subject and claim.field else ""


def state_bytes(memory: Memory) -> bytes:
    """The snapshot's form of a memory; equal memories give equal bytes."""
    parts = {name: getattr(memory, name) for name in _MEMORY}  # asdict would copy all of it, part by part
    periods = [{"start": each.start, "end": each.end} for each in memory.periods]
    return faithful({**parts, "claim": claim_body(memory.claim), "periods": periods})


def memory_of(state: Mapping[str, Any]) -> Memory:
    """The memory that `state_bytes` wrote."""
    parts = dict(state)
    for name in ("episodes", "replaced_by", "replaces"):
        parts[name] = tuple(parts[name])
    parts["claim"] = claim_of(parts["claim"])
    parts["periods"] = tuple(Period(**each) for each in parts["periods"])
    parts["origin"] = Role(parts["origin"])
    return Memory(**parts)
