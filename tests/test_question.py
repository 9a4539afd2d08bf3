"""Reading a question: which W it asks for, of which time, of now or of before, what it names and quotes."""

from __future__ import annotations

import json
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from mnemo_mcp.index.names import Names
from mnemo_mcp.memory import moment
from mnemo_mcp.recall.question import Question, read

ANY = st.text(st.characters(exclude_categories=()), max_size=300)
MADRID = ZoneInfo("Europe/Madrid")
NOW = "2026-09-16T09:21:00.000Z"  # a Wednesday


# Which W

ASKED = {
    "what": """
        What port does nginx use? | which database do we use | How many workers run? | How big is the index?
        How long does a token live? | ¿Qué base de datos usamos? | ¿cuántos procesos hay?
        que puerto usa nginx?
        Quelle base utilisons-nous ? | Qu'est-ce que le pont utilise ? | Combien de tâches ?
        Was ist der Port? | Was ging im August schief? | 最大サイズは？ | Welche Datenbank nutzen wir?
        Wie viele Prozesse laufen? | Wie heißt der Server?
        Qual banco usamos? | O que mudou? | Quantos processos? | Quale database usiamo? | Cosa è cambiato?
        Wat is de poort? | Welke database gebruiken we? | Hoeveel taken? | Co się zmieniło?
        Jaki port ma nginx?
        Что изменилось? | Какая база данных? | Сколько задач? | Как называется сервер? | Що змінилося?
        我们用什么数据库？ | 有多少个进程？ | 用哪个端口？ | 何のポートですか？ | どのデータベースを使う？
        무슨 데이터베이스를 쓰나요? | 포트가 뭐예요?""",
    "why": """
        Why did we choose SQLite? | What is the reason for the lock? | For what reason was it dropped?
        how come it is red? | What's the main reason we left? | What made us switch? | tell me why it fails
        ¿Por qué elegimos SQLite? | por que falla? | ¿Cuál es la razón del bloqueo?
        ¿para qué sirve el puente?
        Pourquoi SQLite ? | Pour quelle raison est-il bloqué ? | Warum SQLite? | Wieso ist es rot? | Weshalb?
        Aus welchem Grund wurde es entfernt? | Was ist der Grund dafür? | Por que escolhemos SQLite?
        Por quê?
        Perché SQLite? | Come mai è rosso? | Per quale motivo è bloccato? | Waarom SQLite? | Om welke reden?
        Dlaczego SQLite? | Po co to? | Почему SQLite? | По какой причине? | Зачем это? | Чому SQLite?
        为什么选择SQLite？ | 為什麼？ | 出于什么原因？ | なぜSQLiteを選んだの？ | どうして失敗した？
        왜 SQLite를 골랐나요? | 무엇 때문에 실패했나요?""",
    "how": """
        How do I run the tests? | in what way is it signed? | can you tell me how the cache works
        ¿Cómo se despliega? | como arranco el servidor? | Comment on déploie ? | Comment lancer les tests ?
        Comment rejouer les messages ? | Comment représentons-nous les euros ? | Come annullo un rilascio?
        ロックを解除するには？
        Wie starte ich die Tests? | wie wird das ausgerollt? | Como fazemos a entrega?
        Come si avvia il server?
        Hoe start ik de tests? | Jak uruchomić testy? | W jaki sposób? | Как запустить тесты? | Каким образом?
        Як запустити тести? | 怎么运行测试？ | 如何部署？ | どうやってテストを実行する？ | どのように？
        테스트를 어떻게 실행하나요?""",
    "who": """
        Who owns the gateway? | By whom was it approved? | whose key is this? | Which team runs billing?
        the release was done by who? | ¿Quién lleva el puente? | ¿Por quién fue aprobado? | Qui gère le pont ?
        Par qui a-t-il été approuvé ? | Wer betreut das Gateway? | Von wem wurde es freigegeben?
        Quem cuida do portão? | Chi gestisce il ponte? | Da chi è stato approvato? | Wie beheert de poort?
        Door wie is het goedgekeurd? | Kto prowadzi bramkę? | Кто ведёт шлюз? | Кем это одобрено? | Хто це?
        谁负责网关？ | 誰がゲートウェイを担当？ | 누가 게이트웨이를 맡나요?""",
    "where": """
        Where is the config? | in which file is the parser? | tell me where the logs are
        ¿Dónde está la configuración? | donde vive Ivan? | Où est la configuration ?
        Dans quel fichier est le parseur ? | Wo liegt die Konfiguration? | In welcher Datei steht der Parser?
        Onde fica a configuração? | Dove si trova la configurazione? | Dov'è il file?
        Waar staat de configuratie?
        Gdzie jest konfiguracja? | Где лежит конфигурация? | В каком файле парсер? | Де конфігурація?
        配置在哪里？ | 在哪个文件？ | 設定はどこ？ | どのファイルにある？ | 설정은 어디에 있나요?""",
    "when": """
        When was it deployed? | Since when do we use uv? | How often does cron run? | what day is the release?
        How long ago did we move? | ¿Cuándo se desplegó? | ¿Desde cuándo usamos uv?
        Quand a-t-il été déployé ?
        Depuis quand utilisons-nous uv ? | Wann wurde ausgerollt? | Seit wann nutzen wir uv?
        Wie oft läuft cron?
        Quando foi a entrega? | Desde quando usamos uv? | Quando è stato rilasciato? | Da quando usiamo uv?
        Wanneer is het uitgerold? | Sinds wanneer gebruiken we uv? | Kiedy wdrożono? | Od kiedy używamy uv?
        Когда развернули? | Как давно мы используем uv? | С каких пор? | Коли розгорнули? | 什么时候部署的？
        从什么时候开始用uv？ | いつデプロイした？ | いつからuvを使っている？ | 언제 배포했나요?
        언제부터 uv를 쓰나요?""",
}
QUESTIONS = [
    (part, question.strip())
    for part, lines in ASKED.items()
    for line in lines.split("\n")
    for question in line.split("|")
    if question.strip()
]


