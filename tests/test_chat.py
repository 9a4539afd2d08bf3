"""Chat completions against a real server: what its answers come to, and what each failure is told as."""

from __future__ import annotations

import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_models import MEMORIES, THREAD, Connected
from openai_server import MODEL, ModelServer, Reply, Request, fails, in_turn, says

from mnemo_mcp import errors
from mnemo_mcp import settings as configuration
from mnemo_mcp.models.failures import retry_seconds
from mnemo_mcp.models.proxy import is_private, proxy_for

ONE = {"memories": [{"what": "The gateway listens on port 8443"}]}
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(lambda request: says(json.dumps(ONE))) as serving:
        yield serving


@pytest.fixture
def connected(server: ModelServer, tmp_path: Path) -> Connected:
    return Connected(tmp_path, server)


# Answers


def test_an_answer_is_parsed_and_its_cost_entered(server: ModelServer, connected: Connected) -> None:
    answer = connected.read()
    assert (answer.parsed, answer.finish_reason) == (ONE, "stop")
    (request,) = server.asked()
    assert request.body["model"] == MODEL and request.body["max_tokens"] == 2_000
    assert request.body["response_format"]["json_schema"]["schema"] == MEMORIES
    (spent,) = connected.store.calls.account("", "9")
    assert (spent.purpose, spent.calls, spent.tokens_in, spent.tokens_out) == ("distil", 1, 100, 20)


def test_without_a_schema_the_text_is_the_answer(server: ModelServer, connected: Connected) -> None:
    server.answer = lambda request: says("<think>hm</think> Port 8443.")
    answer = connected.chat.complete(THREAD, purpose="naming")
    assert (answer.text, answer.parsed) == ("Port 8443.", None)
    assert "response_format" not in server.asked()[0].body


def test_a_list_of_parts_is_a_text(server: ModelServer, connected: Connected) -> None:
    reply = says("")
    reply.body["choices"][0]["message"]["content"] = [{"type": "text", "text": json.dumps(ONE)}]
    server.answer = lambda request: reply
    assert connected.read().parsed == ONE


def test_a_cut_answer_gives_what_was_whole(server: ModelServer, connected: Connected) -> None:
    cut = '{"memories": [{"what": "A"}, {"what": "B"}, {"what": "The dead'
    server.answer = in_turn(says(cut, "length"), says(cut, "stop"))
    for content in ("one", "two"):
        answer = connected.read(content)
        assert answer.parsed == {"memories": [{"what": "A"}, {"what": "B"}]}
        assert answer.finish_reason == "length"


def test_a_loop_is_cut(server: ModelServer, connected: Connected) -> None:
    item = json.dumps({"what": "A memory of some length, so that it is no ruler of a table"}) + ", "
    server.answer = lambda request: says('{"memories": [' + item * 200, "length")
    answer = connected.read()
    assert answer.finish_reason == "loop" and len(answer.parsed["memories"]) == 1


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (says(""), errors.NotUnderstood),
        (says(None), errors.NotUnderstood),
        (says("I cannot help with that."), errors.NotUnderstood),
        (says("<think>Where was I", "length"), errors.CutOff),
        (says('{"memories": [{"what": "The dead', "length"), errors.CutOff),
        (Reply({"choices": []}), errors.NotUnderstood),
        (Reply({"choices": [{"message": {"content": 7}}]}), errors.NotUnderstood),
        (Reply({"unexpected": True}), errors.NotUnderstood),
        (Reply([1, 2]), errors.NotUnderstood),
        (Reply(b"<html>Welcome to the router</html>"), errors.NotUnderstood),
        (Reply(b'{"choices": [{"mess'), errors.NotUnderstood),
        (Reply(b"\xff\xfe\x00"), errors.NotUnderstood),
        (fails(401, "Incorrect API key"), errors.KeyRefused),
        (fails(403, "Forbidden"), errors.KeyRefused),
        (fails(404, f"The model `{MODEL}` does not exist", "model_not_found"), errors.ModelUnknown),
        (fails(404, f'model "{MODEL}" not found, try pulling it first'), errors.ModelUnknown),
        (Reply({"detail": "Not Found"}, 404), errors.RouteUnknown),
        (Reply(b"", 301, {"location": "http://elsewhere.example/v1"}), errors.RouteUnknown),
        (fails(400, "No models loaded. Please load a model."), errors.ModelUnknown),
        (fails(402, "Insufficient balance"), errors.RateLimited),
        (fails(429, "slow down"), errors.RateLimited),
        (fails(500, "out of memory"), errors.ServerFailed),
        (Reply(b"<html>Bad gateway</html>", 502), errors.ServerFailed),
        (fails(400, "context length exceeded"), errors.RequestRefused),
        (fails(413), errors.RequestRefused),
    ],
)
def test_each_failure_is_named_and_says_what_to_do(
    server: ModelServer, connected: Connected, reply: Reply, error: type[errors.EndpointError]
) -> None:
    server.answer = lambda request: reply
    with pytest.raises(errors.EndpointError) as raised:
        connected.read()
    assert type(raised.value) is error
    assert raised.value.advice and "\n" not in str(raised.value)


