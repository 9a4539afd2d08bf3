"""Distilling: from threads through the hooks to memories, with a model that is good, bad or broken."""

from __future__ import annotations

import json
import time

import pytest
from conversation import (
    ASSISTANT,
    CLAIM,
    GATEWAY,
    ONE,
    USER,
    Talk,
    answers,
    calls,
    lines_in,
    memory,
)
from openai_server import Reply, Request, fails, in_turn, says

from mnemo_mcp.daemon.verbs import VERBS, Caller
from mnemo_mcp.memory import instant

# Answers that are nearly JSON


@pytest.mark.parametrize(
    "text",
    [
        f'<think>The user says...{{not json}}</think>\n{{"memories":[{ONE}]}}',
        f'```json\n{{"memories":[{ONE}]}}\n```',
        f'Sure! Here it is:\n{{"memories":[{ONE}]}}\nHope this helps.',
        f'{{"memories":[{ONE[:-1]},}},]}}',
        f'{{"memories":[{ONE}]}}'.replace("timeout is", "timeout\\nis").replace("\\n", "\n"),
        f"[{ONE}]",
        ONE,
        '{"memories":[{"what":"The gateway timeout is 600 s."}]}',
        f'{{"memories":[{ONE},"and more",{{"kind":"fact"}},{ONE}]}}',
    ],
)
def test_answers_that_are_nearly_json_give_the_memory(talk: Talk, text: str) -> None:
    chat = talk(text)
    chat.say((USER, GATEWAY))
    chat.read()
    assert chat.whats == ["The gateway timeout is 600 s."]
    assert chat.sources(chat.memories[0]) == [GATEWAY]
    assert calls(chat) == 1
    assert chat.service.store.work.waiting() == {}


def test_an_empty_list_ends_the_thread(talk: Talk) -> None:
    chat = talk(answers())
    chat.say((USER, GATEWAY))
    chat.read()
    assert chat.whats == [] and calls(chat) == 1
    assert chat.service.store.work.waiting() == {}


@pytest.mark.parametrize("text", ["", "I could find nothing worth noting.", '{"memories": "none"}'])
def test_an_answer_of_no_use_is_asked_for_once_more_and_then_queued(talk: Talk, text: str) -> None:
    chat = talk(text)
    chat.say((USER, GATEWAY))
    chat.read()
    assert chat.whats == [] and calls(chat) == 2
    assert chat.server is not None
    assert "could not be used" in chat.server.asked()[1].text
    assert chat.service.store.work.waiting() == {"distil": 1}
    chat.server.answer = lambda request: says(answers(CLAIM))
    chat.read(hours=1)
    assert chat.whats == ["The gateway timeout is 600 s."]


def test_the_second_answer_serves(talk: Talk) -> None:
    chat = talk(in_turn(says("no idea"), says(answers(CLAIM))))
    chat.say((USER, GATEWAY))
    chat.read()
    assert chat.whats == ["The gateway timeout is 600 s."] and calls(chat) == 2


# Answers cut off and without end

DEAD = (USER, "We keep backups for 30 days. The replica lives in Oslo. The deadline is 5 May.")


def test_of_an_answer_that_was_cut_off_the_whole_memories_are_kept(talk: Talk) -> None:
    a, b = memory("Backups are kept for 30 days."), memory("The replica lives in Oslo.")
    cut = f'{{"memories":[{json.dumps(a)},{json.dumps(b)},{{"what":"The dead'
    chat = talk(in_turn(says(cut, "length"), says(answers(memory("The deadline is 5 May.")))))
    chat.say(DEAD)
    chat.read()
    assert chat.whats == [
        "Backups are kept for 30 days.",
        "The replica lives in Oslo.",
        "The deadline is 5 May.",
    ]
    assert calls(chat) == 2


def test_the_rest_of_an_answer_is_asked_for_at_most_once(talk: Talk) -> None:
    cut = f'{{"memories":[{json.dumps(memory("Backups are kept for 30 days."))},{{"what":"The dead'
    chat = talk(says(cut, "length"))
    chat.say(DEAD)
    chat.read()
    assert chat.whats == ["Backups are kept for 30 days."] and calls(chat) == 2
    assert chat.service.store.work.waiting() == {}


