"""Entries of ours in JSON files of clients: added where they belong, taken out again to the last byte."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.clients import ours
from mnemo_mcp.clients.doubt import Doubt, line_of
from mnemo_mcp.clients.entries import Original, verified
from mnemo_mcp.clients.json_text import BLANK, Node, append, drop, parse, put

_MEND = "Mend it, then run this again."


@dataclass(frozen=True, slots=True)
class JsonServers:
    """The list of MCP servers in a JSON file, at `path`; ours is `entry`."""

    path: tuple[str, ...]
    entry: Mapping[str, Any]
    comments: bool = False

    def holds(self, text: str | None) -> bool:
        table = _at(text, self.path, comments=self.comments)
        return table is not None and any(ours.is_server(each.value) for each in table.children)

    def add(self, text: str | None) -> str:
        changed = verified(self, text, self._added(text if text and text.strip() else BLANK))
        if not self.comments:
            json.loads(changed)
        return changed

    def remove(self, text: str | None, original: Original) -> str | None:
        if text is None or not self.holds(text):
            return text
        changed = text
        while True:
            table = _at(changed, self.path, comments=self.comments)
            children = table.children if table else ()
            place = next((at for at, each in enumerate(children) if ours.is_server(each.value)), None)
            if table is None or place is None:
                break
            changed = drop(changed, table, place)
        return _emptied(_pruned(changed, self.path, original, self.comments), original)

    def _added(self, text: str) -> str:
        table = _at(text, self.path, comments=self.comments)
        if table is None:
            return _grown(text, self.path, {ours.NAME: self.entry}, self.comments)
        found = [each for each in table.children if ours.is_server(each.value)]
        if found:
            return _renewed(text, found[0], self.entry)
        if other := table.child(ours.NAME):
            advice = "Rename or remove it, then run this again."
            raise Doubt(f"another server is called {ours.NAME!r}.", line_of(text, other.start), advice)
        return append(text, table, self.entry, ours.NAME)


@dataclass(frozen=True, slots=True)
class JsonHooks:
    """The hooks in a JSON file, {"hooks": {EVENT: [{"hooks": [HANDLER]}]}}; `handlers` are ours."""

    handlers: Mapping[str, Mapping[str, Any]]

    def holds(self, text: str | None) -> bool:
        hooks = _at(text, ("hooks",))
        return hooks is not None and any(True for event in hooks.children for _ in _places(event))

    def add(self, text: str | None) -> str:
        changed = text if text and text.strip() else BLANK
        for event, handler in self.handlers.items():
            changed = self._added(changed, event, handler)
        json.loads(changed)
        return verified(self, text, changed)

    def remove(self, text: str | None, original: Original) -> str | None:
        if text is None or not self.holds(text):
            return text
        hooks, changed = _at(text, ("hooks",)), text
        for event, groups in zip(hooks.keys, hooks.children, strict=True) if hooks else ():
            for group, place in reversed([*_places(groups)]):
                now = _at(changed, ("hooks", event), "array")
                changed = _dropped(changed, now, group, place) if now else changed
            if [*_places(groups)]:
                changed = _pruned(changed, ("hooks", event), original, False)
        return _emptied(changed, original)

    def _added(self, text: str, event: str, handler: Mapping[str, Any]) -> str:
        groups = _at(text, ("hooks", event), "array")
        if groups is None:
            return _grown(text, ("hooks", event), [{"hooks": [handler]}], False)
        there = [*_places(groups)]
        if not there:
            return append(text, groups, {"hooks": [handler]})
        for group, place in reversed(there[1:]):  # registered twice: one is enough
            text = _dropped(text, _at(text, ("hooks", event), "array") or groups, group, place)
        group, place = there[0]
        first = _handlers((_at(text, ("hooks", event), "array") or groups).children[group])[place]
        return _renewed(text, first, handler)


def _renewed(text: str, node: Node, value: Mapping[str, Any]) -> str:
    """With this value in the place of one of ours that leads nowhere."""
    return put(text, node, value) if node.value != value and ours.is_gone(node.value) else text


def without(text: str | None, path: Sequence[str], original: Original) -> str | None:
    """Without one member, and without objects around it that are empty by that and were not there before."""
    parent = _node(text, path[:-1], False) if text and text.strip() else None
    if text is None or parent is None or path[-1] not in parent.keys:
        return text if text is None else _pruned(text, path[:-1], original, False)
    text = drop(text, parent, parent.keys.index(path[-1]))
    return _pruned(text, path[:-1], original, False)


def _places(groups: Node) -> Iterator[tuple[int, int]]:
    """Handlers of ours: which group, and where in it."""
    for place, group in enumerate(groups.children):
        for at, handler in enumerate(_handlers(group)):
            if ours.is_hook(handler.value):
                yield place, at


def _handlers(group: Node) -> tuple[Node, ...]:
    found = group.child("hooks")
    return found.children if found and found.kind == "array" else ()


def _dropped(text: str, groups: Node, group: int, place: int) -> str:
    """Without one handler, and without its group if that has no other."""
    handlers = groups.children[group].child("hooks")
    if handlers is None or len(handlers.children) == 1:
        return drop(text, groups, group)
    return drop(text, handlers, place)


def _at(
    text: str | None, path: Sequence[str], kind: str = "object", *, comments: bool = False
) -> Node | None:
    """The container at a path. Raises `Doubt` where something else stands on the way or there."""
    text = text if text and text.strip() else BLANK
    node: Node | None = parse(text, comments=comments)
    for place in range(len(path) + 1):
        if node is None:
            return None
        wanted = kind if place == len(path) else "object"
        if node.kind != wanted:
            name = f"`{'.'.join(path[:place])}`" if place else "it"
            shape = "a list" if wanted == "array" else "an object"
            raise Doubt(f"{name} is not {shape}.", line_of(text, node.start), _MEND)
        if place < len(path):
            node = node.child(path[place])
    return node


def _grown(text: str, path: Sequence[str], value: Any, comments: bool) -> str:
    """With a value at a path where there is nothing yet, and what is missing on the way to it."""
    depth = next(length for length in range(len(path)) if not _node(text, path[: length + 1], comments))
    parent = _node(text, path[:depth], comments)
    for inner in reversed(path[depth + 1 :]):
        value = {inner: value}
    return append(text, parent, value, path[depth]) if parent else text


def _pruned(text: str, path: Sequence[str], original: Original, comments: bool) -> str:
    """Without the empty containers at a path that the file did not have before."""
    if not original.known:
        return text
    before = parse(original.text or "", comments=comments) if not original.blank else None
    for length in range(len(path), 0, -1):
        parent, node = _node(text, path[: length - 1], comments), _node(text, path[:length], comments)
        if parent and node:
            filled = node.children or text[node.start + 1 : node.end - 1].strip()
            if filled or _reach(before, path[:length]):
                return text
            text = drop(text, parent, parent.keys.index(path[length - 1]))
    return text


def _node(text: str, path: Sequence[str], comments: bool) -> Node | None:
    return _reach(parse(text, comments=comments), path)


def _reach(node: Node | None, path: Sequence[str]) -> Node | None:
    for key in path:
        node = node.child(key) if node else None
    return node


def _emptied(text: str, original: Original) -> str | None:
    """What the file was before, where nothing is left in it and nothing was in it then."""
    nothing = not text.replace("{", "", 1).replace("}", "", 1).strip()
    return original.text if original.blank and nothing else text
