"""mnemo behind the protocol for scenarios of changing facts: a clock, explicit dates, links given or not."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from mnemo_mcp.service import Service
from mnemo_mcp.settings import Settings


class Mnemo:
    """One store. Handles are memory ids; all instants are ISO texts in UTC."""

    name = "mnemo"

    def __init__(self, root: Path) -> None:
        self._now = datetime(2000, 1, 1, tzinfo=UTC)
        self._service = Service.open(
            settings=Settings(home=root / "data", zone="UTC"), clock=lambda: self._now
        )

    def remember(
        self,
        text: str,
        told: str,
        valid_from: str,
        valid_to: str | None,
        closes: list[str],
        retracts: list[str],
        cuts: list[str],
    ) -> str:
        self._now = _instant(told)
        return self._service.remember(
            text,
            valid_from=valid_from,
            valid_to=valid_to,
            replaces=[*closes, *retracts, *cuts],
            correction=bool(retracts),
        ).id

    def recall(self, query: str, k: int, now: str, valid_at: str | None, known_at: str | None) -> list[str]:
        self._now = _instant(now)
        answer = self._service.recall(query, limit=k, valid_at=valid_at, known_at=known_at)
        return [found.memory.id for found in answer.memories]

    def close(self) -> None:
        self._service.close()


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
