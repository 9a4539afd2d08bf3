"""Claude Code transcripts: what a turn was asked, what its tools answered, what the assistant did in it.

The format is undocumented and grows with every version: unknown records are passed over, never an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemo_mcp.capture.payload import clean
from mnemo_mcp.settings import expanded

TAIL_BYTES = (4 << 20, 64 << 20)  # a turn is at the end, but request bodies in between are large
RESULT_CHARACTERS = 20_000
ACTS_CHARACTERS = 40_000  # the end of what was done; no memory is looked for in more
_GIVEN = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
EARLIER_TURNS = 16  # more than prompts ever wait in a client's queue


@dataclass(frozen=True, slots=True)
class Line:
    """One thing a transcript tells of a turn. `at` is the client's own time, "" without one.

    A prompt typed while an earlier turn ran was announced under the id of that one: `earlier` are the
    turns, nearest first, that may have run since the same was last asked.
    """

    role: str
    text: str
    at: str
    id: str
    earlier: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """What a transcript tells of one turn.

    `lines` are the person's prompts and the tools' results, `acts` what the assistant said and asked its
    tools for; `calls` calls of the model read `read` tokens in all. Without a count of tokens both are 0.
    `id` is the client's own id of the turn.
    """

    lines: tuple[Line, ...] = ()
    acts: str = ""
    calls: int = 0
    read: int = 0
    id: str = ""


def transcript_roots(extra: Iterable[str] = (), environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders clients keep transcripts in; none is read from anywhere else."""
    home = expanded("~")
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
    codex = Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    return [claude, codex, *map(expanded, extra)]


def readable(path: str, roots: Iterable[Path]) -> Path | None:
    """The transcript at `path` if it is one: a .jsonl file inside one of `roots`, links resolved."""
    if not path.endswith(".jsonl") or "\0" in path:
        return None
    try:
        real = Path(path).resolve(strict=True)
        inside = any(real.is_relative_to(root.resolve()) for root in roots)
    except (OSError, RuntimeError):
        return None
    return real if inside and real.is_file() and os.access(real, os.R_OK) else None


def read_turn(path: Path, turn: str) -> Turn:
    """One turn (the last one if `turn` is ""), its lines in order."""
    found: list[dict[str, Any]] = []
    begin = None
    for tail in TAIL_BYTES:
        found = [each for each in records(path, tail) if not each.get("isSidechain")]
        begin = _begin(found, turn)
        if begin is not None and not _blocks(found[begin], "tool_result"):
            break  # the turn is there from its prompt on
    if begin is None:
        return Turn()
    rest = found[begin:]
    end = next((place for place, each in enumerate(rest) if place and _ends(each, turn)), len(rest))
    own = _own_calls(rest[:end])
    lines: list[Line] = []
    for place, record in enumerate(rest[:end], begin):
        lines += [_prompt(found, place)] if _is_prompt(record) else _results(record, own)
    return Turn(tuple(lines), _acts(rest[:end], own), *_tokens(rest[:end]), turn or _of(rest[0]))


def turn_in(group: Sequence[dict[str, Any]]) -> Turn:
    """The turn that all of these records belong to; what was asked in earlier ones is for others to know."""
    own = _own_calls(group)
    lines: list[Line] = []
    for record in group:
        lines += [_asked(record)] if _is_prompt(record) else _results(record, own)
    return Turn(tuple(lines), _acts(group, own), *_tokens(group), _of(group[0]))


def begins_turn(record: Mapping[str, Any], running: str) -> bool:
    """Whether a turn begins with a record; `running` is the id of the one before, "" where it has none."""
    turn = _of(record)
    return turn != running if turn else not running and _is_prompt(record)


def turn_of(record: Mapping[str, Any]) -> str:
    """The client's id of the turn a record belongs to, "" where it has none."""
    return _of(record)


