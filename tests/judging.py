"""A scripted decisions model, and a memory in this process that asks it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from desk import OFF, StillClock
from openai_server import ModelServer, Reply, Request, decided

from mnemo_mcp.judge.candidate import Candidate
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.memory import Claim, Instant, Kind, Role, Status, instant
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Endpoint, Models, Settings

Says = Callable[[str, str], Any]
"""What is said of a claim and a known one: a relation, surely; or probabilities; or None for a refusal."""

TUESDAY, THURSDAY = "Atlas deploys on Tuesday.", "Atlas deploys on Thursday."
PREVIOUSLY = "2026-09-01"

ABOUT_ITSELF = {"lasts": 0.9, "useful": 0.9, "grounded": 0.9}
_QUOTED = re.compile(r'\{"what":.*\}')


class ScriptedJudge:
    """Answers `/decisions` and `/systemone`, whichever is asked."""

    def __init__(self, says: Says, **about_itself: float | None) -> None:
        self.says = says
        self.about_itself: dict[str, float | None] = {**ABOUT_ITSELF, **about_itself}

    def __call__(self, request: Request) -> Reply:
        claim = _what(str(request.body.get("input") or request.body.get("state")))
        return decided(request, dict(self._answers(claim, request.body["questions"])))

    def _answers(self, claim: str, questions: Any) -> Mapping[str, Any]:
        named = (
            questions.items() if isinstance(questions, dict) else ((each["name"], each) for each in questions)
        )
        return {
            name: self._of(self.says(claim, _what(each["instructions"])))
            if name.startswith("relation")
            else self.about_itself[name]
            for name, each in named
        }

    @staticmethod
    def _of(said: Any) -> Any:
        if not isinstance(said, str):
            return said
        rest = dict.fromkeys(("same", "updates", "contradicts", "different"), 0.02)
        return {**rest, said: 0.94}


def at(share: float, relation: str) -> dict[str, float]:
    """This relation with this probability, the rest for `different` (or `same`)."""
    other = "same" if relation == "different" else "different"
    nothing = dict.fromkeys(("same", "updates", "contradicts", "different"), 0.0)
    return {**nothing, other: round(1 - share, 4), relation: share}


def _what(text: str) -> str:
    found = _QUOTED.search(text)
    assert found, text
    return str(json.loads(found[0])["what"])


def judged_by(
    server: ModelServer | None, home: Path, clock: StillClock | None = None, **models: Any
) -> Service:
    """The memory of a folder, judged by a server's model, without vectors."""
    settings = Settings(home=home, zone="UTC", encoders=OFF)
    if server is not None:
        endpoint = Endpoint(**server.settings(timeout_seconds=5.0))
        judging = models.pop("judging", settings.judging)
        chosen = Models(
            **{"endpoint": {"lm": endpoint}, "decisions": "lm", "decisions_api": "openai", **models}
        )
        settings = Settings(home=home, zone="UTC", encoders=OFF, models=chosen, judging=judging)
    return Service.open(clock=clock or StillClock(), settings=settings)


def work_off(service: Service) -> None:
    """Do every task that can be done now."""
    while service.tasks.work_off():
        pass


def candidate(
    service: Service, what: str, known_at: Instant | None = None, origin: Role = Role.PERSON, **parts: Any
) -> Candidate:
    """A candidate as distilling hands it over, its source stored."""
    known = known_at or instant(service.clock())
    more = {
        name: parts.pop(name) for name in ("valid_from", "valid_to", "support", "project") if name in parts
    }
    profile = parts.pop("profile", "personal")
    claim = Claim(what, **{"kind": Kind.FACT, **parts})
    episode = new_episode(
        profile,
        origin,
        claim.text(),
        client="claude",
        session="s",
        project=more.get("project", ""),
        turn="",
        occurred_at=known,
        zone="UTC",
        recorded_at=known,
        source=what,
    )
    with service.store.write() as tx:
        service.store.episodes.add(tx, [episode])
    return Candidate(
        claim=claim,
        episodes=(episode.id,),
        profile=profile,
        project=more.get("project", ""),
        valid_from=more.get("valid_from"),
        valid_to=more.get("valid_to"),
        known_at=known,
        assumed="valid_from" not in more,
        origin=origin,
        support=more.get("support", claim.text()),
    )


def status(service: Service, name: str, profile: str = "personal") -> Status:
    return service.store.truth.get(name, profile).status(service._now())


def known(service: Service, what: str = TUESDAY, **parts: Any) -> str:
    """A memory that is judged already."""
    name = service.remember(what, at=PREVIOUSLY, **parts).id
    work_off(service)
    return name