@pytest.mark.parametrize(("part", "question"), QUESTIONS, ids=str)
def test_the_question_word_tells_what_is_asked(part: str, question: str) -> None:
    assert read(question).asks == part


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("Is this the server which we fixed?", None),
        ("Does it fail when the cache is cold?", None),
        ("Was the server restarted?", None),
        ("comment out the line", None),
        ("Come up with a plan", None),
        ("fix the parser so that it handles what users send", None),
        ("Ist das Ausrollen fertig?", None),
        ("Потому что так надо", None),
        ("是否需要重启？", None),
        ("いつも通りですか？", None),
        ("When the build fails, what do we do?", "what"),
        ("Cuando falla, ¿qué hacemos?", "what"),
        ("El servidor que usamos, ¿dónde está?", "where"),
        ("Why did it fail? Any idea?", "why"),
        ("Quand est-il tombé, et pourquoi ?", "when"),
        ("What is red? And who broke it?", "who"),
    ],
)
def test_words_that_only_join_clauses_ask_nothing(question: str, part: str | None) -> None:
    assert read(question).asks == part


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ('I used `why` and "how". Where is it?', "where"),
        ("```py\nwhat = why(how)\n```\nWho wrote this?", "who"),
        (
            "what happened?\nTraceback (most recent call last):\n  File \"a.py\", line 3, in why\n"
            "ValueError: how?", "what"
        ),
        ("why does this fail\n2026-09-14 12:00:01 ERROR who failed at where", "why"),
        ("\n".join(["[12:00:01] where is it?"] * 300) + "\nWho owns this service?", "who"),
        ('"why is it red?"', "why"),
    ],
)  # fmt: skip
def test_quotes_code_and_logs_do_not_decide(question: str, part: str) -> None:
    assert read(question).asks == part


