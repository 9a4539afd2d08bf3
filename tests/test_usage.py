"""Whether what hooks showed was used: verdicts after the turn, the turns they belong to, muting."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from desk import ATLAS, OFF, StillClock, ids_in, rows, whats
from transcripts import Transcript
from using import ASKS, GATEWAY, IN_VAIN, USES_IT, Desk

from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED, Tally
from mnemo_mcp.memory import instant
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.settings import Encoders, Usage
from mnemo_mcp.standing.account import Account
from mnemo_mcp.standing.evaluation import aside, auc, calibration_error, evaluate
from mnemo_mcp.standing.muting import counted

# Verdicts


def test_who_names_the_id_has_used_it(desk: Desk, gateway: str) -> None:
    assert desk.ask() == [gateway]
    desk.answer(f"As noted in {gateway}.")
    (shown,) = desk.shown()
    assert (shown.verdict, shown.judge, shown.probability) == (USED, "cited", 1.0)


def test_an_answer_that_holds_its_figures_used_it(desk: Desk, gateway: str) -> None:
    desk.turn("s-1", USES_IT)
    (shown,) = desk.shown()
    assert shown.verdict == USED
    assert "600" in shown.evidence
    assert desk.service.store.accounts.standing([gateway])[gateway].uses == 1


def test_what_a_turn_used_together_is_connected_more_strongly(desk: Desk, gateway: str) -> None:
    other = desk.service.remember("The gateway waits in vain where the pool of 40 workers is used up").id
    vain = desk.service.remember("The gateway waits for no health check").id
    store, now = desk.service.store, instant(desk.clock())
    with store.write() as tx:
        store.connections.add(tx, "personal", [(gateway, other, 0.8), (gateway, vain, 0.8)], now)
    assert {gateway, other, vain} <= set(desk.ask())
    desk.answer(f"As noted in {gateway} and {other}.")
    weights = {frozenset(pair): weight for *pair, weight in store.connections.all("personal", now)}
    assert weights == {
        frozenset({gateway, other}): pytest.approx(0.85),
        frozenset({gateway, vain}): pytest.approx(0.8),
    }


def test_an_answer_about_other_things_did_not(desk: Desk, gateway: str) -> None:
    desk.turn("s-1", IN_VAIN)
    assert desk.verdicts() == [UNUSED]
    assert desk.shown()[0].evidence == ""


def test_an_answer_that_only_repeats_the_prompt_shows_nothing(desk: Desk) -> None:
    told = desk.service.remember("The gateway log is rotated at midnight by the cron job of host copper-7").id
    prompt = "Why is the gateway log rotated at midnight?"
    assert desk.turn("s-1", "The gateway log is rotated at midnight. I cannot tell the reason.", prompt) == [
        told
    ]
    assert desk.verdicts()[0] != USED


def test_what_was_done_counts_like_what_was_answered(desk: Desk, tmp_path: Path) -> None:
    told = desk.service.remember("The staging cluster is reached with ops/kube/staging-eu.yaml").id
    transcript = Transcript(tmp_path)
    transcript.prompt("show the staging cluster", "t-1")
    command = {"command": "kubectl --kubeconfig ops/kube/staging-eu.yaml get pods"}
    call = {"type": "tool_use", "id": "x", "name": "Bash", "input": command}
    usage = {"input_tokens": 900, "cache_read_input_tokens": 100, "output_tokens": 9}
    for _ in range(2):  # a call of the model is told in several records
        transcript.add(
            "assistant", message={"id": "msg-1", "role": "assistant", "content": [call], "usage": usage}
        )
    assert desk.ask(prompt="show the staging cluster") == [told]
    desk.answer("Fourteen pods are running.", transcript_path=str(transcript.path))
    assert desk.verdicts() == [USED]
    (turn,) = desk.service.store.uses.turns("personal")
    assert (turn.calls, turn.read, turn.acts) == (1, 1_000, "")


@pytest.mark.parametrize("kind", ["preference", "procedure"])
def test_ways_to_work_are_followed_without_a_word(desk: Desk, kind: str) -> None:
    desk.service.remember("Answers about the gateway stay short and have no lists", kind=kind)
    assert desk.turn("s-1", IN_VAIN, "Explain the gateway answers")
    assert desk.verdicts() == [UNSURE]


def test_an_answer_that_says_next_to_nothing_shows_nothing(desk: Desk, gateway: str) -> None:
    desk.turn("s-1", "Done.")
    assert desk.verdicts() == [UNSURE]


def test_by_words_alone_no_memory_is_missed_across_languages(desk: Desk, gateway: str) -> None:
    desk.turn("s-1", "Ordené las importaciones y escribí siete pruebas nuevas para las cabeceras.")
    assert desk.verdicts() == [UNSURE]


def test_labelled_turns_are_told_apart() -> None:
    """Bars a little below what `mnemo eval usage` prints: 0.956 and 0.947, no used one ever called unused."""
    labelled = rows("usage.jsonl")
    assert len(labelled) >= 160
    assert sum(row["lang"] != "en" for row in labelled) / len(labelled) > 0.2
    assert 0.25 < sum(map(aside, labelled)) / len(labelled) < 0.45
    for encoders in (Encoders(), OFF):
        pair = EncoderPair(encoders)
        pair.load()
        parts = evaluate(labelled, pair)["parts"]
        for name in ("tuned", "aside"):
            assert parts[name]["auc"] > 0.93
            assert parts[name]["ece"] < 0.12
            assert parts[name]["confusion"]["was used"]["unused"] == 0
            found = parts[name]["confusion"]["was not"]
            assert found["unused"] > 0.45 * sum(found.values())
            assert found["used"] < 0.08 * sum(found.values())


def test_figures_of_an_evaluation() -> None:
    perfect = [(0.9, True), (0.8, True), (0.2, False), (0.1, False)]
    assert auc(perfect) == 1.0
    assert auc([(0.5, True), (0.5, False)]) == 0.5
    assert auc([(0.5, True)]) is None
    assert calibration_error([(1.0, True), (0.0, False)]) == 0.0
    assert calibration_error([(1.0, False), (1.0, True)]) == 0.5


# Which turn answers which prompt


def test_without_an_answer_nothing_is_known(desk: Desk, gateway: str) -> None:
    """Interrupted: no turn ends, the next prompt has an id of its own."""
    assert desk.ask(turn="t-1") == [gateway]
    desk.ask(prompt="Sort the imports, please, and nothing else", turn="t-2")
    desk.answer(IN_VAIN, turn="t-2")
    desk.hook("session-end", reason="other")
    assert desk.verdicts() == [""]
    assert desk.service.store.accounts.standing([gateway]) == {}


def test_a_queued_prompt_is_answered_by_the_later_turn(desk: Desk, tmp_path: Path, gateway: str) -> None:
    """It is announced under the running turn's id; the transcript tells which turn answers it."""
    transcript = Transcript(tmp_path)
    first = "Sort the imports of the parser module"
    desk.ask(prompt=first, turn="t-1")
    assert desk.ask(prompt=ASKS, turn="t-1") == [gateway]
    transcript.prompt(first, "t-1")
    desk.answer(IN_VAIN, turn="t-1", transcript_path=str(transcript.path))
    assert desk.verdicts() == [""]
    transcript.prompt(ASKS, "t-2")
    desk.answer(USES_IT, turn="t-2", transcript_path=str(transcript.path))
    assert desk.verdicts() == [USED]


