"""Writing on request: remember, forget and keep, each one transaction that is on disk when it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import pairwise

from mnemo_mcp.capture.redaction import redact
from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.index.index import Index
from mnemo_mcp.judge.admission import Proposal, admit, forgetting
from mnemo_mcp.judge.repeated import repeated
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.ledger.vectors import text_hash
from mnemo_mcp.ledger.work import JUDGE
from mnemo_mcp.memory import (
    Claim,
    EntityRef,
    Episode,
    Instant,
    Kind,
    LedgerRow,
    Memory,
    Operation,
    Outcome,
    Role,
    identity,
    same_text,
)
from mnemo_mcp.search.rows import episode_embedded

MODES = {"close": Operation.CLOSE, "retract": Operation.RETRACT, "erase": Operation.ERASE}

_LONGEST_CLAIM = 400_000  # characters; a memory is a claim, not a file


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: the wall (`profile`), the place and the time. `client` and `session` name the source."""

    profile: str
    project: str
    client: str
    session: str
    known_at: Instant
    recorded_at: Instant
    zone: tzinfo
    by: str = "agent"

    @property
    def cause(self) -> dict[str, object]:
        return {"by": self.by, "client": self.client}


class Writing:
    """The writing verbs over one store and its index."""

    def __init__(self, store: Store, index: Index, *, judged: bool = False) -> None:
        """`judged` says that a model compares what was stored with the rest, afterwards."""
        self._store = store
        self._index = index
        self._judged = judged

    def remember(
        self,
        claim: Claim,
        writer: Writer,
        *,
        valid_from: Instant | None,
        valid_to: Instant | None,
        replaces: Sequence[str] = (),
        correction: bool = False,
    ) -> Outcome:
        """Store a claim; what it amounts to. Raises `Refused` or `NotFound` and then stores nothing."""
        claim, found = _redacted(_about_its_subject(claim))
        _check(claim)
        if correction and not replaces:
            raise Refused("A correction corrects something.", "Name the wrong memory's id in `replaces`.")
        index = self._index.profile(writer.profile)
        with index.lock:
            same = repeated(index, claim.what)
        with self._store.write() as tx:
            source = self._source(tx, claim, writer)
            admitted = admit(
                Proposal(
                    claim=claim,
                    profile=writer.profile,
                    project=writer.project,
                    known_at=writer.known_at,
                    episode=source.id,
                    cause=writer.cause,
                    origin=source.role,
                    valid_from=valid_from,
                    valid_to=valid_to,
                    replaces=tuple(self._store.truth.within(tx, each, writer.profile) for each in replaces),
                    correction=correction,
                    same=same,
                    same_field=self._store.truth.of_field(tx, claim, writer.profile),
                )
            )
            self._store.truth.append(tx, admitted.rows, writer.recorded_at)
            if self._judged and admitted.outcome.outcome != "confirmed":
                self._store.work.add(tx, JUDGE, writer.profile, admitted.outcome.id, writer.recorded_at)
        return _telling_redactions(admitted.outcome, found)

    def forget(self, ids: Sequence[str], mode: Operation, writer: Writer, reason: str = "") -> list[Outcome]:
        """Close, retract or erase memories (or erase episodes) by id, all of them or none."""
        if not ids:
            raise Refused("forget takes the id of a memory.", "Recall first and pass an id it prints.")
        reason, _ = redact(reason)
        with self._store.write() as tx:
            outcomes = [self._forget(tx, each, mode, writer, reason) for each in dict.fromkeys(ids)]
        if mode is Operation.ERASE:
            self._store.database.truncate_log()
            self._index.catch_up()  # what is saved of the index goes with the text
        return outcomes

    def keep(self, memory_id: str, on: bool, writer: Writer) -> Outcome:
        """A person's word that a memory matters: never muted, never faded; `on` False takes it back."""
        with self._store.write() as tx:
            memory = self._store.truth.within(tx, memory_id, writer.profile)
            if memory.erased:
                raise NotFound(f"The memory {memory.id} was erased.", "Recall first and use an id it prints.")
            self._store.accounts.set_keep(tx, writer.profile, memory.id, on)
        return Outcome("kept" if on else "released", memory.id, memory.claim.what)

    def _source(self, tx: Connection, claim: Claim, writer: Writer) -> Episode:
        """The episode a written claim cites: what was said, by whom, when."""
        episode = new_episode(
            writer.profile,
            Role.PERSON if writer.by == "person" else Role.ASSISTANT,
            claim.text(),
            client=writer.client,
            session=writer.session,
            project=writer.project,
            turn="",
            occurred_at=writer.known_at,
            zone=str(writer.zone),
            recorded_at=writer.recorded_at,
            source=writer.known_at,
        )
        self._store.episodes.add(tx, [episode])
        return episode

    def _forget(self, tx: Connection, name: str, mode: Operation, writer: Writer, reason: str) -> Outcome:
        if name.startswith("e") and mode is Operation.ERASE:
            return self._erase_episode(tx, self._store.episodes.get(name, writer.profile), writer)
        memory = self._store.truth.within(tx, name, writer.profile)
        if memory.erased or (memory.retracted and mode is not Operation.ERASE):
            return Outcome("gone", memory.id, "It is forgotten already; nothing changed.")
        if mode is Operation.ERASE and name != memory.id:
            raise Refused("Erasing takes the exact id.", f"Pass {memory.id} to erase it for good.")
        source = identity("r", memory.id, str(mode), writer.known_at)
        rows = [forgetting(memory, mode, writer.known_at, source, reason, writer.cause)]
        if mode is Operation.ERASE:
            # names that only this memory gave are erased with it, and their aliases
            rows += [_erasing(entity, writer) for entity in self._store.entities.only_in(tx, memory.id)]
            self._store.vectors.drop(tx, [text_hash(memory.claim.text())])
            self._store.uses.forget_memory(tx, memory.id)
        self._store.truth.append(tx, rows, writer.recorded_at)
        done = {Operation.CLOSE: "closed", Operation.RETRACT: "retracted", Operation.ERASE: "erased"}[mode]
        sources = {"sources": list(memory.episodes)} if mode is Operation.ERASE else {}
        return Outcome(
            done, memory.id, memory.claim.what if mode is not Operation.ERASE else "", details=sources
        )

    def _erase_episode(self, tx: Connection, episode: Episode, writer: Writer) -> Outcome:
        citing = self._store.truth.citing(episode.id)
        self._store.vectors.drop(tx, self._vectors_of(episode))
        self._store.uses.forget_episode(tx, episode.id)
        self._store.truth.append(tx, [_erasing(episode.id, writer)], writer.recorded_at)
        return Outcome("erased", episode.id, details={"unsupported": self._unsupported(citing, episode.id)})

    def _vectors_of(self, episode: Episode) -> list[bytes]:
        """The cache keys of an episode's vectors and of the next one's, which hold some of its text."""
        thread = self._store.episodes.around(episode, 1, 1)
        texts = [episode_embedded(each.text, before.text) for before, each in pairwise(thread)]
        return [text_hash(text) for text in (*texts, episode_embedded(episode.text, ""))]

    def _unsupported(self, memories: Sequence[Memory], erased: str) -> list[str]:
        """Those whose every other cited episode has no text any more either."""
        lost = []
        for memory in memories:
            others = self._store.episodes.many(each for each in memory.episodes if each != erased)
            if not any(each.text for each in others.values()):
                lost.append(memory.id)
        return lost


