"""The one way out to a language model: within the day's tokens, at no resting endpoint, never paid twice."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any, Protocol, TypeVar

from mnemo_mcp.errors import (
    CeilingReached,
    CutOff,
    EndpointError,
    ModelUnknown,
    NotUnderstood,
    RateLimited,
    RequestRefused,
    Resting,
    RouteUnknown,
    TimedOut,
    Unreachable,
)
from mnemo_mcp.memory import Instant, canonical, instant, moment
from mnemo_mcp.models.endpoint import EndpointClient, Reply
from mnemo_mcp.settings import Models
from mnemo_mcp.times import Clock

_log = logging.getLogger("mnemo")

NEVER: Instant = "9999-12-31T23:59:59.999Z"
_BYTES_A_TOKEN = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; `estimated` where the server did not count them."""

    tokens_in: int
    tokens_out: int
    estimated: bool = False


class State(Protocol):
    """How an endpoint stands (`ledger.endpoints.EndpointState`)."""

    @property
    def since(self) -> Instant: ...
    @property
    def retry_at(self) -> Instant: ...
    @property
    def problem(self) -> str: ...
    @property
    def manners(self) -> Mapping[str, Any]: ...


class States(Protocol):
    """Where it is kept (`ledger.endpoints.Endpoints`)."""

    def state(self, name: str, fingerprint: str) -> State: ...
    def admit(self, name: str, fingerprint: str, now: Instant, next_at: Instant) -> State | None: ...
    def answered(self, name: str, fingerprint: str) -> None: ...
    def failed(
        self,
        name: str,
        fingerprint: str,
        now: Instant,
        problem: tuple[str, str],
        rest: Callable[[int], Instant],
    ) -> None: ...
    def learn(self, name: str, fingerprint: str, **manners: Any) -> None: ...


class Spent(Protocol):
    """The calls of one purpose at one endpoint (`ledger.calls.Spent`)."""

    @property
    def purpose(self) -> str: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def calls(self) -> int: ...
    @property
    def tokens_in(self) -> int: ...
    @property
    def tokens_out(self) -> int: ...


class Record(Protocol):
    """Where calls are entered (`ledger.calls.Calls`)."""

    def kept(self, request: str) -> tuple[str, str] | None: ...
    def spent(self, since: Instant) -> int: ...
    def account(self, start: Instant, end: Instant) -> Sequence[Spent]: ...
    def record(
        self,
        request: str,
        purpose: str,
        endpoint: str,
        model: str,
        outcome: str,
        body: str,
        tokens: tuple[int, int],
        at: Instant,
        sources: Sequence[str],
    ) -> None: ...


class Books(Protocol):
    """What is kept between calls (`ledger.store.Store`)."""

    @property
    def calls(self) -> Record: ...
    @property
    def endpoints(self) -> States: ...


