"""Memories that are shown, and turns that answer: a desk for tests of use."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from desk import ATLAS, OFF, StillClock, ids_in

from mnemo_mcp.ledger.uses import Exposure
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

GATEWAY = "The gateway waits 600 s for upstream answers because the load balancer cut streams at 120 s"
ASKS = "How long does the gateway wait?"
USES_IT = "It waits 600 s, since the load balancer cut streams at 120 s."
IN_VAIN = "I sorted the imports, renamed two variables and added seven unit tests for folded headers."
EVENTS = {
    "session-open": "SessionStart",
    "pre-message": "UserPromptSubmit",
    "turn-end": "Stop",
    "session-end": "SessionEnd",
}


class Desk:
    """A service over a folder, hooks through its door, a clock that is set."""

    def __init__(self, home: Path, *, background: bool = False, **more: Any) -> None:
        self.home, self.clock = home, StillClock()
        projects = (str(home / ".claude/projects"),)
        self.settings = replace(
            Settings(home / "data", zone="UTC", encoders=OFF, transcript_roots=projects), **more
        )
        self.background = background
        self.open()

    def open(self) -> None:
        self.service = Service(self.settings, self.clock, background=self.background)

    def close(self) -> None:
        self.service.close()

    def hook(self, moment: str, session: str = "s-1", *, profile: str | None = None, **fields: Any) -> str:
        """What a hook injects, "" for nothing; a second passes."""
        self.clock.now += timedelta(seconds=1)
        client = fields.pop("client", "claude")
        payload = {"session_id": session, "cwd": ATLAS, "hook_event_name": EVENTS[moment], **fields}
        out = self.service.hook(client, moment, json.dumps(payload).encode(), profile=profile)
        return str(json.loads(out)["hookSpecificOutput"]["additionalContext"]) if out else ""

    def ask(self, session: str = "s-1", prompt: str = ASKS, turn: str = "t-1", **more: Any) -> list[str]:
        """The ids that a prompt brings."""
        return ids_in(self.hook("pre-message", session, prompt=prompt, prompt_id=turn, **more))

    def answer(self, text: str, session: str = "s-1", turn: str = "t-1", **more: Any) -> None:
        self.hook("turn-end", session, prompt_id=turn, last_assistant_message=text, **more)

    def turn(self, session: str, answer: str = IN_VAIN, prompt: str = ASKS, **more: Any) -> list[str]:
        """A whole turn in a session of its own; the ids it was given."""
        shown = self.ask(session, prompt, **more)
        self.answer(answer, session, **more)
        return shown

    def shown(self, session: str = "s-1", profile: str = "personal") -> list[Exposure]:
        return self.service.store.uses.exposures(profile, session)

    def verdicts(self, session: str = "s-1", profile: str = "personal") -> list[str]:
        return [each.verdict for each in self.shown(session, profile)]

    def muted(self, profile: str = "personal") -> set[str]:
        with self.service.store.database.read() as connection:
            return self.service.store.accounts.muted(connection, profile)

    def miss(self, times: int, mark: str, **more: Any) -> None:
        """So many turns that do without what they are shown, each in a session of its own."""
        for number in range(times):
            assert self.turn(f"{mark}-{number}", **more)
