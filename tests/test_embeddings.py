"""Encoders behind an address: what is sent, what a dead server costs, and what the answer says then."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from embeddings_server import EmbeddingsServer
from product import Product, until

from mnemo_mcp.errors import EndpointError, ModelError, SettingsError
from mnemo_mcp.models.embeddings import EndpointEncoder, from_settings
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.service import Service
from mnemo_mcp.settings import Encoders, Settings

LONG = 20.0  # seconds; a ceiling against hanging


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with EmbeddingsServer() as running:
        yield running


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def encoder(server: EmbeddingsServer, clock: Clock | None = None, **more: Any) -> EndpointEncoder:
    table = server.table(**{"question_timeout_seconds": LONG, **more})
    return EndpointEncoder("words", from_settings("words", table), {}, clock or Clock())


# What is sent, and what is read


def test_each_text_has_its_vector_whatever_the_order_of_the_answer(server: EmbeddingsServer) -> None:
    texts = [f"service {number} listens on port {number}" for number in range(40)]
    rows = encoder(server, batch=7).encode(texts)
    wanted = np.array([server.vector(text) for text in texts], np.float32)
    assert rows.dtype == np.float32
    assert np.allclose(rows, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), atol=1e-5)
    assert max(len(request["input"]) for request in server.requests) == 7
    assert {request["path"] for request in server.requests} == {"/v1/embeddings"}
    assert {request["model"] for request in server.requests} == {"words"}


def test_prefixes_cuts_and_dimensions(server: EmbeddingsServer) -> None:
    one = encoder(server, query_prefix="ask: ", document_prefix="told: ", truncate_dims=8, characters=100)
    rows = one.encode(["gateway " * 50, "", "\ud800\0"])
    assert rows.shape == (3, one.dims) == (3, 8)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    one.encode(["Which port?"], query=True)
    assert server.texts[0] == "told: " + ("gateway " * 50)[:100].strip()
    assert server.texts[1:] == ["told: -", "told: ?", "ask: Which port?"]
    assert one.encode([]).shape == (0, 8)


def test_a_question_asked_again_is_not_sent_again(server: EmbeddingsServer) -> None:
    one = encoder(server)
    first = one.encode(["Which port?"], query=True)
    assert (one.encode(["Which port?"], query=True) == first).all()
    assert server.texts == ["Which port?"]


def test_a_text_that_is_too_long_is_sent_as_far_as_it_is_taken(server: EmbeddingsServer) -> None:
    server.refuses_beyond = 600
    short, long = encoder(server).encode(["a short one", "gateway " * 250])
    assert float(short @ long) < 0.99
    assert "a short one" in server.texts
    assert max(len(text) for text in server.texts if len(text) <= 600) >= 400


def test_a_text_refused_at_any_length_does_not_keep_others_back(server: EmbeddingsServer) -> None:
    def picky(body: dict[str, Any]) -> tuple[int, bytes]:
        if any("secret" in text for text in body["input"]):
            return 500, b'{"error": {"message": "input is too large to process"}}'
        return server.embed(body)

    server.answer = picky
    rows = encoder(server).encode(["secret " * 40, "gateway"])
    assert np.isfinite(rows).all()
    assert float(rows[0] @ rows[1]) < 0.99


def test_the_id_carries_the_model_and_what_shapes_its_vectors(server: EmbeddingsServer) -> None:
    ids = {
        encoder(server).id,
        encoder(server, model="other").id,
        encoder(server, truncate_dims=16).id,
        encoder(server, dims=64).id,
        encoder(server, query_prefix="q: ").id,
    }
    assert len(ids) == 5
    assert encoder(server).id.startswith("words-words-32-")
    assert encoder(server, url="http://127.0.0.1:9/v1").id == encoder(server).id


def test_a_key_is_sent_only_where_one_is_named(server: EmbeddingsServer) -> None:
    key = "-".join(("k", "of", "a", "test"))
    options = from_settings("words", server.table(key_env="WORDS_KEY"))
    EndpointEncoder("words", options, {"WORDS_KEY": key}).encode(["a"])
    encoder(server).encode(["a"])
    sent = [{name.lower(): value for name, value in each.items()} for each in server.headers]
    assert sent[0]["authorization"] == f"Bearer {key}"
    assert "authorization" not in sent[1]
    with pytest.raises(ModelError, match="WORDS_KEY"):
        EndpointEncoder("words", options, {}).encode(["a"])


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b"{}", "key"),
        (404, b"nothing here", "url"),
        (307, b"", "redirects"),
        (429, b"{}", "fewer requests"),
        (500, b"oops", "500"),
        (400, b'{"error": "no"}', "refused"),
        (200, b"<html>", "protocol"),
        (200, b"{}", "no vector"),
        (200, b'{"data": [{"index": 1, "embedding": [1]}]}', "no vector"),
        (200, b'{"data": [{"index": 0, "embedding": ["a"]}]}', "no vector"),
        (200, b'{"data": [{"index": 0, "embedding": [1, 2, 3]}]}', "dims = 3"),
    ],
)
@pytest.mark.parametrize("query", [False, True])
def test_an_answer_without_vectors_says_why(
    server: EmbeddingsServer, status: int, body: bytes, said: str, query: bool
) -> None:
    server.answer = lambda request: (status, body)
    with pytest.raises(EndpointError, match=said):
        encoder(server).encode(["gateway"], query=query)
    assert all(request["path"] == "/v1/embeddings" for request in server.requests)


# A server that is away


def test_a_server_that_failed_is_left_alone_longer_each_time(server: EmbeddingsServer) -> None:
    clock = Clock()
    one = encoder(server, clock)
    server.answer = lambda request: (503, b"busy")
    for asked, seconds in ((1, 2), (2, 4), (3, 8)):
        for _ in range(3):
            with pytest.raises(EndpointError, match=f"again within {seconds} s"):
                one.encode(["gateway"], query=True)
            with pytest.raises(EndpointError, match=f"again within {seconds} s"):
                one.encode(["gateway"])
        assert len(server.requests) == asked
        clock.now += seconds
    server.answer = server.embed
    assert one.encode(["gateway"]).shape == (1, 32)
    server.answer = lambda request: (503, b"busy")
    with pytest.raises(EndpointError, match="again within 2 s"):
        one.encode(["gateway"])


def test_a_question_does_not_wait_for_a_server_that_hangs(server: EmbeddingsServer) -> None:
    server.pause = 5.0
    one = encoder(server, question_timeout_seconds=0.2)
    began = time.monotonic()
    with pytest.raises(EndpointError, match=r"within 0\.2 s"):
        one.encode(["gateway"], query=True)
    assert time.monotonic() - began < 2.5
    with pytest.raises(EndpointError):
        one.encode(["gateway"], query=True)
    assert len(server.requests) == 1


def test_no_server_at_all(server: EmbeddingsServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(EndpointError, match="does not answer"):
        encoder(server, url=f"http://127.0.0.1:{port}/v1").encode(["gateway"], query=True)


# In the whole


def memory(home: Path, server: EmbeddingsServer, *, background: bool = True, **more: Any) -> Service:
    table = server.table(**{"question_timeout_seconds": LONG, **more})
    encoders = Encoders(english="words", other="words", endpoint={"words": table})
    service = Service(Settings(home, encoders=encoders), background=background)
    service.encoders.load()
    return service


def follow(service: Service) -> None:
    """What the worker does, until there is nothing to do."""
    service.index.catch_up()
    while service.upkeep.embed() or service.upkeep.relay():
        pass


def test_recall_by_vectors_of_a_server(tmp_path: Path, server: EmbeddingsServer) -> None:
    with memory(tmp_path, server) as service:
        service.remember("The gateway listens on port 8443")
        follow(service)
        assert service.status()["queue"]["embed"] == 0
        answer = service.recall("gateway port")
        assert [each.memory.claim.what for each in answer.memories] == ["The gateway listens on port 8443"]
        assert "meaning" in answer.memories[0].ranks
        assert answer.notes == ()
        assert service.status()["problems"] == []


def test_a_question_waits_for_no_document(tmp_path: Path, server: EmbeddingsServer) -> None:
    with memory(tmp_path, server) as service:
        service.recall("anything at all")  # what is loaded at first use is loaded
        service.remember("The gateway listens on port 8443")
        server.requests.clear()
        service.recall("Where does the gateway listen?")
        assert server.texts == ["Where does the gateway listen?"]


def test_words_answer_while_the_server_is_away_and_the_answer_says_so(
    tmp_path: Path, server: EmbeddingsServer
) -> None:
    server.answer = lambda request: (503, b"busy")
    with memory(tmp_path, server) as service:
        service.remember("The gateway listens on port 8443")
        follow(service)
        answer = service.recall("gateway port")
        assert [each.memory.claim.what for each in answer.memories] == ["The gateway listens on port 8443"]
        assert any("words alone" in note and "failed (503" in note for note in answer.notes)
        asked = len(server.requests)
        service.recall("which gateway?")
        assert len(server.requests) == asked
        status = service.status()
        assert status["queue"]["embed"] == 1
        assert any("failed (503" in problem for problem in status["problems"])


def test_episodes_are_found_by_words_while_the_server_is_away(
    tmp_path: Path, server: EmbeddingsServer
) -> None:
    server.answer = lambda request: (503, b"busy")
    prompt = {"session_id": "s-1", "cwd": "/home/dev/atlas", "hook_event_name": "UserPromptSubmit"}
    with memory(tmp_path, server) as service:
        raw = json.dumps({**prompt, "prompt": "The zeppelin gateway listens on port 8443 since May"}).encode()
        service.hook("claude", "pre-message", raw)
        follow(service)
        answer = service.recall("zeppelin gateway port")
        assert [each.episode.text[:12] for each in answer.episodes] == ["The zeppelin"]
    server.answer = server.embed
    with memory(tmp_path, server) as service:
        follow(service)
        assert any("zeppelin" in text for text in server.texts)
        assert service.status()["queue"] == {"distil": 1, "embed": 0, "relay": 0}
        assert service.status()["problems"] == []


def test_in_process_a_dead_server_keeps_nobody_waiting(tmp_path: Path, server: EmbeddingsServer) -> None:
    server.answer = lambda request: (503, b"busy")
    with memory(tmp_path, server, background=False) as service:
        service.remember("The gateway listens on port 8443")
        assert len(service.recall("gateway port").memories) == 1


# Proxies


class Proxy:
    """Counts what comes and answers 502."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.seen.append(self.path)
                self.send_error(502)

            do_CONNECT = do_POST

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    running = Proxy()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, running.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "example.org")
    yield running
    running.close()


