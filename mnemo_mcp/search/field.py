"""Field: the episodes a question is weighed against, and the one formula that weighs them.

Talk is short and leans on what stands around it: "Yes, last week!" has no word of its question. So words are
weighed three times, in the episode alone, with the one before it, and with both its neighbours; meaning
joins by its cosine. Scores count, not ranks: the first by words may lead by much or by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

# Set on two of LoCoMo's ten conversations (conv-26, conv-30); see docs/recall.md, "Episodes".
VECTOR_WEIGHT = 0.41
_K1, _B = 1.2, 0.4  # with the full length normalisation of 0.75 short answers crowd out what says something
_COVERAGE = 0.3  # the share of the question that is held, beside BM25
_NEIGHBOUR_WORDS = 60  # of a longer neighbour only so many count: it would drown what stands beside it
_NAMED = 0.06  # said by whom the question names
_ASKS = 0.06  # a question seldom answers
_LENGTH, _LENGTH_FULL, _LENGTH_LEAST = 0.05, 50, -2.0  # words from which on more say no more; in powers of e


@dataclass(frozen=True, slots=True)
class Field:
    """Episodes as arrays, one place each.

    `before` and `after` are the places of an episode's neighbours in its thread, -1 where there is none;
    `counts` says how often each word of the question occurs (words x episodes), `cosines` is NaN without a
    vector, `named` whether the question names who said it.
    """

    ids: npt.NDArray[np.object_]
    before: Places
    after: Places
    counts: Floats
    lengths: Floats
    cosines: Floats
    asks: Mask
    named: Mask

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
        )


@dataclass(frozen=True, slots=True)
class Weighed:
    """What speaks for each episode of a field. `found` are those for which anything does."""

    found: Mask
    score: Floats
    words: Floats
    coverage: Floats
    cosines: Floats


def weigh(field: Field, vector_weight: float = VECTOR_WEIGHT) -> Weighed:
    """Words and meaning as one score; `vector_weight` 0 hears words alone, 1 meaning alone."""
    if not 0 <= vector_weight <= 1:
        raise ValueError(f"the weight of meaning is {vector_weight}; it must be from 0 to 1")
    there = ~np.isnan(field.cosines)
    words_heard = vector_weight < 1 and len(field.counts) > 0
    meaning_heard = vector_weight > 0 and bool(there.any())
    nothing = np.zeros(len(field), np.float32)
    words, coverage = _by_words(field) if words_heard else (nothing, nothing)
    cosines = np.where(there, field.cosines, np.float32(-1.0)) if meaning_heard else nothing
    share = vector_weight if words_heard and meaning_heard else float(meaning_heard)
    near = np.where(there, field.cosines, field.cosines[there].mean()) if meaning_heard else nothing
    score = (1 - share) * words + share * near + _before_any_question(field)
    return Weighed((words > 0) | (cosines > 0), score.astype(np.float32), words, coverage, cosines)


def _by_words(field: Field) -> tuple[Floats, Floats]:
    """BM25 over three windows with the share of the question each widest one covers; and that share."""
    part = np.minimum(1, _NEIGHBOUR_WORDS / np.maximum(field.lengths, 1))
    held = np.count_nonzero(field.counts, axis=1)
    tells = np.log(1 + (len(field) - held + 0.5) / (held + 0.5)).astype(np.float32)
    counts, lengths = field.counts, field.lengths
    bm25 = np.zeros(len(field), np.float32)
    for beside in (None, field.before, field.after):
        if beside is not None:
            counts = counts + _of(field.counts * part, beside)
            lengths = lengths + _of(field.lengths * part, beside)
        norm = _K1 * (1 - _B + _B * lengths / (lengths.mean() or 1.0))
        bm25 += tells @ (counts * (_K1 + 1) / (counts + norm))
    coverage = tells @ (counts > 0).astype(np.float32) / (tells.sum() or 1.0)
    best = bm25.max(initial=0.0)
    if not best:
        return bm25, coverage
    # where even the best holds little of the question, its words tell little: meaning has the say
    words = (bm25 / best + _COVERAGE * coverage) * coverage.max()
    return words, coverage


def _of(values: Floats, beside: Places) -> Floats:
    """The values of the neighbours, 0 where there is none."""
    return np.where(beside >= 0, values[..., beside], np.float32(0.0))


def _before_any_question(field: Field) -> Floats:
    """What speaks for an episode whatever is asked, and who said it."""
    says = np.log(np.maximum(field.lengths, 1) / _LENGTH_FULL).clip(_LENGTH_LEAST, 0.0)
    return np.asarray(_LENGTH * says + _NAMED * field.named - _ASKS * field.asks, np.float32)