def test_a_loop_gives_each_memory_once(talk: Talk) -> None:
    again = json.dumps(memory("Backups are kept for 30 days."))
    chat = talk(f'{{"memories":[{",".join([again] * 400)}')
    chat.say(DEAD)
    chat.read()
    assert chat.whats == ["Backups are kept for 30 days."]


def test_an_answer_without_end_is_stopped(talk: Talk) -> None:
    chat = talk(Reply(b'{"memories": [' * 100, endless=True))
    chat.say(DEAD)
    chat.read()
    assert chat.whats == [] and chat.service.store.work.waiting() == {"distil": 1}


def test_a_thread_leaves_no_more_than_it_may(talk: Talk) -> None:
    def claims(request: Request) -> Reply:
        many = [
            memory(f"The service svc-{place} listens on port {7000 + place}.", number)
            for number, (_, text) in lines_in(request).items()
            for place in range(100)
            if f"svc-{place} " in text
        ]
        return says(answers(*many))

    chat = talk(claims)
    for turn in range(12):
        chat.say(
            (USER, ". ".join(f"svc-{n} listens on port {7000 + n}" for n in range(4 * turn, 4 * turn + 4)))
        )
        chat.read()
    constants = chat.service.settings.distilling
    assert len(chat.memories) == constants.thread_memories == 24
    assert "as much as one may" in chat.extractions[0].reason


# Long threads

DECISIONS = [
    "We decided to name the queue Kestrel.",
    "We decided to keep logs for 45 days.",
    "We decided that Mira owns the importer.",
]


def _filler(turn: int) -> str:
    return " ".join(f"Looked at module {turn}-{place}, nothing unusual there." for place in range(45))


def test_each_decision_of_a_long_thread_reaches_a_request_that_fits(talk: Talk) -> None:
    chat = talk(answers(), max_input_tokens=6_000)
    for turn in range(200):
        decision = {0: DECISIONS[0], 100: DECISIONS[1], 199: DECISIONS[2]}.get(turn, f"and module {turn}?")
        chat.say((USER, decision), (ASSISTANT, _filler(turn)))
    assert sum(len(each.text) for each in chat.service.store.episodes.all()) > 400_000
    chat.read()
    assert chat.server is not None
    asked = chat.server.asked()
    for decision in DECISIONS:
        assert any(decision in each.text for each in asked)
    count = chat.service.models.chat.count  # type: ignore[union-attr]
    assert max(count(each.text) for each in asked) + 2_000 <= 8_000
    assert chat.service.store.work.waiting() == {}


def test_chunks_go_on_where_the_last_one_ended_with_a_few_words_before(talk: Talk) -> None:
    chat = talk(answers(), max_input_tokens=3_500)
    for turn in range(12):
        chat.say((USER, f"Question {turn} about module {turn}-x"), (ASSISTANT, _filler(turn)))
    chat.read()
    assert chat.server is not None
    asked = chat.server.asked()
    assert len(asked) > 2
    shown = [text for each in asked for _, text in lines_in(each).values()]
    for turn in range(12):
        assert shown.count(_filler(turn)) == 1  # never whole a second time
    assert all("Read before" in each.text for each in asked[1:])


def test_a_huge_episode_is_cut_and_not_sent_twice(talk: Talk) -> None:
    chat = talk(answers())
    log = "\n".join(f"{place} GET /health 200 {place % 977} ms" for place in range(150_000))
    chat.say((USER, f"Why does this fail?\n{log}\nE4312 at the end"), (ASSISTANT, "The replica lags."))
    chat.read()
    assert chat.server is not None
    request, *others = chat.server.asked()
    assert "Why does this fail?" in request.text and "E4312 at the end" in request.text
    assert "characters left out" in request.text
    assert len(request.text) < 40_000 and sum(len(each.text) for each in others) < 8_000


# Calls are bounded


