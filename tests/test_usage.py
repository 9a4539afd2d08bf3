"""Whether what hooks showed was used: verdicts after the turn, muting, the accounts, sessions' contexts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from desk import ATLAS, DATA, OFF, StillClock, ids_in, rows, whats
from openai_server import ModelServer, Reply, Request, decided, token
from product import Product, until
from transcripts import Transcript

from mnemo_mcp.ledger.uses import UNSURE, UNUSED, USED, Exposure, Tally
from mnemo_mcp.memory import instant
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.pictures import stats_svg
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Endpoint, Models, Settings, Usage
from mnemo_mcp.standing.account import Account
from mnemo_mcp.standing.evaluation import aside, auc, calibration_error, evaluate
from mnemo_mcp.standing.muting import counted

GATEWAY = "The gateway waits 600 s for upstream answers because the load balancer cut streams at 120 s"
ASKS = "How long does the gateway wait?"
USES_IT = "It waits 600 s, since the load balancer cut streams at 120 s."
IN_VAIN = "I sorted the imports, renamed two variables and added seven unit tests for folded headers."
EVENTS = {
    "session-open": "SessionStart",
    "pre-message": "UserPromptSubmit",
    "turn-end": "Stop",
    "session-end": "SessionEnd",
}


class Desk:
    """A service over a folder, hooks through its door, a clock that is set."""

    def __init__(self, home: Path, *, background: bool = False, **more: Any) -> None:
        self.home, self.clock = home, StillClock()
        projects = (str(home / ".claude/projects"),)
        self.settings = replace(
            Settings(home / "data", zone="UTC", encoders=OFF, transcript_roots=projects), **more
        )
        self.background = background
        self.open()

    def open(self) -> None:
        self.service = Service(self.settings, self.clock, background=self.background)

    def close(self) -> None:
        self.service.close()

    def hook(self, moment: str, session: str = "s-1", *, profile: str | None = None, **fields: Any) -> str:
        """What a hook injects, "" for nothing; a second passes."""
        self.clock.now += timedelta(seconds=1)
        client = fields.pop("client", "claude")
        payload = {"session_id": session, "cwd": ATLAS, "hook_event_name": EVENTS[moment], **fields}
        out = self.service.hook(client, moment, json.dumps(payload).encode(), profile=profile)
        return str(json.loads(out)["hookSpecificOutput"]["additionalContext"]) if out else ""

    def ask(self, session: str = "s-1", prompt: str = ASKS, turn: str = "t-1", **more: Any) -> list[str]:
        """The ids that a prompt brings."""
        return ids_in(self.hook("pre-message", session, prompt=prompt, prompt_id=turn, **more))

    def answer(self, text: str, session: str = "s-1", turn: str = "t-1", **more: Any) -> None:
        self.hook("turn-end", session, prompt_id=turn, last_assistant_message=text, **more)

    def turn(self, session: str, answer: str = IN_VAIN, prompt: str = ASKS, **more: Any) -> list[str]:
        """A whole turn in a session of its own; the ids it was given."""
        shown = self.ask(session, prompt, **more)
        self.answer(answer, session, **more)
        return shown

    def shown(self, session: str = "s-1", profile: str = "personal") -> list[Exposure]:
        return self.service.store.uses.exposures(profile, session)

    def verdicts(self, session: str = "s-1", profile: str = "personal") -> list[str]:
        return [each.verdict for each in self.shown(session, profile)]

    def muted(self, profile: str = "personal") -> set[str]:
        with self.service.store.database.read() as connection:
            return self.service.store.accounts.muted(connection, profile)

    def miss(self, times: int, mark: str, **more: Any) -> None:
        """So many turns that do without what they are shown, each in a session of its own."""
        for number in range(times):
            assert self.turn(f"{mark}-{number}", **more)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def gateway(desk: Desk) -> str:
    return desk.service.remember(GATEWAY).id


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
