"""The judge through the service: what each verdict does, what stops it, and how it is taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from desk import StillClock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judging import (
    PREVIOUSLY,
    THURSDAY,
    TUESDAY,
    ScriptedJudge,
    at,
    candidate,
    judged_by,
    known,
    status,
    work_off,
)
from openai_server import ModelServer, fails

from mnemo_mcp.commands.record import _told_history
from mnemo_mcp.daemon import texts
from mnemo_mcp.daemon.verbs import Caller, answer_json, history
from mnemo_mcp.errors import EndpointError, Refused
from mnemo_mcp.judge.candidate import candidate_of
from mnemo_mcp.ledger.truth import ledger_row
from mnemo_mcp.memory import EntityRef, Kind, Operation, Role, Status
from mnemo_mcp.service import Service


@pytest.fixture
def judge() -> ScriptedJudge:
    return ScriptedJudge(lambda claim, known: "different")


@pytest.fixture
def server(judge: ScriptedJudge) -> Iterator[ModelServer]:
    with ModelServer(judge, routes=("/decisions",)) as serving:
        yield serving


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def service(server: ModelServer, tmp_path: Path, clock: StillClock) -> Iterator[Service]:
    with judged_by(server, tmp_path / "data", clock) as opened:
        yield opened


def memory(service: Service, name: str) -> Any:
    return service.store.truth.get(name, "personal")


def answers(service: Service) -> str:
    """What an agent reads, to the byte."""
    return texts.recall(answer_json(service.recall("when does Atlas deploy?")))


# What a distilled candidate becomes


def test_same_confirms(service: Service, judge: ScriptedJudge) -> None:
    first = known(service, "Atlas stores its data in PostgreSQL.")
    judge.says = lambda claim, known: "same"
    told = candidate(service, "The data of Atlas is kept in PostgreSQL.")
    outcome = service.judge.settle(told)
    assert (outcome.outcome, outcome.id) == ("confirmed", first)
    assert set(told.episodes) < set(memory(service, first).episodes)
    assert service.status()["memories"] == 1


def test_updates_closes_the_old_one_when_the_new_one_begins(service: Service, judge: ScriptedJudge) -> None:
    first = known(service)
    judge.says = lambda claim, known: "updates"
    outcome = service.judge.settle(candidate(service, THURSDAY, valid_from="2026-09-10T00:00:00.000Z"))
    assert outcome.outcome == "updated" and outcome.closed == (first,)
    old, new = memory(service, first), memory(service, outcome.id)
    assert old.valid_to == "2026-09-10T00:00:00.000Z" and old.replaced_by == (new.id,)
    assert new.replaces == (first,)
    assert "updates" in old.reason and "0.94" in old.reason
    assert next(each.memory.id for each in service.recall("when does Atlas deploy?").memories) == new.id


def test_contradicts_retracts(service: Service, judge: ScriptedJudge) -> None:
    first = known(service)
    judge.says = lambda claim, known: "contradicts"
    outcome = service.judge.settle(candidate(service, THURSDAY))
    assert outcome.outcome == "corrected" and outcome.retracted == (first,)
    assert memory(service, first).retracted and memory(service, first).replaced_by == (outcome.id,)


def test_a_claim_that_tells_of_a_change_closes_whatever_it_is_called(
    service: Service, judge: ScriptedJudge
) -> None:
    first = known(service)
    judge.says = lambda claim, known: "contradicts"
    outcome = service.judge.settle(candidate(service, "Atlas deploys on Thursday now, no longer on Tuesday."))
    assert outcome.closed == (first,) and not memory(service, first).retracted
    past = service.recall("when did Atlas deploy before?").memories
    assert first in [each.memory.id for each in past]


def test_different_stays_beside(service: Service) -> None:
    first = known(service)
    outcome = service.judge.settle(candidate(service, THURSDAY))
    assert outcome.outcome == "added"
    assert status(service, first) is status(service, outcome.id) is Status.CURRENT


@pytest.mark.parametrize("relation", ["same", "updates", "contradicts"])
def test_below_the_threshold_nothing_changes(service: Service, judge: ScriptedJudge, relation: str) -> None:
    first = known(service)
    before = memory(service, first)
    judge.says = lambda claim, known: at(0.59, relation)
    assert service.judge.settle(candidate(service, THURSDAY)).outcome == "added"
    assert memory(service, first) == before
    (told,) = [each for each in service.records.verdicts(first) if each.neighbour == first]
    assert told.relation == "different" and "0.59, below 0.60" in told.reason


@pytest.mark.parametrize("relation", ["updates", "contradicts"])
def test_at_the_threshold_it_acts(service: Service, judge: ScriptedJudge, relation: str) -> None:
    first = known(service)
    judge.says = lambda claim, known: at(0.6, relation)
    service.judge.settle(candidate(service, THURSDAY))
    assert status(service, first) is not Status.CURRENT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The load balancer cuts at 120 s.", "The load balancer cuts at 600 s."),
        ("API listens on port 8080.", "API listens on port 8081."),
        ("We run Postgres 15.4.", "We run Postgres 15.14."),
        ("Well mw-2 is sampled monthly.", "Well mw-3 is sampled monthly."),
        ("We chose SQLite over Postgres for easy deployment.",
         "We chose fastembed over a hosted API for local embeddings."),
        ("Task order 044 is closed.", "Task order 44 is closed."),
    ],
)  # fmt: skip
def test_the_guard_overrules_same(service: Service, judge: ScriptedJudge, old: str, new: str) -> None:
    judge.says = lambda claim, known: at(0.99, "same")
    first = known(service, old)
    second = known(service, new)
    work_off(service)
    assert [memory(service, each).claim.what for each in (first, second)] == [old, new]
    assert status(service, first) is status(service, second) is Status.CURRENT
    told = [each for each in service.records.verdicts(second) if each.neighbour == first]
    assert all(each.guard and each.done == "nothing" for each in told)


def test_the_guard_leaves_updates_alone(service: Service, judge: ScriptedJudge) -> None:
    first = known(service, "The load balancer cuts at 120 s.")
    judge.says = lambda claim, known: at(0.7, "updates")
    assert service.judge.settle(candidate(service, "The load balancer cuts at 600 s.")).closed == (first,)
    (told,) = [each for each in service.records.verdicts(first) if each.neighbour == first]
    assert any("120 s" in each for each in told.guard)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Atlas stores its data in PostgreSQL.", "The data of Atlas is kept in PostgreSQL."),
        ("Deploys happen on Thursdays.", "We ship a deploy every Thursday."),
    ],
)
def test_true_duplicates_become_one_that_cites_both(
    service: Service, judge: ScriptedJudge, old: str, new: str
) -> None:
    judge.says = lambda claim, known: at(0.99, "same")
    first, second = known(service, old), known(service, new)
    assert memory(service, second).merged_into == first
    assert len(memory(service, first).episodes) == 2
    assert len(service.recall(old).memories) == 1


@pytest.mark.parametrize("answer", ["refusal", "missing"])
def test_no_answer_is_no_verdict(service: Service, judge: ScriptedJudge, answer: str) -> None:
    first = known(service)
    judge.says = lambda claim, known: None
    outcome = service.judge.settle(candidate(service, THURSDAY))
    assert outcome.outcome == "added" and status(service, first) is Status.CURRENT
    assert any("no answer" in each.reason for each in service.records.verdicts(first))


# What it is worth


@pytest.mark.parametrize("doubt", ["lasts", "useful"])
def test_what_is_not_worth_it_stays_in_its_episodes(
    service: Service, judge: ScriptedJudge, doubt: str
) -> None:
    judge.about_itself[doubt] = 0.2
    told = candidate(service, "Three tests fail on the branch.")
    outcome = service.judge.settle(told)
    assert outcome.outcome == "refused" and service.status()["memories"] == 0
    assert service.store.episodes.get(told.episodes[0], "personal").text


def test_a_state_need_not_last(service: Service, judge: ScriptedJudge) -> None:
    judge.about_itself["lasts"] = 0.0
    assert service.judge.settle(candidate(service, "EU is down.", kind=Kind.STATE)).outcome == "added"


@pytest.mark.parametrize(("share", "why"), [(0.2, ""), (0.41, "It is fast."), (None, "It is fast.")])
def test_a_reason_nobody_gave_is_dropped_not_the_memory(
    service: Service, judge: ScriptedJudge, share: float | None, why: str
) -> None:
    judge.about_itself["grounded"] = share
    outcome = service.judge.settle(candidate(service, "Atlas uses Redis.", why="It is fast."))
    assert memory(service, outcome.id).claim.why == why


# Kinds, people and times


def test_an_event_is_closed_by_nothing(service: Service, judge: ScriptedJudge) -> None:
    first = known(service, "Atlas moved to NATS.", kind="event")
    judge.says = lambda claim, known: "updates"
    service.judge.settle(candidate(service, "Atlas moved from NATS to Kafka.", kind=Kind.EVENT))
    assert status(service, first) is Status.CURRENT


@pytest.mark.parametrize(
    ("kind", "origin", "closes"),
    [(Kind.FACT, Role.PERSON, False), (Kind.PREFERENCE, Role.ASSISTANT, False),
     (Kind.PREFERENCE, Role.PERSON, True), (Kind.DECISION, Role.PERSON, True)],
)  # fmt: skip
def test_a_preference_stands_until_a_person_changes_it(
    service: Service, judge: ScriptedJudge, kind: Kind, origin: Role, closes: bool
) -> None:
    first = known(service, "Answers are to be short.", kind="preference", by="person")
    judge.says = lambda claim, known: "updates"
    service.judge.settle(candidate(service, "Answers are to be long.", kind=kind, origin=origin))
    assert (status(service, first) is Status.CLOSED) is closes


@pytest.mark.parametrize("relation", ["updates", "contradicts"])
def test_what_a_person_keeps_is_never_closed(service: Service, judge: ScriptedJudge, relation: str) -> None:
    first = known(service)
    service.keep(first)
    judge.says = lambda claim, known: relation
    service.remember(THURSDAY)
    work_off(service)
    assert status(service, first) is Status.CURRENT


def test_a_late_fact_cuts(service: Service, judge: ScriptedJudge) -> None:
    first = service.remember("Ivan lives in Lisbon.", at="2026-01-01", valid_from="2026-01-01").id
    work_off(service)
    judge.says = lambda claim, known: "updates"
    outcome = service.judge.settle(
        candidate(
            service,
            "Ivan lived in Prague.",
            valid_from="2026-03-01T00:00:00.000Z",
            valid_to="2026-03-15T00:00:00.000Z",
        )
    )
    assert outcome.cut == (first,)
    assert [str(each.start)[:10] for each in memory(service, first).periods] == ["2026-01-01", "2026-03-15"]
    assert status(service, first) is Status.CURRENT


def test_what_began_earlier_is_what_was_replaced(service: Service, judge: ScriptedJudge) -> None:
    first = service.remember("Ivan lives in Berlin.", at="2026-09-01", valid_from="2026-08-01").id
    work_off(service)
    judge.says = lambda claim, known: "updates"
    outcome = service.judge.settle(
        candidate(service, "Ivan lives in Lisbon.", valid_from="2026-02-01T00:00:00.000Z")
    )
    assert status(service, first) is Status.CURRENT
    late = memory(service, outcome.id)
    assert late.valid_to == "2026-08-01T00:00:00.000Z" and late.replaced_by == (first,)


# Walls


def test_neighbours_stand_behind_the_same_wall(
    service: Service, server: ModelServer, judge: ScriptedJudge
) -> None:
    judge.says = lambda claim, known: "updates"
    other = service.remember(TUESDAY, profile="client-x").id
    project = service.remember("Atlas deploys on Wednesday.", project="/p/other").id
    service.judge.settle(candidate(service, THURSDAY, project="/p/atlas"))
    assert status(service, other, "client-x") is status(service, project) is Status.CURRENT
    asked = json.dumps([each.body for each in server.asked("/decisions")])
    assert THURSDAY in asked and TUESDAY not in asked and "Wednesday" not in asked


def test_at_most_eight_neighbours(service: Service, server: ModelServer) -> None:
    for number in range(15):
        service.remember(f"Atlas deploys part {number} on Tuesday.", entities=[EntityRef("Atlas")])
    service.judge.consider(candidate(service, THURSDAY, entities=(EntityRef("Atlas"),)))
    questions = server.asked("/decisions")[-1].body["questions"]
    assert sum(each["name"].startswith("relation") for each in questions) == 8


# The model away, refusing, silent


def test_a_model_that_is_down_is_waited_for(
    service: Service, server: ModelServer, judge: ScriptedJudge, clock: StillClock
) -> None:
    first = known(service)
    server.answer = lambda request: fails(503)
    second = service.remember(THURSDAY).id
    work_off(service)
    assert status(service, first) is status(service, second) is Status.CURRENT
    assert service.status()["tasks"]["judge"]["waiting"] == 1
    judge.says = lambda claim, known: "updates"
    server.answer = judge
    clock.pass_days(0.5)
    work_off(service)
    assert status(service, first) is Status.CLOSED and not service.store.work.waiting()


def test_a_candidate_the_model_cannot_be_asked_about_is_not_stored(
    service: Service, server: ModelServer
) -> None:
    server.answer = lambda request: fails(503)
    with pytest.raises(EndpointError):
        service.judge.settle(candidate(service, THURSDAY))
    assert service.status()["memories"] == 0


def test_a_request_that_is_refused_for_good_is_no_answer(
    service: Service, server: ModelServer, clock: StillClock
) -> None:
    first = known(service)
    server.answer = lambda request: fails(400, "too odd")
    second = service.remember(THURSDAY).id
    work_off(service)
    assert status(service, first) is status(service, second) is Status.CURRENT
    assert not service.store.work.waiting() and len(server.asked("/decisions")) == 1
    assert "no answer" in service.records.verdicts(second)[0].reason


def test_a_crash_between_verdict_and_write_leaves_both(
    service: Service, server: ModelServer, judge: ScriptedJudge, tmp_path: Path
) -> None:
    first = known(service)
    judge.says = lambda claim, known: "updates"
    second = service.remember(THURSDAY).id
    before = list(service.store.truth.log())

    class Crash(Exception):
        pass

    task = service.store.work.take("judge", service._now())
    assert task is not None
    with pytest.raises(Crash):
        decision = service.judge.consider(_stored(service, second))
        with service.store.write() as tx:
            service.judge.apply(tx, decision)
            raise Crash
    assert list(service.store.truth.log()) == before and not service.records.verdicts(second)
    assert status(service, first) is status(service, second) is Status.CURRENT
    service.close()
    with judged_by(server, tmp_path / "data") as again:  # what was asked is not asked again
        asked = len(server.requests)
        work_off(again)
        assert status(again, first) is Status.CLOSED and len(server.requests) == asked


def _stored(service: Service, name: str) -> Any:
    return candidate_of(memory(service, name))


# Stale decisions


def test_a_decision_about_what_changed_meanwhile_is_taken_anew(
    service: Service, judge: ScriptedJudge
) -> None:
    first = known(service)
    judge.says = lambda claim, known: "updates"
    told = candidate(service, THURSDAY)
    decision = service.judge.consider(told)
    service.forget(first)
    with service.store.write() as tx:
        assert service.judge.apply(tx, decision).outcome == "stale"
    assert service.status()["memories"] == 0
    assert service.judge.settle(told).outcome == "added"


def test_two_candidates_of_one_thread_are_compared(service: Service, judge: ScriptedJudge) -> None:
    judge.says = lambda claim, known: "updates"
    one, other = candidate(service, TUESDAY, PREVIOUSLY + "T00:00:00.000Z"), candidate(service, THURSDAY)
    decisions = [service.judge.consider(each) for each in (one, other)]
    with service.store.write() as tx:
        outcomes = [service.judge.apply(tx, each) for each in decisions]
    assert [each.outcome for each in outcomes] == ["added", "stale"]
    assert service.judge.settle(other).closed == (outcomes[0].id,)


def test_what_changes_under_every_try_is_stored_beside(service: Service, judge: ScriptedJudge) -> None:
    names = [known(service, f"Atlas deploys on Tuesday in zone {each}.") for each in ("a", "b", "c", "d")]

    def gone(claim: str, known: str) -> str:
        current = [name for name in names if memory(service, name).claim.what == known]
        for name in current:
            if not memory(service, name).retracted and len(asked) < 3 * len(names):
                asked.append(name)
                service.remember(f"{known} {len(asked)}", replaces=[name], correction=True)
        return "updates"

    asked: list[str] = []
    judge.says = gone
    assert service.judge.settle(candidate(service, THURSDAY)).outcome in ("added", "updated")


# Verdicts, in words and taken back


def test_histories_tell_verdicts_in_words(service: Service, judge: ScriptedJudge) -> None:
    first = known(service, "The load balancer cuts at 120 s.")
    judge.says = lambda claim, known: at(0.7, "updates")
    second = service.judge.settle(candidate(service, "The load balancer cuts at 600 s.")).id
    for name in (first, second):
        told = _told_history(history(service, {"id": name}, Caller()))
        assert "updates; the judge said updates at 0.70" in told and "by openai test-model; closed" in told
        assert "the guard saw figure: " in told and "verdict v" in told


@pytest.mark.parametrize("relation", ["same", "updates", "contradicts"])
def test_undo_restores_the_answers(service: Service, judge: ScriptedJudge, relation: str) -> None:
    """Byte for byte as they were with both memories, before the judge had spoken."""
    first = known(service, "Atlas deploys on Thursday.")
    judge.says = lambda claim, known: relation
    second = service.remember("Each Thursday Atlas is deployed.", valid_from="2026-09-02").id
    before = answers(service)
    work_off(service)
    assert answers(service) != before
    (verdict,) = [each for each in service.records.verdicts(first) if each.done != "nothing"]
    assert service.records.undo(verdict.id, _person(service)).outcome == "undone"
    assert answers(service) == before
    assert service.check() == []
    with pytest.raises(Refused):
        service.records.undo(verdict.id, _person(service))
    assert service.records.verdicts(first)[-1].undone_at
    service.store.truth.rebuild()
    assert answers(service) == before and status(service, second)


def _person(service: Service) -> Any:
    return service.writer(None, "", "cli", "", "person", None)


def test_a_confirmed_candidate_is_stored_by_undoing(service: Service, judge: ScriptedJudge) -> None:
    first = known(service, "Atlas stores its data in PostgreSQL.")
    before = memory(service, first)
    judge.says = lambda claim, known: "same"
    service.judge.settle(candidate(service, "The data of Atlas is kept in PostgreSQL."))
    (verdict,) = [each for each in service.records.verdicts(first) if each.done == "confirmed"]
    outcome = service.records.undo(verdict.id, _person(service))
    assert memory(service, outcome.id).claim.what.startswith("The data of Atlas")
    assert memory(service, first).episodes == before.episodes
    service.tasks.work_off()
    assert status(service, outcome.id) is Status.CURRENT  # the pair is not judged again


@pytest.mark.parametrize("doubt", ["useful", "grounded"])
def test_doubts_are_taken_back(service: Service, judge: ScriptedJudge, doubt: str) -> None:
    judge.about_itself[doubt] = 0.1
    told = candidate(service, "Atlas uses Redis.", why="It is fast.")
    bare = service.judge.settle(told).id
    with service.store.database.read() as connection:
        (name,) = connection.execute("SELECT id FROM verdicts WHERE done <> 'nothing'").fetchone()
    stored = memory(service, service.records.undo(name, _person(service)).id)
    assert stored.claim == told.claim
    if bare:
        assert memory(service, bare).merged_into == stored.id


def test_nothing_done_is_nothing_to_take_back(service: Service) -> None:
    known(service)
    second = service.judge.settle(candidate(service, THURSDAY)).id
    (told, *_) = service.records.verdicts(second)
    with pytest.raises(Refused):
        service.records.undo(told.id, _person(service))


@pytest.mark.parametrize("erased", ["candidate", "neighbour", "episode"])
def test_erasing_takes_texts_out_of_verdicts(service: Service, judge: ScriptedJudge, erased: str) -> None:
    secret = "Zanzibar"
    first = known(service, f"The code name of the 120 s timeout is {secret}.")
    judge.says = lambda claim, known: "same" if erased == "neighbour" else "updates"
    told = candidate(service, f"The timeout of 600 s has the code name {secret}.")
    second = service.judge.settle(told).id
    name = {"candidate": second, "neighbour": first, "episode": told.episodes[0]}[erased]
    service.forget([name], "erase")
    with service.store.database.read() as connection:
        rows = connection.execute(
            "SELECT candidate, guard, reason FROM verdicts WHERE memory = ? OR neighbour = ?", (second, first)
        ).fetchall()
    assert rows and secret not in str(rows) and "600 s" not in str(rows)


# Consolidation


def test_what_is_new_is_looked_through_for_repeats(
    server: ModelServer, tmp_path: Path, judge: ScriptedJudge, clock: StillClock
) -> None:
    with judged_by(None, tmp_path / "data", clock) as service:  # told while there was no model
        first = service.remember("Deploys of Atlas happen on Thursdays.", at="2026-08-01").id
        second = service.remember("We ship Atlas by a deploy every Thursday.", at="2026-08-02").id
    judge.says = lambda claim, known: "same"
    with judged_by(server, tmp_path / "data", clock) as service:
        service.tasks.maintain()
        assert not server.asked("/decisions")  # something changed a moment ago
        clock.pass_days(1)
        service.tasks.maintain()
        work_off(service)
        assert memory(service, second).merged_into == first
        assert not service.store.work.waiting()
        asked = len(server.asked("/decisions"))
        clock.pass_days(1)
        service.tasks.maintain()
        work_off(service)
        assert len(server.asked("/decisions")) == asked  # nothing is asked twice
        (verdict,) = [each for each in service.records.verdicts(first) if each.done == "merged"]
        service.records.undo(verdict.id, _person(service))
        clock.pass_days(30)
        service.tasks.maintain()
        work_off(service)
        assert status(service, second) is Status.CURRENT and len(server.asked("/decisions")) == asked


# Whatever the verdicts, the ledger stays sound

_RELATION = st.sampled_from(["same", "updates", "contradicts", "different"])
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["tell", "distil", "undo", "forget", "keep"]),
        st.integers(0, 5),
        _RELATION,
        st.floats(0.3, 1.0),
        st.sampled_from([None, "2026-03-01", "2026-08-01"]),
        st.sampled_from([None, "2026-08-15"]),
    ),
    min_size=3,
    max_size=12,
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS)
def test_any_script_of_verdicts_keeps_the_ledger_sound(
    steps: list[tuple[Any, ...]], server: ModelServer, judge: ScriptedJudge, tmp_path_factory: Any
) -> None:
    with judged_by(server, tmp_path_factory.mktemp("script") / "data") as service:
        for number, (step, which, relation, share, start, end) in enumerate(steps):
            judge.says = lambda claim, known, share=share, relation=relation: at(share, relation)
            _step(service, step, number, which, start, end)
        before = _states(service)
        assert service.check() == []
        service.store.truth.rebuild()
        assert _states(service) == before
        assert service.status()["problems"] == []


def _step(service: Service, step: str, number: int, which: int, start: str | None, end: str | None) -> None:
    what = f"Atlas deploys on day {number}, place {which}."
    names = sorted(json.loads(state)["id"] for state in _states(service))
    try:
        match step:
            case "tell":
                service.remember(what, valid_from=start, valid_to=end)
                work_off(service)
            case "distil":
                stamp = {"valid_from": f"{start}T00:00:00.000Z"} if start else {}
                service.judge.settle(candidate(service, what, **stamp))
            case "undo" if names:
                for verdict in service.records.verdicts(names[which % len(names)]):
                    if verdict.done != "nothing" and not verdict.undone_at:
                        service.records.undo(verdict.id, _person(service))
            case "forget" if names:
                service.forget(names[which % len(names)], "erase" if which == 5 else "close")
            case "keep" if names:
                service.keep(names[which % len(names)])
    except Refused:
        pass


def _states(service: Service) -> list[str]:
    with service.store.database.read() as connection:
        return [row[0] for row in connection.execute("SELECT state FROM snapshot ORDER BY id")]


def test_undoing_a_row_known_later_changes_no_earlier_answer(service: Service, judge: ScriptedJudge) -> None:
    first = service.remember(TUESDAY, at="2026-01-01").id
    work_off(service)
    judge.says = lambda claim, known: "updates"
    service.remember(THURSDAY, at="2026-03-01")
    work_off(service)
    then = service.recall("when does Atlas deploy?", known_at="2026-04-01")
    (verdict,) = [each for each in service.records.verdicts(first) if each.done == "closed"]
    service.records.undo(verdict.id, _person(service))
    again = service.recall("when does Atlas deploy?", known_at="2026-04-01")
    assert [each.status for each in again.memories] == [each.status for each in then.memories]
    told = service.diff("when does Atlas deploy?", "2026-04-01", "2026-12-01")
    assert any("took back" in each for each in told.changes)


def test_an_undo_takes_back_neither_erasing_nor_asserting(service: Service) -> None:
    name = service.remember(TUESDAY).id
    service.forget(name, "erase")
    rows = service.store.truth.history(name)
    undo = [
        ledger_row(
            "personal",
            name,
            Operation.UNDO,
            body={"row": row.id},
            known_at=row.known_at,
            source=row.id,
            cause={},
            episodes=(),
        )
        for row in rows
    ]
    with service.store.write() as tx:
        service.store.truth.append(tx, [replace(row, seq=0) for row in undo], service._now())
    assert memory(service, name).erased and memory(service, name).claim.what == ""


@pytest.mark.parametrize("share", [0.9, 0.5, None])
def test_a_contradiction_never_leaves_the_store_with_the_old_one_alone(
    judge: ScriptedJudge, server: ModelServer, tmp_path: Path, share: float | None
) -> None:
    """Sure enough, too unsure, and with no model at all."""
    if share is not None:
        judge.says = lambda claim, known: at(share, "contradicts")
    with judged_by(server if share else None, tmp_path / "data") as service:
        tuesday = service.remember(TUESDAY, at="2026-09-01").id
        thursday = service.remember(
            "Atlas deploys on Thursday now, no longer on Tuesday.", at="2026-09-08"
        ).id
        work_off(service)
        found = service.recall("when does Atlas deploy?").memories
        assert [each.memory.id for each in found] == [thursday, tuesday]
        assert found[1].status is (Status.CLOSED if share == 0.9 else Status.CURRENT)
        before = service.recall("when did Atlas deploy before?").memories
        assert tuesday in [each.memory.id for each in before]


def test_nothing_replaces_what_it_has_nothing_in_common_with(service: Service, judge: ScriptedJudge) -> None:
    first = known(service, "Prices are shown with two decimals.", entities=[EntityRef("Kestrel")])
    judge.says = lambda claim, known: "updates"
    told = candidate(service, "Lunch is at noon.", entities=(EntityRef("Kestrel Kitchen"),))
    service.judge.settle(told)
    assert status(service, first) is Status.CURRENT


def test_what_was_taken_back_goes_with_an_export(
    service: Service, judge: ScriptedJudge, tmp_path: Path
) -> None:
    first = known(service)
    judge.says = lambda claim, known: "updates"
    service.judge.settle(candidate(service, THURSDAY))
    (verdict,) = [each for each in service.records.verdicts(first) if each.done == "closed"]
    service.records.undo(verdict.id, _person(service))
    service.records.export(tmp_path / "all.jsonl", service._now())
    with judged_by(None, tmp_path / "other") as other:
        other.records.take_in(tmp_path / "all.jsonl")
        assert _states(other) == _states(service) and other.check() == []