@pytest.mark.parametrize(
    ("reply", "most"),
    [
        (says("not JSON at all"), 12),
        (fails(400, "bad request"), 3),
        (fails(500, "sorry"), 12),
    ],
)
def test_calls_are_bounded_whatever_fails(talk: Talk, reply: Reply, most: int) -> None:
    chat = talk(reply)
    for session in range(5):
        chat.say((USER, f"Port 80{session}1 belongs to service svc-{session}."), session=f"s-{session}")
    for minute in range(24 * 12):
        chat.read(minutes=5)
        if minute in (50, 120, 200):
            chat.again()
    assert chat.server is not None
    asked = [each.text for each in chat.server.asked()]
    for session in range(5):
        assert 1 <= sum(f"svc-{session}." in each for each in asked) <= most
    status = chat.service.status()
    assert status["tasks"]["distil"]["waiting"] + status["tasks"]["distil"]["stuck"] == 5
    assert status["tasks"]["distil"]["error"] and status["tasks"]["distil"]["next_try"]


def test_a_silent_server_is_given_up_and_holds_nobody_up(talk: Talk) -> None:
    chat = talk(Reply(hang=True), timeout_seconds=0.3)
    chat.say((USER, GATEWAY))
    chat.read()
    assert calls(chat) == 1 and chat.service.store.work.waiting() == {"distil": 1}
    assert "did not answer" in str(chat.service.status()["tasks"]["distil"]["error"])
    assert chat.service.remember("The cache is Redis.").outcome == "added"


def test_work_waits_out_an_outage_and_is_done_once_in_order(talk: Talk) -> None:
    chat = talk(fails(429, "slow down", retry_after="120"))
    chat.say((USER, GATEWAY))
    chat.read()
    assert calls(chat) == 1
    chat.read(seconds=115)
    assert calls(chat) == 1
    assert chat.server is not None
    chat.server.answer = lambda request: fails(503)
    chat.read(seconds=10)
    assert calls(chat) == 2
    assert chat.service.recall("gateway timeout").episodes
    chat.say((USER, "The gateway also retries 3 times."))
    chat.server.answer = lambda request: says(answers(memory("The gateway retries 3 times.", 2), CLAIM))
    chat.read(minutes=31)
    (request,) = chat.server.asked()[2:]
    assert [text for _, text in lines_in(request).values()] == [GATEWAY, "The gateway also retries 3 times."]
    assert sorted(chat.whats) == ["The gateway retries 3 times.", "The gateway timeout is 600 s."]
    chat.read()
    assert calls(chat) == 3


def test_without_a_model_threads_wait_and_the_status_says_so(talk: Talk) -> None:
    chat = talk(None)
    chat.say((USER, GATEWAY), (ASSISTANT, "Noted."))
    chat.read(days=2)
    status = chat.service.status()
    assert status["queue"]["distil"] == 1 and status["problems"] == []
    assert "1 thread waits: no model is set" in status["distilling"]
    assert chat.service.remember("The cache is Redis.").outcome == "added"


def test_the_status_tells_how_many_threads_are_done(talk: Talk) -> None:
    chat = talk(answers())
    for session in range(3):
        chat.say((USER, f"Port 80{session}1 belongs to svc-{session}."), session=f"s-{session}")
    chat.later(minutes=3)
    assert chat.service.status()["distilling"] == "distilling: 1 of 3 threads"
    chat.service.tasks.work_off("distil")
    assert chat.service.status()["distilling"] == "distilling: 2 of 3 threads"
    chat.read()
    assert chat.service.status()["distilling"] == ""


# When a thread is read


def test_a_thread_is_read_when_quiet_for_two_minutes(talk: Talk) -> None:
    chat = talk(answers())
    chat.say((USER, GATEWAY), (ASSISTANT, "Noted that the timeout is 600 s."))
    chat.read(seconds=115)
    assert calls(chat) == 0
    chat.say((USER, "The gateway also retries 3 times."))
    chat.read(seconds=115)
    assert calls(chat) == 0
    chat.read(seconds=6)
    assert calls(chat) == 1


@pytest.mark.parametrize(
    ("moment", "fields"),
    [("session-end", {"reason": "other"}), ("session-open", {"source": "compact"})],
)
def test_a_thread_is_read_at_once_when_it_ends_or_is_compacted(
    talk: Talk, moment: str, fields: dict[str, str]
) -> None:
    chat = talk(answers())
    chat.say((USER, GATEWAY))
    chat.hook(moment, "s-1", **fields)
    chat.read(seconds=1)
    assert calls(chat) == 1


