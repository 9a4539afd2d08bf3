"""Recall, top to bottom: question, channels, fusion, order, answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from mnemo_mcp.errors import ModelError
from mnemo_mcp.index.arrays import Mask
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.profile import ProfileIndex, Scope
from mnemo_mcp.index.states import milliseconds
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Instant, Memory, Status, instant, moment
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.recall.answer import Answer, RecalledEpisode, RecalledMemory
from mnemo_mcp.recall.cache import Answers, Asking, QuestionVectors
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.recall.dates import Asked
from mnemo_mcp.recall.everyday import Everyday
from mnemo_mcp.recall.explanation import Explanation
from mnemo_mcp.recall.order import Placed
from mnemo_mcp.recall.passage import passage
from mnemo_mcp.recall.question import Question, read
from mnemo_mcp.recall.ranking import Ranked, Ranking
from mnemo_mcp.recall.reranking import Reranking
from mnemo_mcp.recall.versions import Versions
from mnemo_mcp.settings import FLOOR_ELSEWHERE, FLOORS, Floor, Settings

EpisodeSearch = Callable[["Ask", Question, Meaning | None, bool], list[RecalledEpisode]]
"""Finds passages of episodes when memories are not enough; the last argument asks for the merely nearest."""

NOTHING = "Nothing known about this."
NEAREST = "What was said nearest to it stands below; it may have nothing to do with it."
NO_WORDS = "The question holds no word that could find anything; ask with a name or a term."
NOT_READY = "Vectors are not ready yet: answered from words alone."
NO_ENCODER = "Vectors are not ready: no encoder can be used (see `mnemo status`); answered from words alone."

_MOMENT = timedelta(milliseconds=1)
_LIFE = timedelta(hours=1)  # of an answer at hand: what fades in that time moves nothing
_LOOK_BEYOND = 8  # places after the last one told in which a newer look-alike may stand


@dataclass(frozen=True, slots=True)
class Ask:
    """A question with its scope and its instants. `projects` None asks in all of the profile's projects.

    Once `late` says so, whoever asks has gone: no further channel is asked.
    """

    text: str
    profile: str
    now: Instant
    limit: int
    projects: frozenset[str] | None = None
    kinds: frozenset[str] = frozenset()
    entities: frozenset[str] = frozenset()
    valid_at: Instant | None = None
    known_at: Instant | None = None
    history: bool = False
    zone: tzinfo = UTC
    past: bool = True
    episodes: bool = True
    explain: bool = False
    late: Callable[[], bool] = field(default=lambda: False, compare=False)

    @property
    def at(self) -> Instant:
        return self.valid_at or self.known_at or self.now


@dataclass(frozen=True, slots=True)
class _View:
    """How each row stands at the asked instants; `then` holds memories changed since, as they were."""

    index: ProfileIndex
    ask: Ask
    then: Mapping[int, Memory | None] = field(default_factory=dict)

    def having(self, status: Status) -> Mask:
        """The rows that stood so."""
        ask, mask = self.ask, self.index.states.having(self.ask.at, status)
        if ask.known_at is not None:
            mask = mask & self.index.states.known_by(ask.known_at)
        for row, memory in self.then.items():
            mask[row] = memory is not None and memory.status(ask.at) is status
        return mask


@dataclass(frozen=True, slots=True)
class _Tier:
    """The ranked rows that stand alike."""

    statuses: tuple[Status, ...]
    ranked: Ranked
    view: _View


class Recaller:
    """Answers questions from the RAM index, and from episodes where that is not enough."""

    def __init__(
        self,
        store: Store,
        index: Index,
        encoders: EncoderPair,
        settings: Settings,
        episodes: EpisodeSearch,
        reranking: Reranking | None = None,
        findable: Callable[[], Hashable] = lambda: None,
    ) -> None:
        """What `findable` gives changes whenever more can be found."""
        self._store = store
        self._index = index
        self._encoders = encoders
        self._constants = settings.recall
        self._episodes = episodes
        self._reranking = reranking or Reranking(None)
        self._findable = findable
        self._versions = Versions(store.truth.history)
        self._vectors = QuestionVectors()
        self._everyday = Everyday()
        self._answers = Answers(settings.recall.same_question)

    def warm(self) -> None:
        """Make ready what the first question needs; what cannot be made now is tried again then."""
        for encoder in self._encoders.ready_encoders():
            with suppress(ModelError):
                self._everyday.vectors(encoder)

    def answer(self, ask: Ask) -> Answer:
        """Memories that are relevant and stand in scope, current ones first; else passages of episodes.

        The answer is one that was given before where nothing has changed that bears on it.
        """
        scope = self._scope(ask)  # first, so that the index is never behind what an answer is kept under
        index = self._index.profile(ask.profile)
        if ask.explain:
            return self._answer(index, ask, None)
        asking = Asking(ask.text, scope, ask.now)
        return self._answers.get(asking, lambda: (self._answer(index, ask, asking), _until(index, ask)))

    def _scope(self, ask: Ask) -> Hashable:
        """All that decides an answer but the words of the question: the ask, the store, the encoders."""
        encoders = tuple(encoder.id for encoder in self._encoders.ready_encoders())
        ready = self._encoders.ready, self._reranking.ready, self._findable()
        return replace(ask, text="", now=""), self._store.database.commits, encoders, ready

    def _answer(self, index: ProfileIndex, ask: Ask, asking: Asking | None) -> Answer:
        with index.lock:
            question = read(ask.text, index.names, ask.zone, ask.now)
        if question.says_nothing:
            return Answer(notes=(NO_WORDS,))
        if question.time and question.time.anything:
            return self._within(index, question.time, ask)
        meaning, notes = self._meaning(question)
        if asking and meaning:
            if near := self._answers.near(asking, meaning.vector):
                return near
            self._answers.remember_vector(asking, meaning.vector)
        then = _as_of(ask, question.time)
        with index.lock:
            tiers = self.rank(index, question, meaning, then)
            found = self._told(index, tiers, then)
            if then is not ask and _answered(found):
                notes = (*notes, f"Answered as of {_local(then.at, ask.zone)}.")
            elif then is not ask:  # the time was a word among others, or nothing is known of it
                tiers = self.rank(index, question, meaning, ask)
                found = self._told(index, tiers, ask)
            lacking = index.lacks(meaning.encoder) if meaning else 0
        if lacking:
            notes = (*notes, f"Vectors of {lacking} memories are not ready yet: words alone find those.")
        found, told = self._reranking.apply(question, found)
        notes = (*notes, *told)
        kept = tuple(found[: ask.limit])
        passages: list[RecalledEpisode] = []
        if ask.episodes and not _answered(kept):
            passages = self._episodes(ask, question, meaning, False)
        if len(kept) == self._constants.limit_most:
            notes = (*notes, f"No answer gives more than {len(kept)} memories; ask more narrowly for others.")
        if not kept and not passages:
            notes = (*notes, NOTHING)
            passages = self._episodes(ask, question, meaning, True) if ask.episodes else []
            notes = (*notes, NEAREST) if passages else notes
        failed = tuple(dict.fromkeys(trouble for tier in tiers for trouble in tier.ranked.failed))
        explained = None
        if ask.explain:
            named = ((" or ".join(tier.statuses), tier.ranked) for tier in tiers)
            explained = Explanation.of(question, meaning, named, failed)
        return Answer(kept, tuple(passages), notes, max(0, len(found) - len(kept)), explained, failed)

    def rank(self, index: ProfileIndex, question: Question, meaning: Meaning | None, ask: Ask) -> list[_Tier]:
        """Everything between a question as read and its answer's order; the caller holds the index's lock."""
        view = self._view(index, ask)
        scope = index.inside(Scope(ask.projects, ask.kinds, ask.entities))
        ranking = Ranking(
            question,
            meaning,
            _own_project(ask),
            floor_of(meaning),
            ask.now,
            self._store.accounts.standing,
            self._constants,
            ask.late,
        )
        tiers: list[_Tier] = []
        found = 0
        for statuses in _told(ask, question):
            allowed = scope & _any(map(view.having, statuses))
            if found <= ask.limit and allowed.any():
                ranked = ranking.of(index, allowed, ask.limit + _LOOK_BEYOND)
                tiers.append(_Tier(statuses, ranked, view))
                found += len(ranked.placed)
        return tiers

    def _told(self, index: ProfileIndex, tiers: Sequence[_Tier], ask: Ask) -> list[RecalledMemory]:
        """The rows of every tier as the memories they were at the instant asked about."""
        found = []
        for tier in tiers:
            ranks = tier.ranked.ranks()
            found += [
                _recalled(each, index, tier, ranks.get(each.row, {}), ask) for each in tier.ranked.placed
            ]
        return found

    def _within(self, index: ProfileIndex, asked: Asked, ask: Ask) -> Answer:
        """What began, was decided or was said in the time asked about, in its order."""
        with index.lock:
            scope = index.inside(Scope(ask.projects, ask.kinds, ask.entities))
            rows = np.flatnonzero(scope & index.states.beginning(asked.period)).tolist()
            memories = [index.memory(row) for row in rows]
        memories.sort(key=lambda memory: (memory.valid_from, memory.id))
        kept = memories[: ask.limit]
        found = [RecalledMemory(each, each.status(ask.now), 1.0, sure=True, ranks={"time": place})
                 for place, each in enumerate(kept, 1)]  # fmt: skip
        passages: list[RecalledEpisode] = []
        if ask.episodes:
            projects = None if ask.projects is None else [*ask.projects, ""]
            said = self._store.episodes.between(ask.profile, asked.period, projects, ask.limit)
            passages = [RecalledEpisode(each, passage(each.text, ())[0], 1.0) for each in said]
        days = f"“{asked.words}” is read as {_local(asked.period.start, ask.zone)} to"
        notes: tuple[str, ...] = (f"{days} {_local(asked.period.end or ask.now, ask.zone)}.",)
        if not found and not passages:
            notes = (*notes, NOTHING)
        return Answer(tuple(found), tuple(passages), notes, len(memories) - len(kept))

    def _meaning(self, question: Question) -> tuple[Meaning | None, tuple[str, ...]]:
        encoder = self._encoders.for_question(question.text)
        if encoder is None:
            if not self._encoders.ready:
                return None, (NOT_READY,)
            return None, ((NO_ENCODER,) if self._encoders.problems else ())
        try:
            vector = self._vectors.of(
                encoder.id, question.text, lambda: encoder.encode([question.text], query=True)[0]
            )
            return Meaning(encoder.id, vector, self._everyday.nearest(encoder, vector)), ()
        except ModelError as error:
            return None, (f"Answered from words alone: {error}",)

    def _view(self, index: ProfileIndex, ask: Ask) -> _View:
        if ask.known_at is None:
            return _View(index, ask)
        changed = index.states.changed_after(ask.known_at)
        return _View(index, ask, {row: self._versions.by(index.memory(row), ask.known_at) for row in changed})


def _answered(found: Sequence[RecalledMemory]) -> bool:
    """Whether a memory that holds surely speaks to the question."""
    return any(each.sure and each.status is Status.CURRENT for each in found)


def _as_of(ask: Ask, asked: Asked | None) -> Ask:
    """A question about something at a time of its own, unless its caller said which time it means."""
    if asked is None or ask.valid_at or ask.known_at or not ask.past:
        return ask
    return replace(ask, valid_at=min(instant(moment(asked.period.end or ask.now) - _MOMENT), ask.now))


def _until(index: ProfileIndex, ask: Ask) -> Instant:
    """How long an answer holds if nothing is written: until something begins or ends, or the day does."""
    now = moment(ask.now)
    local = now.astimezone(ask.zone)
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    with index.lock:
        border = index.states.unchanged_until(ask.now)
    hour = now + _LIFE
    ends = [hour, midnight]
    if border < milliseconds(instant(hour)):
        ends.append(datetime.fromtimestamp(border / 1000, UTC))
    return instant(min(ends))


def _local(at: Instant, zone: tzinfo) -> str:
    return moment(at).astimezone(zone).strftime("%Y-%m-%d %H:%M%z")


def floor_of(meaning: Meaning | None) -> Floor:
    """The relevance floor that goes with how a question was read."""
    return FLOORS.get(meaning.encoder, FLOOR_ELSEWHERE) if meaning else FLOOR_ELSEWHERE


def _told(ask: Ask, question: Question) -> tuple[tuple[Status, ...], ...]:
    """Which memories answer, in which order: what holds, then the rest, unless the past is asked about."""
    if ask.history:
        return (Status.CURRENT,), (Status.FUTURE,), (Status.CLOSED,), (Status.RETRACTED,)
    if not ask.past:
        return ((Status.CURRENT,),)
    if question.past:
        return (Status.CURRENT, Status.CLOSED), (Status.FUTURE,)
    return (Status.CURRENT,), (Status.FUTURE,), (Status.CLOSED,)


def _own_project(ask: Ask) -> str:
    """The project asked in, "" for several or all."""
    return next(iter(ask.projects)) if ask.projects and len(ask.projects) == 1 else ""


def _any(masks: Iterable[Mask]) -> Mask:
    first, *others = masks
    return np.logical_or.reduce([first, *others]) if others else first


def _recalled(
    placed: Placed, index: ProfileIndex, tier: _Tier, ranks: Mapping[str, int], ask: Ask
) -> RecalledMemory:
    memory = tier.view.then.get(placed.row) or index.memory(placed.row)
    return RecalledMemory(
        memory,
        tier.statuses[0] if len(tier.statuses) == 1 else memory.status(ask.at),
        placed.score,
        placed.sure,
        ranks,
        "" if placed.outdated_by is None else index.id(placed.outdated_by),
        placed.reasons,
        tuple(index.id(row) for row in placed.repeats),
        placed.speaks,
    )
