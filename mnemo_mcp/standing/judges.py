"""Who says whether a memory was used: its id in the answer, a decisions model, or the local scorer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from mnemo_mcp.errors import ModelError
from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED, Opinion
from mnemo_mcp.memory import Kind, Memory
from mnemo_mcp.models.cut import cut_question
from mnemo_mcp.models.encoder import Encoder
from mnemo_mcp.models.language import is_english
from mnemo_mcp.models.questions import Answer, Predicate, Question
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import USAGE, USAGE_WORDS, Usage, UsageWeights
from mnemo_mcp.standing.scorer import Traces, Turn, Vectors, probability, sentences, traces
from mnemo_mcp.words import telling, words

_WAYS = (Kind.PREFERENCE, Kind.PROCEDURE)
_ASKED = (
    "Did the assistant use this note in its answer or in what it did: repeat it, rely on it or follow it?"
    " An answer that is on the same topic and would be the same without the note did not use it. The note: "
)
_LONGEST = 12_000  # characters of each text that a decisions model is given
_LEAST_WORDS = 3  # an answer with fewer telling words shows nothing either way

CITED, BY_WORDS = "cited", "words"


class DecisionsModel(Protocol):
    """What is needed of a decisions model; `calibrated` says whether its probabilities are meant as such."""

    @property
    def kind(self) -> str: ...

    @property
    def calibrated(self) -> bool: ...

    def decide(
        self, context: str, questions: Sequence[Question], *, purpose: str, sources: Sequence[str] = ()
    ) -> Mapping[str, Answer]: ...


def cited(memory: Memory, turn: Turn) -> Opinion | None:
    """Who names a memory by its id has used it."""
    if memory.id in turn.answer or memory.id in turn.acts:
        return Opinion(USED, 1.0, CITED, memory.id)
    return None


def asked(
    model: DecisionsModel, memories: Sequence[Memory], turn: Turn, sources: Sequence[str], constants: Usage
) -> dict[str, Opinion]:
    """What a decisions model says of each memory, by id. Raises an `EndpointError`."""
    context = "\n\n".join(
        f"{name}:\n{text[-_LONGEST:]}"
        for name, text in (
            ("The person asked", turn.prompt),
            ("What the assistant did", turn.acts),
            ("The assistant answered", turn.answer),
        )
        if text.strip()
    )
    questions = [Predicate(each.id, _ASKED + each.claim.text()) for each in memories]
    named = [*sources, *(each.id for each in memories)]
    answers = model.decide(context, questions, purpose="usage", sources=named)
    return {each.id: _opinion(answers.get(each.id), model, constants) for each in memories}


def _opinion(answer: Answer | None, model: DecisionsModel, constants: Usage) -> Opinion:
    judge = f"decisions: {model.kind}"
    if answer is None or answer.refused or not answer.probabilities:
        return Opinion(UNSURE, 0.0, judge)
    share = answer.probabilities.get("yes", 0.0)
    sure = model.calibrated or constants.uncalibrated_may_mute
    used_from = constants.decided_used if model.calibrated else 0.5
    if share >= used_from:
        return Opinion(USED, share, judge)
    return Opinion(UNUSED if sure and share < constants.decided_unused else UNSURE, share, judge)


Weigh = Callable[[str, Iterable[str]], Mapping[str, float]]
"""How much words tell among the memories of a profile, 0 to 1."""

Embed = Callable[[Encoder, Sequence[str]], Vectors]
"""Gives memories their vectors. Raises `ModelError` where the encoder gives none."""


class LocalScorer:
    """Scores with what is on this machine: words weighed as the profile's memories do, vectors if ready."""

    def __init__(self, weigh: Weigh, encoders: EncoderPair, embed: Embed) -> None:
        self._weigh = weigh
        self._encoders = encoders
        self._embed = embed

    def opinions(self, memories: Sequence[Memory], turn: Turn, profile: str) -> dict[str, Opinion]:
        """What the answer shows of each memory, by id."""
        found = {}
        for memory, shows, judge in self.traces(memories, turn, profile):
            weights = USAGE.get(judge, USAGE_WORDS)
            share = probability(shows, weights)
            verdict = verdict_of(share, weights, memory.claim.kind, told(memory), turn, shows)
            seen = ", ".join(shows.words) if verdict != UNUSED else ""
            found[memory.id] = Opinion(verdict, share, judge, seen)
        return found

    def traces(
        self, memories: Sequence[Memory], turn: Turn, profile: str
    ) -> Iterable[tuple[Memory, Traces, str]]:
        """The traces of each memory and what was read with; the answer is read once for all of them."""
        read: dict[str, tuple[Vectors, Vectors]] = {}
        for memory in memories:
            encoder, vectors = self._encoder(memory, turn), None
            if encoder is not None:
                try:
                    if encoder.id not in read:
                        read[encoder.id] = _read(encoder, turn)
                    vectors = self._embed(encoder, [memory.claim.text()]), *read[encoder.id]
                except ModelError:
                    encoder = None
            text = told(memory)
            weights = self._weigh(profile, words(text))
            names = [each.name for each in memory.claim.entities]
            shows = traces(text, names, turn, weights.__getitem__, vectors)
            yield memory, shows, encoder.id if encoder is not None else BY_WORDS

    def _encoder(self, memory: Memory, turn: Turn) -> Encoder | None:
        """The encoder that reads all of the texts; one that nobody measured for this is not asked."""
        texts = (memory.claim.text(), turn.prompt, turn.answer)
        foreign = (text for text in texts if text.strip() and not is_english(cut_question(text)))
        encoder = self._encoders.for_question(next(foreign, texts[0]))
        return encoder if encoder is not None and encoder.id in USAGE else None


def told(memory: Memory) -> str:
    """All of a memory that an answer may show."""
    claim = memory.claim
    return " ".join(part for part in (claim.text(), claim.who, claim.where, claim.when) if part)


def verdict_of(share: float, weights: UsageWeights, kind: Kind, text: str, turn: Turn, shows: Traces) -> str:
    """What a score amounts to.

    "Surely unused" is not said of ways to work, which are followed without a word; nor across languages by
    words alone; nor where the answer says next to nothing.
    """
    if share >= weights.used_from:
        return USED
    same_language = shows.meaning is not None or is_english(text) == is_english(turn.answer)
    says_something = bool(turn.acts.strip()) or len(telling(turn.answer)) >= _LEAST_WORDS
    sure = share < weights.unused_below and kind not in _WAYS and same_language and says_something
    return UNUSED if sure else UNSURE


def _read(encoder: Encoder, turn: Turn) -> tuple[Vectors, Vectors]:
    prompt = encoder.encode([cut_question(turn.prompt)], query=True)
    return prompt, encoder.encode(list(sentences(turn.answer)))