def test_nothing_is_sent_to_where_a_redirect_leads(server: ModelServer, tmp_path: Path) -> None:
    with (
        ModelServer(lambda request: Reply(b"", 307, {"location": f"{server.url}/chat/completions"})) as first,
        pytest.raises(errors.RouteUnknown, match="redirects to"),
    ):
        Connected(tmp_path, first).read()
    assert not server.requests


def test_nobody_at_home(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    connected = Connected(tmp_path, endpoint={"url": f"http://127.0.0.1:{port}/v1", "model": MODEL})
    with pytest.raises(errors.Unreachable, match=f"127.0.0.1:{port}/v1 does not answer"):
        connected.read()


@pytest.mark.parametrize(
    "reply",
    [
        Reply(hang=True),
        Reply(b"data: no end\n\n", headers={"content-type": "text/event-stream"}, endless=True),
        Reply(b" " * 64_000, endless=True),
        Reply(b"failing " * 1_000, 500, endless=True),
    ],
    ids=["silent", "event stream", "spaces", "error"],
)
def test_an_answer_without_end_is_given_up(server: ModelServer, tmp_path: Path, reply: Reply) -> None:
    server.answer = lambda request: reply
    connected = Connected(tmp_path, server, endpoint={"timeout_seconds": 0.5})
    started = time.monotonic()
    with pytest.raises((errors.TimedOut, errors.NotUnderstood, errors.ServerFailed)):
        connected.read()
    assert time.monotonic() - started < 20  # hangs without the limit


def test_a_trickle_counts_as_late(tmp_path: Path) -> None:
    """Each piece comes in time, their sum does not."""
    ended = threading.Event()

    def trickle(listener: socket.socket) -> None:
        line, _ = listener.accept()
        with line:
            line.recv(65_536)
            line.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            while not ended.wait(0.05):
                try:
                    line.sendall(b" ")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        connected = Connected(tmp_path, endpoint={"url": url, "model": MODEL, "timeout_seconds": 0.5})
        try:
            with pytest.raises(errors.TimedOut):
                connected.read()
        finally:
            ended.set()
            thread.join(5)


def test_what_a_model_said_is_in_no_message(server: ModelServer, connected: Connected) -> None:
    for reply in (says("The door code is 1234"), says("The door code is 1234, and it", "length")):
        server.answer = lambda request, reply=reply: reply
        with pytest.raises(errors.EndpointError) as raised:
            connected.read()
        assert "door" not in str(raised.value)


# Manners of servers


def test_a_server_without_formats_is_asked_without_from_then_on(
    server: ModelServer, connected: Connected
) -> None:
    def answer(request: Request) -> Reply:
        if "response_format" in request.body:
            return fails(400, "'response_format' is not supported")
        return says(json.dumps(ONE))

    server.answer = answer
    assert connected.read("one").parsed == ONE
    assert len(server.asked()) == 2
    connected.again()
    assert connected.read("two").parsed == ONE
    assert len(server.asked()) == 3
    connected.again(extra_body={"think": False})  # other settings: another server, for all that is known
    connected.read("three")
    assert ["response_format" in each.body for each in server.asked()[3:]] == [True, False]
    assert all(each.body["think"] is False for each in server.asked()[3:])


def test_a_server_with_a_new_name_for_the_limit(server: ModelServer, connected: Connected) -> None:
    def answer(request: Request) -> Reply:
        if "max_tokens" in request.body:
            return fails(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in request.body:
            return fails(400, "Unsupported value: 'temperature' does not support 0 with this model.")
        return says(json.dumps(ONE))

    server.answer = answer
    assert connected.read("one").parsed == ONE
    assert connected.read("two").parsed == ONE
    assert len(server.asked()) == 4
    assert server.asked()[-1].body["max_completion_tokens"] == 2_000


def test_a_refused_request_is_not_sent_again(server: ModelServer, connected: Connected) -> None:
    server.answer = lambda request: fails(400, "no")
    for _ in range(3):
        with pytest.raises(errors.RequestRefused):
            connected.read()
        connected.again()
    assert len(server.asked()) == 2  # with a response format and without
    assert connected.models.probe()[0].problem == ""
    connected.store.calls.forget_refusals("lm")
    with pytest.raises(errors.RequestRefused):
        connected.read()
    assert len(server.asked()) == 4


def test_no_request_is_longer_than_the_endpoint_takes(server: ModelServer, tmp_path: Path) -> None:
    connected = Connected(tmp_path, server, endpoint={"max_input_tokens": 500})
    with pytest.raises(errors.RequestRefused, match="more than the 500"):
        connected.read("word " * 600)
    assert not server.requests
    assert connected.read("word " * 300).parsed == ONE


# What is sent


def test_only_what_is_needed_leaves_the_machine(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another-server")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Gateway: secret-of-another-server")
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-another-server")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1/v1")
    Connected(tmp_path, server).read()
    (request,) = server.requests
    assert "another-server" not in str(request.headers)
    assert not [name for name in request.headers if name in ("authorization", "cookie")]
    ours = [name for name in request.headers if name.startswith("x-stainless")]
    assert ours == ["x-stainless-raw-response"]
    assert re.fullmatch(r"mnemo/[\d.]+\S*", request.headers["user-agent"])


@pytest.mark.parametrize("place", ["key_env", "key_file", "key"])
def test_the_key_comes_from_where_it_is_kept(
    server: ModelServer, tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = "-".join(("sk", "made", "for", "this", "test"))
    file = tmp_path / "key"
    file.write_text(f"{key}\n")
    where = {"key_env": "TEST_MODEL_KEY", "key_file": str(file), "key": key}[place]
    connected = Connected(tmp_path, server, endpoint={place: where}, environ={"TEST_MODEL_KEY": key})
    connected.read()
    assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    assert ("key_file` is safer" in caplog.text) == (place == "key")
    server.answer = lambda request: fails(401, f"Incorrect API key provided: {key}")
    with pytest.raises(errors.KeyRefused) as raised:
        connected.read("other")
    assert key not in str(raised.value) and key not in caplog.text
    assert key.encode() not in (tmp_path / "mnemo.db").read_bytes()


def test_a_name_and_password_in_the_address_are_sent_and_not_shown(
    server: ModelServer, tmp_path: Path
) -> None:
    word = "-".join(("made", "for", "this", "test"))
    url = server.url.replace("http://", f"http://me:{word}@")
    connected = Connected(tmp_path, server, endpoint={"url": url})
    connected.read()
    assert server.requests[0].headers["authorization"].startswith("Basic ")
    server.answer = lambda request: fails(500)
    with pytest.raises(errors.ServerFailed) as raised:
        connected.read("other")
    assert word not in str(raised.value) and word not in json.dumps(connected.models.status())


@pytest.mark.parametrize("missing", [{"key_env": "NOT_SET"}, {"key_file": "/nonexistent/key"}])
def test_a_missing_key_is_told_and_nothing_sent(
    server: ModelServer, tmp_path: Path, missing: dict[str, str]
) -> None:
    connected = Connected(tmp_path, server, endpoint=missing)
    with pytest.raises(errors.Unusable, match="key of the endpoint lm"):
        connected.read()
    assert not server.requests
    with pytest.raises(errors.Resting):
        connected.read()
    assert any("key of the endpoint lm" in each for each in connected.models.problems({}))


CONNECTING = """
import sys
from datetime import UTC, datetime
from pathlib import Path

def told(event, given):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "socket.gethostbyname"):
        print(event, given[1] if event == "socket.connect" else given[0], flush=True)

sys.addaudithook(told)
from mnemo_mcp import settings
from mnemo_mcp.service import Service
service = Service.open(sys.argv[1])
service.remember("The gateway listens on port 8443")
if service.models.chat:
    service.models.chat.complete([{"role": "user", "content": "hello"}], purpose="naming")
service.recall("which port?")
service.close()
"""


@pytest.mark.parametrize("configured", [True, False])
def test_connections_go_to_the_endpoint_alone(server: ModelServer, tmp_path: Path, configured: bool) -> None:
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in server.settings().items())
    models = f'[models]\nextraction = "lm"\n[models.endpoint.lm]\n{lines}' if configured else ""
    off = '[encoders]\nenglish = "off"\nother = "off"\n'
    (tmp_path / "config.toml").write_text(off + models)
    done = subprocess.run(
        [sys.executable, "-c", CONNECTING, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent.parent,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    port = server.url.removesuffix("/v1").rpartition(":")[2]
    seen = set(done.stdout.splitlines())
    allowed = {f"socket.connect ('127.0.0.1', {port})", "socket.getaddrinfo 127.0.0.1"}
    assert seen == (allowed if configured else set())
    assert len(server.requests) == configured


# Proxies


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A proxy that counts, answers 502, and is named by every variable there is."""
    with ModelServer(lambda request: Reply(b"proxy", 502)) as listening:
        for name in PROXIES[:3]:
            monkeypatch.setenv(name, listening.url.removesuffix("/v1"))
            monkeypatch.setenv(name.upper(), listening.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "example.org")
        yield listening


def test_no_proxy_between_here_and_this_machine(
    server: ModelServer, connected: Connected, proxy: ModelServer
) -> None:
    assert connected.read().parsed == ONE
    assert not proxy.requests


def test_other_hosts_are_reached_through_the_proxy(tmp_path: Path, proxy: ModelServer) -> None:
    proxy.routes = ("http://models.example.com/v1/chat/completions",)
    connected = Connected(tmp_path, endpoint={"url": "http://models.example.com/v1", "model": MODEL})
    with pytest.raises(errors.ServerFailed):
        connected.read()
    assert [each.path for each in proxy.requests] == list(proxy.routes)


def test_hosts_excepted_from_the_proxy_are_reached_directly(proxy: ModelServer) -> None:
    assert proxy_for("http://example.org/v1") is None
    assert proxy_for("http://api.example.org/v1") is None
    assert proxy_for("https://models.example.com/v1") == proxy.url.removesuffix("/v1")


def test_an_unusable_proxy_is_told_once_and_not_gone_around(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:pass" + "word@127.0.0.1:1080")
    with caplog.at_level(logging.INFO):
        connected = Connected(tmp_path, endpoint={"url": "http://models.example.com/v1", "model": MODEL})
        for error in (errors.Unusable, errors.Resting, errors.Resting):
            with pytest.raises(error):
                connected.read()
    lines = [each.message for each in caplog.records if "proxy" in each.message]
    assert len(lines) == 1 and "socks5://127.0.0.1:1080" in lines[0] and "NO_PROXY" in lines[0]
    local = tmp_path / "local"
    local.mkdir()
    assert Connected(local, server).read().parsed == ONE  # which no proxy has a part in


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "::1", "10.0.0.7", "192.168.1.4", "gpu", "box.lan"]
)
def test_private_hosts(host: str) -> None:
    assert is_private(host)


@pytest.mark.parametrize("host", ["api.example.com", "8.8.8.8", "2606:4700::1", "local.example.org"])
def test_public_hosts(host: str) -> None:
    assert not is_private(host)


# Waiting as asked, and settings


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
        (
            {"retry-after": "Mon, 14 Sep 2026 09:32:00 GMT", "date": "Mon, 14 Sep 2026 09:30:00 GMT"},
            120.0,
        ),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_seconds(headers) == seconds


@given(st.text(max_size=40))
def test_any_retry_after_is_survived(value: str) -> None:
    seconds = retry_seconds({"retry-after": value})
    assert seconds is None or 0.0 <= seconds <= 86_400.0


def _config(folder: Path, text: str) -> configuration.Settings:
    (folder / "config.toml").write_text(text)
    return configuration.load(folder, environ={})


def test_endpoints_are_described_in_the_file_of_settings(tmp_path: Path) -> None:
    models = _config(
        tmp_path,
        """
        [models]
        extraction = "local"
        decisions_api = "logprobs"
        daily_tokens = 500_000
        [models.endpoint.local]
        url = "http://127.0.0.1:11434/v1"
        model = "qwen3:4b"
        timeout_seconds = 60
        extra_body = { think = false }
        """,
    ).models
    assert models.endpoint["local"].timeout_seconds == 60.0
    assert models.endpoint["local"].extra_body == {"think": False}
    assert (models.extraction, models.decisions, models.daily_tokens) == ("local", "", 500_000)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[models]\nextraction = "x"', "models.extraction names the endpoint 'x'"),
        ('[models]\ndecisions_api = "maybe"', "decisions_api"),
        ('[models.endpoint.a]\nmodel = "m"', "a.url is ''"),
        ('[models.endpoint.a]\nurl = "127.0.0.1:1"\nmodel = "m"', "a.url"),
        ('[models.endpoint.a]\nurl = "http://[::1/v1"\nmodel = "m"', "a.url"),
        ('[models.endpoint.a]\nurl = "http://h/v1"', "has no model"),
        ('[models.endpoint.a]\nurl = "http://h/v1"\nmodel = "m"\nkey = "k"\nkey_env = "K"', "several keys"),
        ('[models.endpoint.a]\nurl = "http://h/v1"\nmodel = "m"\ntimeout_seconds = 0', "not above 0"),
        ('[models.endpoint.a]\nurl = "http://h/v1"\nmodell = "m"', "unknown setting 'modell'"),
        ('[models.endpoint.a]\nurl = "http://h/v1"\nmodel = 7', "model"),
        ('[models]\nendpoint = "http://h/v1"', "endpoint"),
        ("[models.endpoint]\na = 7", "a"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(errors.SettingsError) as raised:
        _config(tmp_path, text)
    assert told in str(raised.value) and raised.value.advice


def test_without_an_endpoint_there_is_no_model(tmp_path: Path) -> None:
    unused = {"url": "http://h/v1", "model": "m"}
    connected = Connected(tmp_path, endpoint=unused, limits={"extraction": "", "decisions": ""})
    assert connected.models.chat is None and connected.models.decider is None
    assert connected.models.problems({"extraction": "3 threads"}) == [] and connected.models.probe() == []