# The past and the present

THEN = (
    "What did we use before the migration?", "What port did nginx previously use?",
    "What port did we use before?",
    "where did Ivan live originally?", "What is the history of the port?", "what was the old port?",
    "what did we do before we switched to uv?", "Where did the logs use to live?",
    "We used to deploy by hand, who did?",
    "¿Qué usábamos antes?", "¿Qué base usábamos antes de la migración?", "¿Qué había al principio?",
    "Qu'utilisions-nous avant ?", "anciennement, quel port ?", "Was haben wir vorher benutzt?",
    "Was war früher der Port?", "Qual banco usávamos antes?", "Chi gestiva il gateway prima?",
    "Wat gebruikten we vroeger?", "Czego używaliśmy wcześniej?", "Какая база была раньше?",
    "Что было до миграции?", "以前用的什么数据库？", "原来的端口是什么？", "以前はどのDBを使っていましたか？",
    "移行前は何を使っていた？", "예전에 어떤 DB를 썼나요?",
)  # fmt: skip
NOT_THEN = (
    "What is the port?", "What changed in the past two weeks?", "最初の顧客は誰？",
    "Why is it renewed thirty days before?",
    "¿Por qué se renueva 30 días antes?",
    "before deploying, run what?", "What should I run before the deploy?",
    "What runs before the deploy?", "What do we use now?", "We used to use X, what do we use now?",
    "What are we working on right now?", "What is used to deploy?", "¿Qué hago antes de desplegar?",
    "¿qué hicimos la primera vez?", "Que faire avant de déployer ?", "Was muss ich vorher tun?",
    "Cosa usiamo adesso?", "Какая база сейчас?", "三天以前做了什么？", "部署之前要做什么？", "现在用什么？",
    "3日前に何をした？", "デプロイ前に何をすべき？", "지금 어떤 DB를 쓰나요?", "3일 전에 뭐 했어?",
)  # fmt: skip


@pytest.mark.parametrize(
    ("question", "past"), [*((each, True) for each in THEN), *((each, False) for each in NOT_THEN)]
)
def test_the_past_is_told_from_the_present(question: str, past: bool) -> None:
    assert read(question).past is past


# Times

