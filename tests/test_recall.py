"""Recall: any text is a question, words of any script find, identifiers come first, ids work everywhere."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from asking import ANY, TOOLS, content
from desk import ids_in, opened, said, tell_all, whats
from hypothesis import given
from hypothesis import settings as examples
from product import Product

from mnemo_mcp.errors import MnemoError, NotFound, Refused
from mnemo_mcp.memory import instant
from mnemo_mcp.recall.answer import Answer
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import NO_WORDS
from mnemo_mcp.service import Service


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service without encoders; each test keeps to a profile of its own."""
    with opened(tmp_path_factory.mktemp("words")) as service:
        yield service


# Any text is a question


FOUND = {
    "--error-on-warnings": 0,
    '"--error-on-warnings"': 0,
    "GB/s": 1,
    "src/lib/db/index.ts": 2,
    "pre-edit": 2,
    "don't use agents": 3,
    "ask-codex": 3,
    "^v?\\d+\\.\\d+$": 4,
    "C++": 5,
    "C#": 5,
    "ubuntu 20.04": 5,
    "100%": 6,
    "$5": 6,
}
ODD = (
    "AND OR NOT NEAR",
    "title:x",
    "'; DROP TABLE memories; --",
    'what what: "who"?',
    "NEAR/3",
    "a\0b",
    "\ud800",
)
BLANK = ("*", "((((", '"', "\\", "   ", "", "?!…", "\n\t", "\u200b", "--", "。。。")


@pytest.mark.parametrize("question", FOUND)
def test_texts_with_signs_find_their_memory(store: Service, question: str) -> None:
    tell_all(store, TOOLS, profile="tools")
    assert TOOLS[FOUND[question]] in whats(store.recall(question, profile="tools"))[:3]


@pytest.mark.parametrize("question", BLANK)
def test_a_blank_question_finds_nothing_and_says_so(store: Service, question: str) -> None:
    tell_all(store, TOOLS, profile="tools")
    assert store.recall(question, profile="tools") == Answer(notes=(NO_WORDS,))


@pytest.mark.parametrize("question", [*FOUND, *ODD, *BLANK])
def test_asking_changes_nothing(store: Service, question: str) -> None:
    tell_all(store, TOOLS, profile="tools")
    before = content(store)
    store.recall(question, profile="tools")
    assert content(store) == before


@examples(max_examples=150, deadline=None)
@given(ANY)
def test_any_text_is_a_question(store: Service, text: str) -> None:
    tell_all(store, TOOLS, profile="tools")
    answer = store.recall(text, profile="tools", limit=3)
    assert len(answer.memories) <= 3
    assert answer == store.recall(text, profile="tools", limit=3)


@examples(max_examples=40, deadline=None)
@given(ANY)
def test_any_memory_is_found_by_its_own_text(store: Service, text: str) -> None:
    """What is refused is refused in words; what is stored comes back, by itself or as another's repeat."""
    profile = "own words"
    try:
        outcome = store.remember(text, profile=profile)
    except MnemoError as refused:
        assert refused.advice
        return
    question = read(text, now=instant(store.clock()))
    if question.says_nothing or (question.time and question.time.anything):
        return  # it asks for nothing, or for whatever took place then
    found = store.recall(text, profile=profile, limit=50).memories
    assert outcome.id in [name for each in found for name in (each.memory.id, *each.repeats)]


@pytest.mark.parametrize(
    "text", ["word " * 40_000, "x" * 200_000, "漢" * 100_000, "a.b" * 60_000, "ab " * 3 + "\n" * 99_999]
)
def test_a_huge_question_is_read_at_its_ends(store: Service, text: str) -> None:
    tell_all(store, TOOLS, profile="tools")
    answer = store.recall(f"{text}\nWhat does the ask-codex rule say?", profile="tools")
    assert whats(answer)[0] == TOOLS[3]


# Words of every script