class Caller:
    """Asks one endpoint on behalf of `Chat` and `Decider`, and keeps the books about it."""

    def __init__(
        self,
        client: EndpointClient,
        limits: Models,
        books: Books,
        clock: Clock,
        zone: tzinfo,
        chance: Callable[[], float],
        count: Callable[[str], int],
    ) -> None:
        """`chance` gives numbers from 0 to 1 that spread the tries; `count` tells the tokens of a text."""
        self.client = client
        self._limits = limits
        self._record = books.calls
        self._states = books.endpoints
        self._clock = clock
        self._zone = zone
        self._chance = chance
        self.count = count
        self._fingerprint = client.fingerprint

    def ask(
        self,
        path: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], T],
        *,
        purpose: str,
        sources: Sequence[str] = (),
        trial: bool = False,
    ) -> T:
        """What `read` makes of the answer to one request; the same request made again is not sent again.

        `read` raises an `EndpointError` for an answer it cannot use: its tokens count, and it is not kept.
        With `trial` a server that does not know this way of asking is not held against the endpoint.
        Raises an `EndpointError`.
        """
        request = self._request(path, body)
        if kept := self._record.kept(request):
            with suppress(NotUnderstood, CutOff):  # an older version could make use of it
                return self._again(*kept, read)
        estimate = self._fitting(body)
        self._admit(estimate)

        def enter(outcome: str, text: str, usage: Usage) -> None:
            client, tokens = self.client, (usage.tokens_in, usage.tokens_out)
            self._record.record(
                request,
                purpose,
                client.name,
                client.settings.model,
                outcome,
                text,
                tokens,
                self._now(),
                sources,
            )

        try:
            reply = self.client.post(path, body)
        except RequestRefused as error:
            self._states.answered(self.client.name, self._fingerprint)
            enter("refused", error.message, Usage(0, 0))
            raise
        except EndpointError as error:
            if error.asked:
                enter("failed", "", Usage(estimate if isinstance(error, TimedOut) else 0, 0))
            if not (trial and isinstance(error, RouteUnknown | ModelUnknown)):
                self._failed(error)
            raise
        self._states.answered(self.client.name, self._fingerprint)
        usage = usage_of(reply, estimate)
        try:
            value = read(reply.body)
        except EndpointError:
            enter("failed", "", usage)
            raise
        enter("answered", reply.raw, usage)
        return value

    def manner(self, name: str) -> Any:
        """What was learned of the endpoint under this name, None for nothing."""
        return self._states.state(self.client.name, self._fingerprint).manners.get(name)

    def learn(self, name: str, value: Any) -> None:
        """Keep something about the endpoint until its settings change."""
        self._states.learn(self.client.name, self._fingerprint, **{name: value})

    def probe(self) -> list[str]:
        """The models the endpoint has, asked for even while it rests. Raises an `EndpointError`."""
        self.client.close()  # its key may have changed
        self._fingerprint = self.client.fingerprint
        try:
            models = self.client.models()
        except EndpointError as error:
            if error.of_endpoint and not isinstance(error, RouteUnknown):
                self._failed(error)
            raise
        self._states.answered(self.client.name, self._fingerprint)
        return models

    def resting(self) -> State | None:
        """How the endpoint stands while it must not be asked; None while it may."""
        state = self._states.state(self.client.name, self._fingerprint)
        return state if state.retry_at > self._now() else None

    def _again(self, outcome: str, body: str, read: Callable[[Mapping[str, Any]], T]) -> T:
        if outcome == "refused":
            raise RequestRefused(body, "The same request is not sent again; `mnemo doctor --probe` lets it.")
        return read(json.loads(body))

    def _request(self, path: str, body: Mapping[str, Any]) -> str:
        settings = self.client.settings
        whole = [self.client.url, path, dict(body), dict(settings.extra_body)]
        return hashlib.sha256(canonical(whole)).hexdigest()

    def _fitting(self, body: Mapping[str, Any]) -> int:
        """The tokens of a request. Raises `RequestRefused` for more than the endpoint takes."""
        tokens, most = self.count("\n".join(_texts(body))), self.client.settings.max_input_tokens
        if tokens > most:
            raise RequestRefused(
                f"A request of {tokens} tokens is more than the {most} that {self.client.shown} takes.",
                "Raise `max_input_tokens` of the endpoint if the window of its model is larger.",
            )
        return tokens

    def _admit(self, estimate: int) -> None:
        """Raise what keeps the endpoint from being asked now."""
        ceiling, now = self._limits.daily_tokens, self._clock()
        if ceiling and self._record.spent(instant(day_start(now, self._zone))) + estimate > ceiling:
            tomorrow = day_start(now, self._zone, days=1)
            raise CeilingReached(
                f"The {ceiling} tokens of this day are used up.",
                "Work goes on tomorrow; `daily_tokens` under [models] is the ceiling.",
                (tomorrow - now).total_seconds(),
            )
        next_at = instant(now + timedelta(seconds=self.client.settings.timeout_seconds))
        state = self._states.admit(self.client.name, self._fingerprint, instant(now), next_at)
        if state is None:
            return
        seconds = None if state.retry_at == NEVER else (moment(state.retry_at) - now).total_seconds()
        raise Resting(state.problem, "", seconds)

    def _failed(self, error: EndpointError) -> None:
        if error.of_endpoint:
            if self._states.state(self.client.name, self._fingerprint).problem != str(error):
                _log.warning("the model endpoint %s: %s", self.client.name, error)  # once a cause
            now = self._clock()
            self._states.failed(
                self.client.name,
                self._fingerprint,
                instant(now),
                (error.kind, str(error)),
                lambda failures: self._rest(error, failures, now),
            )

    def _rest(self, error: EndpointError, failures: int, now: datetime) -> Instant:
        """Until when the endpoint is left alone after so many failures in a row; "" to go on."""
        limits = self._limits
        if error.lasting:
            return NEVER
        at_once = error.retry_seconds is not None or isinstance(error, Unreachable | RateLimited)
        beyond = failures - (1 if at_once else limits.failures_in_row)
        if beyond < 0:
            return ""
        seconds = pause(beyond, limits.rest_seconds, limits.rest_seconds_most, self._chance())
        return instant(now + timedelta(seconds=max(seconds, error.retry_seconds or 0.0)))

    def _now(self) -> Instant:
        return instant(self._clock())


def pause(turn: int, first: float, most: float, chance: float) -> float:
    """Seconds before the next try: twice as long each turn up to `most`, less up to a third by chance."""
    return float(min(most, first * 2.0 ** min(turn, 30))) * (1.0 - chance / 3.0)


def day_start(now: datetime, zone: tzinfo, days: int = 0) -> datetime:
    """Midnight of the day it is in `zone`, or of one so many days later."""
    day = now.astimezone(zone).date() + timedelta(days=days)
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def usage_of(reply: Reply, estimate: int) -> Usage:
    """The tokens a server counted under either of the names in use; else what they come to by length."""
    usage = reply.body.get("usage")
    if isinstance(usage, Mapping):
        tokens_in = usage.get("prompt_tokens", usage.get("input_tokens"))
        tokens_out = usage.get("completion_tokens", usage.get("output_tokens", 0))
        if type(tokens_in) is int and type(tokens_out) is int:
            return Usage(tokens_in, tokens_out)
    return Usage(estimate, math.ceil(len(reply.raw.encode()) / _BYTES_A_TOKEN), estimated=True)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a request, wherever it stands."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