DATES = {
    "2026-09-16 day": """
        what did we do today? | aujourd'hui | ¿qué hicimos hoy? | heute | oggi | сегодня | 今天 | 오늘""",
    "2026-09-15 day": """
        what happened yesterday? | yesterday's deploy | last Tuesday | ¿qué hicimos ayer? | el martes pasado
        qu'avons-nous fait hier ? | mardi dernier | was haben wir gestern gemacht? | letzten Dienstag
        o que fizemos ontem? | terça-feira passada | cosa abbiamo fatto ieri? | martedì scorso
        wat deden we gisteren? | afgelopen dinsdag | co robiliśmy wczoraj? | w zeszły wtorek
        что мы делали вчера? | в прошлый вторник | 我们昨天做了什么？ | 昨日何をした？ | 어제 뭐 했어?""",
    "2026-09-14 day": """
        and the day before yesterday? | did we ship on Monday? | ¿qué hicimos el lunes? | anteayer
        avant-hier | vorgestern | anteontem | l'altro ieri
        eergisteren | przedwczoraj | позавчера | 前天 | 一昨日 | 그저께 | on 2026-09-14""",
    "2026-09-13 day": """
        3 days ago | hace tres días | il y a trois jours | vor 3 Tagen | há 3 dias | 3 dias atrás
        3 giorni fa
        3 dagen geleden | 3 dni temu | 3 дня назад | 三天前 | 3日前 | 3일 전""",
    "2026-09-08 day": "Tuesday last week | 上周二 | 先週の火曜日 | 지난 주 화요일",
    "2026-09-07 week": """
        last week | la semana pasada | la semaine dernière | letzte Woche | semana passada
        la settimana scorsa
        vorige week | w zeszłym tygodniu | на прошлой неделе | tydzień temu | неделю назад | 上周 | 先週
        지난주""",
    "2026-08-31 week": "two weeks ago | hace dos semanas | vor zwei Wochen | 两周前 | 2週間前 | 2주 전",
    "2026-09-14 week": """
        this week | esta semana | cette semaine | diese Woche | на этой неделе | 这周 | 今週 | 이번 주""",
    "2026-09-21 week": """
        next week | la semana que viene | la semaine prochaine | nächste Woche | 下周 | 来週 | 다음 주""",
    "2026-08-01 month": """
        last month | a month ago | el mes pasado | le mois dernier | vor einem Monat | mês passado
        il mese scorso | w zeszłym miesiącu | в прошлом месяце | en août | 上个月 | 先月 | 지난달""",
    "2026-03-01 month": "in March | in march 2026 | en marzo | im März | em março | в марте | in 2026-03",
    "2025-12-01 month": "in December | en diciembre | im Dezember | в декабре",
    "2025-10-05 day": """
        5 October 2025 | October 5th, 2025 | on the 5th of October | 5 de octubre de 2025 | le 5 octobre 2025
        am 5. Oktober 2025 | 5 de outubro de 2025 | il 5 ottobre 2025 | 5 oktober 2025 | 5 października 2025
        5 октября 2025 года | 2025年10月5日 | 2025년 10월 5일 | 05.10.2025 | 2025/10/05""",
    "2025-07-01 quarter": """
        in Q3 2025 | 2025-Q3 | the third quarter of 2025 | el tercer trimestre de 2025 | 3. Quartal 2025
        2025年第三季度 | 2025년 3분기""",
    "2026-04-01 quarter": "last quarter | el trimestre pasado | letztes Quartal | 上季度",
    "2024-01-01 year": """
        in 2024 | what did we do in 2024 with the cache? | im Jahr 2024 | nel 2024 | w 2024 roku | в 2024 году
        2024年 | two years ago""",
    "2025-01-01 year": "last year | l'an dernier | el año pasado | letztes Jahr | 去年 | 작년",
    "2026-01-01 year": "this year | este año | quest'anno | dieses Jahr | 今年 | 올해",
    "2026-09-09 span": """
        in the last 7 days | ces 7 derniers jours | in den letzten 7 Tagen | за последние 7 дней""",
}  # fmt: skip
DATED = [
    (question.strip(), *expected.split())
    for expected, lines in DATES.items()
    for line in lines.split("\n")
    for question in line.split("|")
    if question.strip()
]


@pytest.mark.parametrize(
    ("question", "past"),
    [
        ("Which provider settled cards before Adyen?", True),
        ("What was Finch written in before Svelte?", True),
        ("¿Qué proveedor liquidaba las tarjetas antes de Adyen?", True),
        ("Welcher Anbieter hat die Karten vor Adyen abgerechnet?", True),
        ("Was haben wir vor Svelte benutzt, und warum?", True),
        ("Was stand vor Adyen?", True),
        ("Cosa si usava prima di Svelte?", True),
        ("Через кого проводили карты до Adyen?", True),
        ("Svelteの前、Finchは何で書かれていましたか？", True),
        ("What should I run before Svelte?", False),
        ("What runs before Adyen answers?", False),
        ("Which port does Adyen use?", False),
    ],
)
def test_before_a_thing_that_is_named_is_the_past(question: str, past: bool) -> None:
    names = Names()
    for name in ("Adyen", "Svelte"):
        names.add(name, name.lower())
    assert read(question, names).past is past


