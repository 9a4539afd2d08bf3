"""What a server's refusal means: its status, headers and words as one named error with what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from mnemo_mcp.errors import (
    EndpointError,
    KeyRefused,
    ModelUnknown,
    RateLimited,
    RequestRefused,
    RouteUnknown,
    ServerFailed,
)

_NO_MODEL = re.compile(
    r"model[^.]{0,80}(not found|not exist|unknown|no such|pull)|(unknown|no such|invalid) model"
    r"|model_not_found|not a valid model|no models? (is )?loaded",
    re.IGNORECASE,
)
_LONGEST_TOLD = 300
_LONGEST_WAIT = 86_400.0


def failure(status: int, headers: Mapping[str, str], text: str, shown: str, model: str) -> EndpointError:
    """The error for an answer with `status`; `shown` is the server's address as a person may see it."""
    told = _told(text)
    said = f": {told}" if told else ""
    if status < 400:
        target = headers.get("location", "elsewhere")
        return RouteUnknown(f"{shown} redirects to {target}.", "Set `url` to where the server really is.")
    if status in (401, 403):
        return KeyRefused(
            f"{shown} does not accept the key ({status}{said}).",
            "Set `key_env` or `key_file` of the endpoint to a valid key, then run `mnemo doctor --probe`.",
        )
    if status in (400, 404) and _NO_MODEL.search(text):
        return ModelUnknown(
            f"{shown} has no model {model!r}{said}.",
            "Install it there, or set `model` to one it has; `mnemo doctor --probe` lists them.",
        )
    if status in (404, 405, 501):
        return RouteUnknown(
            f"{shown} does not know this way of asking ({status}{said}).",
            "Mend the `url` of the endpoint; it often ends in /v1.",
        )
    if status in (402, 429):
        advice = "mnemo waits; a higher limit or another endpoint ends it."
        return RateLimited(
            f"{shown} wants fewer requests or its account is used up{said}.", advice, retry_seconds(headers)
        )
    if status >= 500 or status == 408:
        return ServerFailed(
            f"{shown} failed ({status}{said}).", "See the log of that server.", retry_seconds(headers)
        )
    return RequestRefused(f"{shown} refused the request ({status}{said}).", "See the log of that server.")


def retry_seconds(headers: Mapping[str, str]) -> float | None:
    """How long the server asks to be left alone, by `Retry-After` in either of its forms; a day at most."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        until, sent = _date(value), _date(headers.get("date", "")) or datetime.now(UTC)
        if until is None:
            return None
        seconds = (until - sent).total_seconds()
    return min(max(0.0, seconds), _LONGEST_WAIT) if math.isfinite(seconds) else None


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else None


def _told(text: str) -> str:
    """The server's own words out of its answer, short and on one line."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text if not text.lstrip().startswith("<") else ""
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and key in body:
            body = body[key]
    if isinstance(body, dict):
        body = body.get("message", "")
    words = " ".join(str(body or "").split())
    return words[:_LONGEST_TOLD].rstrip(".")
