"""From a hook call to the episodes it brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path

from mnemo_mcp.capture.payload import HookCall, is_notice
from mnemo_mcp.capture.redaction import redact
from mnemo_mcp.capture.transcript import readable, turn_lines
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.memory import Episode, Instant, Role, instant


@dataclass(frozen=True, slots=True)
class Arrival:
    """The circumstances under which episodes arrive."""

    profile: str
    project: str
    received_at: Instant
    recorded_at: Instant
    zone: tzinfo


def prompt_episode(call: HookCall, arrival: Arrival) -> Episode | None:
    """The prompt of a pre-message call as an episode; a machine's notice keeps its own role."""
    if not call.prompt or not call.prompt.strip():
        return None
    role = Role.NOTICE if is_notice(call.prompt) else Role.PERSON
    return _episode(call, arrival, role, call.prompt, arrival.received_at)


def turn_episodes(call: HookCall, arrival: Arrival, roots: Sequence[Path]) -> list[Episode]:
    """What a finished turn brings: the prompt and tool results of its transcript, and the final answer."""
    found = []
    if path := readable(call.transcript, roots):
        for line in turn_lines(path, call.turn):
            role = Role.NOTICE if line.role == "person" and is_notice(line.text) else Role(line.role)
            source = line.id if role is Role.TOOL else ""
            found.append(_episode(call, arrival, role, line.text, _time(line.at, arrival), source))
    if call.answer.strip():
        found.append(_episode(call, arrival, Role.ASSISTANT, call.answer, arrival.received_at))
    return found


def _episode(
    call: HookCall, arrival: Arrival, role: Role, text: str, at: Instant, source: str = ""
) -> Episode:
    kept, _ = redact(text)
    return new_episode(
        arrival.profile,
        role,
        kept,
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
    except ValueError:
        return arrival.received_at