def when(question: str, now: str = NOW, zone: str = "Europe/Madrid") -> tuple[str, str | None, str] | None:
    """The local beginning and end of the time a question names, and how exactly it does."""
    asked = read(question, None, ZoneInfo(zone), now).time
    if asked is None:
        return None
    start, end = asked.period.start, asked.period.end
    return _local(start, zone), end and _local(end, zone), asked.grain


def _local(at: str, zone: str) -> str:
    local = moment(at).astimezone(ZoneInfo(zone))
    return f"{local:%Y-%m-%d}" if (local.hour, local.minute) == (0, 0) else f"{local:%Y-%m-%dT%H:%M%z}"


@pytest.mark.parametrize(("question", "start", "grain"), DATED, ids=str)
def test_times_are_read_in_many_languages(question: str, start: str, grain: str) -> None:
    found = when(question)
    assert found is not None
    assert (found[0], found[2]) == (start, grain)


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("between 1 March and 5 March 2026", "2026-03-01", "2026-03-06"),
        ("from March to May 2026", "2026-03-01", "2026-06-01"),
        ("entre enero y marzo de 2026", "2026-01-01", "2026-04-01"),
        ("del 5 al 10 de marzo", "2026-03-05", "2026-03-11"),
        ("what about March 5-10", "2026-03-05", "2026-03-11"),
        ("5-10 March 2025", "2025-03-05", "2025-03-11"),
        ("zwischen Januar und März 2026", "2026-01-01", "2026-04-01"),
        ("从2025年3月到2025年5月", "2025-03-01", "2025-06-01"),
        ("since last Tuesday", "2026-09-15", None),
        ("desde el lunes pasado", "2026-09-14", None),
        ("depuis mars", "2026-03-01", None),
        ("с марта", "2026-03-01", None),
        ("3月から", "2026-03-01", None),
        ("after 5 March 2026", "2026-03-06", None),
    ],
)
def test_ranges_hold_both_their_ends(question: str, start: str, end: str | None) -> None:
    assert when(question) == (start, end, "span")


@pytest.mark.parametrize(
    ("question", "end"),
    [("before 2024", "2024-01-01"), ("until March", "2026-04-01"), ("bis März", "2026-04-01")],
)
def test_a_time_may_have_an_end_alone(question: str, end: str) -> None:
    found = when(question)
    assert found is not None
    assert found[0] < "1901"
    assert found[1:] == (end, "span")


@pytest.mark.parametrize(
    "question",
    [
        "may it fail?", "this may fail on 3 hosts", "ask March about it", "March and Will",
        "written by June?",
        "who is April?", "logs/2024-01/app.py", "src/2024-01-02/x.py", "/2024-01-02/", "release-2024-01-02",
        "version 2024-01", "v2024.1.2", "CVE-2024-01", "port 2024", "raise the limit to 2048",
        "a limit of 2000",
        "timeout after 2000 ms", "in 2024 lines", "the second try", "wait a second", "2026-13", "2026-02-30",
        "99999 years ago", "half a year ago", "10-5 March", "did we ship before Monday?",
        "who is on call on Monday?", "a última hora", "03/04/2026", "una semana", "Was ist hier passiert?",
        "What do we do?",
        "what happened?\n2026-09-14 12:00:01 ERROR it broke",
    ],
)  # fmt: skip
def test_what_is_no_time_is_not_read_as_one(question: str) -> None:
    assert when(question) is None


@pytest.mark.parametrize(
    ("question", "now", "start", "end"),
    [
        ("next month", "2026-01-31T12:00:00.000Z", "2026-02-01", "2026-03-01"),
        ("last month", "2026-03-31T12:00:00.000Z", "2026-02-01", "2026-03-01"),
        ("a month ago", "2026-03-31T12:00:00.000Z", "2026-02-01", "2026-03-01"),
        ("29 February", "2026-05-01T12:00:00.000Z", "2024-02-29", "2024-03-01"),
        ("last February", "2028-03-01T12:00:00.000Z", "2028-02-01", "2028-03-01"),
        ("a year ago", "2028-02-29T12:00:00.000Z", "2027-01-01", "2028-01-01"),
        ("last week", "2026-01-01T12:00:00.000Z", "2025-12-22", "2025-12-29"),
        ("5 December", "2026-12-31T12:00:00.000Z", "2026-12-05", "2026-12-06"),
        ("5 December", "2027-01-01T12:00:00.000Z", "2026-12-05", "2026-12-06"),
    ],
)
def test_the_calendar_has_corners(question: str, now: str, start: str, end: str) -> None:
    found = when(question, now)
    assert found is not None
    assert found[:2] == (start, end)


