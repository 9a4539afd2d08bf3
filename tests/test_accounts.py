"""The accounts of use: erased with their texts, kept in copies, judged by a model, across sessions."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from desk import DATA
from openai_server import ModelServer, Reply, Request, decided, token
from product import Product, until
from transcripts import Transcript
from using import ASKS, GATEWAY, IN_VAIN, USES_IT, Desk

from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED
from mnemo_mcp.memory import instant
from mnemo_mcp.pictures import stats_svg
from mnemo_mcp.settings import Endpoint, Models
from mnemo_mcp.standing.account import Account

# Erasing, and copies


def test_erasing_a_memory_takes_the_evidence_with_it(desk: Desk) -> None:
    told = desk.service.remember("The vault of Zyxel is opened with the amber quokka badge").id
    desk.turn("s-1", "Take the amber quokka badge to open the vault.", "How is the vault of Zyxel opened?")
    assert "quokka" in desk.shown()[0].evidence
    desk.service.forget(told, "erase")
    assert desk.shown()[0].evidence == ""
    assert desk.service.store.accounts.marked() == []
    why = Account(desk.service.store, desk.service.zone).why("personal")
    assert "quokka badge" not in json.dumps(why["moments"][0]["shown"])


def test_erasing_the_answer_takes_what_was_found_in_it(tmp_path: Path) -> None:
    desk = Desk(tmp_path, background=True)
    desk.service.remember("The vault of Zyxel is opened with the amber quokka badge")
    desk.turn("s-1", "Take the amber quokka badge to open the vault.", "How is the vault of Zyxel opened?")
    desk.service.tasks.work_off()
    assert desk.shown()[0].evidence
    (turn,) = desk.service.store.uses.turns("personal")
    desk.service.forget(turn.answer, "erase")
    assert desk.shown()[0].evidence == ""
    desk.turn("s-2", "Take the amber quokka badge to open the vault.", "How is the vault of Zyxel opened?")
    turn = desk.service.store.uses.turns("personal")[-1]
    desk.service.forget(turn.answer, "erase")
    desk.service.tasks.work_off()
    assert desk.verdicts("s-2") == [""]
    desk.close()


def test_standing_travels_with_an_export(desk: Desk, tmp_path: Path, gateway: str) -> None:
    desk.turn("use", USES_IT)
    desk.clock.pass_days(31)
    desk.miss(6, "a")
    file = tmp_path / "export.jsonl"
    desk.service.records.export(file, instant(desk.clock.now))
    other = Desk(tmp_path / "other")
    for _ in range(2):
        other.service.records.take_in(file)
        assert other.service.store.accounts.marked() == desk.service.store.accounts.marked()
    assert other.muted() == {gateway}
    assert other.ask("there") == []
    other.close()


# A decisions model


def deciding(tmp_path: Path, server: ModelServer, api: str, **more: Any) -> Desk:
    endpoint = Endpoint(**{"timeout_seconds": 5.0, **server.settings()})
    named = Models(endpoint={"lm": endpoint}, decisions="lm", decisions_api=api)
    return Desk(tmp_path, models=named, **more)


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.9, USED), (0.08, USED), (0.05, UNSURE), (0.029, UNUSED), (None, UNSURE)]
)
def test_a_decisions_model_decides_where_there_is_one(
    tmp_path: Path, share: float | None, verdict: str
) -> None:
    def answer(request: Request) -> Reply:
        return decided(request, {each["name"]: share for each in request.body["questions"]})

    with ModelServer(answer, routes=("/decisions",)) as server:
        desk = deciding(tmp_path, server, "openai")
        desk.service.remember(GATEWAY)
        desk.turn("s-1", USES_IT if share == 0.029 else IN_VAIN)
        (shown,) = desk.shown()
        assert (shown.verdict, shown.judge) == (verdict, "decisions: openai")
        desk.close()


def test_letters_of_a_language_model_never_mute(tmp_path: Path) -> None:
    def answer(request: Request) -> Reply:
        no = "A" if "A) no" in request.text else "B"
        return token({no: 0.999, "AB".replace(no, ""): 0.001})

    with ModelServer(answer) as server:
        desk = deciding(tmp_path, server, "logprobs")
        desk.service.remember(GATEWAY)
        desk.miss(7, "a")
        assert {each for n in range(7) for each in desk.verdicts(f"a-{n}")} == {UNSURE}
        assert desk.muted() == set()
        desk.close()


def test_a_model_that_hangs_is_in_nobodys_way(tmp_path: Path) -> None:
    gate = threading.Event()

    def answer(request: Request) -> Reply:
        gate.wait(30)
        return decided(request, {each["name"]: 0.9 for each in request.body["questions"]})

    with ModelServer(answer, routes=("/decisions",)) as server:
        desk = deciding(tmp_path, server, "openai", background=True)
        desk.service.remember(GATEWAY)
        began = time.monotonic()
        desk.turn("s-1", IN_VAIN)
        judging = threading.Thread(target=desk.service.tasks.work_off)
        judging.start()
        until(lambda: bool(server.asked("/decisions")))
        assert desk.ask("s-2")
        assert time.monotonic() - began < 20
        assert desk.verdicts() == [""]
        gate.set()
        judging.join(30)
        assert desk.verdicts() == [USED]
        desk.close()


def test_a_model_that_is_down_is_asked_again_later(tmp_path: Path) -> None:
    with ModelServer(lambda request: Reply({}, 500), routes=("/decisions",)) as server:
        desk = deciding(tmp_path, server, "openai")
        desk.service.remember(GATEWAY)
        desk.turn("s-1", IN_VAIN)
        assert desk.verdicts() == [""]
        assert desk.service.status()["queue"]["usage"] == 1
        server.answer = lambda request: decided(
            request, {each["name"]: 0.01 for each in request.body["questions"]}
        )
        desk.clock.pass_days(1)
        while desk.service.tasks.work_off():
            pass
        assert desk.verdicts() == [UNUSED]
        desk.close()


# What a session has before it


def test_compaction_empties_what_was_shown_and_the_tokens_go_on_counting(desk: Desk, gateway: str) -> None:
    assert desk.ask(turn="t-1") == [gateway]
    assert desk.ask(turn="t-2") == []
    before = spent(desk)
    desk.hook("session-open", source="compact", prompt_id="t-2")
    assert desk.ask(turn="t-3") == [gateway]
    assert spent(desk) == 2 * before > 0


def spent(desk: Desk, session: str = "s-1") -> int:
    with desk.service.store.database.read() as connection:
        return desk.service.store.accounts.spent(connection, "personal", session)


def test_after_a_compaction_a_session_may_be_told_what_it_said_itself(desk: Desk) -> None:
    said = desk.service.remember(GATEWAY, session="s-1").id
    assert desk.ask() == []
    reasons = [each.reason for each in desk.service.store.accounts.injections("personal", "s-1")]
    assert reasons == ["what the session itself said"]
    desk.clock.pass_days(0.01)
    desk.hook("session-open", source="compact")
    later = desk.service.remember("The mailer waits 30 s for answers", session="s-1").id
    desk.clock.pass_days(0.01)
    assert desk.ask(turn="t-2") == [said]
    assert desk.ask(prompt="How long does the mailer wait?", turn="t-3") == []
    assert desk.ask("s-2", "How long does the mailer wait?") == [later]


def test_a_resumed_session_goes_on(desk: Desk, gateway: str) -> None:
    assert desk.turn("s-1") == [gateway]
    before = spent(desk)
    desk.hook("session-end", reason="other")
    desk.clock.pass_days(2)
    desk.hook("session-open", source="resume", seconds_since_last_response=172_801)
    assert desk.ask(turn="t-2") == []
    assert spent(desk) == before


@pytest.mark.parametrize("source", ["fork", "resume"])
def test_a_fork_goes_on_from_its_parent(desk: Desk, gateway: str, source: str) -> None:
    """It has an id of its own, and says only how long ago its parent was answered."""
    own = desk.service.remember("The mailer waits 30 s for answers", session="s-1").id
    assert desk.turn("s-1", USES_IT) == [gateway]
    before = spent(desk)
    desk.clock.now += timedelta(seconds=60)
    desk.hook("session-open", "s-fork", source=source, seconds_since_last_response=61)
    assert desk.ask("s-fork", turn="t-2") == []
    assert desk.ask("s-fork", "How long does the mailer wait?", turn="t-3") == []
    assert spent(desk, "s-fork") == before
    why = Account(desk.service.store, desk.service.zone).why("personal", "s-fork")
    assert why["parent"] == "s-1"
    assert [each["silent"] for each in why["moments"][-2:]] == [
        "already in this session",
        "what the session itself said",
    ]
    desk.clock.now += timedelta(seconds=5)
    desk.hook("session-open", "s-fork", source="compact")
    assert desk.ask("s-fork", turn="t-4") == [gateway]
    assert desk.ask("s-fork", "How long does the mailer wait?", turn="t-5") == [own]
    assert desk.shown("s-1")[0].verdict == USED
    assert len(desk.shown("s-fork")) == 2


def test_a_fork_of_nobody_known_is_told_anew(desk: Desk, gateway: str) -> None:
    """Two sessions answered at about that time, or none: nothing is withheld on a guess."""
    for session in ("s-1", "s-2"):
        assert desk.turn(session) == [gateway]
    desk.hook("session-open", "s-fork", source="fork", seconds_since_last_response=2)
    assert desk.ask("s-fork") == [gateway]
    desk.hook("session-open", "s-other", source="fork", seconds_since_last_response=9_000)
    assert desk.ask("s-other") == [gateway]
    for odd in ("soon", None, True, -5, 1e300, [1]):
        desk.hook("session-open", f"s-{odd}", source="fork", seconds_since_last_response=odd)
        assert desk.ask(f"s-{odd}") == [gateway]


def test_a_cleared_session_begins_anew(desk: Desk, gateway: str) -> None:
    assert desk.ask() == [gateway]
    desk.hook("session-open", "s-clear", source="clear")
    assert desk.ask("s-clear") == [gateway]
    desk.hook("session-open", "s-1", source="clear")  # a client that keeps the id
    assert spent(desk) == 0
    assert desk.ask(turn="t-9") == [gateway]


# The accounts


def test_the_account_of_a_session_tells_every_silence(desk: Desk, gateway: str) -> None:
    desk.service.remember("The mailer waits 30 s for answers", session="s-1")
    prompts = (ASKS, "ok", "/compact", "<system-reminder>x</system-reminder>", ASKS + " Really?",
               "How long does the mailer wait?", "Write a haiku about herons")  # fmt: skip
    for number, prompt in enumerate(prompts):
        desk.ask(prompt=prompt, turn=f"t-{number}")
        desk.answer(USES_IT, turn=f"t-{number}")
    why = Account(desk.service.store, desk.service.zone).why("personal", "s-")
    assert [each["silent"] for each in why["moments"]] == [
        "",
        "an acknowledgement",
        "a command",
        "a machine's notice",
        "already in this session",
        "what the session itself said",
        "nothing relevant",
    ]
    first = why["moments"][0]
    assert first["prompt"] == ASKS
    assert first["tokens"] == why["tokens"] > 0
    (shown,) = first["shown"]
    assert (shown["id"], shown["verdict"], shown["judge"]) == (gateway, USED, "words")
    assert shown["ranks"]
    assert shown["what"] == GATEWAY


def test_what_fits_no_block_is_said_to_be_too_long(desk: Desk) -> None:
    desk.service.remember("Zinnias " + "grow_on_the_north_wall_" * 400)
    assert desk.ask(prompt="zinnias?") == []
    reasons = [each.reason for each in desk.service.store.accounts.injections("personal", "s-1")]
    assert reasons == ["too long for one block"]


def test_stats_count_what_there_is(desk: Desk, tmp_path: Path, gateway: str) -> None:
    transcript = Transcript(tmp_path)
    transcript.prompt(ASKS, "t-1")
    usage = {"input_tokens": 4, "cache_creation_input_tokens": 1_996, "cache_read_input_tokens": 8_000}
    for call in ("m-1", "m-2"):
        transcript.add("assistant", message={"id": call, "role": "assistant", "content": [], "usage": usage})
    desk.ask()
    desk.answer(USES_IT, transcript_path=str(transcript.path))
    desk.turn("s-2", IN_VAIN)
    desk.ask("s-3")
    desk.ask("s-3", "ok", "t-2")
    account = Account(desk.service.store, desk.service.zone)
    found = account.stats("personal", instant(desk.clock.now))
    tokens = spent(desk)
    assert found["tokens"] == 3 * tokens
    assert (found["sessions"], found["prompts"], found["answered_turns"]) == (3, 4, 2)
    assert found["tokens_per_session"] == float(tokens)
    assert found["verdicts"] == {USED: 1, UNUSED: 1, UNSURE: 0, "unknown": 1}
    assert found["silent"] == {"an acknowledgement": 1}
    assert found["reading"] == {
        "tokens": 20_000,
        "injected": 2 * tokens,
        "share": round(2 * tokens / 20_000, 5),
        "turns": 1,
    }
    assert [day["day"] for day in found["by_day"]] == ["2026-09-14"]
    assert stats_svg(found).count("<title>") == 1
    desk.clock.pass_days(40)
    empty = account.stats("personal", instant(desk.clock.now))
    assert (empty["tokens"], empty["tokens_per_turn"], empty["reading"]["share"]) == (0, None, None)
    assert stats_svg(empty).startswith("<svg")


def test_the_commands_tell_it(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        told = product.remember(GATEWAY)["id"]
        assert told in product.hook("pre-message", prompt=ASKS, prompt_id="t-1")
        product.hook("turn-end", prompt_id="t-1", last_assistant_message=USES_IT)
        product.hook("pre-message", prompt="ok", prompt_id="t-2")
        until(lambda: not product.json("status")["queue"].get("usage"))
        why = product.json("why")
        assert [each["silent"] for each in why["moments"]] == ["", "an acknowledgement"]
        assert why["moments"][0]["shown"][0]["verdict"] == USED
        text = product.run("why", "s-1").stdout.decode()
        assert told in text
        assert "silent: an acknowledgement" in text
        missing = product.run("why", "nobody")
        assert missing.returncode == 1
        assert b"no session" in missing.stderr
        picture = tmp_path / "stats.svg"
        assert "used" in product.run("stats", "--svg", str(picture)).stdout.decode()
        assert picture.read_text("utf-8").startswith("<svg")
        assert product.json("stats", "--days", "7")["verdicts"][USED] == 1
        assert product.run("stats", "--svg", "/no/such/folder.svg").returncode == 1


def test_the_scorer_is_measured_by_a_command(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        found = product.json("eval", "usage", "--data", str(DATA / "usage.jsonl"))
        assert found["judges"] == {"words": found["rows"]}
        assert found["parts"]["aside"]["auc"] > 0.93
        assert "AUC" in product.run("eval", "usage", "--data", str(DATA / "usage.jsonl")).stdout.decode()
        broken = tmp_path / "broken.jsonl"
        for line, told in (('{"id": "u1"}', "line 1: `lang` is missing"), ("{", "line 1: not valid JSON")):
            broken.write_text(line, "utf-8")
            done = product.run("eval", "usage", "--data", str(broken))
            assert done.returncode == 1
            assert told in done.stderr.decode()
