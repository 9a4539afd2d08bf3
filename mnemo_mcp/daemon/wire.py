"""Lines and messages: read as they were meant, refused where they cannot be, never left without an answer."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import mcp.types as types

from mnemo_mcp.capture.payload import clean


class Unreadable(Exception):
    """A line that is no message; `answer` is what to tell who waits for one, None where nobody does."""

    def __init__(self, answer: types.JSONRPCError | None) -> None:
        super().__init__()
        self.answer = answer


def read_message(line: bytes) -> types.JSONRPCMessage:
    """The message in a line. Raises `Unreadable`."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        message = _read_slowly(line)
    if isinstance(message, types.JSONRPCRequest) and message.params:
        _unwrap_arguments(message.params)
    return message


def write_message(message: types.JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def _read_slowly(line: bytes) -> types.JSONRPCMessage:
    """What the strict reader refuses: deep nesting, and half surrogates as of a text cut inside an emoji."""
    try:
        given = json.loads(clean(json.dumps(json.loads(line), ensure_ascii=False)))
    except (ValueError, RecursionError):
        raise Unreadable(None) from None  # the pipe has answered it
    try:
        return types.jsonrpc_message_adapter.validate_python(given, by_name=False)
    except ValueError:
        raise Unreadable(_refusal(given)) from None


def _refusal(given: Any) -> types.JSONRPCError | None:
    identity = given.get("id") if isinstance(given, dict) and "method" in given else None
    if not isinstance(identity, (str, int)):
        return None
    error = types.ErrorData(code=types.INVALID_REQUEST, message="This is not a JSON-RPC request.")
    return types.JSONRPCError(jsonrpc="2.0", id=identity, error=error)


def _unwrap_arguments(params: dict[str, Any]) -> None:
    """Arguments sent as the JSON text of an object are that object; anything else is left as it is."""
    if isinstance(params.get("arguments"), str):
        with suppress(ValueError, RecursionError):
            params["arguments"] = json.loads(clean(params["arguments"]))