@pytest.mark.parametrize(
    ("question", "now", "hours"),
    [
        ("today", "2026-03-29T12:00:00.000Z", 23),
        ("yesterday", "2026-03-30T00:30:00.000Z", 23),
        ("today", "2026-10-25T12:00:00.000Z", 25),
        ("2 hours ago", "2026-03-29T02:30:00.000Z", 1),
        ("an hour ago", "2026-10-25T01:30:00.000Z", 1),
    ],
)
def test_days_are_as_long_as_the_clock_makes_them(question: str, now: str, hours: int) -> None:
    asked = read(question, None, MADRID, now).time
    assert asked is not None
    assert asked.period.end is not None
    length = moment(asked.period.end) - moment(asked.period.start)
    assert length.total_seconds() == hours * 3600


@pytest.mark.parametrize(
    ("zone", "today", "yesterday"),
    [
        ("UTC", "2026-09-14", "2026-09-13"),
        ("Europe/Madrid", "2026-09-14", "2026-09-13"),
        ("Pacific/Kiritimati", "2026-09-14", "2026-09-13"),
        ("Pacific/Midway", "2026-09-13", "2026-09-12"),
        ("Asia/Kolkata", "2026-09-14", "2026-09-13"),
    ],
)
def test_days_and_weeks_are_those_of_whoever_asks(zone: str, today: str, yesterday: str) -> None:
    now = "2026-09-14T09:21:00.000Z"
    names = {"what did we do today?": today, "what happened yesterday?": yesterday}
    for question, day in names.items():
        found = when(question, now, zone)
        assert found is not None
        assert found[0] == day
    week = when("what did we decide last week?", now, zone)
    assert week is not None
    assert week[0] == ("2026-08-31" if zone == "Pacific/Midway" else "2026-09-07")
    named = when("what changed on 2026-09-14?", now, zone)
    assert named is not None
    assert named[0] == "2026-09-14"


@pytest.mark.parametrize(
    ("question", "anything"),
    [
        ("what happened yesterday?", True), ("¿qué pasó ayer?", True), ("qu'avons-nous fait hier ?", True),
        ("was haben wir letzte Woche gemacht?", True), ("cosa abbiamo fatto ieri?", True),
        ("o que fizemos ontem?", True), ("что мы делали вчера?", True), ("我们昨天做了什么？", True),
        ("昨日何をした？", True), ("어제 뭐 했어?", True), ("Where did Ivan live on 5 October 2026?", False),
        ("Was hat Ivan gestern gemacht?", False), ("昨天的数据库是什么？", False),
        ("어제 데이터베이스는?", False),
    ],
)  # fmt: skip
def test_whatever_lies_in_a_time_is_told_from_something_at_it(question: str, anything: bool) -> None:
    asked = read(question, None, MADRID, NOW).time
    assert asked is not None
    assert asked.anything is anything


def test_without_a_now_no_time_is_read() -> None:
    assert read("what happened yesterday?").time is None


# What it names


@pytest.mark.parametrize(
    "question",
    [
        'is it "the old port"?', "is it “the old port”?", "is it „the old port“?", "is it «the old port»?",
        "is it 「the old port」?", "is it `the old port`?", "is it 'the old port'?", "is it ‘the old port’?",
    ],
)  # fmt: skip
def test_quotes_of_every_kind_are_kept(question: str) -> None:
    assert read(question).quoted == ("the old port",)