def test_nothing_local_goes_through_a_proxy(server: EmbeddingsServer, proxy: Proxy) -> None:
    encoder(server).encode(["gateway"])
    encoder(server, url=server.url.replace("127.0.0.1", "localhost")).encode(["gateway"], query=True)
    assert len(server.requests) == 2
    assert proxy.seen == []


def test_other_hosts_are_reached_through_the_proxy(server: EmbeddingsServer, proxy: Proxy) -> None:
    with pytest.raises(EndpointError):
        encoder(server, url="http://models.example.com/v1").encode(["gateway"])
    with pytest.raises(EndpointError):
        encoder(server, url="https://models.example.com/v1").encode(["gateway"])
    assert proxy.seen == ["http://models.example.com/v1/embeddings", "models.example.com:443"]


def test_a_proxy_of_another_sort_is_told(server: EmbeddingsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "socks5://127.0.0.1:9")
    with pytest.raises(EndpointError, match="socks5"):
        encoder(server, url="http://models.example.com/v1").encode(["gateway"])
    assert encoder(server).encode(["gateway"]).shape == (1, 32)


# Settings that cannot be meant


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({}, "has no url"),
        ({"url": "http://127.0.0.1:1/v1"}, "has no model"),
        ({"url": "http://127.0.0.1:1/v1", "model": "m"}, "has no dims"),
        ({"url": "127.0.0.1:1", "model": "m", "dims": 8}, "begins with http"),
        ({"url": "http://127.0.0.1:99999/v1", "model": "m", "dims": 8}, "begins with http"),
        ({"url": "http://a/v1", "model": "m", "dims": 8, "truncate_dims": 9}, "more than dims"),
        ({"url": "http://a/v1", "model": "m", "dims": 8, "batch": 0}, "sends nothing"),
        ({"url": "http://a/v1", "model": "m", "dims": 8, "timeout_seconds": 0}, "above zero"),
        ({"url": "http://a/v1", "model": "m", "dims": 8, "secret": "x"}, "unknown setting"),
    ],
)
def test_a_description_that_cannot_be_meant_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        EncoderPair(Encoders(other="far", endpoint={"far": table}))