def test_a_queued_prompt_without_a_transcript_stays_unknown(desk: Desk, gateway: str) -> None:
    desk.ask(prompt="Sort the imports of the parser module", turn="t-1")
    assert desk.ask(prompt=ASKS, turn="t-1") == [gateway]
    desk.answer(IN_VAIN, turn="t-1")
    desk.answer(IN_VAIN, turn="t-2")
    assert desk.verdicts() == [""]


def test_a_turn_that_goes_on_answers_no_other_prompt(desk: Desk, tmp_path: Path, gateway: str) -> None:
    """Another hook lets it go on: it ends twice, and what it read is counted once."""
    transcript = Transcript(tmp_path)
    message = {"id": "m-1", "role": "assistant", "content": [], "usage": {"input_tokens": 500}}
    transcript.prompt("Sort the imports of the parser module", "t-1")
    transcript.add("assistant", message=message)
    desk.ask(prompt="Sort the imports of the parser module", turn="t-1")
    assert desk.ask(prompt=ASKS, turn="t-1") == [gateway]
    for path in (str(transcript.path), "", str(transcript.path), ""):
        desk.answer(IN_VAIN, turn="t-1", transcript_path=path)
    assert desk.verdicts() == [""]
    assert [turn.read for turn in desk.service.store.uses.turns("personal")] == [500]


