"""The language models of the settings, ready to be asked, and how they stand, in words for a person."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from mnemo_mcp.errors import EndpointError
from mnemo_mcp.memory import Instant, instant, moment
from mnemo_mcp.models.caller import NEVER, Books, Caller, Spent, State, day_start
from mnemo_mcp.models.chat import Chat
from mnemo_mcp.models.decisions import Decider
from mnemo_mcp.models.endpoint import EndpointClient
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.settings import Endpoint, Models
from mnemo_mcp.times import Clock

_ACCOUNT_DAYS = 7  # of which the status tells

_log = logging.getLogger("mnemo")


@dataclass(frozen=True, slots=True)
class Probed:
    """What asking an endpoint for its models came to; `problem` is "" where all is well."""

    endpoint: str
    url: str
    model: str
    problem: str


class LanguageModels:
    """`chat` reads threads, `decider` judges; each None where the settings name no endpoint for it."""

    def __init__(
        self,
        settings: Models,
        books: Books,
        clock: Clock,
        zone: tzinfo,
        *,
        chance: Callable[[], float] = random.random,
        count: Callable[[str], int] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._record = books.calls
        self._clock = clock
        self._zone = zone
        used = dict.fromkeys(name for name in (settings.extraction, settings.decisions) if name)
        counted = count or TokenCounter().count
        self._callers: dict[str, Caller] = {}
        for name in used:
            client = EndpointClient(name, settings.endpoint[name], environ)
            self._callers[name] = Caller(client, settings, books, clock, zone, chance, counted)
            if client.settings.key:
                _log.warning("config.toml holds the key of the endpoint %s; a `key_file` is safer", name)
        reads, judges = self._callers.get(settings.extraction), self._callers.get(settings.decisions)
        off = settings.decisions_api == "off"
        self.chat = Chat(reads) if reads else None
        self.decider = Decider(judges, settings.decisions_api) if judges and not off else None

    @property
    def tokens_today(self) -> int:
        return self._record.spent(instant(day_start(self._clock(), self._zone)))

    def rests(self, use: str) -> bool:
        """Whether the endpoint for "extraction" or "decisions" must not be asked now."""
        caller = self._callers.get(getattr(self._settings, use))
        return caller is not None and caller.resting() is not None

    def status(self) -> Mapping[str, Any]:
        """Who does what at which address, and what this day has cost."""
        return {
            "endpoints": [
                {
                    "name": name,
                    "url": caller.client.shown,
                    "model": caller.client.settings.model,
                    "uses": self._uses(name),
                    "state": "resting" if caller.resting() else "ready",
                }
                for name, caller in self._callers.items()
            ],
            "decisions_api": self.decider.kind or "auto" if self.decider else "off",
            "tokens_today": self.tokens_today,
            "daily_tokens": self._settings.daily_tokens,
            "spent": self.account(_ACCOUNT_DAYS),
        }

    def account(self, days: int) -> list[dict[str, Any]]:
        """Calls, tokens and cost by day and purpose, for this day and those before it, newest first."""
        entries = []
        for day in range(0, -days, -1):
            start, end = (day_start(self._clock(), self._zone, each) for each in (day, day + 1))
            for spent in self._record.account(instant(start), instant(end)):
                entries.append(
                    {
                        "day": f"{start:%Y-%m-%d}",
                        "purpose": spent.purpose,
                        "endpoint": spent.endpoint,
                        "calls": spent.calls,
                        "tokens_in": spent.tokens_in,
                        "tokens_out": spent.tokens_out,
                        "cost": self._cost(spent),
                    }
                )
        return entries

    def _cost(self, spent: Spent) -> float:
        """What these tokens cost by the prices set; 0 where none are, or the endpoint is gone from there."""
        endpoint = self._settings.endpoint.get(spent.endpoint, Endpoint())
        return (spent.tokens_in * endpoint.price_in + spent.tokens_out * endpoint.price_out) / 1_000_000

    def problems(self, waiting: Mapping[str, str]) -> list[str]:
        """What keeps work from being done. `waiting` says what waits for each use, "14 threads" for one."""
        problems = []
        for name, caller in self._callers.items():
            if state := caller.resting():
                wait = [waiting[use] for use in self._uses(name) if waiting.get(use)]
                problems.append(self._told(state, wait))
        ceiling = self._settings.daily_tokens
        if self._callers and ceiling and self.tokens_today >= ceiling and any(waiting.values()):
            wait = [each for each in waiting.values() if each]
            problems.append(
                f"The {ceiling} tokens of this day are used up; {' and '.join(wait)}"
                " wait for tomorrow. `daily_tokens` under [models] is the ceiling."
            )
        return problems

    def probe(self) -> list[Probed]:
        """Ask every endpoint in use for its models, whatever it failed at before; costs no tokens."""
        return [self._probed(name, caller) for name, caller in self._callers.items()]

    def close(self) -> None:
        for caller in self._callers.values():
            caller.client.close()

    def _probed(self, name: str, caller: Caller) -> Probed:
        settings = caller.client.settings
        try:
            found = caller.probe()
        except EndpointError as error:
            return Probed(name, caller.client.shown, settings.model, str(error))
        problem = ""
        if found and settings.model not in found and f"{settings.model}:latest" not in found:
            known = ", ".join(found[:10])
            problem = (
                f"{caller.client.shown} has no model {settings.model!r}. Set `model` to one of: {known}."
            )
        return Probed(name, caller.client.shown, settings.model, problem)

    def _uses(self, name: str) -> list[str]:
        return [use for use in ("extraction", "decisions") if getattr(self._settings, use) == name]

    def _told(self, state: State, waiting: list[str]) -> str:
        wait = f" {' and '.join(waiting)} wait." if waiting else ""
        again = (
            "It is not asked again until the settings change or `mnemo doctor --probe` finds it well."
            if state.retry_at == NEVER
            else f"Next try {self._time(state.retry_at)}."
        )
        return f"{state.problem} So since {self._time(state.since)}.{wait} {again}"

    def _time(self, at: Instant) -> str:
        local, now = moment(at).astimezone(self._zone), self._clock().astimezone(self._zone)
        return f"{local:%H:%M}" if _same_day(local, now) else f"{local:%Y-%m-%d %H:%M}"


def _same_day(one: datetime, other: datetime) -> bool:
    return one.date() == other.date()
