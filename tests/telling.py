"""A service at a time that is set, and the story of where Ivan lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mnemo_mcp.ledger.transfer import export_lines
from mnemo_mcp.memory import EntityRef, Status, instant
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

NOW = datetime(2026, 12, 6, 12, tzinfo=UTC)
OFF = Encoders("off", "off")
CITY = {"subject": "Ivan", "field": "city"}


def open_at(home: Path, now: datetime = NOW, zone: str = "UTC") -> Service:
    return Service(Settings(home=home, zone=zone, encoders=OFF), clock=lambda: now)


def current(service: Service, question: str, **when: str) -> list[str]:
    answer = service.recall(question, **when)  # type: ignore[arg-type]
    return [found.memory.claim.what for found in answer.memories if found.status is Status.CURRENT]


def by_field(service: Service) -> None:
    say: Callable[..., Any] = service.remember
    say("Ivan lives in Lisbon", valid_from="2026-01-01", at="2026-01-01", **CITY)
    berlin = say("Ivan lives in Berlin", valid_from="2026-10-15", at="2026-11-01", **CITY)
    say("Ivan lived in Prague", valid_from="2026-10-01", valid_to="2026-10-15", at="2026-11-20", **CITY)
    say("Ivan lives in Bern", valid_from="2026-10-15", at="2026-12-01", replaces=[berlin.id], correction=True,
        **CITY)  # fmt: skip


def everything(service: Service) -> list[str]:
    return [line for line in exported(service) if "header" not in json.loads(line)]


def exported(service: Service) -> list[str]:
    return list(export_lines(service.store, instant(NOW), "test"))


def tell_much(service: Service) -> None:
    """The story with a memory kept, one erased, and one of another profile."""
    by_field(service)
    service.keep(service.recall("Bern").memories[0].memory.id)
    erased = service.remember("The vault code is KIWI-7741", entities=[EntityRef("Vault")], at="2026-12-02")
    service.forget([erased.id], "erase")
    service.remember("デプロイは木曜日 🙂", at="2026-12-03", project="atlas", profile="work")
