"""Ways to ask typed questions: two protocols made for it, letters with their probabilities, plain JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mnemo_mcp.errors import NotUnderstood
from mnemo_mcp.models.caller import Caller
from mnemo_mcp.models.chat import completion, json_format, send
from mnemo_mcp.models.questions import (
    NO,
    REFUSED,
    YES,
    Answer,
    Choice,
    Question,
    from_shares,
    options_of,
)

LEAST_MASS = 0.5  # of the first token that must lie on the letters offered
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MOST_ORDERS = 4


class Backend(Protocol):
    """One way to ask. `calibrated` tells whether its probabilities are meant as such."""

    kind: str
    calibrated: bool

    def decide(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        """An answer to each question by name. Raises an `EndpointError`."""
        ...


class _Asking:
    """Asks a route made for decisions; with `trial` only to learn whether there is one."""

    def __init__(self, caller: Caller, trial: bool = False) -> None:
        self._caller = caller
        self._trial = trial

    def _ask(
        self,
        route: str,
        body: Mapping[str, Any],
        read: Callable[[Mapping[str, Any]], dict[str, Answer]],
        purpose: str,
        sources: Sequence[str],
    ) -> dict[str, Answer]:
        named = {"model": self._caller.client.settings.model, **body}
        return self._caller.ask(route, named, read, purpose=purpose, sources=sources, trial=self._trial)


class OpenAIDecisions(_Asking):
    """`POST /decisions`, as the openai package has it in `client.decisions`."""

    kind, calibrated = "openai", True

    def decide(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        body = {
            "input": context,
            "questions": [self._asked(each) for each in questions],
        }

        def read(answer: Mapping[str, Any]) -> dict[str, Answer]:
            found = answer.get("answers")
            if not isinstance(found, list) or len(found) != len(questions):
                raise _odd()
            return {each.name: self._read(each, told) for each, told in zip(questions, found, strict=True)}

        return self._ask("/decisions", body, read, purpose, sources)

    def _asked(self, question: Question) -> dict[str, Any]:
        asked = {"name": question.name, "instructions": question.instructions}
        if not isinstance(question, Choice):
            return {"type": "predicate", **asked}
        choices = [{"value": value, "description": told} for value, told in question.options.items()]
        return {"type": "choice", **asked, "choices": choices}

    def _read(self, question: Question, told: Any) -> Answer:
        if not isinstance(told, Mapping):
            raise _odd()
        if told.get("type") == "refusal":
            return REFUSED
        if not isinstance(question, Choice):
            return _predicate(question, told.get("probability"))
        shares = told.get("probabilities")
        if not isinstance(shares, list):
            raise _odd()
        pairs = [each for each in shares if isinstance(each, Mapping)]
        return from_shares(question, {str(each.get("value")): each.get("probability") for each in pairs})


class SystemOne(_Asking):
    """`POST /systemone`, as Ollama, llama.cpp and vLLM have it."""

    kind, calibrated = "systemone", True

    def decide(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        body = {
            "state": context,
            "questions": {each.name: self._asked(each) for each in questions},
        }

        def read(answer: Mapping[str, Any]) -> dict[str, Answer]:
            found = answer.get("answers")
            if not isinstance(found, Mapping):
                raise _odd()
            return {each.name: self._read(each, found.get(each.name)) for each in questions}

        return self._ask("/systemone", body, read, purpose, sources)

    def _asked(self, question: Question) -> dict[str, Any]:
        if not isinstance(question, Choice):
            return {"type": "noul", "instructions": question.instructions}
        return {
            "type": "choice",
            "instructions": question.instructions,
            "criteria": dict(question.options),
        }

    def _read(self, question: Question, told: Any) -> Answer:
        if told is None:
            return REFUSED
        if not isinstance(told, Mapping):
            raise _odd()
        if told.get("type") == "refusal":
            return REFUSED
        if not isinstance(question, Choice):
            return _predicate(question, told.get("noul"))
        shares = told.get("probabilities")
        if not isinstance(shares, Mapping):
            raise _odd()
        return from_shares(question, shares)


class Letters:
    """Options shown as letters; the probabilities of the first token tell how they compare.

    A model leans to some letters whatever they stand for, so every option takes each place in turn (up to
    four orders) and the answers are averaged. One question a request.
    """

    kind, calibrated = "logprobs", False

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def decide(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        return {each.name: self._answer(context, each, purpose, sources) for each in questions}

    def _answer(self, context: str, question: Question, purpose: str, sources: Sequence[str]) -> Answer:
        options = list(options_of(question))
        sums = dict.fromkeys(options, 0.0)
        orders = rotations(options)
        for order in orders:
            shares = self._shares(context, question, order, purpose, sources)
            if shares is None:
                return REFUSED
            for option, share in shares.items():
                sums[option] += share / len(orders)
        return from_shares(question, cooled(sums, self._caller.client.settings.logprob_temperature))

    def _shares(
        self, context: str, question: Question, order: Sequence[str], purpose: str, sources: Sequence[str]
    ) -> dict[str, float] | None:
        """The share of each option in one order; None where the first token is of something else."""
        told = options_of(question)
        letters = _LETTERS[: len(order)]
        lines = [f"{letter}) {_told(option, told)}" for letter, option in zip(letters, order, strict=True)]
        body = {
            "messages": _messages(context, question, lines, f"Answer with one letter: {', '.join(letters)}."),
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 20,
        }

        def read(answer: Mapping[str, Any]) -> dict[str, float] | None:
            masses = _letter_masses(answer, letters)
            whole = sum(masses.values())
            if whole < LEAST_MASS:
                return None
            return {option: masses[letter] / whole for letter, option in zip(letters, order, strict=True)}

        return send(self._caller, body, 1, read, purpose=purpose, sources=sources)


class PlainJson:
    """The answers named in JSON, without probabilities."""

    kind, calibrated = "json", False

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def decide(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        schema = {
            "type": "object",
            "properties": {
                each.name: {"type": "string", "enum": list(options_of(each))} for each in questions
            },
            "required": [each.name for each in questions],
            "additionalProperties": False,
        }
        lines = [
            f"{each.name}: {each.instructions} One of: "
            + "; ".join(_told(option, options_of(each)) for option in options_of(each))
            for each in questions
        ]
        content = f"{context}\n\n" + "\n".join(lines)
        ask = "Answer with a JSON object that gives each name its option, and nothing else."
        body = {
            "messages": [{"role": "user", "content": f"{content}\n\n{ask}"}],
            "temperature": 0,
            "response_format": json_format(schema),
        }

        def read(answer: Mapping[str, Any]) -> dict[str, Answer]:
            parsed = completion(answer, schema).parsed
            return {each.name: self._read(each, parsed.get(each.name)) for each in questions}

        most = self._caller.client.settings.max_output_tokens  # few are needed, but a model may think first
        return send(self._caller, body, most, read, purpose=purpose, sources=sources)

    def _read(self, question: Question, said: Any) -> Answer:
        return Answer(said=said) if said in options_of(question) else REFUSED


def rotations(options: Sequence[str]) -> list[list[str]]:
    """The options in so many orders that each stands in each place once; of more than four, in four."""
    count = len(options)
    steps = (
        range(count) if count <= _MOST_ORDERS else [at * count // _MOST_ORDERS for at in range(_MOST_ORDERS)]
    )
    return [[*options[step:], *options[:step]] for step in steps]


def cooled(shares: Mapping[str, float], temperature: float) -> dict[str, float]:
    """The shares with a temperature applied: above 1 they come nearer to each other."""
    powered = {option: share ** (1.0 / temperature) for option, share in shares.items()}
    whole = sum(powered.values())
    return {option: each / whole for option, each in powered.items()} if whole > 0 else dict(shares)


def _letter_masses(answer: Mapping[str, Any], letters: str) -> dict[str, float]:
    """The probability of each letter as the first token. Raises `NotUnderstood` where there are none."""
    try:
        tops = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        pairs = [(str(each["token"]).strip(" \n\t▁Ġ"), float(each["logprob"])) for each in tops]
    except (KeyError, IndexError, TypeError, ValueError):
        raise NotUnderstood(
            "The server gives no probabilities of tokens.", 'Set `decisions_api = "json"` under [models].'
        ) from None
    masses = dict.fromkeys(letters, 0.0)
    for token, logprob in pairs:
        letter = token.rstrip(").:").upper() if len(token) <= 2 else token
        if letter in masses:
            masses[letter] += math.exp(min(0.0, logprob))
    return masses


def _predicate(question: Question, probability: Any) -> Answer:
    if type(probability) not in (int, float):
        raise _odd()
    return from_shares(question, {YES: probability, NO: 1.0 - probability})


def _messages(context: str, question: Question, lines: Sequence[str], ask: str) -> list[dict[str, str]]:
    content = "\n".join([context, "", question.instructions, *lines, "", ask])
    return [{"role": "user", "content": content}]


def _told(option: str, options: Mapping[str, str]) -> str:
    return f"{option} ({options[option]})" if options[option] else option


def _odd() -> NotUnderstood:
    return NotUnderstood(
        "The server's decisions have another shape.", "See docs/models.md for what it needs."
    )
