"""A scripted local stand-in for the Responses API: it keeps what Codex asks and answers from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from loopback import Handler, Json, Scripted


@dataclass(frozen=True)
class Call:
    """An answer that calls a tool. `tokens` is what the model says it has read: enough make Codex compact."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)
    namespace: str = ""
    tokens: int = 100


Answer = str | Call


class FakeResponses(Scripted[Answer]):
    """What Codex takes for the Responses API."""

    def __init__(self) -> None:
        super().__init__(_Handler)

    @property
    def url(self) -> str:
        return f"{self.address}/v1"

    def events(self, body: Json) -> Iterator[Json]:
        """The answer to a request, as the API streams it."""
        with self._lock:
            self.requests.append(body)
            answer = self._next()
            item, number = self._item(answer), next(self._ids)
        tokens = answer.tokens if isinstance(answer, Call) else 100
        response = {
            "id": f"resp_{number:06}",
            "object": "response",
            "created_at": 0,
            "model": body.get("model"),
        }
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 10,
        }
        begun = {**response, "status": "in_progress", "output": []}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        done = {**response, "status": "completed", "output": [item], "usage": usage}
        yield {"type": "response.completed", "response": done}

    def _item(self, answer: Answer) -> Json:
        number = next(self._ids)
        if isinstance(answer, str):
            content = [{"type": "output_text", "text": answer, "annotations": []}]
            head = {"type": "message", "id": f"msg_{number:06}", "role": "assistant", "status": "completed"}
            return {**head, "content": content}
        called = {
            "name": answer.tool,
            "call_id": f"call_{number:06}",
            "arguments": json.dumps(dict(answer.input)),
        }
        if answer.namespace:
            called["namespace"] = answer.namespace
        return {"type": "function_call", "id": f"fc_{number:06}", "status": "completed", **called}


class _Handler(Handler):
    def do_POST(self) -> None:
        body = self.body()
        if not self.path.endswith("/responses"):
            self.send_error(404)
            return
        self.stream(self.server.stand_in.events(body))

    def do_GET(self) -> None:
        self.send_error(404)
