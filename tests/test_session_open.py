"""The door: what a session is told as it opens, the most useful first."""

from __future__ import annotations

from pathlib import Path

from desk import StillClock, ids_in, opened, said, tell_all, well_framed

from mnemo_mcp.judge.admission import Proposal, admit
from mnemo_mcp.ledger.episodes import new_episode
from mnemo_mcp.memory import Claim, EntityRef, Kind, Role, instant
from mnemo_mcp.models.tokens import TokenCounter
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Budgets


def test_what_a_tool_said_is_never_told_at_the_door(words_only: Service) -> None:
    store, at, profile = words_only.store, instant(words_only.clock()), "tools"
    for number, origin in enumerate((Role.TOOL, Role.PERSON)):
        source = new_episode(profile, origin, f"heard {number}", client="claude", session="t", project="",
                             turn="", occurred_at=at, zone="UTC", recorded_at=at)  # fmt: skip
        claim = Claim(f"Zebra crossings number {number} are blue", kind=Kind.DECISION)
        with store.write() as tx:
            store.episodes.add(tx, [source])
            rows = admit(Proposal(claim, profile, "", at, source.id, {"by": "test"}, origin)).rows
            store.truth.append(tx, rows, at)
    block = said(words_only, "session-open", source="startup", session="door", profile=profile)
    assert "number 1" in block
    assert "number 0" not in block


def test_the_door_is_told_what_stands_and_no_tasks(tmp_path: Path) -> None:
    clock = StillClock()
    with opened(tmp_path, clock) as service:
        service.remember("EU region down", kind="state")
        service.remember("Staging is without its queue", kind="state", valid_from="2026-09-30")
        clock.pass_days(21)
        decision = service.remember("Use NATS.", kind="decision").id
        service.remember("The cron for a-stock-pro is misconfigured, fix it tomorrow.", kind="event")
        service.remember("The gateway waits 600 s", kind="fact")
        block = said(service, "session-open", source="startup")
        assert well_framed(block)
        assert f"decision 2026-10-05 {decision}: Use NATS." in block
        assert "Staging" in block
        assert not any(word in block for word in ("EU region", "a-stock-pro", "gateway"))
        assert said(service, "pre-message", prompt="hello, let's start") == ""
        assert "EU region" not in said(service, "pre-message", prompt="is the EU region down?")
        assert "EU region down" in [each.memory.claim.what for each in service.recall("EU region").memories]


def test_what_was_kept_comes_first_at_the_door(words_only: Service) -> None:
    told = [
        words_only.remember(f"Lantern {number} is blue", kind="preference", profile="kept").id
        for number in range(20)
    ]
    words_only.keep(told[17], profile="kept")
    block = said(words_only, "session-open", source="startup", session="kept", profile="kept")
    assert ids_in(block)[0] == told[17]
    assert len(ids_in(block)) == 12


def door(service: Service, profile: str, session: str = "door") -> list[str]:
    return ids_in(said(service, "session-open", source="startup", session=session, profile=profile))


def test_the_door_tells_first_what_was_used_confirmed_or_is_young(tmp_path: Path) -> None:
    clock = StillClock()
    with opened(tmp_path, clock) as service:
        old, used, confirmed = tell_all(
            service,
            ("Lamps are blue", "Ropes are made of hemp", "Buoys are painted in spring"),
            kind="decision",
        )
        clock.pass_days(60)
        young = service.remember("Oars hang on the wall", kind="decision").id
        service.remember("Buoys are painted in spring", kind="decision")
        with service.store.write() as tx:
            given = {"memory": used, "profile": "personal", "keep": False, "uses": 3,
                     "last_used": instant(clock())}  # fmt: skip
            service.store.accounts.take_in(tx, given)
        told = door(service, "personal")
        assert told[0] == used
        assert told[-1] == old
        assert set(told) == {old, used, confirmed, young}


def test_of_more_than_anybody_would_read_the_door_still_tells_the_best(tmp_path: Path) -> None:
    clock = StillClock()
    with opened(tmp_path, clock) as service:
        kept, used, plain = tell_all(
            service, ("Lamps are blue", "Ropes are hemp", "Oars are ash"), kind="decision"
        )
        service.remember("The slipway is closed", kind="state")
        clock.pass_days(300)
        service.keep(kept)
        with service.store.write() as tx:
            given = {"memory": used, "profile": "personal", "keep": False, "uses": 9,
                     "last_used": instant(clock())}  # fmt: skip
            service.store.accounts.take_in(tx, given)
        tell_all(service, (f"Buoy {number} is red" for number in range(600)), kind="decision")
        liked = service.remember("Answer in Portuguese", kind="preference").id
        state = service.remember("The crane is broken", kind="state").id
        told = door(service, "personal")
        assert told[:4] == [kept, used, state, liked]
        assert len(told) == 12 and plain not in told


def test_what_is_about_another_code_base_is_not_told_at_the_door(words_only: Service) -> None:
    own, other = (EntityRef(name, kind="repository") for name in ("example/atlas", "example/kestrel"))
    remember = words_only.remember
    about_own = remember("Gulls nest in atlas", kind="decision", entities=[own], profile="about").id
    remember("Gulls nest in kestrel", kind="decision", entities=[other], profile="about")
    both = remember("Gulls nest in both", kind="decision", entities=[own, other], profile="about").id
    plain_one = remember("Gulls nest here", kind="decision", profile="about").id
    assert set(door(words_only, "about")) == {about_own, both, plain_one}


def test_the_door_keeps_within_its_own_budget(words_only: Service) -> None:
    for number in range(12):
        text = f"Lantern {number} is blue. " + f"It burns oil of kind {number} since the spring. " * 6
        words_only.remember(text, kind="preference", profile="long door")
    block = said(words_only, "session-open", source="startup", session="long door", profile="long door")
    assert Budgets().door_tokens * 0.7 < TokenCounter().count(block) <= Budgets().door_tokens
    assert 1 < len(ids_in(block)) < 12
