"""Was a memory used? What an answer holds of it that the prompt did not, in words and in meaning.

A pure function with weights from the settings. It knows no language: words are compared as they are written
(a beginning in common counts in part, for languages that bend their words), sentences by their vectors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mnemo_mcp.settings import UsageWeights
from mnemo_mcp.words import STOP_WORDS, is_identifier, words

Weight = Callable[[str], float]
"""How much a word tells, 0 to 1: 1 for one that no memory holds."""

Vectors = npt.NDArray[np.float32]

_NAME = re.compile(r"(?<=[^.!?:\s] )[A-Z]\w*")  # written like a name, and not as the beginning of a sentence
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|(?<=[。！？])|\n+")
_SENTENCES = 48  # of an answer; the most that are read for their meaning
_CHARACTERS = 24_000  # of what was said and done; the most that is looked through for words
_STEM = 5  # letters at the beginning that two forms of a word share


@dataclass(frozen=True, slots=True)
class Turn:
    """What a memory is looked for in: the prompt, the answer, and what was done on the way to it."""

    prompt: str
    answer: str
    acts: str = ""


@dataclass(frozen=True, slots=True)
class Traces:
    """What an answer shows of a memory. All between 0 and 1 but `lift`; None without vectors.

    `share` is how much of the memory's weight, the prompt's words left out, the answer holds; `mass` how
    much that is in whole rare words; `exact` says whether a figure, identifier or name is among them; `told`
    how much of the memory the prompt held already. `meaning` is the cosine of the nearest sentence,
    `lift` how much nearer that is than the prompt.
    """

    share: float
    mass: float
    exact: float
    told: float
    meaning: float | None = None
    lift: float | None = None
    words: tuple[str, ...] = ()


def traces(
    memory: str,
    names: Iterable[str],
    turn: Turn,
    weight: Weight,
    vectors: tuple[Vectors, Vectors, Vectors] | None = None,
) -> Traces:
    """What `turn` shows of a memory with this text and these names in it.

    `vectors` are those of the memory, of the prompt (one row each) and of the answer's `sentences`.
    """
    asked = set(words(turn.prompt))
    held = [each for each in dict.fromkeys(words(memory)) if each not in STOP_WORDS]
    fresh = [each for each in held if each not in asked]
    said = set(words(turn.answer[-_CHARACTERS:])) | set(words(turn.acts[-_CHARACTERS:]))
    stems = {each[:_STEM] for each in said - asked if len(each) > _STEM and each.isalpha()}
    whole = [each for each in fresh if each in said]
    bent = [each for each in fresh if each not in said and len(each) > _STEM and each[:_STEM] in stems]
    all_of_it = sum(map(weight, held)) or 1.0
    new = sum(map(weight, fresh)) or 1.0
    found = sum(map(weight, whole)) + sum(map(weight, bent)) / 2
    named = {part for name in (*names, *_NAME.findall(memory)) for part in words(name)}
    exact = [each for each in whole if is_identifier(each) or each in named]
    meaning = lift = None
    if vectors is not None:
        own, prompt, sentences = vectors
        near = sentences @ own[0]
        meaning = float(near.max(initial=0.0))
        lift = meaning - float(prompt[0] @ own[0])
    return Traces(
        share=found / new,
        mass=min(found, 4.0) / 4.0,
        exact=max(map(weight, exact), default=0.0),
        told=1.0 - (sum(map(weight, fresh)) / all_of_it),
        meaning=meaning,
        lift=lift,
        words=tuple(sorted(whole, key=weight, reverse=True)[:5]),
    )


def probability(found: Traces, weights: UsageWeights) -> float:
    """How probable it is that the memory was used."""
    total = (
        weights.base
        + weights.share * found.share
        + weights.mass * found.mass
        + weights.exact * found.exact
        + weights.told * found.told
        + weights.meaning * (found.meaning or 0.0)
        + weights.lift * (found.lift or 0.0)
    )
    return 1.0 / (1.0 + math.exp(-total))


def sentences(answer: str) -> Sequence[str]:
    """The sentences of an answer that are read for their meaning, the last ones of a long one."""
    found = [each.strip() for each in _SENTENCE.split(answer) if each.strip()]
    return found[-_SENTENCES:] or [answer.strip() or "."]
