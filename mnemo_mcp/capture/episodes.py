"""From a hook call to the episodes it brings."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from pathlib import Path

from mnemo_mcp.capture import rollout, transcript
from mnemo_mcp.capture.payload import HookCall, is_notice
from mnemo_mcp.capture.redaction import redact
from mnemo_mcp.capture.transcript import Line, Turn, readable
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.memory import Episode, Instant, Role, instant


@dataclass(frozen=True, slots=True)
class Arrival:
    """The circumstances under which episodes arrive. `answer_by`: whoever asks waits no longer than that."""

    profile: str
    project: str
    received_at: Instant
    recorded_at: Instant
    zone: tzinfo
    answer_by: Instant | None = None


Stored = Callable[[Iterable[str]], Container[str]]
"""Which of some episodes, by id, are stored already."""


def prompt_episode(call: HookCall, arrival: Arrival) -> Episode | None:
    """The prompt of a pre-message call as an episode; a machine's notice keeps its own role."""
    if not call.prompt or not call.prompt.strip():
        return None
    return _episode(call, arrival, _speaker(call.prompt), _safe(call.prompt), arrival.received_at)


@dataclass(frozen=True, slots=True)
class Finished:
    """A finished turn: its episodes, and the ids of the prompts it answers and of its final answer ("").

    `acts` is what the assistant said and did on the way; see `transcript.Turn` for `calls` and `read`.
    """

    episodes: tuple[Episode, ...] = ()
    prompts: tuple[str, ...] = ()
    answer: str = ""
    acts: str = ""
    calls: int = 0
    read: int = 0


def finished_turn(call: HookCall, arrival: Arrival, roots: Sequence[Path], stored: Stored) -> Finished:
    """What a finished turn brings: the prompt and tool results of its transcript, and the final answer."""
    path = readable(call.transcript, roots)
    reader = rollout if call.client == "codex" else transcript
    turn = reader.read_turn(path, call.turn) if path else Turn()
    if call.moment == "session-end":  # which names no turn
        call = replace(call, turn=call.turn or turn.id)
    return _finished(call, arrival, turn, arrival.received_at, stored)


def past_turn(call: HookCall, arrival: Arrival, turn: Turn, answered_at: str, stored: Stored) -> Finished:
    """What a turn brings that is long over; its episodes have the ids they would have got then."""
    return _finished(call, arrival, turn, _time(answered_at, arrival), stored)


def _finished(call: HookCall, arrival: Arrival, turn: Turn, answered: Instant, stored: Stored) -> Finished:
    found: list[Episode] = []
    prompts: list[str] = []
    for line in turn.lines:
        fresh, names = _told(call, arrival, line, stored)
        found += fresh
        prompts += names
    answer = ""
    if call.answer.strip():
        found.append(_episode(call, arrival, Role.ASSISTANT, _safe(call.answer), answered))
        answer = found[-1].id
    return Finished(tuple(found), tuple(prompts), answer, _safe(turn.acts), turn.calls, turn.read)


def _told(
    call: HookCall, arrival: Arrival, line: Line, stored: Stored
) -> tuple[Sequence[Episode], Sequence[str]]:
    """The episode of one line and the id of the prompt it is; no episode where one was stored under the
    turn that ran when the prompt was typed."""
    text, at = _safe(line.text), _time(line.at, arrival)
    if line.role == "tool":
        return [_episode(call, arrival, Role.TOOL, text, at, line.id)], ()
    role = _speaker(line.text)
    queued = [
        _episode(replace(call, turn=turn), arrival, role, text, at).id
        for turn in line.earlier
        if turn != call.turn
    ]
    there = stored(queued)
    known = [each for each in queued if each in there]
    if known:
        return (), known[:1]
    fresh = _episode(call, arrival, role, text, at)
    return [fresh], [fresh.id]


def _speaker(prompt: str) -> Role:
    return Role.NOTICE if is_notice(prompt) else Role.PERSON


def _safe(text: str) -> str:
    return redact(text)[0]


def _episode(
    call: HookCall, arrival: Arrival, role: Role, text: str, at: Instant, source: str = ""
) -> Episode:
    return new_episode(
        arrival.profile,
        role,
        text,
        client=call.client,
        session=call.session,
        project=arrival.project,
        turn=call.turn,
        occurred_at=at,
        zone=str(arrival.zone),
        recorded_at=arrival.recorded_at,
        source=source,
    )


def _time(text: str, arrival: Arrival) -> Instant:
    try:
        return instant(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return arrival.received_at
