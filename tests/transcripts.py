"""Claude Code transcripts as a session writes them, record by record."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any


class Transcript:
    """The file of one session, among the noise that a real one is full of."""

    def __init__(self, home: Path, session: str = "s-1", project: str = "-home-dev-atlas") -> None:
        self.path = home / ".claude/projects" / project / f"{session}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._session = session
        self._numbers = itertools.count(1)
        self._parent: str | None = None

    def add(self, kind: str, **fields: Any) -> None:
        """One record in the tree of the session."""
        number = next(self._numbers)
        record = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "type": kind,
            "uuid": f"u-{number}",
            "timestamp": f"2026-03-02T09:{number // 60:02}:{number % 60:02}.000Z",
            "sessionId": self._session,
            "version": "2.1.332",
            **fields,
        }
        self._parent = f"u-{number}"
        self.raw(json.dumps(record))

    def raw(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def noise(self) -> None:
        """Records that say nothing of what was talked about."""
        self.raw(json.dumps({"type": "queue-operation", "operation": "enqueue", "content": "x"}))
        self.raw(json.dumps({"type": "api-request-blob", "hash": "ab", "message": '{"role": "user"}'}))
        self.raw(json.dumps({"type": "something-new", "message": 5, "promptId": ["?"]}))
        self.add("attachment", attachment={"type": "hook_additional_context", "content": ["<mnemo-notes>"]})
        self.add("system", subtype="stop_hook_summary", hookInfos=[{"durationMs": 80}])

    def prompt(self, text: Any, turn: str, **fields: Any) -> None:
        self.add("user", message={"role": "user", "content": text}, promptId=turn, **fields)
        self.noise()

    def says(self, text: str, stop: str = "end_turn", **fields: Any) -> None:
        blocks = [{"type": "text", "text": text}]
        self.add("assistant", message={"role": "assistant", "content": blocks, "stop_reason": stop}, **fields)
        self.noise()

    def tool(self, name: str, result: Any, turn: str, **fields: Any) -> None:
        """A call of a tool and its result."""
        called = f"toolu-{next(self._numbers)}"
        call = {"type": "tool_use", "id": called, "name": name, "input": {"query": "x"}}
        self.add("assistant", message={"role": "assistant", "content": [call], "stop_reason": "tool_use"})
        answer = {"type": "tool_result", "tool_use_id": called, "content": result}
        message = {"role": "user", "content": [answer]}
        self.add("user", message=message, promptId=turn, toolUseResult={"stdout": "x"}, **fields)
        self.noise()
