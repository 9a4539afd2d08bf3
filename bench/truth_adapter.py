"""mnemo behind the protocol for scenarios of changing facts: a clock, explicit dates, links given or not."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from scripted_judge import serving

from mnemo_mcp.service import Service
from mnemo_mcp.settings import Endpoint, Models, Settings

SCENARIOS = Path(__file__).parent / "data/changing_facts.jsonl"


class Mnemo:
    """One store. Handles are memory ids; all instants are ISO texts in UTC."""

    name = "mnemo"

    def __init__(self, root: Path, models: Models | None = None) -> None:
        self._now = datetime(2000, 1, 1, tzinfo=UTC)
        self._service = Service.open(
            settings=Settings(home=root / "data", zone="UTC", models=models or Models()),
            clock=lambda: self._now,
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
        name = self._service.remember(
            text,
            valid_from=valid_from,
            valid_to=valid_to,
            replaces=[*closes, *retracts, *cuts],
            correction=bool(retracts),
        ).id
        while self._service.tasks.work_off("judge"):
            pass  # what a daemon does in the background
        return name

    def recall(self, query: str, k: int, now: str, valid_at: str | None, known_at: str | None) -> list[str]:
        self._now = _instant(now)
        answer = self._service.recall(query, limit=k, valid_at=valid_at, known_at=known_at)
        return [found.memory.id for found in answer.memories]

    def close(self) -> None:
        self._service.close()


class JudgedMnemo(Mnemo):
    """With a decisions model that knows the scenarios of MNEMO_BENCH_SCENARIOS, and errs a little."""

    name = "mnemo, judged"

    def __init__(self, root: Path) -> None:
        file = Path(os.environ.get("MNEMO_BENCH_SCENARIOS", SCENARIOS))
        self._server = serving([json.loads(line) for line in file.read_text("utf-8").splitlines()])
        self._server.__enter__()
        endpoint = Endpoint(**self._server.settings())
        super().__init__(root, Models(endpoint={"scripted": endpoint}, decisions="scripted", daily_tokens=0))

    def close(self) -> None:
        super().close()
        self._server.__exit__(None, None, None)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
