"""Entries of ours in Codex's TOML file: a block at its end, told by comments, or tables told by name."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.clients import ours
from mnemo_mcp.clients.doubt import Doubt
from mnemo_mcp.clients.entries import Original
from mnemo_mcp.clients.toml_text import (
    add_block,
    drop_block,
    drop_marks,
    drop_table,
    has_block,
    line_of_table,
    parse,
)

_SERVERS = "mcp_servers"
_HEADERS = (f"[{_SERVERS}]", "[hooks]", "[hooks.state]")  # say nothing without what is inside
_SERVER_BLOCK, _TRUST_BLOCK = "server", "trust"


@dataclass(frozen=True, slots=True)
class TomlServer:
    """The MCP server among the tables of [mcp_servers]; ours is `entry`."""

    entry: Mapping[str, Any]

    def holds(self, text: str | None) -> bool:
        return bool(_names(parse(text or "")))

    def add(self, text: str | None) -> str:
        text = text or ""
        document = parse(text)
        names = _names(document)
        servers = [document[_SERVERS][each] for each in names]
        if any(each == self.entry or not ours.is_gone(each) for each in servers):
            return text
        text = self._without(text, names)
        document = parse(text)
        if ours.NAME in _table(document, _SERVERS):
            line = line_of_table(text, (_SERVERS, ours.NAME))
            advice = "Rename or remove it, then run this again."
            raise Doubt(f"another server is called {ours.NAME!r}.", line, advice)
        wanted = copy.deepcopy(document)
        wanted.setdefault(_SERVERS, {})[ours.NAME] = dict(self.entry)
        return _checked(add_block(text, _SERVER_BLOCK, {_SERVERS: {ours.NAME: self.entry}}), wanted)

    def remove(self, text: str | None, original: Original) -> str | None:
        if text is None or not self.holds(text):
            return text
        return _restored(self._without(text, _names(parse(text))), original)

    def _without(self, text: str, names: Iterable[str]) -> str:
        return _removed(text, _SERVER_BLOCK, [(_SERVERS, name) for name in names])


@dataclass(frozen=True, slots=True)
class TomlTrust:
    """The trust a person has given to hooks of ours: by key of the hook, the hash of what was trusted."""

    hashes: Mapping[str, str]

    def holds(self, text: str | None) -> bool:
        return bool(self._keys(parse(text or ""))) or has_block(text or "", _TRUST_BLOCK)

    def add(self, text: str | None) -> str:
        text = text or ""
        state = _table(parse(text), "hooks", "state")
        known = {key: _table(state, key).get("trusted_hash") for key in self.hashes}
        if known == dict(self.hashes):
            return text
        text = self._without(text)
        wanted = copy.deepcopy(parse(text))
        trusted = {key: {"trusted_hash": value} for key, value in self.hashes.items()}
        wanted.setdefault("hooks", {}).setdefault("state", {}).update(trusted)
        return _checked(add_block(text, _TRUST_BLOCK, {"hooks": {"state": trusted}}), wanted)

    def remove(self, text: str | None, original: Original) -> str | None:
        return text if text is None or not self.holds(text) else _restored(self._without(text), original)

    def _without(self, text: str) -> str:
        return _removed(text, _TRUST_BLOCK, [("hooks", "state", key) for key in self._keys(parse(text))])

    def _keys(self, document: Mapping[str, Any]) -> list[str]:
        """What is trusted of ours; a hook may have moved since, but what it does is its own."""
        hooks = document.get("hooks")
        state = hooks.get("state") if isinstance(hooks, Mapping) else None
        found = state.items() if isinstance(state, Mapping) else ()
        digests = set(self.hashes.values())
        return [
            key
            for key, each in found
            if key in self.hashes or (isinstance(each, Mapping) and each.get("trusted_hash") in digests)
        ]


def _names(document: Mapping[str, Any]) -> list[str]:
    """What the servers that start mnemo are called."""
    return [name for name, entry in _table(document, _SERVERS).items() if ours.is_server(entry)]


def _table(document: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The table at a path, {} where there is none. Raises `Doubt` for something else in its place."""
    for key in path:
        found = document.get(key, {})
        if not isinstance(found, Mapping):
            raise Doubt(f"`{key}` is not a table.", 0, "Mend it, then run this again.")
        document = found
    return document


def _removed(text: str, block: str, paths: list[tuple[str, ...]]) -> str:
    """Without the block, or where other things got into it, without these tables and the block's marks."""
    wanted = parse(text)
    for path in paths:
        _forget(wanted, path)
    for changed in (drop_block(text, block), _without_tables(text, block, paths)):
        if _same(changed, wanted):
            return changed
    line = line_of_table(text, paths[0]) if paths else 0
    raise Doubt("mnemo's entry cannot be taken out by itself.", line, "Remove it by hand.")


def _without_tables(text: str, block: str, paths: Iterable[tuple[str, ...]]) -> str:
    for path in paths:
        text = drop_table(text, path)
    return drop_marks(text, block)


def _forget(document: dict[str, Any], path: tuple[str, ...]) -> None:
    """Take out what is at a path; tables that become empty by that count for nothing."""
    inner = document
    for key in path[:-1]:
        inner = inner.get(key, {})
    inner.pop(path[-1], None)


def _same(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return repr(_filled(parse(text))) == repr(_filled(wanted))
    except Doubt:
        return False


def _filled(value: Any) -> Any:
    """Without the tables that hold nothing: a header alone says nothing."""
    if not isinstance(value, Mapping):
        return value
    inner = {key: _filled(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


def _checked(text: str, wanted: Mapping[str, Any]) -> str:
    try:
        same = repr(parse(text)) == repr(wanted)
    except Doubt:
        same = False
    if not same:
        raise Doubt(
            f"its `{_SERVERS}` or `hooks` are written in braces, which nothing can be added to from outside.",
            0,
            f"Write them as tables, like [{_SERVERS}.NAME], then run this again.",
        )
    return text


def _restored(text: str, original: Original) -> str | None:
    """What the file was before, if no line says anything else: Codex moves blank lines and line ends."""
    return original.text if original.known and _saying(text) == _saying(original.text or "") else text


def _saying(text: str) -> list[str]:
    lines = (line.rstrip() for line in text.splitlines())
    return [line for line in lines if line and line not in _HEADERS]
