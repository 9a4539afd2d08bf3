"""Figures as quantities: 120 s, 2 minutes and "zwei Minuten" are one, 120 s and 600 s are two.

Bytes are compared both ways people write them: 1.5 GB is 1500 MB and is 1536 MB; KiB and MiB are binary.
A series is not its first release: 1.2 and 1.2.0 are two versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_THOUSANDS = re.compile(r"\d{1,3}([.,'])\d{3}(?:\1\d{3})*")
_DECIMAL = re.compile(r"\d+[.,]\d+")
_DECIMAL_STEPS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_LONGEST_NUMBER = 40  # digits; longer ones are identifiers


@dataclass(frozen=True, slots=True)
class Figure:
    """A quantity: its dimension, the values it may stand for, how it was written and at which token."""

    dimension: str
    values: frozenset[Fraction]
    text: str
    place: int

    def equals(self, other: Figure) -> bool:
        return self.dimension == other.dimension and not self.values.isdisjoint(other.values)


def number(text: str, language: str) -> frozenset[Fraction] | None:
    """The values that a written number may have; None where it is an identifier or a version."""
    if len(text) > _LONGEST_NUMBER:
        return None
    if text.isdigit():
        return None if len(text) > 1 and text[0] == "0" else frozenset({Fraction(int(text))})
    found = set()
    if _DECIMAL.fullmatch(text) and ("," in text or text.startswith("0.")):
        found.add(Fraction(text.replace(",", ".")))
    if grouped := _THOUSANDS.fullmatch(text):
        if grouped[1] == "," and language == "en":
            found.clear()  # 5,000 is no five in English
        if grouped[1] != "." or language != "en" or text.count(".") > 1:
            found.add(Fraction(re.sub(r"\D", "", text)))
    return frozenset(found) or None


def decimal(text: str) -> frozenset[Fraction] | None:
    """The value of `1.5` where a unit says that it is a number and no version."""
    if re.fullmatch(r"\d{1,20}\.\d{1,20}", text):
        return frozenset({Fraction(text)})
    return None


def measured(values: frozenset[Fraction], unit: str) -> tuple[str, frozenset[Fraction]]:
    """A number with a unit, as `dimension` and values in the dimension's base."""
    dimension, _, scale = unit.partition(":")
    if dimension == "byte":
        return dimension, frozenset(value * factor for value in values for factor in _bytes(scale))
    if dimension == "ratio":
        return "", frozenset(value / 100 for value in values)
    if dimension == "count":
        return "", values
    return dimension, frozenset(value * Fraction(scale) for value in values)


def _bytes(scale: str) -> tuple[int, ...]:
    if scale == "1":
        return (1,)
    steps = _DECIMAL_STEPS[scale.lower()]
    return (1024**steps,) if scale.isupper() else (1000**steps, 1024**steps)
