"""The account of what was said unasked: of one session in full, of many days in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import Any

from mnemo_mcp.errors import NotFound, Refused
from mnemo_mcp.ledger.accounts import Injection, Session
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED, AnsweredTurn, Exposure
from mnemo_mcp.memory import Instant, instant, moment

UNKNOWN = "unknown"
NO_QUESTIONS = ("a machine's notice", "a command", "a subagent's task")
"""Reasons to be silent that are no prompts of a person."""

_LONGEST = 200  # characters of a text that an account quotes


class Account:
    """Reads the accounts of one store. `zone` says when a day begins."""

    def __init__(self, store: Store, zone: tzinfo) -> None:
        self._store = store
        self._zone = zone

    def why(self, profile: str, session: str | None = None) -> dict[str, Any]:
        """Every injection and every silence of a session (the latest one if None), in order."""
        found = self._session(profile, session)
        accounts, uses = self._store.accounts, self._store.uses
        told = accounts.injections(profile, found.session, most=-1)[::-1]
        exposures = {(each.injection, each.memory): each for each in uses.exposures(profile, found.session)}
        prompts = self._store.episodes.many(each.prompt for each in told)
        asked = {name: episode.text for name, episode in prompts.items()}
        return {
            "session": found.session,
            "client": found.client,
            "project": found.project,
            "opened_at": found.opened_at,
            "ended_at": found.ended_at,
            "parent": found.parent,
            "tokens": sum(each.tokens for each in told),
            "moments": [self._moment(each, asked.get(each.prompt, ""), exposures, profile) for each in told],
        }

    def stats(self, profile: str, now: Instant, days: int = 30) -> dict[str, Any]:
        """What was injected in the `days` before `now`, what became of it, and why there was silence."""
        since = instant(moment(now) - timedelta(days=days))
        told = [
            each
            for each in self._store.accounts.injections(profile, most=-1)[::-1]
            if since <= each.at <= now
        ]
        turns = [each for each in self._store.uses.turns(profile) if since <= each.at <= now]
        tokens = sum(each.tokens for each in told)
        prompts = [each for each in told if each.moment == "pre-message" and each.reason not in NO_QUESTIONS]
        sessions = {each.session for each in told}
        reading = self._reading(profile, told, turns)
        verdicts = Counter(dict.fromkeys((USED, UNUSED, UNSURE, UNKNOWN), 0))
        verdicts.update(
            each.verdict or UNKNOWN
            for session in sorted(sessions)
            for each in self._store.uses.exposures(profile, session)
            if since <= each.at <= now
        )
        by_day = self._by_day(told)
        return {
            "since": since,
            "days": days,
            "sessions": len(sessions),
            "prompts": len(prompts),
            "answered_turns": len(turns),
            "tokens": tokens,
            "tokens_per_turn": _per(tokens, len(prompts)),
            "tokens_per_session": _per(tokens, len(sessions)),
            "tokens_per_day": _per(tokens, len(by_day)),
            "reading": reading,
            "memories_shown": verdicts.total(),
            "verdicts": dict(verdicts),
            "prompts_with_notes": sum(bool(each.memories) for each in prompts),
            "silent": dict(Counter(each.reason for each in told if not each.memories).most_common()),
            "by_day": by_day,
            "muted": self._muted(profile),
        }

    def _session(self, profile: str, name: str | None) -> Session:
        wanted = self._store.accounts.latest_session(profile) if name is None else name
        found = self._store.accounts.sessions(profile, wanted) if wanted else []
        if not found:
            raise NotFound(
                f"There is no session {wanted[:80]!r}." if wanted else "No session was seen yet.",
                "`mnemo stats` tells whether hooks run at all; a session is named by its client's id.",
            )
        exact = [each for each in found if each.session == wanted]
        if len(found) > 1 and not exact:
            raise Refused(f"{wanted!r} begins the names of {len(found)} sessions.", "Use more of the name.")
        return (exact or found)[0]

    def _moment(
        self,
        told: Injection,
        prompt: str,
        exposures: Mapping[tuple[int, str], Exposure],
        profile: str,
    ) -> dict[str, Any]:
        ranks = told.detail.get("found", {})
        return {
            "at": told.at,
            "moment": told.moment,
            "source": told.detail.get("source", ""),
            "prompt": _short(prompt),
            "tokens": told.tokens,
            "shown": [
                {
                    "id": memory,
                    "what": _short(self._what(memory, profile)),
                    **ranks.get(memory, {}),
                    **_verdict(exposures.get((told.seq, memory))),
                }
                for memory in told.memories
            ],
            "silent": told.reason,
            "withheld": told.detail.get("withheld", {}),
        }

    def _what(self, memory: str, profile: str) -> str:
        try:
            return self._store.truth.get(memory, profile).claim.what
        except NotFound:
            return ""

    def _reading(
        self, profile: str, told: Sequence[Injection], turns: Sequence[AnsweredTurn]
    ) -> dict[str, Any]:
        """What the model was given in all calls of these turns, and the share of it that mnemo had injected.

        A note is read again with every call as long as it stands in the context, like all else there.
        """
        read = injected = known = 0
        for session in sorted({each.session for each in turns}):
            found = self._store.accounts.sessions(profile, session)
            inside = next((each.inherited for each in found if each.session == session), 0)
            ours = [each for each in told if each.session == session]
            events: list[Injection | AnsweredTurn] = [
                *ours,
                *(each for each in turns if each.session == session),
            ]
            for event in sorted(events, key=lambda each: (each.at, isinstance(each, AnsweredTurn))):
                if isinstance(event, Injection):
                    gone = event.detail.get("source") in ("compact", "clear")
                    inside = event.tokens if gone else inside + event.tokens
                elif event.read and event.calls:
                    known += 1
                    read += event.read
                    injected += event.calls * inside
        share = round(injected / read, 5) if read else None
        return {"tokens": read or None, "injected": injected, "share": share, "turns": known}

    def _by_day(self, told: Iterable[Injection]) -> list[dict[str, Any]]:
        days: dict[str, dict[str, Any]] = {}
        for each in told:
            day = f"{moment(each.at).astimezone(self._zone):%Y-%m-%d}"
            counts = days.setdefault(day, {"day": day, "tokens": 0, "blocks": 0, "silent": 0})
            counts["tokens"] += each.tokens
            counts["blocks" if each.memories else "silent"] += 1
        return [days[day] for day in sorted(days)]

    def _muted(self, profile: str) -> list[dict[str, Any]]:
        with self._store.database.read() as connection:
            muted = self._store.accounts.muted(connection, profile)
            at_door = self._store.accounts.muted(connection, profile, door=True)
        return [
            {
                "id": each,
                "what": _short(self._what(each, profile)),
                "where": "everywhere" if each in muted else "at the door",
            }
            for each in sorted(at_door)
        ]


def _verdict(shown: Exposure | None) -> dict[str, Any]:
    if shown is None or not shown.verdict:
        return {"verdict": UNKNOWN}
    return {
        "verdict": shown.verdict,
        "probability": round(shown.probability or 0.0, 3),
        "judge": shown.judge,
        "evidence": shown.evidence,
    }


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _per(tokens: int, count: int) -> float | None:
    return round(tokens / count, 1) if count else None
