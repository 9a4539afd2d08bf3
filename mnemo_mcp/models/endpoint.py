"""One server that speaks the OpenAI protocol: requests out, JSON back, every failure named.

Nothing is tried twice here: the work queue on disk repeats what failed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from mnemo_mcp import __version__
from mnemo_mcp.errors import NotUnderstood, TimedOut, Unreachable, Unusable
from mnemo_mcp.memory import canonical
from mnemo_mcp.models.failures import failure
from mnemo_mcp.models.proxy import proxy_for, without_credentials
from mnemo_mcp.settings import Endpoint, expanded

CONNECT_SECONDS = 10.0
MOST_BYTES = 4_000_000  # of one answer; 2,000 tokens with their alternatives are about 1 MB
_MOST_ERROR_BYTES = 20_000
_SENT = {"host", "accept", "accept-encoding", "connection", "content-type", "content-length"}
_SENT |= {"user-agent", "authorization", "x-stainless-raw-response"}


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answered, as it came and as it reads."""

    raw: str
    body: Mapping[str, Any]


class _Response(Protocol):
    """What is used of a response while it is still being received."""

    def iter_bytes(self) -> Iterator[bytes]: ...
    def close(self) -> None: ...


class EndpointClient:
    """Asks one endpoint. The package behind it is loaded, and its key read, with the first request."""

    def __init__(self, name: str, settings: Endpoint, environ: Mapping[str, str] = os.environ) -> None:
        self.name = name
        self.settings = settings
        self.url = settings.url.rstrip("/")
        self.shown = without_credentials(self.url)
        self._environ = environ
        self._opened: Any = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Changes with all that decides how the server answers: what was learned of another is void."""
        try:
            access = [self._key(), proxy_for(self.url) or ""]
        except Unusable as error:
            access = [str(error)]
        shaping = [self.url, self.settings.model, dict(self.settings.extra_body), *access]
        return hashlib.sha256(canonical(shaping)).hexdigest()[:32]

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """Send one request. Raises an `EndpointError` that says what went wrong."""
        return self._exchange("POST", path, {**body, **self.settings.extra_body})

    def models(self) -> list[str]:
        """The models the server says it has, none where any name will do; a question that costs nothing."""
        listed = self._exchange("GET", "/models", None, CONNECT_SECONDS).body.get("data")
        entries = [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
        if any(each.get("owned_by") == "llamacpp" for each in entries):
            return []  # it serves one model, whatever it is called
        return [str(each["id"]) for each in entries if "id" in each]

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def _exchange(
        self, method: str, path: str, body: Mapping[str, Any] | None, most: float = math.inf
    ) -> Reply:
        import httpx2
        import openai

        client = self._client()
        seconds = min(most, self.settings.timeout_seconds)
        until = time.monotonic() + seconds
        options: Any = {
            "headers": {"X-Stainless-Raw-Response": "stream"},  # the body is received here
            "timeout": httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
        }
        try:
            if method == "GET":
                response = client.get(path, cast_to=object, options=options)
            else:
                response = client.post(path, cast_to=object, body=body, options=options)
            raw = self._received(cast(_Response, response), until)
        except openai.APITimeoutError as error:
            raise self._late(error) from None
        except openai.APIConnectionError as error:
            raise self._unreachable(error) from None
        return Reply(raw, _object(raw, self.shown))

    def _received(self, response: _Response, until: float) -> str:
        """The whole body. An answer without end is given up for its length or its time."""
        import httpx2

        received = bytearray()
        try:
            for chunk in response.iter_bytes():
                received += chunk
                if len(received) > MOST_BYTES:
                    raise NotUnderstood(f"{self.shown} sent more than {MOST_BYTES} bytes without an end.")
                if time.monotonic() > until:
                    raise self._late(None)
        except httpx2.TimeoutException as error:
            raise self._late(error) from None
        except httpx2.HTTPError as error:
            raise self._unreachable(error) from None
        finally:
            response.close()
        return received.decode("utf-8", "replace")

    def _client(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Any:
        import httpx2
        import openai

        key = self._key()

        def only_what_is_needed(request: httpx2.Request) -> None:
            """Nothing about this machine, and no header the environment holds for another server."""
            for name in set(request.headers) - _SENT:
                del request.headers[name]
            if not key and not request.url.userinfo:
                request.headers.pop("authorization", None)
            request.headers["user-agent"] = f"mnemo/{__version__}"

        def named(response: httpx2.Response) -> None:
            """A refusal is read and named here, before the package reads it without a bound."""
            if response.status_code >= 300:
                told = _beginning(response).replace(key or "\0", "[key]")
                raise failure(response.status_code, response.headers, told, self.shown, self.settings.model)

        transport = openai.DefaultHttpxClient(
            proxy=proxy_for(self.url),
            trust_env=False,  # proxies are chosen above, and no password file is read
            verify=httpx2.create_ssl_context(),
            follow_redirects=False,
            event_hooks={"request": [only_what_is_needed], "response": [named]},
        )
        return openai.OpenAI(base_url=self.url, api_key=key or "none", max_retries=0, http_client=transport)

    def _key(self) -> str:
        """The key, "" for a server that wants none. Raises `Unusable`."""
        settings = self.settings
        if settings.key_env:
            if key := self._environ.get(settings.key_env, "").strip():
                return key
            raise Unusable(
                f"The variable {settings.key_env} with the key of the endpoint {self.name} is not set.",
                "Set it in the environment the daemon is started from, or use `key_file`; then `mnemo stop`.",
            )
        if settings.key_file:
            try:
                return expanded(settings.key_file).read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise Unusable(
                    f"The file {settings.key_file} with the key of the endpoint {self.name} cannot be read"
                    f" ({error}).",
                    "Mend it, or set another `key_file`.",
                ) from None
        return settings.key

    def _late(self, error: Exception | None) -> TimedOut | Unreachable:
        if error is not None and "Connect" in type(error.__cause__ or error).__name__:
            return self._unreachable(error)
        return TimedOut(
            f"The model at {self.shown} did not answer within {self.settings.timeout_seconds:g} s.",
            "It may be overloaded; a larger `timeout_seconds` or a smaller model helps.",
        )

    def _unreachable(self, error: Exception) -> Unreachable:
        cause = str(error.__cause__ or error) or type(error).__name__
        return Unreachable(
            f"The model endpoint {self.shown} does not answer ({cause}).", "Start it, or mend its `url`."
        )


def _beginning(response: _Response) -> str:
    received = bytearray()
    for chunk in response.iter_bytes():
        received += chunk
        if len(received) > _MOST_ERROR_BYTES:
            break
    return received.decode("utf-8", "replace")


def _object(raw: str, shown: str) -> Mapping[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise NotUnderstood(
            f"{shown} does not answer as the OpenAI protocol has it, but with {raw[:20]!r}.",
            "Mend the `url` of the endpoint; it often ends in /v1.",
        )
    return body