def kind_named(name: str) -> Kind:
    """The kind that a caller means. Raises `Refused`."""
    try:
        return Kind(name.strip().lower())
    except ValueError:
        raise Refused(f"There is no kind {name!r}.", f"`kind` is one of {', '.join(Kind)}.") from None


def _erasing(name: str, writer: Writer) -> LedgerRow:
    """The row that erases an episode or an entity's names."""
    return ledger_row(
        writer.profile,
        name,
        Operation.ERASE,
        known_at=writer.known_at,
        source=identity("r", name, "erase", writer.known_at),
        cause=writer.cause,
        episodes=(),
    )


def _about_its_subject(claim: Claim) -> Claim:
    """What a claim is a value of is an entity it is about."""
    named = {same_text(each.name) for each in claim.entities}
    if not claim.subject or same_text(claim.subject) in named:
        return claim
    return replace(claim, entities=(*claim.entities, EntityRef(claim.subject)))


def _redacted(claim: Claim) -> tuple[Claim, tuple[str, ...]]:
    found: dict[str, None] = {}

    def clean(part: str) -> str:
        kept, kinds = redact(part.strip())
        found.update(dict.fromkeys(kinds))
        return kept

    cleaned = replace(
        claim,
        what=clean(claim.what),
        why=clean(claim.why),
        how=clean(claim.how),
        who=clean(claim.who),
        where=clean(claim.where),
        when=clean(claim.when),
        entities=tuple(EntityRef(clean(each.name), each.kind, each.role) for each in claim.entities),
    )
    return cleaned, tuple(found)


def _check(claim: Claim) -> None:
    if not claim.what:
        raise Refused("`what` is empty.", "Say in one sentence what is to be remembered.")
    if len(claim.text()) > _LONGEST_CLAIM:
        raise Refused(
            f"This memory has {len(claim.text())} characters; {_LONGEST_CLAIM} is the most.",
            "Say what matters in a few sentences.",
        )


def _telling_redactions(outcome: Outcome, found: tuple[str, ...]) -> Outcome:
    if not found:
        return outcome
    return replace(outcome, reason=f"{outcome.reason} Left out because it looks secret: {', '.join(found)}.")
