"""Judges of other kinds, or none: ways of asking, passes without a model, the command line, measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from desk import StillClock
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
from openai_server import ModelServer, says
from product import Product, until

from mnemo_mcp.cli import main
from mnemo_mcp.memory import Status
from mnemo_mcp.settings import Judging

# Other ways of asking


def test_with_no_model_only_repeats_are_recognised(tmp_path: Path) -> None:
    with judged_by(None, tmp_path / "data") as service:
        first = service.remember(TUESDAY).id
        again = service.judge.settle(candidate(service, "atlas deploys on TUESDAY"))
        assert (again.outcome, again.id) == ("confirmed", first)
        beside = service.judge.settle(candidate(service, THURSDAY))
        assert beside.outcome == "added" and status(service, first) is Status.CURRENT
        assert not service.store.work.waiting()


def test_json_alone_changes_nothing_unless_it_may(tmp_path: Path) -> None:
    body = {"relation_1": "updates", "lasts": "yes", "useful": "yes"}
    with ModelServer(lambda request: says(json.dumps(body))) as server:
        for may, expected in ((False, Status.CURRENT), (True, Status.CLOSED)):
            judging = Judging(said_may_act=may)
            with judged_by(server, tmp_path / str(may), decisions_api="json", judging=judging) as service:
                first = service.remember(TUESDAY, at=PREVIOUSLY).id
                service.judge.settle(candidate(service, THURSDAY))
                assert status(service, first) is expected


@pytest.mark.parametrize("api", ["systemone", "auto"])
def test_other_ways_of_asking(tmp_path: Path, api: str) -> None:
    judge = ScriptedJudge(lambda claim, known: "updates")
    with (
        ModelServer(judge, routes=("/systemone",)) as server,
        judged_by(server, tmp_path / "data", decisions_api=api) as service,
    ):
        first = known(service)
        assert service.judge.settle(candidate(service, THURSDAY)).closed == (first,)


# Without a model


def test_a_pass_over_many_goes_on_where_it_was(tmp_path: Path) -> None:
    clock = StillClock()
    with judged_by(None, tmp_path / "data", clock) as service:
        for number in range(120):
            service.remember(f"Service s-{number} listens on port {9000 + number}.", at="2026-08-01")
        clock.pass_days(1)
        service.tasks.maintain()
        rounds = 0
        while service.tasks.work_off("consolidate"):
            rounds += 1
            if rounds == 2:
                service.close()
                service = judged_by(None, tmp_path / "data", clock)
        assert 4 <= rounds <= 8
        assert service.store.verdicts.progress("personal", "all").reached == service.store.truth.newest()
        service.close()


def test_a_session_that_ends_asks_for_a_search_for_repeats(tmp_path: Path) -> None:
    with judged_by(None, tmp_path / "data") as service:
        first = service.remember(TUESDAY, at="2026-08-01", project="a").id
        payload = {"session_id": "s", "cwd": "/home/dev/atlas", "hook_event_name": "SessionEnd"}
        service.hook("claude", "session-end", json.dumps(payload).encode())
        assert service.store.work.waiting()["consolidate"] == 1
        work_off(service)
        assert "consolidate" not in service.store.work.waiting()
        assert status(service, first) is Status.CURRENT


# Seen from outside


def test_the_command_line_tells_verdicts_and_takes_them_back(tmp_path: Path) -> None:
    """Through a daemon: judged behind the answer, told by `history`, taken back by `undo`."""
    judge = ScriptedJudge(lambda claim, known: "updates")
    with (
        ModelServer(judge, routes=("/decisions",)) as server,
        Product(tmp_path, MNEMO_ENCODERS="off") as product,
    ):
        product.data.mkdir(mode=0o700)
        (product.data / "config.toml").write_text(
            f'[models]\ndecisions = "lm"\n[models.endpoint.lm]\nurl = "{server.url}"\nmodel = "test-model"\n',
            "utf-8",
        )
        first = product.remember(TUESDAY, at=PREVIOUSLY)["id"]
        product.remember(THURSDAY)

        def verdicts() -> list[dict[str, Any]]:
            return [each for each in product.json("history", first)["verdicts"] if each["done"] == "closed"]

        until(lambda: bool(verdicts()))
        (verdict,) = verdicts()
        assert product.json("history", first)["memory"]["status"] == "closed"
        assert b"verdict v" in product.run("history", first).stdout
        assert product.json("undo", verdict["id"])["outcome"] == "undone"
        assert product.json("history", first)["memory"]["status"] == "current"
        assert b"undo of close" in product.run("history", first).stdout
        assert product.run("undo", verdict["id"]).returncode == 1


# Measuring a model


def _pairs(file: Path) -> str:
    labels = ("same", "updates", "contradicts", "different")
    lines = [
        {
            "id": f"p{number}",
            "label": label,
            "old": f"Atlas deploys {label}.",
            "new": f"Atlas ships {number}.",
        }
        for number, label in enumerate((*labels, "updates"))
    ]
    file.write_text("".join(json.dumps(each) + "\n" for each in lines), "utf-8")
    return str(file)


def test_a_model_is_measured_on_labelled_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def says(claim: str, known: str) -> dict[str, float]:
        return at(0.55, "same") if claim == "Atlas ships 4." else at(0.9, known.split()[-1].strip("."))

    home, picture = tmp_path / "home", tmp_path / "sure.svg"
    home.mkdir()
    with ModelServer(ScriptedJudge(says), routes=("/decisions",)) as server:
        (home / "config.toml").write_text(
            f'[models]\ndecisions = "lm"\n[models.endpoint.lm]\nurl = "{server.url}"\n'
            'model = "test-model"\nprice_in = 2.0\n',
            "utf-8",
        )
        monkeypatch.setenv("MNEMO_HOME", str(home))
        data = _pairs(tmp_path / "pairs.jsonl")
        assert main(["eval", "relations", "--data", data, "--json", "--svg", str(picture)]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main(["eval", "relations", "--data", data]) == 0
    told = capsys.readouterr().out
    assert found["model"] == "openai test-model" and found["pairs"] == 5
    assert found["accuracy"] == 0.8 and found["by_label"]["updates"] == {"pairs": 2, "accuracy": 0.5}
    assert found["confusion"]["updates"] == {"same": 1, "updates": 1}
    assert found["calibration_error"] == pytest.approx((4 * 0.1 + 0.55) / 5)
    assert [(each["pairs"], each["said"], each["right"]) for each in found["bins"]] == [
        (1, 0.55, 0.0),
        (4, 0.9, 1.0),
    ]
    assert (found["acted"], found["acted_wrongly"]) == (
        2,
        0,
    )  # the guard holds `same` back, 0.55 does the rest
    assert found["tokens_in"] == 500 and found["cost"] == pytest.approx(0.001)
    assert "right in 80% of 5 pairs" in told and picture.read_text("utf-8").startswith("<svg")
    assert not (home / "mnemo.db").exists()


@pytest.mark.parametrize("trouble", ["no model", "no server", "no label"])
def test_what_cannot_be_measured_is_said(
    trouble: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = _pairs(tmp_path / "pairs.jsonl")
    if trouble == "no server":
        (tmp_path / "config.toml").write_text(
            '[models]\ndecisions = "lm"\n[models.endpoint.lm]\nurl = "http://127.0.0.1:9/v1"\nmodel = "m"\n',
            "utf-8",
        )
    if trouble == "no label":
        Path(data).write_text('{"id": "p", "old": "a", "new": "b", "may_merge": true}\n', "utf-8")
    monkeypatch.setenv("MNEMO_HOME", str(tmp_path))
    assert main(["eval", "relations", "--data", data]) == 1
    expected = {
        "no model": "No decisions model",
        "no server": "does not answer",
        "no label": "line 1: `label`",
    }
    assert expected[trouble] in capsys.readouterr().err