def test_apostrophes_quote_nothing() -> None:
    assert read("isn't it Ivan's and the users' port that don't open?").quoted == ()


def test_figures_paths_and_identifiers_are_told_apart() -> None:
    question = read(
        "Is it 3.2 GB/s, 120 s, 600ms, $5, 100%, 8080 or 1.5 in src/lib/db/index.ts, /etc/hosts, ./run.sh,"
        " app.py,"
        " C:\\logs\\a.txt, OPS-1187, v1.2.3, 2026-01-02, https://example.org/a/b, 24/7 and/or node-7?"
    )
    assert question.figures == ("3.2 GB/s", "120 s", "600ms", "$5", "100%", "8080", "1.5")
    assert question.paths == ("src/lib/db/index.ts", "/etc/hosts", "./run.sh", "app.py", "C:\\logs\\a.txt")
    assert {"ops-1187", "v1.2.3", "src/lib/db/index.ts"} <= set(question.identifiers)


def test_each_entity_is_named_once() -> None:
    names = Names()
    for name, key in (
        ("Nomad", "nomad"),
        ("Nomad", "nomad"),
        ("k8s", "kubernetes"),
        ("Kubernetes", "kubernetes"),
    ):
        names.add(name, key)
    found = read("Does nomad run on k8s or Kubernetes? Nomad does.", names).entities
    assert [(each.key, each.name) for each in found] == [("nomad", "nomad"), ("kubernetes", "k8s")]


# Any text


def _plain(question: Question) -> str:
    return json.dumps(question.shown(), ensure_ascii=True)


@examples(max_examples=300, deadline=None)
@given(ANY)
def test_any_text_is_read_the_same_each_time(text: str) -> None:
    names = Names()
    names.add("Atlas", "atlas")
    names.add("漢字", "漢字")
    first = read(text, names, MADRID, NOW)
    assert first == read(text, names, MADRID, NOW)
    assert json.loads(_plain(first))["past"] is first.past
    for each in first.entities:
        assert first.text[each.start : each.end] == each.name
    if first.time and first.time.period.end:
        assert first.time.period.start < first.time.period.end


_PIECES = """
    what when who wie quand когда 何 什么 왜 , . ? ! ? " ' ` « 「
    ago last next since between and from to until in
    days week month year Monday March may 5 12 2024 2026-02-29 Q3
    hace vor il y a 前 日 月 年 3 周 지난 일 전 第 到
    before used to antes prima before / : ; ( ) - the of de la
    """
PIECES = _PIECES.split()


@examples(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["", " ", "\n"]), st.datetimes(
    datetime(1971, 1, 1), datetime(2090, 1, 1)))  # fmt: skip
def test_any_order_of_telling_words_is_read(pieces: list[str], between: str, now: datetime) -> None:
    at = f"{now:%Y-%m-%dT%H:%M:%S}.000Z"
    question = read(between.join(pieces), None, MADRID, at)
    assert _plain(question) == _plain(read(between.join(pieces), None, MADRID, at))
    if question.time and question.time.period.end:
        assert question.time.period.start < question.time.period.end


@pytest.mark.parametrize(
    "piece",
    ["word ", "x", "漢", "a.b", '"', "? ", "what when, ", "1.", "/a", " ", "'a ", "« ", "wie ", "; ", "1 ",
    "a/",
     "3 days ", "from 2024 to ", "前", "年3月", "\u0301", "a'", "before the ", "en ", "jusqu'"],
)  # fmt: skip
def test_a_huge_paste_is_read_in_bounded_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    began = time.thread_time()
    question = read(f"{text}\nWhat did we decide about the lock yesterday?", None, MADRID, NOW)
    assert time.thread_time() - began < 1.0
    assert question.asks == "what"
    assert question.time is not None
