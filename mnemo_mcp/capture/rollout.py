"""Codex rollout files: what a turn was asked, what its tools answered, what the assistant did in it.

The format is undocumented and grows with every version: unknown records are passed over, never an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mnemo_mcp.capture.payload import clean
from mnemo_mcp.capture.transcript import ACTS_CHARACTERS, RESULT_CHARACTERS, TAIL_BYTES, Line, Turn, records


def read_turn(path: Path, turn: str) -> Turn:
    """One turn (the last one if `turn` is ""), its lines in order."""
    for tail in TAIL_BYTES:
        if found := _turn([*records(path, tail)], turn):
            return _told(found)
    return Turn()


def turn_in(group: Sequence[dict[str, Any]]) -> Turn:
    """The turn that begins in these records, or nothing."""
    return _told(_turn(group, ""))


def final_answer(group: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The answer a turn ended with, and when; "" for one that was broken off."""
    for record in reversed(group):
        payload = payload_of(record)
        if payload.get("type") == "task_complete" and isinstance(payload.get("last_agent_message"), str):
            return clean(payload["last_agent_message"]), str(record.get("timestamp") or "")
    return "", ""


def _told(own: Sequence[dict[str, Any]]) -> Turn:
    lines: list[Line] = []
    acts: list[str] = []
    for record in own:
        item = _item(record)
        if item.get("type") == "UserMessage":
            lines += _line("person", _texts(item.get("content")), record, item)
        else:
            result, act = _act(item)
            lines += _line("tool", result[:RESULT_CHARACTERS], record, item)
            acts += [act] if act else []
    return Turn(tuple(lines), clean("\n".join(acts)[-ACTS_CHARACTERS:]), *_tokens(own), _id(own))


def _turn(found: Sequence[dict[str, Any]], turn: str) -> list[dict[str, Any]]:
    """The records of one turn, [] if it does not begin in what was read."""
    begins = [
        place
        for place, each in enumerate(found)
        if payload_of(each).get("type") == "task_started" and turn in ("", payload_of(each).get("turn_id"))
    ]
    if not begins:
        return []
    name = payload_of(found[begins[-1]]).get("turn_id")
    return [each for each in found[begins[-1] :] if payload_of(each).get("turn_id") == name]


def _id(own: Sequence[Mapping[str, Any]]) -> str:
    return clean(str(payload_of(own[0]).get("turn_id") or "")) if own else ""


def payload_of(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a record carries, nothing where that is no object."""
    payload = record.get("payload")
    return payload if isinstance(payload, dict) else {}


def _item(record: Mapping[str, Any]) -> Mapping[str, Any]:
    item = payload_of(record).get("item")
    return item if isinstance(item, dict) and payload_of(record).get("type") == "item_completed" else {}


def _line(role: str, text: str, record: Mapping[str, Any], item: Mapping[str, Any]) -> Iterator[Line]:
    if text.strip():
        yield Line(role, clean(text), str(record.get("timestamp") or ""), clean(str(item.get("id") or "")))


def _act(item: Mapping[str, Any]) -> tuple[str, str]:
    """What a tool answered and what it was asked, or what the assistant said; nothing of mnemo's own."""
    match item.get("type"):
        case "AgentMessage":
            return "", _texts(item.get("content"))
        case "CommandExecution":
            return str(item.get("aggregated_output") or ""), _as_text(item.get("command"))
        case "McpToolCall" if "mnemo" not in str(item.get("server")):
            result = item.get("result")
            content = result.get("content") if isinstance(result, dict) else None
            return _texts(content), _as_text(item.get("arguments"))
        case "FileChange":
            return "", _as_text(item.get("changes"))
    return "", ""


def _texts(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part)


def _as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value else ""


def _tokens(own: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """How often the model was called, and how many tokens it was given in all."""
    calls: dict[str, int] = {}
    for payload in map(payload_of, own):
        usage = payload.get("usage")
        if isinstance(usage, dict) and isinstance(usage.get("input_tokens"), int):
            calls[str(payload.get("response_id"))] = usage["input_tokens"]
    return len(calls), sum(calls.values())
