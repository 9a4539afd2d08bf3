"""Claude Code transcripts: what a turn was asked and what its tools answered.

The format is undocumented and grows with every version: unknown records are passed over, never an error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemo_mcp.capture.payload import clean

_TAIL_BYTES = 4 << 20  # a turn's records are at the end; request bodies in between are large
_RESULT_CHARACTERS = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """One thing a transcript tells of a turn. `at` is the client's own time, "" without one."""

    role: str
    text: str
    at: str
    id: str


def transcript_roots(extra: Iterable[str] = (), environ: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders clients keep transcripts in; none is read from anywhere else."""
    home = Path.home()
    claude = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "projects"
    codex = Path(environ.get("CODEX_HOME") or home / ".codex") / "sessions"
    return [claude, codex, *(Path(each).expanduser() for each in extra)]


def readable(path: str, roots: Iterable[Path]) -> Path | None:
    """The transcript at `path` if it is one: a .jsonl file inside one of `roots`, links resolved."""
    if not path.endswith(".jsonl") or "\0" in path:
        return None
    try:
        real = Path(path).resolve(strict=True)
        inside = any(real.is_relative_to(root.resolve()) for root in roots)
    except (OSError, RuntimeError):
        return None
    return real if inside and real.is_file() else None


def turn_lines(path: Path, turn: str) -> list[Line]:
    """The person's prompt and the tool results of one turn (the last one if `turn` is ""), in order."""
    records = [each for each in _records(path) if not each.get("isSidechain")]
    begin = next((place for place in reversed(range(len(records))) if _opens(records[place], turn)), None)
    if begin is None:
        return []
    turn_records = records[begin:]
    own = _own_calls(turn_records)
    lines = [Line("person", clean(records[begin]["message"]["content"]), *_mark(records[begin]))]
    for record in turn_records[1:]:
        if _is_prompt(record):
            break
        lines += _results(record, own)
    return lines


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL_BYTES))
        for line in file:
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield record


def _opens(record: Mapping[str, Any], turn: str) -> bool:
    return _is_prompt(record) and (not turn or record.get("promptId") == turn)


def _is_prompt(record: Mapping[str, Any]) -> bool:
    message = record.get("message")
    return (
        record.get("type") == "user"
        and isinstance(message, dict)
        and isinstance(message.get("content"), str)
        and not record.get("isMeta")
        and not record.get("isCompactSummary")
        and not message["content"].startswith(("<command-name>", "<local-command-"))
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


def _results(record: Mapping[str, Any], own: set[str]) -> list[Line]:
    at, name = _mark(record)
    lines = []
    for block in _blocks(record, "tool_result"):
        text = _plain(block.get("content"))
        if text.strip() and str(block.get("tool_use_id")) not in own:
            lines.append(
                Line("tool", clean(text[:_RESULT_CHARACTERS]), at, str(block.get("tool_use_id") or name))
            )
    return lines


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _mark(record: Mapping[str, Any]) -> tuple[str, str]:
    return str(record.get("timestamp") or ""), str(record.get("uuid") or "")