def test_a_client_without_turn_ids(desk: Desk, gateway: str) -> None:
    """One open prompt is the one that is answered; of two it is not known which."""
    assert desk.ask("one", turn="") == [gateway]
    desk.answer(USES_IT, "one", turn="")
    assert desk.verdicts("one") == [USED]
    assert desk.ask("two", turn="") == [gateway]
    desk.ask("two", "Sort the imports of the parser module", turn="")
    desk.answer(IN_VAIN, "two", turn="")
    assert desk.verdicts("two") == [""]


def test_codex_names_its_turns_otherwise(desk: Desk, gateway: str) -> None:
    codex = {"client": "codex", "turn_id": "c-1"}
    assert ids_in(desk.hook("pre-message", prompt=ASKS, **codex)) == [gateway]
    desk.hook("turn-end", last_assistant_message=USES_IT, **codex)
    assert desk.verdicts() == [USED]


def test_a_turn_told_twice_is_judged_once(desk: Desk, gateway: str) -> None:
    desk.ask()
    for _ in range(3):
        desk.answer(IN_VAIN, stop_hook_active=True)
    assert desk.verdicts() == [UNUSED]
    assert len(tally(desk, gateway).misses) == 1


def tally(desk: Desk, memory: str, profile: str = "personal") -> Tally:
    with desk.service.store.database.read() as connection:
        return desk.service.store.uses.tally(connection, profile, memory)


# At the door


def test_what_was_told_at_the_door_may_be_used_in_any_turn(desk: Desk) -> None:
    desk.service.remember(GATEWAY, kind="decision")
    assert desk.hook("session-open", source="startup")
    for turn, answer in (("t-1", IN_VAIN), ("t-2", IN_VAIN), ("t-3", USES_IT), ("t-4", IN_VAIN)):
        assert desk.verdicts() == [""]
        desk.ask(prompt="Go on with the parser module", turn=turn)
        desk.answer(answer, turn=turn)
        if turn == "t-3":
            break
    assert desk.verdicts() == [USED]


def test_what_was_told_at_the_door_is_missed_when_the_session_ends(desk: Desk) -> None:
    told = desk.service.remember(GATEWAY, kind="decision").id
    desk.hook("session-open", source="startup")
    desk.turn("s-1", IN_VAIN, "Sort the imports of the parser module")
    assert desk.verdicts() == [""]
    desk.hook("session-end", reason="other")
    desk.service.tasks.work_off()
    assert desk.verdicts() == [UNUSED]
    assert len(tally(desk, told).door_misses) == 1
    desk.hook("session-open", "s-2", source="startup")
    desk.hook("session-end", "s-2", reason="other")
    assert desk.verdicts("s-2") == [""]


def test_what_was_told_at_the_door_is_missed_after_ten_turns(desk: Desk) -> None:
    desk.service.remember(GATEWAY, kind="decision")
    desk.hook("session-open", source="startup")
    for number in range(Usage().door_turns):
        assert desk.verdicts() == [""]
        desk.ask(prompt="Sort the imports of the parser module", turn=f"t-{number}")
        desk.answer(IN_VAIN, turn=f"t-{number}")
    assert desk.verdicts() == [UNUSED]


