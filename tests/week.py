"""A scripted week of sessions, what a sensible model takes from each, and what is to be left of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conversation import ASSISTANT, USER, memory, number_of, scripted
from judging import ScriptedJudge
from openai_server import Answer, Reply, Request

Lines = tuple[tuple[str, str], ...]

POSTGRES = "Billing uses Postgres."
TUESDAYS = "Atlas is deployed on Tuesdays."
THURSDAYS = "Atlas is deployed on Thursdays, no longer on Tuesdays."
STAGING = "The staging environment is called カワセミ."
DOWN = "The EU region of the payment provider is down."
UP = "The EU region of the payment provider is up again."
WRONG = "The gateway timeout is 300 s."
RIGHT = "The gateway timeout is 600 s; it never was 300 s."
SHORT = "Answers are to be kept short."
REDIS = "Sessions are cached in Redis."
TESTS = "All 214 tests pass on branch fix/login."
IMPORTER = "Mira owns the importer."

SESSIONS: Mapping[str, Lines] = {
    "monday-1": (
        (USER, "We use Postgres for billing because billing needs transactions."),
        (ASSISTANT, "Understood. I also suggest caching sessions in Redis."),
        (USER, "Let me think about that for a while"),
    ),
    "monday-2": ((USER, "El despliegue de Atlas es los martes porque Ana revisa los lunes."),),
    "tuesday-1": (
        (USER, "ステージング環境はカワセミと呼ぶことに決めました。"),
        (ASSISTANT, "了解しました。"),
    ),
    "tuesday-2": ((USER, "The EU region of the payment provider is down right now"),),
    "wednesday": (
        (USER, "The gateway timeout is 300 s, and fix the login please"),
        (ASSISTANT, "Done: all 214 tests pass on branch fix/login."),
    ),
    "thursday-1": (
        (USER, "Atlas se despliega los jueves, ya no los martes, porque Ana revisa los miércoles."),
    ),
    "thursday-2": ((USER, "The EU region of the payment provider is up again since today"),),
    "friday-1": ((USER, "I was wrong, the gateway timeout never was 300 s, it is 600 s"),),
    "friday-2": ((USER, "今後、回答は短くしてください。"), (ASSISTANT, "はい、わかりました。")),
    "saturday": ((ASSISTANT, "Who owns the importer, Mira or Jon?"), (USER, "Mira owns the importer.")),
    "sunday": ((USER, "ok thanks"), (ASSISTANT, "You're welcome!")),
}

KEPT = {POSTGRES, THURSDAYS, STAGING, UP, RIGHT, SHORT, IMPORTER}
CLOSED = {TUESDAYS: THURSDAYS, DOWN: UP}
RETRACTED = {WRONG: RIGHT}
LEFT_OUT = {REDIS, TESTS}
WHY = {
    POSTGRES: "Billing needs transactions.",
    THURSDAYS: "Ana reviews on Wednesdays.",
}


def _by(part: str, what: str, kind: str = "fact", **more: Any) -> Any:
    return lambda request: [memory(what, number_of(request, part), kind=kind, **more)]


READS = scripted(
    {
        "Postgres for billing": _by("Postgres for billing", POSTGRES, "decision", why=WHY[POSTGRES]),
        "caching sessions in Redis": _by("in Redis", REDIS, "decision", who="assistant"),
        "los martes porque": _by("los martes", TUESDAYS, "decision"),
        "カワセミ": _by("カワセミ", STAGING, "decision"),
        "down right now": _by("down right now", DOWN, "state"),
        "is 300 s, and": _by("300 s", WRONG),
        "214 tests": _by("214 tests", TESTS),
        "los jueves, ya no": _by("los jueves", THURSDAYS, "decision", why=WHY[THURSDAYS]),
        "up again": _by("up again", UP, "event", when="today"),
        "never was 300 s": _by("never was", RIGHT),
        "短くして": _by("短くして", SHORT, "preference"),
        "Mira owns": _by("Mira owns", IMPORTER),
    }
)
_RELATIONS = {
    **{(new, old): "updates" for old, new in CLOSED.items()},
    **{(new, old): "contradicts" for old, new in RETRACTED.items()},
}


def _relation(claim: str, known: str) -> str:
    return _RELATIONS.get((claim, known), "different")


JUDGES = ScriptedJudge(_relation)
ROUTES = ("/chat/completions", "/decisions")


def answer(request: Request) -> Reply:
    """The model that reads and the one that judges, behind one address."""
    model: Answer = READS if request.path == "/chat/completions" else JUDGES
    return model(request)
