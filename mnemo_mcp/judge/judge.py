"""The judge: weighs a candidate against what is known, and writes what follows into the ledger.

A model is asked while no transaction is open; what is written then is written in one, and only if what the
candidate was compared with is still as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.errors import RequestRefused
from mnemo_mcp.index.index import Index
from mnemo_mcp.judge.admission import admit, says_again
from mnemo_mcp.judge.asking import GROUNDED, Relation, context, questions, relation_name
from mnemo_mcp.judge.candidate import Candidate, as_kept, candidate_of
from mnemo_mcp.judge.effects import (
    LEFT_OUT,
    NOTHING,
    WITHOUT_WHY,
    Effects,
    comparing,
    proposal_of,
    storing,
)
from mnemo_mcp.judge.neighbours import Neighbourhood
from mnemo_mcp.judge.repeated import repeated
from mnemo_mcp.judge.weighing import Doubt, Judged, Kept, differences, doubts, objection, weigh
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.verdicts import Verdict
from mnemo_mcp.ledger.work import JUDGE
from mnemo_mcp.memory import Instant, Memory, Outcome, Period, identity, instant
from mnemo_mcp.models.decisions import Decider
from mnemo_mcp.models.questions import Answer
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import Judging
from mnemo_mcp.times import Clock
from mnemo_mcp.words import telling

NO_MODEL = "rules"
STALE = "stale"

_TRIES = 3  # of a candidate whose neighbours keep changing; then it is stored beside them
_ALIKE = 0.5  # of the fewer words: so much of a newer memory makes it one to compare with


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to become of a candidate, by what was known when it was weighed: ledger rows up to `seq`."""

    candidate: Candidate
    seq: int
    same: tuple[Memory, ...] = ()
    judged: tuple[Judged, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    judge: str = NO_MODEL


class Judge:
    """Over one store. Without a model only repeats are recognised; all else stays side by side."""

    def __init__(
        self,
        store: Store,
        index: Index,
        encoders: EncoderPair,
        constants: Judging,
        clock: Clock,
        decider: Decider | None = None,
        level: Callable[[], None] = lambda: None,
    ) -> None:
        """`level` gives what was just said its vectors, as far as there is time for that."""
        self._store = store
        self._index = index
        self._constants = constants
        self._clock = clock
        self._decider = decider
        self._level = level
        self._neighbourhood = Neighbourhood(store, index, encoders, constants)

    @property
    def asks(self) -> bool:
        """Whether a model is asked."""
        return self._decider is not None

    def consider(self, candidate: Candidate) -> Decision:
        """Weigh a candidate; no transaction may be open. Raises an `EndpointError`."""
        seq = self._store.truth.newest()
        same = self._same(candidate)
        if self._decider is None or self._repeats(candidate, same):
            return Decision(candidate, seq, same)
        judged = self._store.verdicts.judged(candidate.memory) if candidate.memory else ()
        self._level()
        neighbours = self._neighbourhood.of(candidate, self._now(), without=judged)
        return self.compare(candidate, neighbours, seq=seq, same=same)

    def compare(
        self, candidate: Candidate, neighbours: list[Memory], *, seq: int, same: tuple[Memory, ...] = ()
    ) -> Decision:
        """Ask about these neighbours, and about the candidate itself. Raises an `EndpointError`."""
        asked = questions(candidate, neighbours)
        if self._decider is None or not asked:
            return Decision(candidate, seq, same)
        sources = (*candidate.episodes, candidate.memory, *(each.id for each in neighbours))
        answers: Mapping[str, Answer] = {}
        with suppress(RequestRefused):  # asked again it would be refused again: no answer, and both stay
            answers = self._decider.decide(
                context(candidate), asked, purpose="judge", sources=[name for name in sources if name]
            )
        return Decision(
            candidate,
            seq,
            same,
            self._weighed(candidate, neighbours, answers),
            doubts(candidate, answers, self._constants),
            f"{self._decider.kind} {self._decider.model}",
        )

    def repeats_of(self, memory: Memory) -> Decision | None:
        """What is to become of a memory and others that nothing keeps from saying the same, if there are any.

        Pairs that were judged are not judged again. Raises an `EndpointError`.
        """
        candidate, seq = candidate_of(memory), self._store.truth.newest()
        known = self._store.verdicts.judged(memory.id)
        found = self._neighbourhood.of(candidate, self._now(), without=known)
        if self._decider is None:
            again = tuple(
                Judged(each, Relation.SAME, "the same words")
                for each in found
                if says_again(memory.claim, each.claim)
                and not objection(candidate, each, Relation.SAME, self._kept(candidate, each))
            )
            return Decision(candidate, seq, judged=again) if again else None
        near = [each for each in found if not differences(memory.claim, each.claim)]
        return self.compare(candidate, near, seq=seq) if near else None

    def apply(self, tx: Connection, decision: Decision) -> Outcome:
        """Write what was decided, and why.

        The outcome is added, confirmed, updated, corrected, cut or refused (it stays in its episodes only);
        of a memory compared afterwards also merged or unchanged; "stale" where what it was compared with has
        changed: nothing was written, consider it again.
        """
        changed = self._store.verdicts.changed_since(tx, decision.candidate.profile, decision.seq)
        memories = {memory.id: memory for _, memory in changed}
        if _stale(decision, memories):
            return Outcome(STALE, decision.candidate.memory, "What it was compared with has changed.")
        return self._write(tx, decision, memories)

    def settle(
        self, candidate: Candidate, also: Callable[[Connection, Outcome], None] | None = None
    ) -> Outcome:
        """`consider` and `apply` in a transaction of its own, again where the decision had become stale.

        `also` writes in the same transaction. Raises an `EndpointError`; nothing is written then.
        """
        for _ in range(_TRIES):
            decision = self.consider(candidate)
            with self._store.write() as tx:
                outcome = self.apply(tx, decision)
                if outcome.outcome != STALE and also:
                    also(tx, outcome)
            if outcome.outcome != STALE:
                return outcome
        with self._store.write() as tx:  # in doubt both stay, until it is compared as a memory
            outcome = self._write(tx, Decision(candidate, self._store.truth.newest()), {})
            self._store.work.add(tx, JUDGE, candidate.profile, outcome.id, self._now())
            if also:
                also(tx, outcome)
        return outcome

    def _same(self, candidate: Candidate) -> tuple[Memory, ...]:
        index = self._index.profile(candidate.profile)
        with index.lock:
            return tuple(repeated(index, candidate.claim.what))

    def _repeats(self, candidate: Candidate, same: tuple[Memory, ...]) -> bool:
        """Whether a new candidate says again what is known, by rules alone."""
        if candidate.memory:
            return False
        proposal = proposal_of(candidate, candidate.claim, self._cause(NO_MODEL), same=same)
        return admit(proposal).outcome.outcome == "confirmed"

    def _weighed(
        self, candidate: Candidate, neighbours: list[Memory], answers: Mapping[str, Answer]
    ) -> tuple[Judged, ...]:
        return tuple(
            weigh(
                candidate,
                each,
                answers.get(relation_name(place)),
                self._kept(candidate, each),
                self._constants,
            )
            for place, each in enumerate(neighbours)
        )

    def _kept(self, candidate: Candidate, neighbour: Memory) -> Kept:
        standing = self._store.accounts.standing([neighbour.id, candidate.memory])
        own, other = (standing.get(name) for name in (candidate.memory, neighbour.id))
        return Kept(bool(own and own.keep), bool(other and other.keep))

    def _write(self, tx: Connection, decision: Decision, changed: Mapping[str, Memory]) -> Outcome:
        candidate, now = decision.candidate, self._now()
        cause = self._cause(decision.judge)
        if candidate.memory:
            effects = comparing(
                self._store.truth.within(tx, candidate.memory, candidate.profile), decision.judged, cause, now
            )
        else:
            same = {each.id: each for each in decision.same} | {
                name: each for name, each in changed.items() if each.project == candidate.project
            }
            effects = storing(
                candidate,
                decision.judged,
                decision.doubts,
                cause,
                same=tuple(same.values()),
                same_field=self._store.truth.of_field(tx, candidate.claim, candidate.profile),
            )
        self._store.truth.append(tx, effects.rows, now)
        self._store.verdicts.add(tx, self._verdicts(decision, effects, now))
        return effects.outcome

    def _verdicts(self, decision: Decision, effects: Effects, now: Instant) -> list[Verdict]:
        """Every verdict as it is kept; with the whole claim only where that was not stored."""
        candidate, found = decision.candidate, []
        rests_on: dict[str, object] = {"episodes": list(candidate.episodes)}
        for each in decision.judged:
            done, rows = effects.of(each)
            whole = done == "confirmed" and not candidate.memory
            found.append(
                self._verdict(
                    decision,
                    each.neighbour.id,
                    str(each.relation),
                    now,
                    memory="" if whole else effects.memory,
                    shares=each.shares,
                    guard=each.guard,
                    done=done,
                    reason=each.reason,
                    rows=rows,
                    candidate=as_kept(candidate) if whole else rests_on,
                )
            )
        for doubt in decision.doubts:
            done = _done_by(doubt, effects)
            found.append(
                self._verdict(
                    decision,
                    "",
                    doubt.name,
                    now,
                    memory=effects.memory,
                    shares=doubt.shares,
                    done=done,
                    reason=doubt.reason,
                    candidate=rests_on if done == NOTHING else as_kept(candidate),
                )
            )
        return found

    def _verdict(
        self, decision: Decision, neighbour: str, relation: str, now: Instant, **parts: Any
    ) -> Verdict:
        candidate = decision.candidate
        name = identity("v", candidate.profile, candidate.key, neighbour, relation, decision.judge, now)
        empty: dict[str, Any] = {"guard": (), "rows": ()}
        return Verdict(
            id=name,
            profile=candidate.profile,
            key=candidate.key,
            neighbour=neighbour,
            relation=relation,
            judge=decision.judge,
            at=now,
            **{**empty, **parts},
        )

    def _cause(self, judge: str) -> dict[str, object]:
        return {"by": "judge", "judge": judge}

    def _now(self) -> Instant:
        return instant(self._clock())


def _stale(decision: Decision, changed: Mapping[str, Memory]) -> bool:
    """Whether what a candidate was compared with changed, or something came that is to be compared too."""
    candidate, seen = decision.candidate, {each.neighbour.id: each.neighbour for each in decision.judged}
    if decision.judge == NO_MODEL and not decision.judged:
        return False
    for name, memory in changed.items():
        if name in seen:
            if _life(memory) != _life(seen[name]):
                return True
        elif name == candidate.memory:
            if memory.retracted or memory.erased or memory.merged_into:
                return True
        elif _to_compare(candidate, memory):
            return True
    return False


def _to_compare(candidate: Candidate, memory: Memory) -> bool:
    """Whether a memory that came meanwhile is near enough to a new candidate to be compared with it."""
    if candidate.memory or memory.project not in ("", candidate.project) or _life(memory)[1:] != _LIVING:
        return False
    one, other = (set(telling(each.text())) for each in (candidate.claim, memory.claim))
    return len(one & other) >= _ALIKE * min(len(one), len(other))


_LIVING = (False, False, "")


def _life(memory: Memory) -> tuple[tuple[Period, ...], bool, bool, str]:
    return memory.periods, memory.retracted, memory.erased, memory.merged_into


def _done_by(doubt: Doubt, effects: Effects) -> str:
    if effects.left_out == doubt.name:
        return LEFT_OUT
    return WITHOUT_WHY if doubt.holds and doubt.name == GROUNDED and effects.rows else NOTHING
