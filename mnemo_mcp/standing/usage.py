"""Usage: ties each memory that was shown to the turn that answered it, and has it judged, once.

A memory shown for a prompt is judged by the turn that answers this prompt; without one it stays unknown.
What a session was opened with is looked for in every turn until it is used; it counts as missed when the
session ends, loses its context, or has answered some number of turns without it. All of it happens after the
hooks have returned, from what is on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mnemo_mcp.errors import NotFound
from mnemo_mcp.index.index import Index
from mnemo_mcp.ledger.database import Connection
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED, AnsweredTurn, Exposure, Opinion
from mnemo_mcp.ledger.work import Task
from mnemo_mcp.memory import Instant, Memory, instant
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.settings import Usage
from mnemo_mcp.standing.judges import DecisionsModel, LocalScorer, asked, cited
from mnemo_mcp.standing.muting import counted
from mnemo_mcp.standing.scorer import Turn
from mnemo_mcp.times import Clock

_DOOR = "session-open"


class Judging:
    """Judges the turns that wait, one session at a time."""

    def __init__(
        self,
        store: Store,
        index: Index,
        encoders: EncoderPair,
        constants: Usage,
        clock: Clock,
        decider: DecisionsModel | None = None,
    ) -> None:
        self._store = store
        self._index = index
        self._scorer = LocalScorer(self._weigh, encoders, CachedEmbedding(store.vectors).get)
        self._constants = constants
        self._clock = clock
        self._decider = decider

    def judge(self, task: Task) -> Callable[[Connection], None]:
        """Look at the turns of a session that wait, and give what writes the verdicts.

        Raises an `EndpointError` where a decisions model cannot be asked.
        """
        turns = self._store.uses.unjudged(task.profile, task.subject)
        opinions = [self._look(turn) for turn in turns]
        now = instant(self._clock())

        def finish(tx: Connection) -> None:
            for turn, found in zip(turns, opinions, strict=True):
                for shown in self._looked_for(tx, turn):
                    if shown.memory in found:
                        self._settle(tx, turn, shown, found[shown.memory], now)
                used = [memory for memory, opinion in found.items() if opinion.verdict == USED]
                self._store.connections.strengthen(tx, used, now)
                self._store.uses.judged(tx, turn)
            self._close(tx, task.profile, task.subject, now)

        return finish

    def _look(self, turn: AnsweredTurn) -> dict[str, Opinion]:
        with self._store.database.read() as connection:
            shown = self._looked_for(connection, turn)
        found = (self._memory(name, turn.profile) for name in dict.fromkeys(each.memory for each in shown))
        memories = [memory for memory in found if memory is not None]
        return self._opinions(memories, turn) if memories else {}

    def _looked_for(self, tx: Connection, turn: AnsweredTurn) -> list[Exposure]:
        """What a turn can tell something about."""
        _, context_since = self._store.accounts.ended(tx, turn.profile, turn.session)
        shown = self._store.uses.waiting(tx, turn.profile, turn.session)
        return [each for each in shown if _told_by(turn, each, context_since)]

    def _memory(self, name: str, profile: str) -> Memory | None:
        try:
            memory = self._store.truth.get(name, profile)
        except NotFound:
            return None
        return None if memory.erased else memory

    def _opinions(self, memories: Sequence[Memory], answered: AnsweredTurn) -> dict[str, Opinion]:
        episodes = self._store.episodes.many((*answered.prompts, answered.answer))
        texts = {name: episode.text for name, episode in episodes.items()}
        prompt = "\n".join(texts.get(each, "") for each in answered.prompts)
        turn = Turn(prompt, texts.get(answered.answer, ""), answered.acts)
        if not turn.answer.strip() and not turn.acts.strip():
            return {}  # erased in the meantime: nothing can be said
        found = {each.id: opinion for each in memories if (opinion := cited(each, turn))}
        rest = [each for each in memories if each.id not in found]
        if rest and self._decider is not None:
            sources = (*answered.prompts, answered.answer)
            return found | asked(self._decider, rest, turn, sources, self._constants)
        return found | self._scorer.opinions(rest, turn, answered.profile)

    def _weigh(self, profile: str, words: Iterable[str]) -> dict[str, float]:
        index = self._index.profile(profile)
        with index.lock:
            most = index.postings.weight("")  # of a word that no memory holds
            return {word: index.postings.weight(word) / most for word in words}

    def _settle(
        self, tx: Connection, turn: AnsweredTurn, shown: Exposure, opinion: Opinion, now: Instant
    ) -> None:
        if shown.moment == _DOOR and opinion.verdict != USED:
            opinion = self._so_far(shown, opinion, shown.turns + 1 >= self._constants.door_turns)
        if self._store.uses.settle(tx, shown, opinion, turn.seq, now):
            self._count(tx, turn.profile, shown, opinion.verdict, now)

    def _so_far(self, shown: Exposure, opinion: Opinion, final: bool) -> Opinion:
        """What is to be kept of a memory told at the door that one more turn did not use."""
        if final and shown.doubts:
            opinion = replace(opinion, verdict=UNSURE)
        before = shown.probability or 0.0
        if before > opinion.probability:
            opinion = replace(
                opinion, probability=before, judge=shown.judge, evidence=shown.evidence or opinion.evidence
            )
        return replace(opinion, final=final)

    def _close(self, tx: Connection, profile: str, session: str, now: Instant) -> None:
        """Settle what a session was opened with and can use no more; without a turn nothing is known."""
        ended, context_since = self._store.accounts.ended(tx, profile, session)
        for shown in self._store.uses.waiting(tx, profile, session):
            gone = ended or shown.at < context_since
            if shown.moment != _DOOR or not gone or not shown.turns:
                continue
            verdict = UNSURE if shown.doubts else UNUSED
            opinion = Opinion(verdict, shown.probability or 0.0, shown.judge, shown.evidence)
            if self._store.uses.settle(tx, shown, opinion, None, now):
                self._count(tx, profile, shown, verdict, now)

    def _count(self, tx: Connection, profile: str, shown: Exposure, verdict: str, now: Instant) -> None:
        uses = self._store.uses
        before = uses.tally(tx, profile, shown.memory)
        door = shown.moment == _DOOR
        after = counted(before, verdict, shown.at, now, self._constants, door=door)
        if after != before:
            uses.count(tx, profile, shown.memory, after)


def _told_by(turn: AnsweredTurn, shown: Exposure, context_since: Instant) -> bool:
    """Whether a turn can tell something about a memory that was shown."""
    if shown.moment != _DOOR:
        return shown.prompt in turn.prompts
    lost = shown.at < context_since <= turn.at
    return shown.at <= turn.at and not lost
