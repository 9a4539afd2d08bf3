"""Typed questions over each way of asking, and how the way a server knows is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_models import Connected
from openai_server import MODEL, ModelServer, Reply, Request, decided, fails, says, token

from mnemo_mcp import errors
from mnemo_mcp.models.backends import cooled, rotations
from mnemo_mcp.models.questions import Answer, Choice, Predicate

RELATION = Choice(
    "relation",
    "How does the new memory relate to the old one?",
    {
        "same": "It says the same.",
        "updates": "It is a later state of it.",
        "contradicts": "Both cannot be true.",
        "different": "It is about something else.",
    },
)
LASTS = Predicate("lasts", "Will this still be true in a month?")
SHARES = {"relation": {"same": 0.1, "updates": 0.6, "contradicts": 0.2, "different": 0.1}, "lasts": 0.75}
CONTEXT = "Old: the port is 8080. New: the port is 8443."


def _connected(folder: Path, server: ModelServer, api: str = "auto", **endpoint: Any) -> Connected:
    return Connected(folder, server, limits={"decisions_api": api}, endpoint=endpoint)


def _decide(connected: Connected, context: str = CONTEXT) -> dict[str, Answer]:
    return connected.decider.decide(context, [RELATION, LASTS], purpose="judge", sources=["m1"])


def _letters(weights: dict[str, float], bias: dict[str, float] | None = None) -> Callable[[Request], Reply]:
    """A model that holds each option as likely as its weight, and leans to letters by `bias`."""

    def answer(request: Request) -> Reply:
        shown = [line.split(") ", 1) for line in request.text.splitlines() if line[1:3] == ") "]
        masses = {
            letter: weights.get(option.split(" ")[0], 0.01) * (bias or {}).get(letter, 1.0)
            for letter, option in shown
        }
        whole = sum(masses.values())
        return token({letter: mass / whole * 0.98 for letter, mass in masses.items()} | {"The": 0.02})

    return answer


WEIGHTS = {
    "same": 0.1,
    "updates": 0.6,
    "contradicts": 0.2,
    "different": 0.1,
    "yes": 0.8,
    "no": 0.2,
    "blue": 1.0,
}


@pytest.mark.parametrize("api", ["openai", "systemone"])
def test_questions_are_asked_in_one_request(tmp_path: Path, api: str) -> None:
    route = {"openai": "/decisions", "systemone": "/systemone"}[api]
    with ModelServer(lambda request: decided(request, SHARES), routes=(route,)) as server:
        connected = _connected(tmp_path, server, api)
        answers = _decide(connected)
    assert answers["relation"].probabilities == pytest.approx(SHARES["relation"])
    assert answers["relation"].best == ("updates", pytest.approx(0.6))
    assert answers["lasts"].probability() == pytest.approx(0.75)
    (request,) = server.requests
    assert request.path == route and request.body["model"] == MODEL
    assert connected.decider.calibrated and connected.decider.kind == api
    (spent,) = connected.store.calls.account("", "9")
    assert (spent.purpose, spent.tokens_in) == ("judge", 100)


def test_the_questions_of_the_openai_protocol(tmp_path: Path) -> None:
    with ModelServer(lambda request: decided(request, SHARES), routes=("/decisions",)) as server:
        _decide(_connected(tmp_path, server, "openai"))
    body = server.requests[0].body
    assert body["input"] == CONTEXT
    relation, lasts = body["questions"]
    assert relation["type"] == "choice" and relation["instructions"] == RELATION.instructions
    assert relation["choices"][0] == {"value": "same", "description": "It says the same."}
    assert lasts == {"type": "predicate", "name": "lasts", "instructions": LASTS.instructions}


def test_the_questions_of_system_one(tmp_path: Path) -> None:
    with ModelServer(lambda request: decided(request, SHARES), routes=("/systemone",)) as server:
        _decide(_connected(tmp_path, server, "systemone"))
    body = server.requests[0].body
    assert body["state"] == CONTEXT
    assert body["questions"]["relation"]["criteria"] == dict(RELATION.options)
    assert body["questions"]["lasts"] == {"type": "noul", "instructions": LASTS.instructions}


@pytest.mark.parametrize("api", ["openai", "systemone"])
def test_a_refusal_is_no_answer_and_usage_may_be_missing(tmp_path: Path, api: str) -> None:
    refusing = {**SHARES, "relation": None}
    routes = ("/decisions", "/systemone")
    with ModelServer(lambda request: decided(request, refusing, usage=None), routes=routes) as server:
        connected = _connected(tmp_path, server, api)
        answers = _decide(connected)
    assert answers["relation"].refused and answers["relation"].best == ("", 0.0)
    assert answers["lasts"].probability() == pytest.approx(0.75)
    assert connected.models.tokens_today > 0  # estimated


@pytest.mark.parametrize(
    "answers",
    [
        None,
        "yes",
        [],
        [{"type": "choice"}] * 2,
        [7, 7],
        {"relation": 7, "lasts": 7},
        {"relation": {"type": "choice"}},
    ],
)
@pytest.mark.parametrize("api", ["openai", "systemone"])
def test_answers_of_another_shape_decide_nothing(tmp_path: Path, api: str, answers: Any) -> None:
    routes = ("/decisions", "/systemone")
    with ModelServer(lambda request: Reply({"answers": answers}), routes=routes) as server:
        connected = _connected(tmp_path, server, api)
        try:
            found = _decide(connected)
        except errors.NotUnderstood:
            return
    assert all(each.refused for each in found.values())


@pytest.mark.parametrize("share", [-0.5, 1.7, "high", True, None])
def test_impossible_probabilities_decide_nothing(tmp_path: Path, share: Any) -> None:
    shares = {**SHARES, "relation": {**SHARES["relation"], "same": share}}
    body = {
        "relation": {"type": "choice", "probabilities": shares["relation"]},
        "lasts": {"type": "noul", "noul": 0.5},
    }
    with ModelServer(lambda request: Reply({"answers": body}), routes=("/systemone",)) as server:
        assert _decide(_connected(tmp_path, server, "systemone"))["relation"].refused


# Letters


def test_letters_are_read_without_the_models_leaning(tmp_path: Path) -> None:
    """A model that prefers A four times over gives each option its own weight all the same, nearly."""
    with ModelServer(_letters(WEIGHTS, bias={"A": 4.0})) as server:
        connected = _connected(tmp_path, server, "logprobs")
        answers = _decide(connected)
    assert len(server.asked()) == 4 + 2
    assert answers["relation"].best[0] == "updates"
    assert abs(answers["relation"].probability("same") - answers["relation"].probability("different")) < 0.05
    assert answers["lasts"].probability() > 0.6
    assert not connected.decider.calibrated
    assert all(each.body["max_tokens"] == 1 and each.body["top_logprobs"] == 20 for each in server.asked())


def test_tokens_of_the_same_letter_count_together_and_others_not(tmp_path: Path) -> None:
    shares = {" A": 0.3, "A": 0.2, "A)": 0.1, "b": 0.2, "Answer": 0.1, "\n": 0.05}
    with ModelServer(lambda request: token(shares)) as server:
        answer = _connected(tmp_path, server, "logprobs").decider.decide(CONTEXT, [LASTS], purpose="judge")
    assert answer["lasts"].probability() == pytest.approx(0.5)  # A first for yes, then for no


def test_too_little_on_the_letters_is_no_answer(tmp_path: Path) -> None:
    with ModelServer(lambda request: token({"<think>": 0.6, "A": 0.39, "B": 0.01})) as server:
        answers = _decide(_connected(tmp_path, server, "logprobs"))
    assert all(each.refused for each in answers.values())
    assert len(server.asked()) == 2  # one look a question is enough


def test_a_temperature_takes_certainty_away(tmp_path: Path) -> None:
    with ModelServer(_letters({"yes": 0.9, "no": 0.1})) as server:
        plain = _connected(tmp_path, server, "logprobs")
        sure = plain.decider.decide(CONTEXT, [LASTS], purpose="judge")["lasts"].probability()
        plain.again(logprob_temperature=2.0)
        unsure = plain.decider.decide(CONTEXT, [LASTS], purpose="judge")["lasts"].probability()
    assert sure == pytest.approx(0.9) and unsure == pytest.approx(0.75)


@given(st.lists(st.floats(0.001, 1), min_size=2, max_size=6), st.floats(0.2, 5))
def test_a_temperature_keeps_the_order_and_the_sum(weights: list[float], temperature: float) -> None:
    shares = {str(at): each / sum(weights) for at, each in enumerate(weights)}
    after = cooled(shares, temperature)
    assert sum(after.values()) == pytest.approx(1.0)
    assert sorted(shares, key=lambda each: (shares[each], each)) == sorted(
        after, key=lambda each: (round(after[each], 12), shares[each], each)
    )


@pytest.mark.parametrize("count", range(2, 9))
def test_each_option_takes_different_places(count: int) -> None:
    orders = rotations([str(each) for each in range(count)])
    assert len(orders) == min(count, 4)
    for place in range(count):
        assert len({order[place] for order in orders}) == len(orders)


# JSON


def test_json_names_an_option_without_probability(tmp_path: Path) -> None:
    said = {"relation": "same", "lasts": "perhaps"}
    with ModelServer(lambda request: says(json.dumps(said))) as server:
        connected = _connected(tmp_path, server, "json")
        answers = _decide(connected)
    assert answers["relation"].best == ("same", 0.0) and answers["relation"].probabilities == {}
    assert answers["lasts"].refused
    schema = server.asked()[0].body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["relation"]["enum"] == list(RELATION.options)


# Finding the way


@pytest.mark.parametrize(
    ("routes", "answer", "kind", "calls"),
    [
        (("/decisions",), None, "openai", 1),
        (("/systemone",), None, "systemone", 2),
        (("/chat/completions",), _letters(WEIGHTS), "logprobs", 2 + 3 + 6),
        (
            ("/chat/completions",),
            lambda request: says('{"relation": "same", "lasts": "yes"}'),
            "json",
            2 + 1 + 1,
        ),
    ],
)
def test_auto_finds_the_way_once_and_remembers(
    tmp_path: Path, routes: tuple[str, ...], answer: Any, kind: str, calls: int
) -> None:
    with ModelServer(answer or (lambda request: decided(request, SHARES)), routes=routes) as server:
        connected = _connected(tmp_path, server)
        assert connected.decider.kind == ""
        first = _decide(connected)
        assert first["relation"].best[0] in ("updates", "same")
        assert connected.decider.kind == kind and len(server.requests) == calls
        connected.again()
        assert connected.decider.kind == kind
        _decide(connected, "another pair")
        assert all(each.path in routes for each in server.requests[calls:])


@pytest.mark.parametrize(
    "refusal", [fails(404), fails(405), fails(501), fails(400, "unknown route"), fails(422)]
)
def test_any_way_of_not_knowing_a_route_leads_on(tmp_path: Path, refusal: Reply) -> None:
    def answer(request: Request) -> Reply:
        return decided(request, SHARES) if request.path == "/systemone" else refusal

    with ModelServer(answer, routes=("/decisions", "/systemone")) as server:
        connected = _connected(tmp_path, server)
        assert _decide(connected)["lasts"].probability() == pytest.approx(0.75)
    assert connected.decider.kind == "systemone"
    assert connected.models.problems({}) == []


def test_a_server_that_is_down_teaches_nothing(tmp_path: Path) -> None:
    with ModelServer(lambda request: fails(500), routes=("/decisions", "/systemone")) as server:
        connected = _connected(tmp_path, server)
        with pytest.raises(errors.ServerFailed):
            _decide(connected)
        assert connected.decider.kind == ""
        server.answer = lambda request: decided(request, SHARES)
        _decide(connected)
    assert connected.decider.kind == "openai"


def test_a_server_that_lost_its_route_is_looked_at_anew(tmp_path: Path) -> None:
    with ModelServer(lambda request: decided(request, SHARES), routes=("/systemone",)) as server:
        connected = _connected(tmp_path, server)
        _decide(connected)
        server.routes, server.answer = ("/chat/completions",), _letters(WEIGHTS)
        with pytest.raises(errors.RouteUnknown):
            _decide(connected, "second")
        assert connected.models.probe()[0].problem == ""
        _decide(connected, "second")
    assert connected.decider.kind == "logprobs"


def test_off_is_off(tmp_path: Path) -> None:
    with ModelServer(lambda request: decided(request, SHARES)) as server:
        connected = _connected(tmp_path, server, "off")
        assert connected.models.decider is None and connected.models.status()["decisions_api"] == "off"
    assert not server.requests


def test_no_questions_cost_nothing(tmp_path: Path) -> None:
    with ModelServer(lambda request: fails(500)) as server:
        assert _connected(tmp_path, server).decider.decide(CONTEXT, [], purpose="judge") == {}
    assert not server.requests
