"""Past transcripts: the sessions that clients have kept, and each of them turn by turn, in one pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from mnemo_mcp.capture import rollout, transcript
from mnemo_mcp.capture.transcript import Turn, readable, records

CLAUDE, CODEX = "claude", "codex"

_HEAD_RECORDS = 40  # in which a session says when and where it began
_ROLLOUT = "rollout-"
_REMEMBERED_PROMPTS = 64  # more than ever wait in a client's queue


@dataclass(frozen=True, slots=True)
class PastSession:
    """A session's file, and when it began by its own record ("" where it does not say)."""

    path: Path
    client: str
    began: str


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One finished turn of a past session: its lines, its final answer, and where it was."""

    session: str
    cwd: str
    turn: Turn
    answer: str = ""
    answered_at: str = ""

    @property
    def at(self) -> str:
        """When it began, "" where nothing says so."""
        return next((line.at for line in self.turn.lines if line.at), self.answered_at)


def past_sessions(roots: Iterable[Path], client: str = "") -> list[PastSession]:
    """The sessions kept in `roots`, those that began first first; of one client or of both."""
    found: dict[Path, PastSession] = {}
    folders = list(roots)
    for root in folders:
        for file in sorted(root.rglob("*.jsonl")) if root.is_dir() else ():
            session = past_session(str(file), folders)
            if session is not None and client in ("", session.client):
                found.setdefault(session.path, session)
    return sorted(found.values(), key=lambda each: (each.began, str(each.path)))


def past_session(file: str, roots: Iterable[Path]) -> PastSession | None:
    """The session kept in a file inside `roots`; a subagent's transcript is none."""
    path = readable(file, roots)
    if path is None or "subagents" in path.parts:
        return None
    return PastSession(path, CODEX if path.name.startswith(_ROLLOUT) else CLAUDE, _began(path))


def past_turns(session: PastSession) -> Iterator[PastTurn]:
    """The turns of a session in order; what belongs to none is passed over."""
    size = session.path.stat().st_size
    read = _rollout_turns if session.client == CODEX else _claude_turns
    return read(session.path, records(session.path, size))


def _began(path: Path) -> str:
    size = path.stat().st_size
    stamps = (str(each.get("timestamp") or "") for each in islice(records(path, size), _HEAD_RECORDS))
    return next(filter(None, stamps), "")


def _claude_turns(path: Path, found: Iterable[dict[str, Any]]) -> Iterator[PastTurn]:
    group: list[dict[str, Any]] = []
    asked: deque[tuple[str, str]] = deque(maxlen=_REMEMBERED_PROMPTS)
    for record in found:
        if record.get("isSidechain"):
            continue
        if transcript.begins_turn(record, transcript.turn_of(group[0]) if group else ""):
            yield from _claude_turn(path, group, asked)
            group = []
        if group or transcript.begins_turn(record, ""):
            group.append(record)
    yield from _claude_turn(path, group, asked)


def _claude_turn(
    path: Path, group: list[dict[str, Any]], asked: deque[tuple[str, str]]
) -> Iterator[PastTurn]:
    if not group:
        return
    turn = transcript.turn_in(group)
    lines = []
    for line in turn.lines:
        if line.role == "person":
            line = replace(line, earlier=_earlier(line.text, asked))
            asked.append((turn.id, line.text))
        lines.append(line)
    answer, at = transcript.final_answer(group)
    session = next((each["sessionId"] for each in group if isinstance(each.get("sessionId"), str)), path.stem)
    cwd = next((each["cwd"] for each in group if isinstance(each.get("cwd"), str)), "")
    yield PastTurn(session, cwd, replace(turn, lines=tuple(lines)), answer, at)


def _earlier(text: str, asked: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The turns, nearest first, that ran since the same was last asked."""
    turns: dict[str, None] = {}
    for turn, known in reversed(list(asked)):
        if known == text:
            break
        turns[turn] = None
    return tuple(turns)[: transcript.EARLIER_TURNS]


def _rollout_turns(path: Path, found: Iterable[dict[str, Any]]) -> Iterator[PastTurn]:
    meta: Mapping[str, Any] = {}
    group: list[dict[str, Any]] = []
    for record in found:
        if record.get("type") == "session_meta" and not meta:
            meta = rollout.payload_of(record)
        if rollout.payload_of(record).get("type") == "task_started":
            yield from _rollout_turn(path, meta, group)
            group = []
        group.append(record)
    yield from _rollout_turn(path, meta, group)


def _rollout_turn(path: Path, meta: Mapping[str, Any], group: list[dict[str, Any]]) -> Iterator[PastTurn]:
    turn = rollout.turn_in(group)
    if not turn.id:
        return
    answer, at = rollout.final_answer(group)
    yield PastTurn(str(meta.get("id") or path.stem), str(meta.get("cwd") or ""), turn, answer, at)