def test_what_was_told_at_the_door_is_missed_when_the_context_is_lost(desk: Desk) -> None:
    """What is told again after a compaction is another time it was shown, with turns of its own."""
    desk.service.remember(GATEWAY, kind="decision")
    desk.hook("session-open", source="startup")
    desk.turn("s-1", IN_VAIN, "Sort the imports of the parser module")
    assert desk.hook("session-open", source="compact")
    assert desk.verdicts() == ["", ""]
    desk.turn("s-1", USES_IT, "Go on with the parser module", turn="t-2")
    assert desk.verdicts() == [UNUSED, USED]


def test_one_doubtful_turn_leaves_the_door_open(desk: Desk) -> None:
    desk.service.remember(GATEWAY, kind="decision")
    desk.hook("session-open", source="startup")
    for turn, answer in (("t-1", IN_VAIN), ("t-2", "Done.")):
        desk.ask(prompt="Sort the imports of the parser module", turn=turn)
        desk.answer(answer, turn=turn)
    desk.hook("session-end", reason="other")
    assert desk.verdicts() == [UNSURE]


# Muting


def test_six_misses_mute_and_it_is_still_recalled(desk: Desk, gateway: str) -> None:
    desk.miss(5, "a")
    assert desk.muted() == set()
    desk.miss(1, "b")
    assert desk.muted() == {gateway}
    assert desk.ask("after") == []
    (silence,) = desk.service.store.accounts.injections("personal", "after")
    assert silence.reason == "muted: shown in vain too often"
    assert whats(desk.service.recall(ASKS)) == [GATEWAY]
    assert desk.hook("session-open", "after", source="startup") == ""


def test_what_is_missed_at_the_door_still_answers_a_prompt(desk: Desk) -> None:
    told = desk.service.remember(GATEWAY, kind="decision").id
    for number in range(6):
        session = f"door-{number}"
        assert ids_in(desk.hook("session-open", session, source="startup")) == [told]
        desk.turn(session, IN_VAIN, "Sort the imports of the parser module")
        desk.hook("session-end", session, reason="other")
        desk.service.tasks.work_off()
    assert desk.hook("session-open", "after", source="startup") == ""
    assert desk.muted() == set()
    assert desk.ask("after") == [told]
    desk.answer(USES_IT, "after")
    assert ids_in(desk.hook("session-open", "used", source="startup")) == [told]


def test_what_was_told_at_the_door_in_vain_falls_behind_and_is_silent_at_last(desk: Desk) -> None:
    texts = [f"Lantern {number} of the north pier burns blue" for number in range(20)]
    told = {desk.service.remember(text, kind="decision").id for text in texts}
    openings = []
    for number in range(12):
        session = f"door-{number}"
        openings.append(ids_in(desk.hook("session-open", session, source="startup")))
        desk.hook("session-open", session, source="resume")
        assert {each.memory for each in desk.shown(session)} == set(openings[-1])
        desk.turn(session, IN_VAIN, "Sort the imports of the parser module")
        desk.hook("session-end", session, reason="other")
        desk.service.tasks.work_off()
    assert [len(each) for each in openings] == [12] * 10 + [0, 0]
    assert set(openings[1][:8]) == told - set(openings[0])
    assert all(sum(each in opening for opening in openings) == 6 for each in told)
    new = desk.service.remember("The east pier is closed", kind="decision").id
    assert ids_in(desk.hook("session-open", "new", source="startup")) == [new]


def test_only_misses_within_thirty_days_count(desk: Desk, gateway: str) -> None:
    desk.miss(5, "a")
    desk.clock.pass_days(31)
    desk.miss(5, "b")
    assert desk.muted() == set()
    desk.clock.pass_days(29)
    desk.miss(1, "c")
    assert desk.muted() == {gateway}


