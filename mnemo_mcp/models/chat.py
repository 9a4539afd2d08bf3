"""Chat completions: messages in, a text or a JSON value out, whatever of the protocol the server can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mnemo_mcp.errors import CutOff, NotUnderstood, RequestRefused
from mnemo_mcp.models.caller import Caller
from mnemo_mcp.models.reading import read_json, without_loop, without_thoughts

PATH = "/chat/completions"

T = TypeVar("T")

Messages = Sequence[Mapping[str, str]]
"""`{"role": "system" | "user" | "assistant", "content": text}`, in order."""


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer. With a schema `parsed` has its outer shape; what is in it is still to be checked.

    `finish_reason` is "stop", "length" where the answer was cut off and `parsed` holds what was whole, or
    "loop" where it repeated itself and was cut.
    """

    text: str
    parsed: Any
    finish_reason: str


class Chat:
    """Completions of one endpoint."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def max_input_tokens(self) -> int:
        return self._caller.client.settings.max_input_tokens

    @property
    def max_output_tokens(self) -> int:
        return self._caller.client.settings.max_output_tokens

    @property
    def count(self) -> Callable[[str], int]:
        """What a text costs."""
        return self._caller.count

    def tokens(self, messages: Messages) -> int:
        """What messages cost, their roles included."""
        return sum(self._caller.count(each["content"]) + 4 for each in messages)

    def complete(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None = None,
        *,
        purpose: str,
        max_output_tokens: int | None = None,
        sources: Sequence[str] = (),
        outer: Mapping[str, Any] | None = None,
    ) -> Completion:
        """Ask once. `sources` are the ids of what the messages are made of: erased with them is the answer.

        `outer` is the least shape an answer must have, where that is less than `schema` asks for.
        Raises an `EndpointError`; `RequestRefused` without a call for more tokens than the endpoint takes.
        """
        most = min(max_output_tokens or self.max_output_tokens, self.max_output_tokens)
        body = {"messages": [dict(each) for each in messages], "temperature": 0}

        def read(answer: Mapping[str, Any]) -> Completion:
            return completion(answer, schema if outer is None else outer)

        shaped = {**body, "response_format": json_format(schema)} if schema is not None else body
        return send(self._caller, shaped, most, read, purpose=purpose, sources=sources)


def send(
    caller: Caller,
    body: Mapping[str, Any],
    most: int,
    read: Callable[[Mapping[str, Any]], T],
    *,
    purpose: str,
    sources: Sequence[str],
) -> T:
    """Send a completion in the manner its server takes it.

    What it refuses (a response format, a temperature, the old name of the limit) is left out or renamed,
    once, and from then on where that was what it minded.
    """
    tried: list[str] = []
    while True:
        refused = [*(caller.manner("refused") or ()), *tried]
        request = _in_manner(caller, body, most, refused)
        try:
            answer = caller.ask(PATH, request, read, purpose=purpose, sources=sources)
        except RequestRefused as error:
            minded = _minded(error.message, request)
            if minded is None or minded in tried or len(tried) == 2:
                raise
            tried.append(minded)
            continue
        if tried:
            caller.learn("refused", refused)
        return answer


def _in_manner(caller: Caller, body: Mapping[str, Any], most: int, refused: Sequence[str]) -> dict[str, Any]:
    limit = "max_completion_tokens" if "max_tokens" in refused else "max_tokens"
    request = {"model": caller.client.settings.model, **body, limit: most}
    return {name: value for name, value in request.items() if name not in refused}


def _minded(told: str, request: Mapping[str, Any]) -> str | None:
    """Which part of a request its server did not take, by the words of the refusal."""
    for name in ("max_tokens", "temperature"):
        if name in told and name in request:
            return name
    return "response_format" if "response_format" in request else None


def json_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The `response_format` that asks for JSON of a schema."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": dict(schema)}}


def completion(answer: Mapping[str, Any], schema: Mapping[str, Any] | None) -> Completion:
    """The completion in a server's answer. Raises `NotUnderstood` or `CutOff` where there is none to use."""
    said, reason = said_in(answer)
    text, looped = without_loop(without_thoughts(said))
    reason = "loop" if looped else reason
    if not text:
        if reason == "length":
            raise CutOff(
                "The model used up its answer's tokens before it said anything.",
                "Raise `max_output_tokens`, or turn its thinking off through `extra_body`.",
            )
        raise NotUnderstood("The model's answer is empty.", "Try another model if this goes on.")
    if schema is None:
        return Completion(text, None, reason)
    read = read_json(text, schema)
    if read is None:
        if reason == "length":
            raise CutOff(
                "The model's answer was cut off before any of it was whole.", "Raise `max_output_tokens`."
            )
        raise NotUnderstood(
            f"The model's answer of {len(text)} characters is not the JSON asked for.",
            "Try another model if this goes on.",
        )
    if not read.whole and reason == "stop":
        reason = "length"  # some servers do not tell
    return Completion(text, read.value, reason)


def said_in(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The text of the first choice and why it ended. Raises `NotUnderstood` for another shape."""
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    if not isinstance(choice, Mapping) or not isinstance(content, str | None):
        raise NotUnderstood(
            "The answer of the model's server holds no message.", "See the log of that server."
        )
    return content or "", str(choice.get("finish_reason") or "stop")