def test_a_hook_is_not_held_up_by_a_server_that_hangs(product: Product, server: EmbeddingsServer) -> None:
    server.pause = 30.0
    settings = {"encoders": {"english": "far", "other": "far", "endpoint": {"far": server.table()}}}
    product.data.mkdir(parents=True)
    (product.data / "config.toml").write_text(tomli_w.dumps(settings), "utf-8")
    product.remember("The zeppelin gateway listens on port 8443 because 443 is taken", kind="decision")
    until(lambda: len(product.json("status")["encoders"]) == 1)
    prompt = "Which port does the zeppelin gateway listen on?"
    product.hook("pre-message", prompt=prompt, session="s-1")  # this one may wait for its second
    began = time.monotonic()
    shown = product.hook("pre-message", prompt=prompt, session="s-2")
    assert "8443" in shown
    assert time.monotonic() - began < LONG
    assert len([request for request in server.requests if prompt in request["input"]]) <= 1


def test_the_daemon_ends_while_a_server_hangs(product: Product, server: EmbeddingsServer) -> None:
    server.pause = 60.0
    settings = {"encoders": {"english": "far", "other": "far", "endpoint": {"far": server.table()}}}
    product.data.mkdir(parents=True)
    (product.data / "config.toml").write_text(tomli_w.dumps(settings), "utf-8")
    product.remember("The gateway listens on port 8443")
    until(lambda: bool(server.requests))
    assert product.json("stop")["stopped"]
