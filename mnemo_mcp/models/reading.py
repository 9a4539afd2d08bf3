"""Reads JSON as language models write it. Slips of form are mended; nothing that was not written is added."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_END = re.compile(r"^.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE)
_THOUGHT_BEGIN = re.compile(r"<(?:think|thinking|thought|reasoning)>.*$", re.DOTALL | re.IGNORECASE)
_GAP = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_KEY_END = re.compile(r"\s*:")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)

_DEEPEST = 60
_MOST_BEGINNINGS = 40  # a text with more brackets that begin nothing is no JSON
_LOOP_TIMES = 6
_LOOP_LEAST = 240  # characters; a table's ruler or a row of dots is shorter
_LOOP_LONGEST = 2_000  # characters of what is repeated


@dataclass(frozen=True, slots=True)
class Read:
    """A value read from a text; `whole` is False where the text ends before the value does."""

    value: Any
    whole: bool


def without_thoughts(text: str) -> str:
    """What a model says, without what it thinks aloud before; a thought that never ends leaves nothing."""
    text = _THOUGHT.sub("", text)
    text = _THOUGHT_END.sub("", text)
    return _THOUGHT_BEGIN.sub("", text).strip()


def without_loop(text: str) -> tuple[str, bool]:
    """A text that ends in the same piece again and again, with that piece once; and whether it did."""
    reversed_end = text[: -(_LOOP_TIMES + 1) * _LOOP_LONGEST - 1 : -1]
    for length in range(1, min(_LOOP_LONGEST, len(reversed_end) // _LOOP_TIMES) + 1):
        span = max(_LOOP_TIMES * length, _LOOP_LEAST)
        if len(reversed_end) >= span and reversed_end[length:span] == reversed_end[: span - length]:
            return _once(text, length), True
    return text, False


def read_json(text: str, schema: Mapping[str, Any] | None = None) -> Read | None:
    """The value in `text` that fits `schema` best: whole before broken off, fitting before not.

    Of one that is broken off, what was whole is kept: the complete elements of its lists.
    """
    best: tuple[int, Read] | None = None
    at = 0
    for _ in range(_MOST_BEGINNINGS):
        begin = _beginning(text, at)
        if begin < 0:
            break
        reader = _Reader(text, begin)
        read = reader.read()
        at = reader.at if read is not None and read.whole else begin + 1
        if read is None:
            continue
        value, fits = fitted(read.value, schema or {})
        quality = 2 * fits + read.whole
        if best is None or quality > best[0]:
            best = quality, Read(value, read.whole)
        if quality == 3:
            break
        if not read.whole and fits:
            break  # what is inside it belongs to it
    return best[1] if best and (best[0] >= 2 or schema is None) else None


def fitted(value: Any, schema: Mapping[str, Any]) -> tuple[Any, bool]:
    """`value` in the outer shape that `schema` describes, and whether it has it.

    A list stands for the object that holds nothing but a list, and a single element for a list of one. Of
    equal elements of a list one is kept, and none that are of another shape.
    """
    kind = schema.get("type")
    if kind == "array":
        items = schema.get("items", {})
        if isinstance(value, dict) and fitted(value, items)[1]:
            value = [value]
        if not isinstance(value, list):
            return value, False
        elements = [found for found, fits in (fitted(each, items) for each in value) if fits]
        return _distinct(elements), bool(elements) or not value
    if kind == "string":
        return value, isinstance(value, str)
    if kind != "object":
        return value, True
    properties = schema.get("properties", {})
    lists = [name for name, each in properties.items() if each.get("type") == "array"]
    lone = lists[0] if len(lists) == 1 and set(schema.get("required", lists)) <= set(lists) else None
    if lone is not None and not (isinstance(value, dict) and lone in value):
        value = {lone: value}
    if not isinstance(value, dict) or not set(schema.get("required", ())) <= set(value):
        return value, False
    inner = {name: fitted(value[name], properties[name]) for name in lists if name in value}
    return {**value, **{name: each for name, (each, _) in inner.items()}}, all(f for _, f in inner.values())


def _distinct(values: list[Any]) -> list[Any]:
    seen = dict[str, Any]()
    for value in values:
        seen.setdefault(json.dumps(value, sort_keys=True), value)
    return list(seen.values())


def _once(text: str, length: int) -> str:
    """`text` up to and with the first of the equal pieces at its end."""
    at = len(text) - length
    while at > 0 and text[at - 1] == text[at - 1 + length]:
        at -= 1
    return text[: at + length]


def _beginning(text: str, at: int) -> int:
    found = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
    return min(found, default=-1)


class _Broken(Exception):
    """What stands here is not JSON."""


class _Ended(Exception):
    """The text ends here; what was whole so far is carried up."""

    def __init__(self, value: Any = None, kept: bool = False) -> None:
        super().__init__()
        self.value = value
        self.kept = kept


class _Reader:
    """Reads one value. Forgives commas too many, comments, raw line breaks and other spellings of null."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def read(self) -> Read | None:
        try:
            return Read(self._value(0), whole=True)
        except _Ended as end:
            return Read(end.value, whole=False) if end.kept else None
        except _Broken:
            return None

    def _value(self, depth: int) -> Any:
        sign = self._next()
        if depth > _DEEPEST:
            raise _Broken
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return self._list(depth)
        if sign == '"':
            return self._string()
        if number := _NUMBER.match(self._text, self.at):
            self.at = number.end()
            if self.at == len(self._text):
                raise _Ended  # more digits may have followed
            return json.loads(number[0]) if not _padded(number[0]) else number[0]
        if (word := _WORD.match(self._text, self.at)) and word[0] in _WORDS:
            self.at = word.end()
            return _WORDS[word[0]]
        raise _Broken

    def _list(self, depth: int) -> list[Any]:
        values: list[Any] = []
        self.at += 1
        try:
            while not self._closes("]"):
                values.append(self._value(depth + 1))
        except _Ended as end:
            if end.kept and isinstance(end.value, list):
                values.append(end.value)
            raise _Ended(values, kept=bool(values)) from None
        return values

    def _object(self, depth: int) -> dict[str, Any]:
        """An object. Broken off, it is worth only what the lists in it hold: half a claim is none."""
        value: dict[str, Any] = {}
        self.at += 1
        key = ""
        try:
            while not self._closes("}"):
                key = self._key()
                value[key] = self._value(depth + 1)
        except _Ended as end:
            lists = {name: each for name, each in value.items() if isinstance(each, list)}
            if end.kept and isinstance(end.value, list):
                lists[key] = end.value
            top = depth == 0 and bool(lists)
            raise _Ended(lists, kept=top) from None
        return value

    def _key(self) -> str:
        sign = self._next()
        if sign == '"':
            key = self._string()
        elif word := _WORD.match(self._text, self.at):
            key, self.at = word[0], word.end()
        else:
            raise _Broken
        self._next()
        colon = _KEY_END.match(self._text, self.at)
        if colon is None:
            raise _Broken
        self.at = colon.end()
        return key

    def _string(self) -> str:
        found = _STRING.match(self._text, self.at)
        if found is None:
            raise _Ended
        self.at = found.end()
        try:
            return str(json.loads(found[0], strict=False))
        except ValueError:
            return found[1]  # an escape JSON does not know, as in a Windows path: the letters as they stand

    def _closes(self, sign: str) -> bool:
        """Whether the container ends here; commas before the end or the next element are passed over."""
        while (found := self._next()) == ",":
            self.at += 1
        if found == sign:
            self.at += 1
            return True
        return False

    def _next(self) -> str:
        """The next sign that counts; the text's end raises."""
        gap = _GAP.match(self._text, self.at)
        self.at = gap.end() if gap else self.at
        if self.at >= len(self._text):
            raise _Ended
        return self._text[self.at]


def _padded(number: str) -> bool:
    """Zeros before a number are no JSON, and may belong to an identifier."""
    digits = number.lstrip("-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