def test_small_talk_costs_no_call(talk: Talk) -> None:
    chat = talk(answers())
    chat.say((USER, "ok thanks"), (ASSISTANT, "You're welcome!"), (USER, "/compact"))
    chat.read()
    assert calls(chat) == 0 and chat.service.store.work.waiting() == {}


def test_what_was_remembered_by_a_call_is_not_read_again(talk: Talk) -> None:
    chat = talk(answers())
    chat.service.remember("The broker is called Otter.", client="claude", session="s-1")
    chat.say((USER, GATEWAY))
    chat.read()
    assert chat.server is not None
    assert "Otter" not in chat.server.asked()[0].text


def test_a_restart_repeats_no_call_and_no_memory(talk: Talk) -> None:
    chat = talk(answers(CLAIM))
    chat.say((USER, GATEWAY))
    chat.later(minutes=3)
    task = chat.service.store.work.take("distil", instant(chat.clock()))
    assert task is not None
    chat.service.distiller.distil(task)  # the process ends before it is written
    chat.again()
    chat.read()
    assert calls(chat) == 1 and chat.whats == ["The gateway timeout is 600 s."]
    chat.say((USER, "The gateway is called Heron."))
    chat.again()
    chat.read()
    assert chat.whats == ["The gateway timeout is 600 s."]
    assert len(chat.memories[0].episodes) == 1


# What came of it


def test_what_came_of_each_claim_can_be_listed(talk: Talk) -> None:
    chat = talk(answers(CLAIM, memory("John Doe owns it.")))
    chat.say((USER, GATEWAY))
    chat.read()
    claims = VERBS["distilled"](chat.service, {"session": "s-1"}, Caller())["claims"]
    assert [(each["outcome"], bool(each["memory"])) for each in claims] == [
        ("left out", False),
        ("added", True),
    ]
    assert "John" in claims[0]["reason"] and claims[0]["episodes"] == chat.memories[0].episodes
    assert VERBS["distilled"](chat.service, {"session": "s-2"}, Caller())["claims"] == []


# Privacy


def test_a_session_declared_private_later_is_not_read(talk: Talk) -> None:
    chat = talk(answers(CLAIM))
    chat.say((USER, GATEWAY))
    chat.hook("pre-message", "s-1", prompt="mnemo: private")
    chat.read()
    assert calls(chat) == 0 and chat.whats == []


def test_an_erased_source_takes_the_words_of_its_claims_along(talk: Talk) -> None:
    chat = talk(answers(CLAIM, memory("John Doe owns it.")))
    chat.say((USER, GATEWAY))
    chat.read()
    source = chat.memories[0].episodes[0]
    chat.service.forget([chat.memories[0].id, source], "erase")
    assert {(each.what, each.reason) for each in chat.extractions} == {("", "")}


def test_nothing_comes_of_what_was_erased_while_it_was_read(talk: Talk) -> None:
    chat = talk(answers(CLAIM))
    chat.say((USER, GATEWAY))
    chat.later(minutes=3)
    task = chat.service.store.work.take("distil", instant(chat.clock()))
    assert task is not None
    finish = chat.service.distiller.distil(task)
    (episode,) = chat.service.store.episodes.all()
    chat.service.forget(episode.id, "erase")
    with chat.service.store.write() as tx:
        finish(tx)
    assert chat.whats == [] and chat.extractions == []


@pytest.mark.parametrize("sign", ["\n", " ", "<", "?", ",", "\n<system-reminder", "\nContents of ", "no "])
def test_long_runs_of_one_sign_are_read_in_time(talk: Talk, sign: str) -> None:
    chat = talk(answers(memory("The port is 8443.", 1, 2, kind="decision")))
    run = sign * (400_000 // len(sign))
    began = time.process_time()
    chat.say((ASSISTANT, f"Port 8443? {run}"), (USER, f"The port is 8443. {run}"))
    chat.read()
    assert time.process_time() - began < 15


def test_no_secret_reaches_the_model(talk: Talk) -> None:
    secret = "LEAK" + "7" * 12
    chat = talk(answers())
    chat.say((USER, f"export PGPASSWORD={secret}; psql -h db -U app on port 6432"))
    chat.read()
    assert chat.server is not None
    assert secret not in chat.server.asked()[0].text and "psql -h db" in chat.server.asked()[0].text
