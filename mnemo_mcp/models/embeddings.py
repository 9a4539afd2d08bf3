"""An encoder behind an OpenAI-compatible `/v1/embeddings`: texts leave the process, and it may be away."""

from __future__ import annotations

import importlib
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np

from mnemo_mcp.errors import (
    EndpointError,
    NotUnderstood,
    RequestRefused,
    ServerFailed,
    SettingsError,
    TimedOut,
)
from mnemo_mcp.memory import identity
from mnemo_mcp.models.cut import cut_question, sound
from mnemo_mcp.models.encoder import BATCH_TEXTS, Matrix, unit
from mnemo_mcp.models.endpoint import EndpointClient
from mnemo_mcp.models.tables import check_table
from mnemo_mcp.settings import Endpoint

_SHORTEST = 64  # characters; a text of so few is refused for another reason than its length
_NOTHING = "-"  # what stands for a text without content, and for one that is refused at any length
_TOO_MUCH = re.compile(r"too (?:large|long|many tokens)|context (?:length|size)|batch size", re.IGNORECASE)
_REST_SECONDS, _REST_SECONDS_MOST = 2.0, 300.0
_QUESTIONS_KEPT = 256
_LOOK_SECONDS = 0.1  # between two looks whether mnemo is ending
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """One model behind an address. `dims` are those the model gives; `truncate_dims` of them are kept.

    `key_env` names the environment variable with the key. Of a document `characters` are sent at most, and
    `batch` documents in one request. A question waits `question_timeout_seconds`.
    """

    url: str
    model: str
    dims: int
    key_env: str = ""
    query_prefix: str = ""
    document_prefix: str = ""
    truncate_dims: int = 0
    characters: int = 2_000
    batch: int = BATCH_TEXTS
    timeout_seconds: float = 30.0
    question_timeout_seconds: float = 1.0  # a hook before a message has 1.5 s for everything

    def encoder_id(self, name: str) -> str:
        """An id that changes with all that shapes the vectors; the same model may move to another address."""
        shaping = (self.model, self.dims, self.query_prefix, self.document_prefix, self.truncate_dims)
        return identity(f"{name}-{self.model}-{self.truncate_dims or self.dims}-", shaping)


def from_settings(name: str, table: Mapping[str, Any]) -> EndpointOptions:
    """The options of `[encoders.endpoint.<name>]`. Raises `SettingsError` for what cannot be meant."""
    where = f"encoders.endpoint.{name}"
    check_table(where, table, _TYPES)
    for key, advice in (
        ("url", "Set `url` to the address that ends in /v1."),
        ("model", "Set `model` to the name under which the server knows it."),
        ("dims", "Set `dims` to the number of dimensions of the model's vectors."),
    ):
        if not table.get(key):
            raise SettingsError(f"{where} has no {key}.", advice)
    options = EndpointOptions(**{**table, "url": table["url"].rstrip("/").removesuffix("/embeddings")})
    if not _is_address(options.url):
        raise SettingsError(f"{where}.url is {table['url']!r}.", "It begins with http:// or https://.")
    if options.truncate_dims > options.dims:
        raise SettingsError(f"{where}.truncate_dims is more than dims.", "Keep fewer, or leave it out.")
    if not 1 <= options.batch <= BATCH_TEXTS or not options.characters:
        raise SettingsError(
            f"{where} sends nothing.", f"`batch` is 1 to {BATCH_TEXTS}, `characters` more than 0."
        )
    return options


