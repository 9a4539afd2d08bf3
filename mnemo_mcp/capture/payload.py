"""What a hook was given on stdin, read tolerantly: clients differ, and none of it can be trusted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_MACHINE_TAGS = (
    "task-notification",
    "system-reminder",
    "teammate-message",
    "cross-session-message",
    "channel",
    "hook_prompt",
    "environment_context",
    "turn_aborted",
    "agent-message",
    "subagent_notification",
    "user_instructions",
    "command-name",
    "command-message",
    "command-args",
    "local-command-stdout",
    "local-command-stderr",
    "local-command-caveat",
    "bash-stdout",
    "bash-stderr",
)
_MACHINE_MARK = re.compile(
    r"\[SYSTEM(?: [^\]\n]*)?\]|\[SYSTEM NOTIFICATION|\[Request interrupted by user[^\]]*\]\Z"
)
_WRAPPER = re.compile(rf"<({'|'.join(_MACHINE_TAGS)})(?:\s[^>]*)?>.*?</\1>\s*", re.DOTALL)
_YEARS = 1e9  # seconds; longer than any session has been waited for
_SLASH_COMMAND = re.compile(r"/[\w:-]+(?:\s|$)")


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call of a hook. Texts are cleaned; `turn` is the client's own id of the turn, "" without one.

    `idle_seconds` is how long ago the session that goes on was last answered, where the client tells it.
    """

    client: str
    moment: str
    session: str
    event: str
    cwd: str
    source: str
    prompt: str | None
    turn: str
    answer: str
    transcript: str
    subagent: bool
    idle_seconds: float | None = None


def read_call(client: str, moment: str, raw: bytes) -> HookCall | None:
    """The call in `raw` stdin bytes; None for anything but a JSON object with a session."""
    try:
        given = json.loads(raw.decode("utf-8-sig", errors="replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict) or not isinstance(given.get("session_id"), str) or not given["session_id"]:
        return None
    prompt = given.get("prompt")
    return HookCall(
        client=client,
        moment=moment,
        session=_text(given, "session_id"),
        event=_text(given, "hook_event_name"),
        cwd=_text(given, "cwd"),
        source=_text(given, "source"),
        prompt=clean(prompt) if isinstance(prompt, str) else None,
        turn=_text(given, "prompt_id") or _text(given, "turn_id"),
        answer=_text(given, "last_assistant_message"),
        transcript=_text(given, "transcript_path"),
        subagent=bool(given.get("agent_id")),
        idle_seconds=_seconds(given.get("seconds_since_last_response")),
    )


def clean(text: str) -> str:
    """`text` that any store can hold: half surrogate pairs replaced."""
    return text.encode("utf-8", errors="replace").decode("utf-8")


def is_notice(prompt: str) -> bool:
    """Whether a machine wrote it: a prompt that is wholly made of the clients' own wrappers."""
    text = prompt.strip()
    if _MACHINE_MARK.match(text) or (text and _wrapped(text)):
        return True
    return any(re.match(rf"<{tag}[\s>]", text) and text.endswith(f"</{tag}>") for tag in _MACHINE_TAGS)


def _wrapped(text: str) -> bool:
    """Whether nothing stands outside the wrappers; one after the other, as a prompt may be megabytes long."""
    at = 0
    while at < len(text):
        found = _WRAPPER.match(text, at)
        if found is None:
            return False
        at = found.end()
    return True


def is_command(prompt: str) -> bool:
    """Whether it is a slash command of the client."""
    return bool(_SLASH_COMMAND.match(prompt.strip()))


def _seconds(value: Any) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _YEARS
    return float(value) if usable else None


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    return clean(value) if isinstance(value, str) else ""
