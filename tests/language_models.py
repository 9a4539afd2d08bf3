"""Language models connected to a model's server, over a store of their own, at a time that is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from openai_server import ModelServer

from mnemo_mcp.ledger.store import Store
from mnemo_mcp.models.chat import Chat, Completion
from mnemo_mcp.models.connected import LanguageModels
from mnemo_mcp.models.decisions import Decider
from mnemo_mcp.settings import Endpoint, Models

BEGIN = datetime(2026, 9, 14, 9, 30, tzinfo=UTC)
THREAD = [{"role": "user", "content": "The gateway listens on port 8443."}]
MEMORIES: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "memories": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"what": {"type": "string"}},
                "required": ["what"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["memories"],
    "additionalProperties": False,
}


@dataclass
class Connected:
    """One model for both uses. `again` connects anew to the same store, as after a restart."""

    folder: Path
    server: ModelServer | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    zone: tzinfo = UTC
    now: datetime = BEGIN
    chance: float = 0.0

    def __post_init__(self) -> None:
        self.again()

    def again(self, **endpoint: Any) -> None:
        self.endpoint = {**self.endpoint, **endpoint}
        served = self.server.settings() if self.server else {}
        described = Endpoint(**{"timeout_seconds": 5.0, **served, **self.endpoint})
        settings = Models(
            **{"endpoint": {"lm": described}, "extraction": "lm", "decisions": "lm", **self.limits}
        )
        self.store = Store(self.folder / "mnemo.db", self.now)
        self.models = LanguageModels(
            settings,
            self.store,
            lambda: self.now,
            self.zone,
            chance=lambda: self.chance,
            environ=self.environ,
        )

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @property
    def chat(self) -> Chat:
        assert self.models.chat is not None
        return self.models.chat

    @property
    def decider(self) -> Decider:
        assert self.models.decider is not None
        return self.models.decider

    def read(self, content: str = THREAD[0]["content"], **more: Any) -> Completion:
        """Have a thread read, as distilling does."""
        messages = [{"role": "user", "content": content}]
        return self.chat.complete(messages, MEMORIES, purpose="distil", **more)
