"""Field: the episodes a question is weighed against, and the one formula that weighs them.

Talk is short and leans on what stands around it: "Yes, last week!" has no word of its question. So words are
weighed three times, in the episode alone, with the one before it, and with both its neighbours; meaning
joins by its cosine. Scores count, not ranks: the first by words may lead by much or by nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from mnemo_mcp.memory import Instant, Period, instant, moment

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Set on two of LoCoMo's ten conversations (conv-26, conv-30); see docs/recall.md, "Episodes".
VECTOR_WEIGHT = 0.47
K1, B = 1.2, 0.4  # with the full length normalisation of 0.75 short answers crowd out what says something
_COVERAGE = 0.3  # the share of the question that is held, beside BM25
_NEIGHBOUR_WORDS = 60  # of a longer neighbour only so many count: it would drown what stands beside it
_SPREAD = 0.1  # of MiniLM's cosines: what lies so far above the field is as good as a tenth of all words
_NAMED = 0.05  # said by whom the question names
_TIMELY = 0.11  # from a time the question names
_TOLD_LATER = timedelta(days=7)
_ASKS = 0.05  # a question seldom answers
_LENGTH, _LENGTH_FULL, _LENGTH_LEAST = 0.04, 50, -2.0  # words from which on more say no more; in powers of e


Vector = tuple[str, Floats]
"""A question's vector with the id of its encoder."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for: words as rows hold them, a vector, and the time the question names."""

    words: Sequence[str]
    vector: Vector | None = None
    period: Period | None = None

    def told_in(self) -> tuple[Instant, Instant]:
        """From when to when that is told of; what happened is often told of some days later."""
        if self.period is None:
            return "", ""
        end = self.period.end
        return self.period.start, instant(moment(end) + _TOLD_LATER) if end else "9"


@dataclass(frozen=True, slots=True)
class Field:
    """Episodes as arrays, one place each.

    `before` and `after` are the places of an episode's neighbours in its thread, -1 where there is none;
    `counts` says how often each word of the question occurs (words x episodes), `cosines` is NaN without a
    vector, `named` whether the question names who said it, `timely` whether it is from a time it names.
    Some episodes stand for `size` of them: the `usual` ones show how long and how near they are, `held`
    tells how many hold each word.
    """

    ids: npt.NDArray[np.object_]
    before: Places
    after: Places
    counts: Floats
    lengths: Floats
    cosines: Floats
    asks: Mask
    named: Mask
    timely: Mask
    usual: Mask
    held: Floats
    size: int

    def __len__(self) -> int:
        return len(self.ids)

    def joined(self, other: Field) -> Field:
        """This field and another one behind it."""
        moved = (np.where(each < 0, -1, each + len(self)) for each in (other.before, other.after))
        before, after = (np.concatenate(pair) for pair in zip((self.before, self.after), moved, strict=True))
        return Field(
            np.concatenate([self.ids, other.ids]),
            before,
            after,
            np.concatenate([self.counts, other.counts], axis=1),
            np.concatenate([self.lengths, other.lengths]),
            np.concatenate([self.cosines, other.cosines]),
            np.concatenate([self.asks, other.asks]),
            np.concatenate([self.named, other.named]),
            np.concatenate([self.timely, other.timely]),
            np.concatenate([self.usual, other.usual]),
            self.held + other.held,
            self.size + other.size,
        )


@dataclass(frozen=True, slots=True)
class Weighed:
    """What speaks for each episode of a field. `found` are those for which anything does."""

    found: Mask
    score: Floats
    words: Floats
    cosines: Floats


def weigh(field: Field, vector_weight: float = VECTOR_WEIGHT) -> Weighed:
    """Words and meaning as one score; `vector_weight` 0 hears words alone, 1 meaning alone."""
    if not 0 <= vector_weight <= 1:
        raise ValueError(f"the weight of meaning is {vector_weight}; it must be from 0 to 1")
    there = ~np.isnan(field.cosines)
    words_heard = vector_weight < 1 and len(field.counts) > 0
    meaning_heard = vector_weight > 0 and bool(there.any())
    nothing = np.zeros(len(field), np.float32)
    words = _by_words(field) if words_heard else nothing
    cosines = np.where(there, field.cosines, np.float32(-1.0)) if meaning_heard else nothing
    share = vector_weight if words_heard and meaning_heard else float(meaning_heard)
    near = _by_meaning(field.cosines, there, field.usual) if meaning_heard else nothing
    score = (1 - share) * words + share * near + _beside_content(field)
    return Weighed((words > 0) | (cosines > 0), score.astype(np.float32), words, cosines)


def tells(held: Floats, size: int) -> Floats:
    """How much each word tells that so many of `size` episodes hold: the rarer the more (idf)."""
    return np.asarray(np.log(1 + (size - held + 0.5) / (held + 0.5)), np.float32)


def _by_words(field: Field) -> Floats:
    """BM25 over the three windows, with the share of the question's weight that the widest one holds."""
    part = np.minimum(1, _NEIGHBOUR_WORDS / np.maximum(field.lengths, 1))
    weights = tells(field.held, field.size)
    usual = field.usual if field.usual.any() else slice(None)
    counts, lengths = field.counts, field.lengths
    bm25 = np.zeros(len(field), np.float32)
    for beside in (None, field.before, field.after):
        if beside is not None:
            counts = counts + _of(field.counts * part, beside)
            lengths = lengths + _of(field.lengths * part, beside)
        norm = K1 * (1 - B + B * lengths / (lengths[usual].mean() or 1.0))
        bm25 += weights @ (counts * (K1 + 1) / (counts + norm))
    coverage = weights @ (counts > 0).astype(np.float32) / (weights.sum() or 1.0)
    # where even the best holds little of the question, its words tell little: meaning has the say
    return np.asarray((bm25 / (bm25.max() or 1.0) + _COVERAGE * coverage) * coverage.max(), np.float32)


def _by_meaning(cosines: Floats, there: Mask, usual: Mask) -> Floats:
    """How far each cosine stands above the middle of the usual; cosines of encoders do not compare."""
    shown = cosines[there & usual] if (there & usual).any() else cosines[there]
    middle, spread = shown.mean(), shown.std()
    return np.where(there, (cosines - middle) * (_SPREAD / (spread or 1.0)), np.float32(0.0))


def _of(values: Floats, beside: Places) -> Floats:
    """The values of the neighbours, 0 where there is none."""
    return np.where(beside >= 0, values[..., beside], np.float32(0.0))


def _beside_content(field: Field) -> Floats:
    """What speaks for an episode beside what it says: who said it and when, and that it says something."""
    says = np.log(np.maximum(field.lengths, 1) / _LENGTH_FULL).clip(_LENGTH_LEAST, 0.0)
    about = _NAMED * field.named + _TIMELY * field.timely
    return np.asarray(_LENGTH * says + about - _ASKS * field.asks, np.float32)
