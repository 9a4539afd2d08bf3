"""What the pipe knows of MCP: how a session opens, and how to say that a request failed.

`opening.json` beside this file holds what a daemon of this version answers to the opening requests:
`{"initialize": {VERSION: result, ...}, "discover": result, "tools": {"legacy": result, "modern": result}}`.
"""

# ruff: noqa: PTH123

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Message = dict[str, Any]

INITIALIZE, INITIALIZED = "initialize", "notifications/initialized"
DISCOVER, TOOLS, PING = "server/discover", "tools/list", "ping"
LISTEN, CANCELLED, CALL = "subscriptions/listen", "notifications/cancelled", "tools/call"
ENVELOPE = "io.modelcontextprotocol/protocolVersion"  # in the _meta of each request of the newer protocol
PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603


class Opening:
    """The saved answers to opening requests; without a file there are none, and the daemon is waited for."""

    def __init__(self, saved: "Message") -> None:
        self._initialize: Message = saved.get("initialize", {})
        self._discover: Message = saved.get("discover", {})
        self._tools: Message = saved.get("tools", {})

    def answer(self, message: "Message", greeted: bool) -> "Message | None":
        """The result for an opening request, None for all that only the daemon can answer.

        `greeted` is whether the client has sent `initialize` in this session.
        """
        method, params = str(message.get("method")), message.get("params", {})
        if not isinstance(params, dict) or "cursor" in params:
            return None
        version = enveloped(message)
        if version is not None:
            served = version in self._discover.get("supportedVersions", ())
            known = {DISCOVER: self._discover, TOOLS: self._tools.get("modern")}
            return known.get(method) if served else None
        if method == INITIALIZE and isinstance(params.get("protocolVersion"), str):
            newest = max(self._initialize, default="")
            return self._initialize.get(params["protocolVersion"], self._initialize.get(newest))
        return {TOOLS: self._tools.get("legacy"), PING: {}}.get(method) if greeted else None


def load(file: str) -> Opening:
    """The answers saved in a file, or none."""
    try:
        with open(file, encoding="utf-8") as saved:
            return Opening(json.load(saved))
    except FileNotFoundError:
        return Opening({})


def parse(line: bytes) -> "Message | None":
    """The JSON object of a line, or None."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def is_request(message: "Message") -> bool:
    return isinstance(message.get("method"), str) and isinstance(message.get("id"), (str, int))


def is_response(message: "Message") -> bool:
    return "method" not in message and isinstance(message.get("id"), (str, int))


def cancelled(message: "Message") -> "str | int":
    """The id of the request a cancellation names; an id of no request for a broken one."""
    params = message.get("params")
    identity = params.get("requestId") if isinstance(params, dict) else None
    return identity if isinstance(identity, (str, int)) else ""


def enveloped(message: "Message") -> "str | None":
    """The protocol version a request of the newer protocol carries, or None."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(ENVELOPE) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def result(message: "Message", content: "Message") -> bytes:
    return _line({"jsonrpc": "2.0", "id": message["id"], "result": content})


def error(identity: "str | int | None", code: int, text: str) -> bytes:
    return _line({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": text}})


def failure(message: "Message", text: str) -> bytes:
    """The answer to a request that was not carried out; a failed tool call is told to the model."""
    if message["method"] != CALL:
        return error(message["id"], INTERNAL_ERROR, text)
    content: Message = {"content": [{"type": "text", "text": text}], "isError": True}
    if enveloped(message) is not None:
        content["resultType"] = "complete"
    return result(message, content)


def _line(message: "Message") -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()