def test_who_was_used_lately_is_not_muted(desk: Desk, gateway: str) -> None:
    desk.miss(5, "a")
    desk.turn("use", USES_IT)
    desk.miss(4, "b")
    assert desk.muted() == set()
    desk.clock.pass_days(25)
    desk.miss(5, "c")
    assert desk.muted() == set()
    desk.clock.pass_days(6)
    desk.miss(1, "d")
    assert desk.muted() == {gateway}


def test_doubt_is_no_miss(desk: Desk, gateway: str) -> None:
    for number in range(8):
        assert desk.turn(f"doubt-{number}", "Done.")
    assert desk.muted() == set()
    assert tally(desk, gateway) == Tally()


def test_keep_brings_it_back_and_prevents_it(desk: Desk, gateway: str) -> None:
    desk.miss(6, "a")
    desk.service.keep(gateway)
    assert desk.muted() == set()
    desk.miss(8, "b")
    assert desk.muted() == set()
    desk.service.keep(gateway, on=False)
    desk.miss(5, "c")
    assert desk.muted() == set()
    desk.miss(1, "d")
    assert desk.muted() == {gateway}


def test_misses_are_counted_in_whatever_order_they_come() -> None:
    constants, now = Usage(), StillClock().now
    times = [instant(now - timedelta(days=days)) for days in (40, 2, 29, 1, 3, 4)]
    found = Tally()
    for at in times:
        found = counted(found, UNUSED, at, instant(now), constants)
    assert found.muted_at is None
    assert len(found.misses) == 5
    assert counted(found, UNUSED, instant(now), instant(now), constants).muted_at == instant(now)
    assert counted(replace(found, keep=True), UNUSED, instant(now), instant(now), constants).muted_at is None
    assert counted(found, UNSURE, instant(now), instant(now), constants) == found


def test_profiles_mute_for_themselves(desk: Desk) -> None:
    mine = desk.service.remember(GATEWAY).id
    theirs = desk.service.remember(GATEWAY, profile="client").id
    assert mine != theirs
    desk.miss(6, "a", profile="client")
    assert (desk.muted(), desk.muted("client")) == (set(), {theirs})
    assert desk.ask("mine") == [mine]
    assert desk.ask("theirs", profile="client") == []
    account = Account(desk.service.store, desk.service.zone)
    now = instant(desk.clock.now)
    assert account.stats("personal", now)["verdicts"][UNUSED] == 0
    assert account.stats("client", now)["verdicts"][UNUSED] == 6


def test_parallel_sessions_are_each_judged_by_their_own_turns(desk: Desk, gateway: str) -> None:
    answers = {"a": USES_IT, "b": IN_VAIN, "c": USES_IT, "d": IN_VAIN}
    for session in answers:
        assert desk.ask(session) == [gateway]

    def end(session: str) -> None:
        payload = {"session_id": session, "cwd": ATLAS, "prompt_id": "t-1"}
        payload["last_assistant_message"] = answers[session]
        desk.service.hook("claude", "turn-end", json.dumps(payload).encode())

    threads = [threading.Thread(target=end, args=(session,)) for session in answers]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    while desk.service.tasks.work_off():
        pass
    assert [desk.verdicts(session) for session in answers] == [[USED], [UNUSED], [USED], [UNUSED]]
    assert len(tally(desk, gateway).misses) == 2


def test_a_restart_between_the_end_of_a_turn_and_its_judgement(tmp_path: Path) -> None:
    desk = Desk(tmp_path, background=True)
    gateway = desk.service.remember(GATEWAY).id
    desk.turn("s-1", USES_IT)
    assert desk.verdicts() == [""]
    desk.close()
    desk.open()
    assert desk.service.status()["queue"]["usage"] == 1
    assert desk.service.tasks.work_off()
    assert not desk.service.tasks.work_off()
    assert desk.verdicts() == [USED]
    assert tally(desk, gateway).uses == 1
    desk.close()
