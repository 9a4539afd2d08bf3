"""A small store with a row in every table, kept so that each later version proves that it opens it.

`python tests/make_schema_fixture.py` writes tests/data/schema-N.db, N being the schema in use. Until the
release of that schema it is made anew whenever the tables change; from the release on it is frozen.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from conversation import answers, memory
from judging import ScriptedJudge
from openai_server import ModelServer, Reply, Request, decided, fails, says
from tiny_onnx import tiny_model

from mnemo_mcp.ledger.schema import SCHEMA_VERSION
from mnemo_mcp.memory import EntityRef
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Endpoint, Models, Settings
from mnemo_mcp.times import Clock

DATA = Path(__file__).resolve().parent / "data"
BEGIN = datetime(2026, 1, 5, 9, tzinfo=UTC)
END = datetime(2026, 6, 1, tzinfo=UTC)
CITY = {"subject": "Ivan", "field": "city"}

GATEWAY = "The gateway listens on port 8443"
KEPT = "Deploys wait for the review of Ada"
KNOWN = {
    GATEWAY: "current",
    KEPT: "current",
    "Ivan lives in Lisbon": "closed",
    "Ivan lives in Bern": "current",
    "The queue is RabbitMQ": "retracted",
    "The queue is NATS": "current",
    "The office is in Porto": "current",
    "The office was in Braga": "closed",
    "The front door is the gateway": "current",
}
"""How each memory stands at `END`; one more was erased."""
PROMPT = "Where do we keep the runbook of the gateway?"
REPLY = "The runbook of the gateway lies beside its charts."
LATER = "The certificates of the gateway are renewed by cron on Mondays."


def fill(service: Service) -> None:
    """What people and agents told over some months, by every operation the ledger knows."""
    say = service.remember
    gateway = [EntityRef("Atlas Gateway", "system")]
    for session in ("s-1", "s-2"):  # the second confirms
        say(GATEWAY, why="443 belongs to the proxy", kind="state", entities=gateway, session=session)
    service.keep(say(KEPT, kind="preference", who="Ada").id)
    say("Ivan lives in Lisbon", valid_from="2026-01-01", **CITY)
    say("Ivan lives in Bern", valid_from="2026-03-01", **CITY)  # closes
    queue = say("The queue is RabbitMQ").id
    say("The queue is NATS", replaces=[queue], correction=True)  # retracts
    office = say("The office is in Porto", valid_from="2026-01-01").id
    say("The office was in Braga", valid_from="2026-02-01", valid_to="2026-03-01", replaces=[office])  # cuts
    service.forget([say("The door code was written here").id], "erase")
    writer = service.writer(None, "", "cli", "", "person", None)
    service.records.alias("Atlas Gateway", "edge gateway", writer)
    say("The front door is the gateway", entities=[EntityRef("Front Door", "system")])
    service.records.merge("Front Door", "Atlas Gateway", writer)
    service.records.unmerge("Front Door", writer)
    hook(service, "session-open", "SessionStart", source="startup")
    hook(service, "pre-message", "UserPromptSubmit", prompt=PROMPT)
    hook(service, "turn-end", "Stop", last_assistant_message=REPLY)
    hook(service, "pre-message", "UserPromptSubmit", prompt="/mnemo:private", session_id="s-3")
    hook(service, "session-end", "SessionEnd")
    for _ in range(50):
        service.tasks.work_off()


class Model:
    """Reads out of each thread what no line of it supports; no two memories are one, and none is used."""

    def __init__(self) -> None:
        self._judge = ScriptedJudge(lambda claim, known: "different")

    def __call__(self, request: Request) -> Reply:
        if request.path != "/decisions":
            return says(answers(memory("The backups are kept for 90 days in Oslo.")))
        names = [each["name"] for each in request.body["questions"]]
        if any(name.startswith("relation") for name in names):
            return self._judge(request)
        return decided(request, dict.fromkeys(names, 0.02))


def hook(service: Service, moment: str, event: str, **fields: Any) -> str:
    payload = {"session_id": "s-1", "cwd": "/home/dev/atlas", "hook_event_name": event, **fields}
    return service.hook("claude", moment, json.dumps(payload).encode())


def level(service: Service) -> None:
    """Make every vector and carry every row that is lacking."""
    service.upkeep.before_answer()
    while service.upkeep.relay():
        pass


def ticking(begin: datetime) -> Clock:
    """A clock that goes on by an hour each time it is read."""
    read = 0

    def clock() -> datetime:
        nonlocal read
        read += 1
        return begin + timedelta(hours=read)

    return clock


def encoders(model: Mapping[str, Any]) -> Encoders:
    return Encoders("tiny", "tiny", {"tiny": model})


def main() -> None:
    file = DATA / f"schema-{SCHEMA_VERSION}.db"
    file.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        routes = ("/chat/completions", "/decisions")
        with ModelServer(Model(), routes) as server:
            settings = Settings(
                Path(folder) / "data",
                zone="UTC",
                encoders=encoders(tiny_model(Path(folder))),
                models=Models({"lm": Endpoint(**server.settings())}, "lm", "lm", decisions_api="openai"),
            )
            with Service.open(clock=ticking(BEGIN), settings=settings) as service:
                fill(service)
                server.answer = lambda request: fails(503, "Busy.")  # the last thread waits
                hook(service, "turn-end", "Stop", last_assistant_message=LATER, session_id="s-2")
                service.tasks.work_off()
                level(service)
                service.records.backup(file)
    print(file, file.stat().st_size)


if __name__ == "__main__":
    main()
