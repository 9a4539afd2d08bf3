"""Comparing two readings: every difference that keeps two texts apart, each said in words.

What both say must be equal; what only one says is more detail, unless it counts, denies, bounds or ends
something. Too little in common is a difference as well: in doubt both stay.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mnemo_mcp.guard import ground
from mnemo_mcp.guard.reader import read
from mnemo_mcp.guard.reading import Mark, Reading

_MOST_PAIRED = 300  # values left over on a side that are still looked at one by one
_LONGEST = 10_000  # characters; longer texts are no claims, and the same only word for word
_SHOWN = 40  # characters
_ORDER_REACH = 2  # tokens: an article may stand between
_DOUBLING = frozenset({"es", "fr", "pt", "it", "ru"})
_WITHOUT = frozenset({"sin", "sans", "sem", "senza", "без"})  # deny a thing, whatever the verb does
_UNSAYABLE = frozenset(
    {"stage-", "rejected-", "ended-", "planned-", "moved-", "add-", "pass-", "start-", "progress-"}
)
"""Ends of lines that make another claim even where the other text says nothing about that line."""
_ONE_SIDED_SCOPES = frozenset({"only", "some", "most", "except"})


@dataclass(frozen=True, slots=True)
class Difference:
    """What one text says and the other does not; an empty side says nothing of it."""

    kind: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.left or 'nothing'} against {self.right or 'nothing'}"


def differences(one: str, other: str) -> tuple[Difference, ...]:
    """Every difference that keeps the two texts from saying the same; none where they may."""
    if len(one) > _LONGEST or len(other) > _LONGEST:
        return () if _plain(one) == _plain(other) else (Difference("length", _head(one), _head(other)),)
    left, right = read(one), read(other)
    if bool(left.reasons) != bool(right.reasons):
        left, right = left.without_reasons(), right.without_reasons()
    found: list[Difference] = []
    for check in (
        _figures, _days, _clocks, _identifiers, _environments, _denials, _poles, _bounds, _scopes, _ordinals,
        _rhythms, _relative_days, _tense,
    ):  # fmt: skip
        found += check(left, right)
    found += [Difference(*each) for each in ground.compare(left, right)]
    return tuple(dict.fromkeys(found))


def _plain(text: str) -> list[str]:
    return unicodedata.normalize("NFKC", text).casefold().split()


def _head(text: str) -> str:
    return f"{len(text)} characters, {text.strip()[:_SHOWN]}..."


def may_be_same(one: str, other: str) -> bool:
    """Whether nothing keeps the two texts from being merged. That they are the same is for others to say."""
    return not differences(one, other)


_Seen = TypeVar("_Seen")


def _unpaired(
    left: Sequence[_Seen], right: Sequence[_Seen], same: Callable[[_Seen, _Seen], bool]
) -> tuple[list[_Seen], list[_Seen]]:
    """What has no counterpart on the other side; several mentions of one thing need only one."""
    if len(left) > _MOST_PAIRED or len(right) > _MOST_PAIRED:
        return ([], []) if list(left) == list(right) else (list(left), list(right))
    return (
        [each for each in left if not any(same(each, other) for other in right)],
        [each for each in right if not any(same(other, each) for other in left)],
    )


def _told(kind: str, left: Iterable[str], right: Iterable[str]) -> list[Difference]:
    one, other = (", ".join(dict.fromkeys(side)) for side in (left, right))
    return [Difference(kind, one, other)] if one or other else []


def _figures(left: Reading, right: Reading) -> list[Difference]:
    distinct = [
        list({(each.dimension, each.values): each for each in side.figures}.values())
        for side in (left, right)
    ]
    one, other = _unpaired(distinct[0], distinct[1], lambda mine, theirs: mine.equals(theirs))
    if one or other:
        return _told("figure", (each.text for each in one), (each.text for each in other))
    orders = [[(each.dimension, min(each.values)) for each in side] for side in distinct]
    if len(orders[0]) > 1 and len(orders[0]) <= _MOST_PAIRED:
        for dimension in {name for name, _ in orders[0]}:
            mine, theirs = ([value for name, value in order if name == dimension] for order in orders)
            if len(mine) > 1 and mine != theirs and sorted(mine) == sorted(theirs):
                return _told("order", *([each.text for each in side] for side in distinct))
    return []


def _days(left: Reading, right: Reading) -> list[Difference]:
    one, other = _unpaired(left.days, right.days, lambda mine, theirs: mine.agrees(theirs))
    return _told("date", (each.text for each in one), (each.text for each in other))


def _clocks(left: Reading, right: Reading) -> list[Difference]:
    one, other = _unpaired(left.clocks, right.clocks, lambda mine, theirs: mine.second == theirs.second)
    return _told("time", (each.text for each in one), (each.text for each in other))


def _identifiers(left: Reading, right: Reading) -> list[Difference]:
    sides = [{each.key: each.text for each in side.identifiers} for side in (left, right)]
    one, other = (
        [text for key, text in mine.items() if key not in theirs] for mine, theirs in (sides, sides[::-1])
    )
    kind = "version" if any(key.startswith("v:") for side in sides for key in side) else "identifier"
    return _told(kind, one, other)


def _environments(left: Reading, right: Reading) -> list[Difference]:
    return _sets_apart("environment", left.of("environment"), right.of("environment"))


def _ordinals(left: Reading, right: Reading) -> list[Difference]:
    """`first` alone on one side is manner of speech; second, third and last are not."""
    one, other = left.of("ordinal"), right.of("ordinal")
    if not one or not other:
        one, other = ([mark for mark in side if mark.value != "1"] for side in (one, other))
    return _sets_apart("ordinal", one, other)


def _relative_days(left: Reading, right: Reading) -> list[Difference]:
    one, other = left.of("relative"), right.of("relative")
    return _sets_apart("date", one, other) if one and other else []


def _rhythms(left: Reading, right: Reading) -> list[Difference]:
    one, other = left.of("rhythm"), right.of("rhythm")
    return _sets_apart("rhythm", one, other) if one and other else []


def _sets_apart(kind: str, one: Sequence[Mark], other: Sequence[Mark]) -> list[Difference]:
    sides = [{mark.value: mark.text for mark in side} for side in (one, other)]
    if sides[0].keys() == sides[1].keys():
        return []
    return _told(
        kind,
        (text for value, text in sides[0].items() if value not in sides[1]),
        (text for value, text in sides[1].items() if value not in sides[0]),
    )


def _denials(left: Reading, right: Reading) -> list[Difference]:
    """As many denials on both sides, and none that falls on a word the other leaves standing."""
    if _denied(left) != _denied(right):
        more, fewer = (left, right) if _denied(left) > _denied(right) else (right, left)
        words = [turn.text for turn in more.turns], [turn.text for turn in fewer.turns]
        return _told("negation", *(words if more is left else words[::-1]))
    focuses = [{turn.focus for turn in side.turns if turn.focus} for side in (left, right)]
    shared = {item.key for item in left.items} & {item.key for item in right.items}
    one, other = ((mine - theirs) & shared for mine, theirs in (focuses, focuses[::-1]))
    return _told("negation", _texts(left, one), _texts(right, other)) if one and other else []


def _denied(side: Reading) -> int:
    """How often a text denies; `ne ... pas` and `no ... nunca` deny once."""
    if side.language in _DOUBLING:
        apart = sum(turn.text.casefold() in _WITHOUT for turn in side.turns)
        return apart + len({turn.clause for turn in side.turns if turn.text.casefold() not in _WITHOUT})
    return len(side.turns)


def _texts(side: Reading, keys: set[str]) -> list[str]:
    return [f"not {item.text}" for item in side.items if item.key in keys]


def _poles(left: Reading, right: Reading) -> list[Difference]:
    """Two ends of one line: before and after, added and removed, proposed and decided."""
    ends: list[dict[str, dict[str, str]]] = []
    for side in (left, right):
        seen: dict[str, dict[str, str]] = {}
        for mark in side.of("pole"):
            seen.setdefault(mark.value[:-1], {}).setdefault(mark.value, mark.text)
        ends.append(seen)
    found = []
    for axis in dict.fromkeys((*ends[0], *ends[1])):
        one, other = (side.get(axis, {}) for side in ends)
        if one and other:
            apart = one.keys() != other.keys()
        else:
            apart = not _UNSAYABLE.isdisjoint({*one, *other}) or (axis == "order" and _orders(left, right))
        if apart:
            found += _told(
                "opposite",
                (text for value, text in one.items() if value not in other),
                (text for value, text in other.items() if value not in one),
            )
    return found or _duty(ends)


def _orders(left: Reading, right: Reading) -> bool:
    """Whether `before` or `after` is said of a thing or an act; after a figure it is a mere delay."""
    for side in (left, right):
        things = {item.place for item in side.items}
        for mark in side.of("pole"):
            near = range(mark.place + 1, mark.place + 1 + _ORDER_REACH)
            if mark.value.startswith("order") and not things.isdisjoint(near):
                measures = {each.place for seen in (side.figures, side.days, side.clocks) for each in seen}
                if measures.isdisjoint(near):
                    return True
    return False


def _duty(ends: Sequence[dict[str, dict[str, str]]]) -> list[Difference]:
    """`must` on one side and `may` on the other."""
    for mine, theirs in (ends, ends[::-1]):
        if "need" in mine and "allow" not in mine and "allow" in theirs and "need" not in theirs:
            words = [*mine["need"].values()], [*theirs["allow"].values()]
            return _told("opposite", *(words if mine is ends[0] else words[::-1]))
    return []


def _bounds(left: Reading, right: Reading) -> list[Difference]:
    """What is allowed is allowed up to its figure; any other bound has to be on both sides."""
    sides = [{mark.value for mark in side.of("bound")} for side in (left, right)]
    for bounds, side in zip(sides, (left, right), strict=True):
        if any(mark.value == "allow+" for mark in side.of("pole")) and side.figures:
            bounds.add("max")
    only_max = sides[0] ^ sides[1] == {"max"}
    if sides[0] == sides[1] or (only_max and not (left.figures and right.figures)):
        return []
    one, other = left.of("bound"), right.of("bound")
    return _told(
        "bound",
        (mark.text for mark in one if mark.value not in sides[1]),
        (mark.text for mark in other if mark.value not in sides[0]),
    )


def _scopes(left: Reading, right: Reading) -> list[Difference]:
    """`all` is what a bare plural says too; only, some, most and except are said by their words alone."""
    sides = [{mark.value: mark.text for mark in side.of("scope")} for side in (left, right)]
    if not sides[0] or not sides[1]:
        sides = [
            {value: text for value, text in side.items() if value in _ONE_SIDED_SCOPES} for side in sides
        ]
    for side in sides:
        if len(side) > 1:
            side.pop("all", None)
    if sides[0].keys() == sides[1].keys():
        return []
    return _told("scope", sides[0].values(), sides[1].values())


def _tense(left: Reading, right: Reading) -> list[Difference]:
    """Built of the same words, one says that it is and the other that it was."""
    sides = [Counter(mark.value for mark in side.of("tense")) for side in (left, right)]
    if set(sides[0]) == set(sides[1]) or not sides[0] or not sides[1]:
        return []
    if Counter(item.key for item in left.items) != Counter(item.key for item in right.items):
        return []
    return _told("tense", *([mark.text for mark in side.of("tense")] for side in (left, right)))
