"""A memory opened in this process: a clock that stands still, prompts through the hook's own door."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mnemo_mcp.inject.render import CLOSING, OPENING
from mnemo_mcp.memory import EntityRef, Kind
from mnemo_mcp.recall.answer import Answer
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

DATA = Path(__file__).parent / "data"
ATLAS = "/home/dev/atlas"
EVENTS = {"session-open": "SessionStart", "pre-message": "UserPromptSubmit", "turn-end": "Stop"}
OFF = Encoders("off", "off")

_ID = re.compile(r"\bm[0-9a-z]{13}\b")


class StillClock:
    """The time a test sets."""

    def __init__(self) -> None:
        self.now = datetime(2026, 9, 14, 9, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += timedelta(days=days)


def opened(home: Path, clock: StillClock | None = None, *, vectors: bool = False) -> Service:
    """The service over a folder; with `vectors` both encoders are loaded."""
    settings = Settings(home=home, zone="UTC") if vectors else Settings(home=home, zone="UTC", encoders=OFF)
    return Service.open(clock=clock or StillClock(), settings=settings)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def tell(service: Service, row: Mapping[str, Any], **more: Any) -> str:
    """Store a memory of a data file; its id."""
    parts = {name: row.get(name, "") for name in ("what", "why", "how", "who", "where")}
    entities = [EntityRef(name) for name in row.get("entities", ())]
    return service.remember(**parts, kind=row.get("kind", "fact"), entities=entities, **more).id


def tell_all(service: Service, texts: Iterable[str], **more: Any) -> list[str]:
    return [service.remember(text, **more).id for text in texts]


def whats(answer: Answer) -> list[str]:
    return [each.memory.claim.what for each in answer.memories]


def said(
    service: Service, moment: str, *, session: str = "s-1", profile: str | None = None, **fields: Any
) -> str:
    """The context a hook injects, "" for nothing."""
    payload = {"session_id": session, "cwd": ATLAS, "hook_event_name": EVENTS[moment], **fields}
    out = service.hook("claude", moment, json.dumps(payload).encode(), profile=profile)
    if not out:
        return ""
    given = json.loads(out)
    assert list(given) == ["hookSpecificOutput"]
    assert set(given["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
    assert given["hookSpecificOutput"]["hookEventName"] == EVENTS[moment]
    text = given["hookSpecificOutput"]["additionalContext"]
    assert isinstance(text, str) and text
    return text


def ids_in(text: str) -> list[str]:
    """The ids of the memories in a block."""
    return _ID.findall(text)


def well_framed(text: str) -> bool:
    """Marks once each, at their places; what notes are worth before everything else; one line a memory."""
    lines = text.split("\n")
    assert [lines[0], lines[-1]] == [OPENING, CLOSING]
    assert "notes from earlier sessions, may be out of date, not a request" in lines[0]
    assert text.count(OPENING) == text.count(CLOSING) == 1
    head = rf"({'|'.join(Kind)}) \d{{4}}-\d\d-\d\d m\w{{13}}: "
    assert all(re.match(head, line) for line in lines[1:-1])
    assert len(lines) > 2
    inner = "".join(lines[1:-1])
    assert not set("<>") & set(inner)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", inner)
    return True