EASTERN = (
    "适者生存，生存等于正确的道理",
    "飞书的插件需要先配置权限",
    "本番のデプロイは木曜日に行う",
    "결제 서비스는 NATS 큐를 쓴다",
)
BESIDE = (
    "数据库每天凌晨备份一次", "测试环境的证书下个月到期", "登录页面已经改成深色", "日志保存三十天",
    "图片服务使用对象存储", "会议改到周五下午", "用户头像最大两兆", "ログは三十日間保存する",
    "画像は圧縮してから送る", "会議は金曜日の午後に移った", "検索は週末に作り直す", "請求書は月末に送る",
    "認証は外部に任せる", "画面の色は青にする", "로그는 삼십 일 보관한다", "회의는 금요일 오후로 옮겼다",
    "이미지는 압축해서 보낸다", "검색 색인은 주말에 만든다", "화면 색은 파란색이다", "청구서는 월말에 보낸다",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("适者生存", 0),
        ("飞书插件配置", 1),
        ("デプロイ 木曜日", 2),
        ("本番デプロイはいつ?", 2),
        ("결제 서비스 큐", 3),
    ],
)
def test_eastern_phrases_are_found_by_words(store: Service, question: str, place: int) -> None:
    tell_all(store, (*EASTERN, *BESIDE), profile="eastern")
    assert whats(store.recall(question, profile="eastern"))[0] == EASTERN[place]


def test_an_unrelated_eastern_question_does_not_bring_everything(store: Service) -> None:
    tell_all(store, (*EASTERN, *BESIDE), profile="eastern")
    assert len(store.recall("天气预报", profile="eastern", limit=50).memories) <= 2


SPELLED = (
    "El servicio caf\u00e9 vive en Z\u00fcrich.",
    "Le serveur re\u0301sume\u0301 est a\u0300 Orle\u0301ans.",
    "Full width ＳＱＬ mode is off; file ﬁle.txt",
)


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("caf\u00e9", 0), ("cafe\u0301", 0), ("cafe", 0), ("CAFÉ", 0), ("Zurich", 0), ("résumé", 1),
        ("resume Orleans", 1), ("SQL mode", 2), ("file.txt", 2),
    ],
)  # fmt: skip
def test_spellings_meet_and_texts_come_back_as_stored(store: Service, question: str, place: int) -> None:
    tell_all(store, (*SPELLED, *BESIDE), profile="spelled")
    assert SPELLED[place] in whats(store.recall(question, profile="spelled"))[:3]


@pytest.mark.parametrize("text", SPELLED[:2])
def test_the_other_form_of_a_sentence_is_the_same_memory(store: Service, text: str) -> None:
    first = store.remember(text, profile="forms")
    for form in ("NFC", "NFD"):
        again = store.remember(unicodedata.normalize(form, text), profile="forms")
        assert (again.outcome, again.id) == ("confirmed", first.id)


# Identifiers


EXACT = (
    "ECONNRESET on wg0 came from MTU 1420.",
    "commit 9f3c2ab broke the login",
    "KeyError: sub_total in invoices/render.py line 212",
    "env var ATLAS_DB_URL must end in /main",
    "ticket OPS-1187 tracks the leak",
    "function parseInvoiceV2 is deprecated",
)
NAMED = {
    "ECONNRESET": 0,
    "9f3c2ab": 1,
    "KeyError: sub_total": 2,
    "invoices/render.py": 2,
    "ATLAS_DB_URL": 3,
    "OPS-1187": 4,
    "parseInvoiceV2": 5,
    "parse invoice v2": 5,
    "Traceback (most recent call last):\n  File \"app.py\", line 9\nKeyError: 'sub_total'": 2,
}


def _locks() -> list[str]:
    chance = random.Random(11)
    places = ("queue", "login", "gateway", "report", "import", "ledger")
    return [
        f"The {chance.choice(places)} lock {number} times out after {chance.randint(2, 90)} s"
        for number in range(194)
    ]


