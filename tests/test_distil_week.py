"""Distilling: a week of sessions in three languages, undisturbed and with a daemon that is killed."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import week
from conversation import USER, Conversation
from openai_server import ModelServer, Reply, Request
from product import Product, until


def test_a_week_of_sessions_leaves_what_a_careful_person_would_keep(tmp_path: Path) -> None:
    with ModelServer(week.answer, routes=week.ROUTES) as server:
        chat = Conversation(tmp_path, server, decisions=True)
        for session, lines in week.SESSIONS.items():
            chat.say(*lines, session=session)
            chat.hook("session-end", session, reason="other")
            chat.read(hours=14)
        assert set(chat.current) == week.KEPT
        memories = {each.claim.what: each for each in chat.service.store.truth.changed_since(0)[1]}
        assert set(memories) == week.KEPT | set(week.CLOSED) | set(week.RETRACTED)
        assert {each.what for each in chat.extractions if not each.memory} == week.LEFT_OUT
        assert all(each.reason for each in chat.extractions if not each.memory)
        said = {text for lines in week.SESSIONS.values() for _, text in lines}
        for found in memories.values():
            assert found.episodes and set(chat.sources(found)) <= said
        for what, why in week.WHY.items():
            assert memories[what].claim.why == why
        for ends, what in ((week.CLOSED, "close"), (week.RETRACTED, "retract")):
            for old, new in ends.items():
                _, rows = chat.service.records.history(memories[old].id, "personal")
                (row,) = [each for each in rows if str(each.operation) == what]
                assert row.body["by"] == memories[new].id and row.body["reason"]
                assert set(row.episodes) == set(memories[new].episodes)
        chat.close()


_QUIET = """
[models]
extraction = "lm"
decisions = "lm"
decisions_api = "openai"
[models.endpoint.lm]
url = "{url}"
model = "{model}"
timeout_seconds = 20.0
[distilling]
quiet_seconds = 0.2
"""


def _week_of_a_daemon(home: Path, killed_at: frozenset[int]) -> list[dict[str, Any]]:
    """The week through the hooks of a daemon that is killed while a model answers; what is left of it."""
    asked = itertools.count(1)
    home.mkdir()
    with Product(home, MNEMO_ENCODERS="off") as product:
        running = [0]

        def answer(request: Request) -> Reply:
            if next(asked) in killed_at:
                os.kill(running[0], signal.SIGKILL)
            return week.answer(request)

        with ModelServer(answer, routes=week.ROUTES) as server:
            product.data.mkdir(parents=True)
            config = _QUIET.format(url=server.url, model=server.settings()["model"])
            (product.data / "config.toml").write_text(config, "utf-8")
            for number, (session, lines) in enumerate(week.SESSIONS.items()):
                running[0] = product.pid()
                for place, (who, text) in enumerate(lines):
                    turn = {"session": session, "prompt_id": f"{number}-{place}"}
                    if who == USER:
                        product.hook("pre-message", prompt=text, **turn)
                    else:
                        product.hook("turn-end", last_assistant_message=text, **turn)

                def read() -> bool:
                    told = product.run("status", "--json")
                    if told.returncode:  # it was killed just now
                        return False
                    status = json.loads(told.stdout)
                    running[0] = status["pid"]
                    return not status["queue"].get("distil")

                until(read, 60)
        exported = home / "export.jsonl"
        product.json("export", str(exported))
    return [json.loads(line) for line in exported.read_text("utf-8").splitlines()]


def _end_state(lines: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """What memories there are and what became of them, whatever the time it was."""
    rows = [each["ledger"] for each in lines if "ledger" in each]
    whats = {row["memory"]: row["body"]["claim"]["what"] for row in rows if row["operation"] == "assert"}
    return {
        (
            row["operation"],
            whats.get(row["memory"], ""),
            whats.get(row["body"].get("by", ""), ""),
            str(len(row["episodes"])),
        )
        for row in rows
        if row["memory"] in whats
    }


@pytest.mark.slow
def test_a_daemon_killed_again_and_again_ends_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    undisturbed = _end_state(_week_of_a_daemon(tmp_path / "a", frozenset()))
    killed = _end_state(_week_of_a_daemon(tmp_path / "b", frozenset({1, 4, 5, 9, 14})))
    assert {what for _, what, _, _ in undisturbed} == week.KEPT | set(week.CLOSED) | set(week.RETRACTED)
    assert killed == undisturbed
