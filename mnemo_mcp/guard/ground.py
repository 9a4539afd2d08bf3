"""Common ground: whether two texts speak of the same things, in the same parts, as far as words show it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mnemo_mcp.guard.reading import JOINED, Item, Reading

Apart = tuple[str, str, str]

_ENOUGH_SHARED = 0.6  # of the words of the side that says less; measured on tests/data/pairs.jsonl
_ENOUGH_ACROSS = 0.6  # the same between two languages, of the words that are known in both
_FEWEST_ACROSS = 2  # things known in both languages that have to be shared
_JOINED_WORDS = 2  # as many as a further thing of the same kind has; more are a clause of their own
_MOST_ORDERED = 60  # words whose parts in the sentence are compared one by one
_SHORTEST_PREFIX, _PREFIX_SHARE = 5, 0.75
_GENERAL = frozenset(
    {
        "c:environment-word",
        "c:call-name",
        "c:handle",
        "c:lasting",
        "c:run",
        "c:version",
        "c:work",
        "c:measure-word",
    }
)
_COMPARED = frozenset(
    {"p:stage+", "p:stage-", "p:need", "p:allow", "p:planned-", "p:moved-", "p:ended-", "p:rejected-"}
)
_QUALITIES = (
    "p:size",
    "p:newer",
    "p:speed",
    "p:sync",
    "p:manual",
    "p:strict",
    "p:side",
    "p:source",
    "p:public",
)
_RELATIONS = _COMPARED | {"p:order+", "p:order-", "p:order="}
_BARE = _GENERAL | {"c:store"}
_HAN = re.compile("[\u3400-\u9fff\u30a1-\u30ff]")
_OPPOSING = ("un", "in", "im", "ir", "non", "dis", "de", "mis", "anti", "не", "des", "бес", "без")


def compare(left: Reading, right: Reading) -> Iterator[Apart]:
    """Names, look-alikes, exchanged parts and too little in common."""
    one, other = _met(left.items, right.items)
    mine, theirs = _rest(one, other), _rest(other, one)
    across = left.language != right.language
    yield from _joined_apart(left, right)
    yield from _names(mine, theirs)
    yield from _turned(mine, theirs)
    if not across:
        yield from _same_slot(one, other, mine, theirs)
        yield from _same_place(one, other)
        yield from _narrower(one, other, mine, theirs)
        yield from _exchanged(left, right, one, other)
    yield from _enough(left, right, one, other, across=across)


def _met(one: Sequence[Item], other: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """Words spelled alike are one word in any language, and unknown ones that begin alike in two forms."""
    known = [{item.key for item in side} for side in (one, other)]
    forms = {item.form: item.key for item in other if item.key not in known[0]}
    heads = {_head(item): item.key for item in other if _bends(item) and item.key not in known[0]}
    renamed = {}
    for item in one:
        if item.key in known[1]:
            continue
        if found := forms.get(item.form):
            renamed[found] = item.key
        elif _bends(item) and (found := heads.get(_head(item))):
            longer = max(len(item.key), len(found)) - 2
            if _common(item.key, found) - 2 >= _PREFIX_SHARE * longer:
                renamed[found] = item.key
    return list(one), [replace(item, key=renamed.get(item.key, item.key)) for item in other]


def _bends(item: Item) -> bool:
    return (
        item.kind == "word"
        and not item.strong
        and not item.weak
        and len(item.key) >= _SHORTEST_PREFIX + 2
        and item.key[2:].isalpha()
    )


def _head(item: Item) -> str:
    return item.key[: _SHORTEST_PREFIX + 2]


def _common(one: str, other: str) -> int:
    shared = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        shared += 1
    return shared


def _rest(one: Sequence[Item], other: Sequence[Item]) -> list[Item]:
    """What only `one` says and no other comparison looks at."""
    keys = {item.key for item in other}
    return [item for item in one if item.key not in keys and _own(item)]


def _own(item: Item) -> bool:
    """Whether no other comparison looks at a word."""
    return item.key not in _COMPARED and item.kind not in ("identifier", "environment")


def _telling(rest: Sequence[Item]) -> list[Item]:
    """Those of a rest that say what a text is about."""
    return [item for item in rest if item.key not in _GENERAL and item.kind != "pole"]


def _joined_apart(left: Reading, right: Reading) -> Iterator[Apart]:
    """auth-api and auth-app, billing and billing-api."""
    for mine, theirs, turned in ((left, right, False), (right, left, True)):
        known = {item.key for item in theirs.joined}
        spoken = " ".join(item.text.casefold() for item in theirs.items)
        for item in mine.joined:
            parts = item.key[2:].split("-")
            if item.key in known or f" {' '.join(parts)} " in f" {spoken} ":
                continue
            if rival := _rival(parts, mine, theirs):
                yield ("identifier", rival, item.text) if turned else ("identifier", item.text, rival)


def _rival(parts: Sequence[str], mine: Reading, theirs: Reading) -> str:
    """What stands on the other side for a name made of parts."""
    own = {item.key for item in mine.joined}
    for other in theirs.joined:
        others = other.key[2:].split("-")
        if other.key not in own and (others[0] == parts[0] or others[-1] == parts[-1]):
            return other.text
    alone = {item.text.casefold(): item.text for item in theirs.items}
    if parts[0] in alone and not any(part in alone for part in parts[1:]):
        return alone[parts[0]]
    return ""


def _names(mine: Sequence[Item], theirs: Sequence[Item]) -> Iterator[Apart]:
    """Names of different things: a name on each side, or a name against what may be one."""
    strong = [[item for item in side if item.strong] for side in (mine, theirs)]
    maybe = [[item for item in side if item.strong or item.weak] for side in (mine, theirs)]
    for side, rest, opposite in zip(maybe, (mine, theirs), strong[::-1], strict=True):
        if opposite:  # a name in Chinese characters shows only against another name
            side += [item for item in rest if item.kind == "word" and _HAN.match(item.text)]
    if (strong[0] and maybe[1]) or (strong[1] and maybe[0]) or (maybe[0] and maybe[1]):
        yield "name", _texts(strong[0] or maybe[0]), _texts(strong[1] or maybe[1])


def _turned(mine: Sequence[Item], theirs: Sequence[Item]) -> Iterator[Apart]:
    """reachable and unreachable."""
    for one, other, exchanged in ((mine, theirs, False), (theirs, mine, True)):
        plain = {item.form: item for item in one} | {
            item.key[2:]: item for item in one if item.kind == "word"
        }
        for item in other:
            for prefix in _OPPOSING:
                if item.kind != "word" or not item.form.startswith(prefix):
                    continue
                found = plain.get(item.key[2 + len(prefix) :]) or plain.get(item.form[len(prefix) :])
                if found:
                    yield ("opposite", *((item.text, found.text) if exchanged else (found.text, item.text)))


def _same_slot(
    one: Sequence[Item], other: Sequence[Item], mine: Sequence[Item], theirs: Sequence[Item]
) -> Iterator[Apart]:
    """A word on each side in the same place: built alike, they differ on purpose."""
    places = [_slots(side) for side in (one, other)]
    taken: dict[tuple[str, str], Item] = {}
    for item in mine:
        for slot in places[0].get(item, ()):
            taken.setdefault(slot, item)
    for item in theirs:
        for slot in places[1].get(item, ()):
            if found := taken.get(slot):
                yield "word", found.text, item.text
                break


def _same_place(one: Sequence[Item], other: Sequence[Item]) -> Iterator[Apart]:
    """All alike but one word, also where that word stands in both: auditors read the audit log, admins do."""
    apart = [pair for pair in zip(one, other, strict=False) if pair[0].key != pair[1].key]
    if len(one) == len(other) and len(apart) == 1 and all(map(_own, apart[0])):
        yield "word", apart[0][0].text, apart[0][1].text


def _slots(items: Sequence[Item]) -> dict[Item, list[tuple[str, str]]]:
    """For each word the words that it stands beside within its clause."""
    found: dict[Item, list[tuple[str, str]]] = {}
    for before, item, after in zip((None, *items), items, (*items[1:], None), strict=False):
        slots = []
        if before is not None and before.clause == item.clause:
            slots.append(("after", before.key))
        if after is not None and after.clause == item.clause:
            slots.append(("before", after.key))
        found[item] = slots
    return found


def _narrower(
    one: Sequence[Item], other: Sequence[Item], mine: Sequence[Item], theirs: Sequence[Item]
) -> Iterator[Apart]:
    """Built alike, a word more within a clause narrows it: the gateway tests are not the gateway.

    A clause of its own, an identifier's kind and a manner of keeping are more detail.
    """
    if mine and theirs:
        return
    if theirs or (not mine and len(one) < len(other)):
        for _, left, right in _narrower(other, one, theirs, mine):
            yield "word", right, left
        return
    extra = _beyond(one, other)
    if not extra or not all(map(_qualifies, extra)):
        return
    told = {item.clause for item in one if item not in extra}
    for item, after in zip(one, (*one[1:], None), strict=True):
        if item not in extra or (after is not None and after.kind == "identifier" and after.glued):
            continue
        words = sum(each.clause == item.clause for each in one)
        joined = JOINED in (item.role, after.role if after else "")
        if item.clause in told or (joined and words <= _JOINED_WORDS):
            yield "word", item.text, ""
            return


def _beyond(one: Sequence[Item], other: Sequence[Item]) -> set[Item]:
    """What `one` says beyond all that `other` says, in its order; nothing where it does not say all that.

    Two words for one thing say it once: we ship a deploy.
    """
    keys, said = ({item.key for item in side} for side in (one, other))
    ahead = [item.key for item in other if item.kind != "pole" or item.key in keys][::-1]
    extra = set()
    for item in one:
        if ahead and item.key == ahead[-1]:
            ahead.pop()
        elif item.kind != "concept" or item.key not in said:
            extra.add(item)
    return set() if ahead else extra


def _qualifies(item: Item) -> bool:
    return item.key.startswith(_QUALITIES) or (item.kind != "pole" and item.key not in _BARE)


def _exchanged(left: Reading, right: Reading, one: Sequence[Item], other: Sequence[Item]) -> Iterator[Apart]:
    """A sends to B, and B sends to A."""
    if len(one) > _MOST_ORDERED or len(other) > _MOST_ORDERED:
        if Counter(left.every_word) == Counter(right.every_word) and [i.key for i in one] != [
            i.key for i in other
        ]:
            yield "order", "another order of words", "the same words"
        return
    at = [{item.key: (place, item) for place, item in enumerate(side)} for side in (one, other)]
    shared = [key for key in at[0] if key in at[1] and key not in _RELATIONS]
    for first, second in ((a, b) for i, a in enumerate(shared) for b in shared[i + 1 :]):
        (i, a), (j, b) = at[0][first], at[0][second]
        (k, c), (m, d) = at[1][first], at[1][second]
        if (i < j) == (k < m):
            continue
        if left.language in ("ja", "ko", "zh"):
            swapped = a.kind in ("name", "word") and b.kind in ("name", "word") and a.text[0].isascii()
        elif a.role == b.role == c.role == d.role == "":
            swapped = _between(one, i, j) & _between(other, k, m) != set()
        else:
            swapped = a.role == d.role and b.role == c.role and a.role != b.role
        if swapped:
            yield "order", f"{a.text} - {b.text}", f"{d.text} - {c.text}"
            return


def _between(items: Sequence[Item], one: int, other: int) -> set[str]:
    return {item.key for item in items[min(one, other) + 1 : max(one, other)]}


def _enough(
    left: Reading, right: Reading, one: Sequence[Item], other: Sequence[Item], *, across: bool
) -> Iterator[Apart]:
    """Whether enough is shared for the texts to say the same of the same thing."""
    if across:
        one, other = ([item for item in side if not _foreign(item)] for side in (one, other))
    keys = [{item.key for item in side} for side in (one, other)]
    shared = keys[0] & keys[1]
    figures = min(len(left.figures) + len(left.days) + len(left.clocks), 2)
    rests = [{item.key for item in _telling(_rest(*sides))} for sides in ((one, other), (other, one))]
    smaller = min(len(shared | (side & rest)) for side, rest in zip(keys, rests, strict=True))
    if across:
        if len(shared) + figures < _FEWEST_ACROSS or (rests[0] and rests[1]):
            yield "topic", _texts(_rest(one, other) or one), _texts(_rest(other, one) or other)
        return
    if not keys[0] and not keys[1]:
        return
    if not shared or len(shared) < _ENOUGH_SHARED * smaller:
        yield "topic", _texts(_rest(one, other)), _texts(_rest(other, one))


def _foreign(item: Item) -> bool:
    return item.kind == "word" and not item.strong


def _texts(items: Sequence[Item]) -> str:
    return ", ".join(dict.fromkeys(item.text for item in items[:8]))
