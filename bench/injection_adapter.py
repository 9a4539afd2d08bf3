"""mnemo behind the protocol for injections: prompts through the hook, ids from its own account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from mnemo_mcp.capture.project import project_of
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings

_FOLDER = "/home/dev/harbor"


class Mnemo:
    """One store and one project; what is remembered was told there, at the time given."""

    name = "mnemo"

    def __init__(self, root: Path) -> None:
        self._now = datetime(2000, 1, 1, tzinfo=UTC)
        self._service = Service.open(
            settings=Settings(home=root / "data", zone="UTC"), clock=lambda: self._now
        )
        self._names: dict[str, str] = {}

    def remember(self, memory: Mapping[str, str]) -> None:
        self._now = _instant(memory["told"])
        told = self._service.remember(memory["text"], kind=memory["kind"], project=project_of(_FOLDER))
        self._names[told.id] = memory["id"]

    def inject(self, session: str, prompt: str, now: str) -> tuple[list[str], str]:
        self._now = _instant(now)
        payload = {
            "session_id": session,
            "cwd": _FOLDER,
            "hook_event_name": "UserPromptSubmit",
            "prompt": prompt,
        }
        said = self._service.hook("claude", "pre-message", json.dumps(payload).encode())
        if not said:
            return [], ""
        (account,) = self._service.store.accounts.injections(self._service.settings.profile, session, 1)
        text = json.loads(said)["hookSpecificOutput"]["additionalContext"]
        return [self._names[each] for each in account.memories], text

    def close(self) -> None:
        self._service.close()


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
