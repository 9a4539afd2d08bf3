"""The shapes in which clients accept text from a hook."""

from __future__ import annotations

import json

from mnemo_mcp.capture.payload import HookCall

_EVENTS = {"session-open": "SessionStart", "pre-message": "UserPromptSubmit"}


def hook_output(call: HookCall, text: str) -> str:
    """The one JSON object Claude Code and Codex take, or nothing; one unknown key and they drop it whole."""
    if not text:
        return ""
    event = call.event or _EVENTS[call.moment]
    return json.dumps(
        {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}}, ensure_ascii=False
    )
