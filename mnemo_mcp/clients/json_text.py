"""JSON, with comments or without, as text with places: what is inserted or removed touches nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.clients.doubt import Doubt, line_of

_SPACE = re.compile(r"[ \t\r\n]+")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_PLAIN = r'[^"\\\x00-\x1f]*'
_STRING = re.compile(rf'"{_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)")
_DEEPEST = 200
_UNIT = "  "
BLANK = "{\n}\n"
"""What a file is taken for that is missing or empty."""


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands. `keys` are an object's, one for each of its `children`; an array has none.

    `starts` are where children begin, with their keys; `commas` where the comma behind each is, -1 for none.
    """

    start: int
    end: int
    scalar: Any = None
    kind: str = "scalar"
    keys: tuple[str, ...] = ()
    children: tuple[Node, ...] = ()
    starts: tuple[int, ...] = ()
    commas: tuple[int, ...] = ()

    @property
    def value(self) -> Any:
        """As `json.loads` has it."""
        if self.kind == "object":
            return {key: child.value for key, child in zip(self.keys, self.children, strict=True)}
        return [child.value for child in self.children] if self.kind == "array" else self.scalar

    def child(self, key: str) -> Node | None:
        """The member of an object with this key."""
        return self.children[self.keys.index(key)] if key in self.keys else None


class _Scanner:
    def __init__(self, text: str, comments: bool) -> None:
        self.text, self.comments = text, comments
        self.place = 0

    def document(self) -> Node:
        root = self.node(0)
        self.skip()
        if self.place < len(self.text):
            raise self.wrong("there is more after the end of the value")
        return root

    def node(self, depth: int) -> Node:
        self.skip()
        start, head = self.place, self.text[self.place : self.place + 1]
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply")
        if head in ("{", "["):
            return self.container(start, "object" if head == "{" else "array", depth)
        found = _STRING.match(self.text, start) or _SCALAR.match(self.text, start)
        if found is None:
            raise self.wrong("a value is missing or cannot be read")
        self.place = found.end()
        return Node(start, found.end(), json.loads(found[0]))

    def container(self, start: int, kind: str, depth: int) -> Node:
        closer = "}" if kind == "object" else "]"
        keys: list[str] = []
        children: list[Node] = []
        starts: list[int] = []
        commas: list[int] = []
        self.place += 1
        while not self.at(closer):
            if children and commas[-1] < 0:
                raise self.wrong(f"a comma or {closer} is missing")
            starts.append(self.place)
            if kind == "object":
                keys.append(self.key(keys))
            children.append(self.node(depth + 1))
            commas.append(self.place if self.at(",") else -1)
            self.place += commas[-1] >= 0
            if commas[-1] >= 0 and self.at(closer) and not self.comments:
                raise self.wrong(f"there is a comma before {closer}")
        self.place += 1
        return Node(start, self.place, None, kind, tuple(keys), tuple(children), tuple(starts), tuple(commas))

    def key(self, others: Sequence[str]) -> str:
        found = _STRING.match(self.text, self.place)
        if found is None:
            raise self.wrong("a key in quotes is missing")
        key = str(json.loads(found[0]))
        if key in others:
            raise self.wrong(f"the key {key!r} is there twice")
        self.place = found.end()
        if not self.at(":"):
            raise self.wrong("a colon is missing")
        self.place += 1
        return key

    def at(self, sign: str) -> bool:
        self.skip()
        if self.place >= len(self.text):
            raise self.wrong("the file ends in the middle of a value")
        return self.text[self.place] == sign

    def skip(self) -> None:
        """Pass over space and comments."""
        while True:
            if found := _SPACE.match(self.text, self.place):
                self.place = found.end()
            found = _COMMENT.match(self.text, self.place)
            if found is None:
                return
            if not self.comments:
                raise self.wrong("there is a comment, and this client reads JSON without comments")
            self.place = found.end()

    def wrong(self, what: str) -> Doubt:
        return Doubt(f"{what}.", line_of(self.text, self.place), "Mend it, then run this again.")


def parse(text: str, *, comments: bool = False) -> Node:
    """The document in `text`. Raises `Doubt` with the line of what cannot be read."""
    return _Scanner(text, comments).document()


def append(text: str, node: Node, value: Any, key: str | None = None) -> str:
    """`text` with one more child at the end of a container of it: a member if there is a `key`."""
    closer, inner = node.end - 1, node.children[-1].end if node.children else node.start + 1
    place = _last(text, inner, closer)
    apart = "\n" in text[place:closer]
    trailing = bool(node.children) and node.commas[-1] >= 0
    if apart:
        indent = _indent_inside(text, node)
        content = (
            _newline(text)
            + indent
            + _rendered(key, value, _newline(text) + indent, _unit(text, node, indent))
        )
    else:
        content = (" " if place > node.start + 1 else "") + _rendered(key, value)
    changed = text[:place] + content + ("," if trailing else "") + text[place:]
    if node.children and not trailing:
        end = node.children[-1].end
        changed = changed[:end] + "," + changed[end:]
    return changed


def drop(text: str, node: Node, index: int) -> str:
    """`text` without one child of a container of it: the exact inverse of `append`."""
    before = node.commas[index - 1] + 1 if index else node.start + 1
    cuts = [(_last(text, before, node.starts[index]), node.children[index].end)]
    own, last = node.commas[index], index == len(node.children) - 1
    if own >= 0:
        cuts.append((own, own + 1))
    elif last and index:
        cuts.insert(0, (node.commas[index - 1], node.commas[index - 1] + 1))
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def put(text: str, node: Node, value: Any) -> str:
    """`text` with another value in the place of one of its nodes."""
    return text[: node.start] + json.dumps(value, ensure_ascii=False) + text[node.end :]


def _last(text: str, start: int, end: int) -> int:
    """Where the last comma or comment before `end` ends; `start` where there is nothing but space."""
    place = start
    while start < end:
        if comment := _COMMENT.match(text, start):
            place = start = comment.end()
        else:
            start += 1
            place = start if text[start - 1] == "," else place
    return place


def _indent_inside(text: str, node: Node) -> str:
    for start in reversed(node.starts):
        head = text[text.rfind("\n", 0, start) + 1 : start]
        if not head.strip() and "\n" in text[node.start : start]:
            return head
    return _indent_at(text, node.end - 1) + _unit_of(text)


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 :]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str, node: Node, indent: str) -> str:
    outer = _indent_at(text, node.end - 1)
    return indent.removeprefix(outer) if indent.startswith(outer) and indent != outer else _unit_of(text)


def _unit_of(text: str) -> str:
    found = re.search(r"\n([ \t]+)[\"}\]]", text)
    return found[1] if found else _UNIT


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _rendered(key: str | None, value: Any, newline: str = "", unit: str = "") -> str:
    told = json.dumps(value, ensure_ascii=False, indent=unit or None)
    told = told.replace("\n", newline) if newline else told
    return f"{json.dumps(key, ensure_ascii=False)}: {told}" if key is not None else told