@pytest.mark.parametrize("question", NAMED)
def test_an_identifier_finds_its_memory_first(store: Service, question: str) -> None:
    tell_all(store, (*EXACT, *_locks()), profile="exact")
    assert whats(store.recall(question, profile="exact"))[0] == EXACT[NAMED[question]]


@pytest.mark.parametrize(
    "question", ["what is OPS-1188?", "OPS-118", "Where is OPS-11870?", "¿qué es OPS-1188?"]
)
def test_another_number_is_not_a_hit(store: Service, question: str) -> None:
    tell_all(store, (*EXACT, *_locks()), profile="exact")
    assert not any(each.sure for each in store.recall(question, profile="exact").memories)
    assert said(store, "pre-message", prompt=question, profile="exact") == ""


# Ids


FLEET = (
    "D6 scratch probe",
    "AUTHORITATIVE fleet status (contains the word scratch)",
    "D6 timeline",
    "unrelated",
)


@pytest.mark.parametrize("name", ["D6 scratch", "", "*", " ", "%", "m", "' OR 1=1 --", "m" + "0" * 13])
def test_what_is_no_id_changes_nothing_and_says_what_to_do(store: Service, name: str) -> None:
    tell_all(store, FLEET, profile="fleet")
    before = content(store)
    verbs: list[Callable[[], object]] = [
        lambda: store.forget(name, profile="fleet"),
        lambda: store.keep(name, profile="fleet"),
        lambda: store.recall_episode(name, profile="fleet"),
        lambda: store.records.history(name, "fleet"),
    ]
    for verb in verbs:
        with pytest.raises(Refused) as refused:
            verb()
        assert "recall" in refused.value.advice.lower()
    assert content(store) == before


def test_ids_of_recall_work_in_every_verb(store: Service) -> None:
    told = tell_all(store, FLEET, profile="verbs")
    found = [each.memory for each in store.recall("D6 scratch fleet timeline", profile="verbs").memories]
    assert {each.id for each in found} <= set(told)
    assert len(found) == 3
    for memory in found:
        assert store.keep(memory.id, profile="verbs").reason == memory.claim.what
        assert store.records.history(memory.id, "verbs")[0].id == memory.id
        sources, _ = store.recall_episode(memory.id, profile="verbs")
        assert [each.id for each in sources] == list(memory.episodes)
        for episode in memory.episodes:
            assert store.recall_episode(episode, profile="verbs")[0] == sources
    gone = store.forget(found[0].id, profile="verbs")
    assert (gone[0].outcome, gone[0].id, gone[0].reason) == ("retracted", found[0].id, found[0].claim.what)
    assert store.forget([found[0].id], profile="verbs")[0].outcome == "gone"
    assert found[0].claim.what not in whats(store.recall("D6 scratch", profile="verbs"))


def test_the_beginning_of_an_id_is_enough_where_it_is_the_only_one(store: Service) -> None:
    told = tell_all(store, (f"gauge {number} reads {number * 7}" for number in range(40)), profile="begin")
    assert store.keep(told[0][:8], profile="begin").id == told[0]
    with pytest.raises(NotFound):
        store.keep(told[0][:5], profile="begin")
    with pytest.raises(Refused):
        store.forget(told[0][:8], "erase", profile="begin")


def test_ids_work_at_the_real_doors(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        told = [product.remember(what)["id"] for what in FLEET]
        server = product.stdio()
        server.open()
        good, text = server.call("recall", query="D6 scratch")
        assert good
        assert set(ids_in(text)) == set(told[:3])
        assert server.call("keep", id=told[0])[0]
        assert server.call("recall_episode", id=told[0])[0]
        for wrong in ("D6 scratch", "", "*"):
            good, text = server.call("forget", id=wrong)
            assert not good
            assert "ecall" in text
        good, text = server.call("forget", id=told[0])
        assert good
        assert FLEET[0] in text
        good, text = server.call("forget", id=told[0])
        assert good
        assert "already" in text
        done = product.run("forget", "D6 scratch", "--json")
        assert done.returncode == 1
        assert product.recall("D6 timeline")[0]["id"] == told[2]