class EndpointEncoder:
    """Vectors from a server. Making one asks it nothing: whether it is there, the first text tells.

    After a failure it is left alone for a while, longer each time, and who asks meanwhile is told at once.
    """

    def __init__(
        self,
        name: str,
        options: EndpointOptions,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.id = options.encoder_id(name)
        self.dims = options.truncate_dims or options.dims
        self._options = options
        self._client = _client(name, options, options.timeout_seconds, environ)
        self._hurried = _client(name, options, options.question_timeout_seconds, environ)
        self._rest = _Rest(clock)
        self._ending = threading.Event()
        self._asked: OrderedDict[str, Matrix] = OrderedDict()
        self._lock = threading.Lock()
        importlib.import_module("openai")  # 0.8 s of CPU, which are not to fall on the first question

    def encode(self, texts: Sequence[str], *, query: bool = False) -> Matrix:
        """Unit vectors of `texts`. Raises `EndpointError` while the server gives none."""
        if query:
            rows = [self._question(self._options.query_prefix + cut_question(text)) for text in texts]
        else:
            size, most = self._options.batch, self._options.characters
            ready = [
                self._options.document_prefix + (sound(text[:most]).strip() or _NOTHING) for text in texts
            ]
            rows = [self._documents(ready[at : at + size]) for at in range(0, len(ready), size)]
        return np.concatenate(rows) if rows else np.empty((0, self.dims), np.float32)

    def close(self) -> None:
        """Wait for no answer any more: who is asking gets an `EndpointError` at once."""
        self._ending.set()

    def _question(self, text: str) -> Matrix:
        with self._lock:
            if text in self._asked:
                self._asked.move_to_end(text)
                return self._asked[text]
        vector = self._rest.unless_resting(
            lambda: self._ask(self._hurried, [text or _NOTHING], self._options.question_timeout_seconds)
        )
        with self._lock:
            self._asked[text] = vector
            while len(self._asked) > _QUESTIONS_KEPT:
                self._asked.popitem(last=False)
        return vector

    def _documents(self, texts: list[str]) -> Matrix:
        return self._rest.unless_resting(lambda: self._fitted(texts))

    def _fitted(self, texts: list[str]) -> Matrix:
        """Vectors of `texts`; where the server refuses them, one by one and of each as much as it takes."""
        try:
            return self._ask(self._client, texts, self._options.timeout_seconds)
        except (RequestRefused, ServerFailed) as error:
            if isinstance(error, ServerFailed) and not _TOO_MUCH.search(error.message):
                raise
            if len(texts) > 1:
                return np.concatenate([self._fitted([text]) for text in texts])
            if texts[0] == _NOTHING:
                raise
            shorter = texts[0][: len(texts[0]) // 2]
            return self._fitted([shorter if len(shorter) >= _SHORTEST else _NOTHING])

    def _ask(self, client: EndpointClient, texts: list[str], seconds: float) -> Matrix:
        """What the server gives, at most so late; looking up a name knows no time-out of its own."""
        found: list[Matrix] = []
        failed: list[EndpointError] = []

        def run() -> None:
            try:
                found.append(self._asked_of(client, texts))
            except EndpointError as error:
                failed.append(error)

        asking = threading.Thread(target=run, name="embedding", daemon=True)
        asking.start()
        until = time.monotonic() + seconds
        while asking.is_alive() and not self._ending.is_set() and (left := until - time.monotonic()) > 0:
            asking.join(min(left, _LOOK_SECONDS))
        if failed:
            raise failed[0]
        if not found:
            raise TimedOut(f"The model at {client.shown} did not answer within {seconds:g} s.")
        return found[0]

    def _asked_of(self, client: EndpointClient, texts: list[str]) -> Matrix:
        request = {"model": self._options.model, "input": texts, "encoding_format": "float"}
        body = client.post("/embeddings", request).body
        rows = _rows(body.get("data"), len(texts))
        if rows is None:
            raise NotUnderstood(
                f"{client.shown} gave no vector for each of {len(texts)} texts.",
                "Set `model` to one that embeds.",
            )
        if rows.shape[1] != self._options.dims:
            raise NotUnderstood(
                f"{self._options.model} at {client.shown} gives {rows.shape[1]} dimensions.",
                f"Set `dims = {rows.shape[1]}` for it, then `mnemo stop`.",
            )
        return unit(rows[:, : self.dims])


class _Rest:
    """Leaves a server alone after it failed: 2 s, then twice as long each time, up to 300."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until = 0.0
        self._seconds = _REST_SECONDS
        self._trouble: EndpointError | None = None
        self._lock = threading.Lock()

    def unless_resting(self, ask: Callable[[], _T]) -> _T:
        with self._lock:
            if self._trouble is not None and self._clock() < self._until:
                raise self._trouble.with_traceback(None)
        try:
            answer = ask()
        except EndpointError as error:
            raise self._resting(error) from None
        with self._lock:
            self._trouble, self._seconds = None, _REST_SECONDS
        return answer

    def _resting(self, error: EndpointError) -> EndpointError:
        """The same error with what follows: as long as it lasts it is told in the same words."""
        with self._lock:
            seconds = max(self._seconds, error.retry_seconds or 0)
            error.advice = f"{error.advice} It is asked again within {seconds:g} s.".strip()
            self._trouble, self._until = error, self._clock() + seconds
            self._seconds = min(2 * self._seconds, _REST_SECONDS_MOST)
            return error


def _client(
    name: str, options: EndpointOptions, timeout_seconds: float, environ: Mapping[str, str]
) -> EndpointClient:
    settings = Endpoint(options.url, options.model, options.key_env, timeout_seconds=timeout_seconds)
    return EndpointClient(name, settings, environ)


def _rows(data: Any, count: int) -> Matrix | None:
    """The vectors of an answer in the order in which the texts were given; None where some are missing."""
    try:
        ordered = sorted(data, key=lambda each: each["index"])
        if [each["index"] for each in ordered] != list(range(count)):
            return None
        rows = np.array([each["embedding"] for each in ordered], np.float32)
    except (KeyError, TypeError, ValueError):
        return None
    return rows if rows.ndim == 2 and np.isfinite(rows).all() else None


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


_TYPES: Mapping[str, type] = {
    each.name: {"str": str, "int": int, "float": float}[str(each.type)] for each in fields(EndpointOptions)
}
