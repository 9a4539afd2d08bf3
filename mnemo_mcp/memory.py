"""The domain: episodes, memories, periods and ledger rows as frozen values. No input or output here."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

Instant = str
"""A UTC instant of fixed width, `2026-03-02T22:30:00.000Z`: the order of the texts is the order of time."""


def instant(moment: datetime) -> Instant:
    """The canonical text of an aware `moment`, cut to milliseconds."""
    utc = moment.astimezone(UTC)
    return f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"


def moment(at: Instant) -> datetime:
    """The aware datetime of a canonical instant."""
    return datetime.fromisoformat(at)


class Kind(StrEnum):
    """What sort of claim a memory is."""

    FACT = "fact"
    EVENT = "event"
    STATE = "state"
    DECISION = "decision"
    PREFERENCE = "preference"
    PROCEDURE = "procedure"


class Role(StrEnum):
    """Who or what an episode came from."""

    PERSON = "person"
    ASSISTANT = "assistant"
    TOOL = "tool"
    SUBAGENT = "subagent"
    NOTICE = "notice"
    STEP = "step"


class Operation(StrEnum):
    """What a ledger row does to the truth."""

    ASSERT = "assert"
    CONFIRM = "confirm"
    CLOSE = "close"
    RETRACT = "retract"
    CUT = "cut"
    MERGE = "merge"
    UNMERGE = "unmerge"
    UNDO = "undo"
    ALIAS = "alias"
    ERASE = "erase"


class Status(StrEnum):
    """How a memory stands at an instant asked about."""

    CURRENT = "current"
    CLOSED = "closed"
    RETRACTED = "retracted"
    FUTURE = "future"


@dataclass(frozen=True, slots=True)
class Period:
    """Half-open time `[start, end)` in the world; `end` None is open."""

    start: Instant
    end: Instant | None = None

    def holds(self, at: Instant) -> bool:
        return self.start <= at and (self.end is None or at < self.end)


@dataclass(frozen=True, slots=True)
class EntityRef:
    """An entity as a memory names it, with the part it plays there."""

    name: str
    kind: str = "thing"
    role: str = "about"


@dataclass(frozen=True, slots=True)
class Claim:
    """What is asserted: the six Ws, the kind, the entities, and what it is the value of."""

    what: str
    why: str = ""
    how: str = ""
    who: str = ""
    where: str = ""
    when: str = ""
    kind: Kind = Kind.FACT
    entities: tuple[EntityRef, ...] = ()
    subject: str = ""
    field: str = ""

    def text(self) -> str:
        """What is embedded: what, why and how as plain sentences, empty parts skipped."""
        return " ".join(sentence(part) for part in (self.what, self.why, self.how) if part.strip())


@dataclass(frozen=True, slots=True)
class Episode:
    """One thing that arrived. Immutable."""

    id: str
    profile: str
    role: Role
    text: str
    client: str
    session: str
    project: str
    occurred_at: Instant
    zone: str
    recorded_at: Instant
    turn: str = ""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One operation on the truth. `seq` is its place in the log, 0 while it is not stored."""

    id: str
    profile: str
    memory: str
    operation: Operation
    body: Mapping[str, Any]
    valid_from: Instant | None
    valid_to: Instant | None
    known_at: Instant
    source: str
    cause: Mapping[str, Any]
    episodes: tuple[str, ...]
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """A claim with its life, folded from its ledger rows."""

    id: str
    profile: str
    project: str
    claim: Claim
    periods: tuple[Period, ...]
    known_at: Instant
    changed_at: Instant
    episodes: tuple[str, ...]
    assumed: bool = False
    retracted: bool = False
    erased: bool = False
    replaced_by: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    reason: str = ""
    merged_into: str = ""
    origin: Role = Role.ASSISTANT
    began: Instant = ""

    def status(self, at: Instant) -> Status:
        """How this memory stands at `at`, by all that its fold knows."""
        if self.retracted or self.erased or self.merged_into:
            return Status.RETRACTED
        if any(period.holds(at) for period in self.periods):
            return Status.CURRENT
        if self.periods and at < self.periods[0].start:
            return Status.FUTURE
        return Status.CLOSED

    @property
    def valid_from(self) -> Instant:
        return self.periods[0].start if self.periods else self.began

    @property
    def valid_to(self) -> Instant | None:
        return self.periods[-1].end if self.periods else self.began

    @property
    def confidence(self) -> float:
        """0..1, derived: each further episode that supports the claim halves the doubt, from 0.8 on."""
        return round(1 - 0.2 * 0.5 ** max(0, len(self.episodes) - 1), 3)


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, system, repository, file ... as its ledger rows and the memories about it make it."""

    id: str
    profile: str
    kind: str
    name: str
    aliases: tuple[str, ...] = ()
    merged_into: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What is derived about a memory and never enters the ledger."""

    keep: bool = False
    uses: int = 0
    last_used: Instant | None = None
    door_misses: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a writing verb did: added, confirmed, updated, corrected, cut, closed, retracted, erased."""

    outcome: str
    id: str
    reason: str = ""
    closed: tuple[str, ...] = ()
    retracted: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


_ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_ID_LENGTH = 13  # 65 bits: one clash in 70 million stores of a million memories


def identity(prefix: str, *parts: Any) -> str:
    """A deterministic short id: `prefix` and 13 letters of the hash of the canonical `parts`."""
    digest = int.from_bytes(hashlib.sha256(canonical(list(parts))).digest()[:9])
    letters = []
    for _ in range(_ID_LENGTH):
        digest, rest = divmod(digest, 32)
        letters.append(_ID_ALPHABET[rest])
    return prefix + "".join(letters)


def canonical(value: Any) -> bytes:
    """Canonical JSON bytes: sorted keys, NFC text, one form for equal numbers, no NaN (ValueError)."""
    return _json(value, _composed)


def faithful(value: Any) -> bytes:
    """The same with every text as it was given: what is stored, where `canonical` is what is compared."""
    return _json(value, str)


def _json(value: Any, form: Callable[[str], str]) -> bytes:
    plain = _normal(value, form)
    return json.dumps(
        plain, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode()


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _normal(value: Any, form: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return form(str(value))
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {form(str(key)): _normal(part, form) for key, part in value.items()}
    if isinstance(value, Sequence):
        return [_normal(part, form) for part in value]
    return value


def sentence(part: str) -> str:
    """`part` with a full stop, where it has no other end."""
    text = part.strip()
    return text if not text or text[-1] in ".!?。！？" else text + "."


def same_text(text: str) -> str:
    """The form in which two texts count as the same: case, spaces and closing punctuation set aside."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).strip(" .!?。！？")
