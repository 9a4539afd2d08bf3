"""TOML as text: a block of our own at the end of a file, and tables that can be taken out line by line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from mnemo_mcp.clients.doubt import Doubt

_WHERE = re.compile(r" \(at line (\d+).*\)$| \(at end of document\)$")
_HEADER = re.compile(r"\s*\[(?!\[).*\]\s*(?:#.*)?")
_ANY_HEADER = re.compile(r"\s*\[.*\]\s*(?:#.*)?")
_IDLE = re.compile(r"\s*(?:#.*)?")  # a line that says nothing: blank, or a comment


def parse(text: str) -> dict[str, Any]:
    """The document in `text`. Raises `Doubt` with the line of what cannot be read."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = _WHERE.search(str(error))
        line = int(where[1]) if where and where[1] else text.count("\n") + 1
        what = _WHERE.sub("", str(error))
        raise Doubt(f"it is no valid TOML: {what}.", line, "Mend it, then run this again.") from None
    except RecursionError:
        raise Doubt("it is nested too deeply.") from None


def add_block(text: str, name: str, content: Mapping[str, Any]) -> str:
    """`text` with a block at its end. It is told by the comments around it."""
    import tomli_w  # a command that writes none also runs where the installation is not whole

    newline = _newline(text)
    lines = [_begin(name), *tomli_w.dumps(content).rstrip("\n").split("\n"), _end(name)]
    block = newline.join(lines)
    if not text:
        return block + newline
    return text + newline + block + (newline if text.endswith("\n") else "")


def drop_block(text: str, name: str) -> str:
    """`text` without that block: the exact inverse of `add_block`, also where more was written behind it."""
    found = re.search(rf"{re.escape(_begin(name))}\r?\n.*?{re.escape(_end(name))}", text, re.DOTALL)
    if found is None:
        return text
    head, tail = text[: found.start()], text[found.end() :]
    apart = re.sub(r"\r?\n\Z", "", head)  # without the line end that was put before the block
    if not head or apart.endswith("\n"):  # then one was put behind it, too
        tail = re.sub(r"\A\r?\n", "", tail)
    return apart + tail


def drop_marks(text: str, name: str) -> str:
    """`text` without the comments around a block."""
    marks = "|".join(map(re.escape, (_begin(name), _end(name))))
    return re.sub(rf"^(?:{marks})(?:\r?\n|\Z)", "", text, flags=re.MULTILINE)


def has_block(text: str, name: str) -> bool:
    return _begin(name) in text and _end(name) in text


def drop_table(text: str, path: tuple[str, ...]) -> str:
    """`text` without a table and those inside it. What stands before the next header goes with that one."""
    lines = text.splitlines(keepends=True)
    gone: set[int] = set()
    for start, end in _tables(lines, path):
        last = max(
            (row for row in range(start, end) if not _IDLE.fullmatch(lines[row].rstrip())), default=start
        )
        gone |= set(range(start, last + 1))
    return "".join(line for row, line in enumerate(lines) if row not in gone)


def line_of_table(text: str, path: tuple[str, ...]) -> int:
    """The line of a table's header, counted from 1; 0 where it has none of its own."""
    return next((start + 1 for start, _ in _tables(text.splitlines(), path)), 0)


def _tables(lines: list[str], path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """From where to where a table stands, and each of those inside it."""
    headers = [row for row, line in enumerate(lines) if _ANY_HEADER.fullmatch(line.rstrip())]
    for row, following in zip(headers, [*headers[1:], len(lines)], strict=True):
        if _HEADER.fullmatch(lines[row].rstrip()) and _path(lines[row])[: len(path)] == path:
            yield row, following


def _path(header: str) -> tuple[str, ...]:
    try:
        table = tomllib.loads(header)
    except tomllib.TOMLDecodeError:
        return ()  # the line of an array, or of a text, that only looks like a header
    path: list[str] = []
    while table:
        [(key, table)] = table.items()
        path.append(key)
    return tuple(path)


def _begin(name: str) -> str:
    return f"# >>> mnemo {name}: `mnemo uninstall` takes these lines away"


def _end(name: str) -> str:
    return f"# <<< mnemo {name}"


def _newline(text: str) -> str:
    return "\r\n" if text.rpartition("\n")[0].endswith("\r") else "\n"
