"""The gate: decisions of three words pass, acknowledgements of thirty do not; nothing is said twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mnemo_mcp.capture.gate import worth_distilling
from mnemo_mcp.distil.chunks import next_chunk
from mnemo_mcp.memory import Episode, Role
from mnemo_mcp.service import Service
from tests import desk

KEEP = (
    "use pnpm",
    "port 8080",
    "no tabs",
    "tabs, not spaces",
    "don't run the tests",
    "prefer rebase over merge",
    "staging is called Halcyon",
    "E4312",
    "OPS-1187",
    "src/lib/db.ts",
    "Ana owns the gateway",
    "the timeout is 600 s",
    "ok. Also remember that staging is called Halcyon.",
    "yes, but only on Thursdays",
    "usa pnpm",
    "los jueves desplegamos Atlas",
    "nunca ejecutes las pruebas en producción",
    "utilise pnpm",
    "nie am Freitag deployen",
    "Gateway gehört Mira",
    "não use tabs",
    "usiamo Redis",
    "деплой по четвергам",
    "никогда не запускай тесты",
    "木曜にデプロイ",
    "端口用八千",
    "改用飞书插件",
    "每周四发布",
    "배포는 목요일",
    "what port does the gateway listen on?",
)
DROP = (
    "",
    "   ",
    "👍",
    "...",
    "ok",
    "OK!",
    "yes please",
    "thanks, that looks great",
    "sounds good, go ahead",
    "hello",
    "good morning!",
    "run the tests",
    "please run the tests again",
    "fix it",
    "what do you think?",
    "can you help me?",
    "no problem",
    "/compact",
    "2",
    "continue",
    "lgtm",
    "sí, adelante",
    "muchas gracias",
    "ejecuta las pruebas",
    "oui, merci beaucoup",
    "lance les tests",
    "ja, mach weiter",
    "vielen Dank",
    "guten Morgen",
    "sim, obrigado",
    "va bene, grazie mille",
    "да, спасибо",
    "запусти тесты",
    "はい、お願いします",
    "ありがとうございます",
    "テストを実行して",
    "好的，谢谢",
    "继续",
    "运行测试",
    "네, 감사합니다",
    "계속해",
)


@pytest.mark.parametrize("text", KEEP)
def test_what_may_last_is_kept_however_short(text: str) -> None:
    assert worth_distilling(text).keep


@pytest.mark.parametrize("text", DROP)
def test_what_says_nothing_is_dropped_in_any_language(text: str) -> None:
    verdict = worth_distilling(text)
    assert not verdict.keep
    assert verdict.reason == "nothing that could last"


def test_a_long_text_is_never_an_acknowledgement() -> None:
    assert worth_distilling("ok " * 200).keep


def test_a_near_repeat_is_dropped_only_where_the_guard_sees_no_difference() -> None:
    accepted = ["The load balancer cuts streams at 120 s."]
    assert not worth_distilling("the load balancer cuts streams at 2 minutes", accepted).keep
    assert worth_distilling("The load balancer cuts streams at 600 s.", accepted).keep
    assert worth_distilling("The load balancer never cuts streams at 120 s.", accepted).keep
    assert worth_distilling("The load balancer in staging cuts streams at 120 s.", accepted).keep


def test_only_what_was_accepted_of_late_can_be_repeated() -> None:
    said = "Atlas is deployed on Thursday."
    later = [f"Job {number} writes the summary." for number in range(50)]
    assert not worth_distilling(said, [said, *later[:49]]).keep
    assert worth_distilling(said, [said, *later]).keep


def episode(number: int, text: str) -> Episode:
    at = f"2026-09-14T09:{number:02}:00.000Z"
    return Episode(f"e{number}", "personal", Role.PERSON, text, "claude", "s", "", at, "UTC", at)


def worth_reading(told: Sequence[Episode], number: int) -> bool:
    """Whether an episode would be read after those before it."""
    fresh = [(number, told[number])]
    return next_chunk(fresh, told[:number], (), set(), len, room=10_000).worth_reading


def test_an_episode_tried_again_does_not_repeat_itself() -> None:
    told = [episode(1, "Use pnpm."), episode(2, "ok"), episode(3, "Staging is called Halcyon.")]
    for _ in range(2):
        assert [worth_reading(told, number) for number in range(3)] == [True, False, True]
    assert not worth_reading([*told, episode(4, "use PNPM")], 3)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"


def stored(service: Service) -> list[Episode]:
    return [each for _, each in service.store.episodes.after(0, 1000)]


def verdicts(service: Service) -> dict[str, bool]:
    told = stored(service)
    return {each.id: worth_reading(told, number) for number, each in enumerate(told)}


def test_a_restart_gives_the_same_verdicts(home: Path) -> None:
    texts = ("The timeout is 120 s.", "Timeout: 2 minutes.", "The timeout is 600 s.", "ok")
    with desk.opened(home) as service:
        for day, text in enumerate(texts, 1):
            service.remember(text, kind="fact", at=f"2026-01-0{day}")
        before = verdicts(service)
    with desk.opened(home) as service:
        assert verdicts(service) == before
        assert sorted(before.values()) == [False, False, True, True]
