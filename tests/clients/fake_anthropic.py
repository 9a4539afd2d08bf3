"""A scripted local stand-in for the Messages API: it keeps what clients ask and answers from a script.

Enough for a real client to hold whole sessions without a network: text and tool calls, streamed or not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopback import Handler, Json, Scripted


@dataclass(frozen=True)
class Call:
    """An answer that calls a tool, named by the end of its name."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)


Answer = str | Call


class FakeAnthropic(Scripted[Answer]):
    """What Claude Code takes for the Messages API. All that it is asked is, line by line, in `log`.

    A request that offers tools is the conversation itself and takes the next answer of the script; any other
    is a side errand (a title, a check), gets `aside`, and is not in `requests`.
    """

    aside = '{"title": "A session"}'

    def __init__(self, log: Path) -> None:
        self._log = log
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return self.address

    def message(self, body: Json) -> Json:
        """The whole answer to a request."""
        with self._lock:
            self._keep(body)
            content, stop = self._content(body)
        usage = {
            "input_tokens": len(json.dumps(body)) // 4,
            "output_tokens": len(json.dumps(content)) // 4,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        }
        return {
            "id": f"msg_{next(self._ids):08}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    def _keep(self, body: Json) -> None:
        with self._log.open("a", encoding="utf-8") as log:
            log.write(json.dumps(body) + "\n")
        if body.get("tools"):
            self.requests.append(body)

    def _content(self, body: Json) -> tuple[list[Json], str]:
        if not body.get("tools"):
            return [{"type": "text", "text": self.aside}], "end_turn"
        answer = self._next()
        if isinstance(answer, str):
            return [{"type": "text", "text": answer}], "end_turn"
        name = next(each["name"] for each in body["tools"] if each["name"].endswith(answer.tool))
        call = {
            "type": "tool_use",
            "id": f"toolu_{next(self._ids):08}",
            "name": name,
            "input": dict(answer.input),
        }
        return [call], "tool_use"


def text_of(content: Any) -> str:
    """All the text of a message's content, tool results included."""
    if isinstance(content, str):
        return content
    parts = [block.get("text") or text_of(block.get("content")) for block in content or []]
    return "\n".join(part for part in parts if part)


class _Handler(Handler):
    def do_POST(self) -> None:
        body = self.body()
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self.send(200, {"input_tokens": len(json.dumps(body)) // 4})
        elif path != "/v1/messages":
            self.send(404, {"type": "error", "error": {"type": "not_found_error", "message": "not here"}})
        elif body.get("stream"):
            self.stream(_events(self.server.stand_in.message(body)))
        else:
            self.send(200, self.server.stand_in.message(body))

    def do_HEAD(self) -> None:
        self.send(200, {})

    do_GET = do_HEAD


def _events(message: Json) -> Iterator[Json]:
    """A message as the API streams it: an empty one, its blocks piece by piece, its end."""
    usage = {**message["usage"], "output_tokens": 1}
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None, "usage": usage},
    }
    for index, block in enumerate(message["content"]):
        empty, delta = _in_pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def _in_pieces(block: Json) -> tuple[Json, Json]:
    """A block as it begins, and what is then added to it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    pieces = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": pieces}