def final_answer(group: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The answer a turn ended with, and when; "" for one that was broken off."""
    texts: list[str] = []
    name = at = ""
    for record in group:
        message = record.get("message")
        if record.get("type") != "assistant" or not isinstance(message, dict):
            continue
        if str(message.get("id") or record.get("uuid")) != name:
            texts, name = [], str(message.get("id") or record.get("uuid"))
        texts += [str(block.get("text", "")) for block in _blocks(record, "text")]
        at = str(record.get("timestamp") or "") if message.get("stop_reason") == "end_turn" else ""
        if message.get("stop_reason") not in ("end_turn", None):
            texts = []
    return (clean("\n".join(texts)), at) if at else ("", "")


def records(path: Path, tail: int) -> Iterator[dict[str, Any]]:
    """The JSON objects in the last `tail` bytes of a file of JSON lines."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - tail))
        for line in file:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record


def _begin(records: Sequence[Mapping[str, Any]], turn: str) -> int | None:
    """Where a turn begins, which need not be with a prompt: commands and pictures begin turns too."""
    if turn:
        return next((place for place, each in enumerate(records) if _of(each) == turn), None)
    return next((place for place in reversed(range(len(records))) if _is_prompt(records[place])), None)


def _ends(record: Mapping[str, Any], turn: str) -> bool:
    return _is_prompt(record) and (not turn or _of(record) != turn)


def _of(record: Mapping[str, Any]) -> str:
    """The turn a record of the person's side belongs to."""
    turn = record.get("promptId")
    return turn if record.get("type") == "user" and isinstance(turn, str) else ""


def _asked(record: Mapping[str, Any]) -> Line:
    at, name = _mark(record)
    return Line("person", clean(record["message"]["content"]), at, name)


def _prompt(records: Sequence[Mapping[str, Any]], place: int) -> Line:
    text = records[place]["message"]["content"]
    earlier: dict[str, None] = {}
    for record in reversed(records[:place]):
        if _is_prompt(record) and record["message"]["content"] == text:
            break
        earlier[_of(record)] = None
    at, name = _mark(records[place])
    return Line("person", clean(text), at, name, tuple(turn for turn in earlier if turn)[:EARLIER_TURNS])


def _is_prompt(record: Mapping[str, Any]) -> bool:
    message = record.get("message")
    return (
        record.get("type") == "user"
        and isinstance(message, dict)
        and isinstance(message.get("content"), str)
        and not record.get("isMeta")
        and not record.get("isCompactSummary")
        and not message["content"].startswith(("<command-", "<local-command-"))
    )


def _blocks(record: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    message = record.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") == kind]


def _own_calls(records: Iterable[Mapping[str, Any]]) -> set[str]:
    """Ids of calls of mnemo's own tools: what it handed out is not news."""
    return {
        str(block.get("id"))
        for record in records
        for block in _blocks(record, "tool_use")
        if "mnemo__" in str(block.get("name", ""))
    }


def _acts(records: Sequence[Mapping[str, Any]], own: set[str]) -> str:
    """What the assistant said on its way, and what it asked tools other than mnemo's for."""
    told: list[str] = []
    for record in records:
        told += [str(block.get("text", "")) for block in _said(record, "text")]
        told += [
            json.dumps(block.get("input"), ensure_ascii=False)
            for block in _said(record, "tool_use")
            if str(block.get("id")) not in own
        ]
    return clean("\n".join(told)[-ACTS_CHARACTERS:])


def _said(record: Mapping[str, Any], kind: str) -> list[dict[str, Any]]:
    return _blocks(record, kind) if record.get("type") == "assistant" else []


def _tokens(records: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """How often the model was called, and how many tokens it was given in all; one call is many records."""
    calls: dict[str, int] = {}
    for record in records:
        message = record.get("message") if record.get("type") == "assistant" else None
        usage = message.get("usage") if isinstance(message, dict) else None
        if isinstance(message, dict) and isinstance(usage, dict):
            given = [usage.get(name) for name in _GIVEN]
            calls[str(message.get("id"))] = sum(each for each in given if isinstance(each, int))
    return len(calls), sum(calls.values())


def _results(record: Mapping[str, Any], own: set[str]) -> list[Line]:
    at, name = _mark(record)
    lines = []
    for block in _blocks(record, "tool_result"):
        text = _plain(block.get("content"))
        if text.strip() and str(block.get("tool_use_id")) not in own:
            source = clean(str(block.get("tool_use_id") or name))
            lines.append(Line("tool", clean(text[:RESULT_CHARACTERS]), at, source))
    return lines


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _mark(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("timestamp") or ""), str(record.get("uuid") or "")
