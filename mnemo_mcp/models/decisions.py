"""Deciding: typed questions to whatever way of asking a server knows, found out once and remembered."""

from __future__ import annotations

from collections.abc import Sequence

from mnemo_mcp.errors import ModelUnknown, NotUnderstood, RequestRefused, RouteUnknown
from mnemo_mcp.models.backends import Backend, Letters, OpenAIDecisions, PlainJson, SystemOne
from mnemo_mcp.models.caller import Caller
from mnemo_mcp.models.questions import Answer, Choice, Question

_MANNER = "decisions"
_TRIAL = Choice("trial", "Which of these is the name of a colour?", {"blue": "", "seven": "", "quickly": ""})


class Decider:
    """Asks typed questions. An answer that is refused, or without probability, closes and merges nothing."""

    def __init__(self, caller: Caller, api: str) -> None:
        """`api` is auto, openai, systemone, logprobs or json."""
        self._caller = caller
        self._api = api

    @property
    def kind(self) -> str:
        """The way of asking in use, "" while it is not known yet; thresholds go by it."""
        return str(self._caller.manner(_MANNER) or "") if self._api == "auto" else self._api

    @property
    def model(self) -> str:
        """The name of the model that is asked."""
        return self._caller.client.settings.model

    @property
    def calibrated(self) -> bool:
        """Whether the probabilities are meant as such, and not read off a language model's next token."""
        return bool(self.kind) and self._backend(self.kind).calibrated

    def decide(
        self, context: str, questions: Sequence[Question], *, purpose: str, sources: Sequence[str] = ()
    ) -> dict[str, Answer]:
        """An answer to each question by its name. Raises an `EndpointError`."""
        if not questions:
            return {}
        if self.kind:
            return self._in_use(context, questions, purpose, sources)
        return self._first(context, questions, purpose, sources)

    def _in_use(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        try:
            return self._backend(self.kind).decide(context, questions, purpose, sources)
        except RouteUnknown:
            if self._api == "auto":
                self._caller.learn(_MANNER, "")  # another server stands there now
            raise

    def _first(
        self, context: str, questions: Sequence[Question], purpose: str, sources: Sequence[str]
    ) -> dict[str, Answer]:
        """Ask in one way after the other until one is known to the server, and remember it."""
        for backend in (OpenAIDecisions(self._caller, trial=True), SystemOne(self._caller, trial=True)):
            try:
                answers = backend.decide(context, questions, purpose, sources)
            except (RouteUnknown, ModelUnknown, RequestRefused, NotUnderstood):
                continue
            self._caller.learn(_MANNER, backend.kind)
            return answers
        fallback = self._letters_or_json()
        answers = fallback.decide(context, questions, purpose, sources)
        self._caller.learn(_MANNER, fallback.kind)
        return answers

    def _letters_or_json(self) -> Backend:
        letters = Letters(self._caller)
        try:
            tried = letters.decide("", [_TRIAL], "trial", ())[_TRIAL.name]
        except (NotUnderstood, RequestRefused):
            return PlainJson(self._caller)
        return PlainJson(self._caller) if tried.refused else letters

    def _backend(self, kind: str) -> Backend:
        match kind:
            case "openai":
                return OpenAIDecisions(self._caller)
            case "systemone":
                return SystemOne(self._caller)
            case "logprobs":
                return Letters(self._caller)
            case _:
                return PlainJson(self._caller)
