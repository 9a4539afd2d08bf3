"""The doors of the daemon: nothing listens unasked, and foreign requests get nothing."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from processes import linux, listening
from product import Product


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One daemon for tests that ask it only what it must survive."""
    with Product(tmp_path_factory.mktemp("shared"), MNEMO_ENCODERS="off") as product:
        yield product


@pytest.fixture(scope="module")
def served(shared: Product) -> str:
    """The authority at which the shared product serves MCP over HTTP."""
    return urlsplit(shared.http()).netloc


@linux
def test_nothing_listens_on_the_network_unasked(fresh: Product) -> None:
    server = fresh.stdio()
    server.open()
    server.call("recall", query="queue")
    assert listening(fresh.pid()) == []


@linux
def test_door_stands_open_on_loopback_alone(shared: Product, served: str) -> None:
    port = int(served.rpartition(":")[2])
    assert listening(shared.pid()) == [f"0100007F:{port:04X}"]


def asked(authority: str, method: str, path: str, **headers: str) -> tuple[int, bytes, set[str]]:
    """Status, body and the names of the headers of an answer; `_` in a header's name stands for `-`."""
    connection = http.client.HTTPConnection(authority, timeout=10)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()
    connection.putrequest(method, path, skip_host=True)
    common = {"Host": authority, "Content_Type": "application/json", "Content_Length": str(len(body))}
    for name, value in {**common, "Accept": "application/json, text/event-stream", **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders(body)
    answer = connection.getresponse()
    names = {name.lower() for name in answer.headers}
    streams = "event-stream" in answer.headers.get("content-type", "")
    found = (answer.status, b"" if streams else answer.read(), names)
    connection.close()
    return found


FOREIGN = {
    "another host": {"Host": "evil.example"},
    "another host that begins like ours": {"Host": "127.0.0.1.evil.example"},
    "a host behind ours": {"Host": "localhost:1@evil.example"},
    "no host": {"Host": ""},
    "a foreign page": {"Origin": "https://evil.example"},
    "a page of another port": {"Origin": "http://127.0.0.1:1"},
    "a page of a file": {"Origin": "null"},
    "a cross-site request": {"Sec_Fetch_Site": "cross-site"},
    "a same-site request": {"Sec_Fetch_Site": "same-site"},
    "no token": {"Authorization": ""},
    "a wrong token": {"Authorization": "Bearer wrong"},
    "a token of other letters": {"Authorization": "Bearer \xff"},
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_requests_get_nothing(shared: Product, served: str, kind: str) -> None:
    token = (shared.data / "token").read_text().strip()
    before = shared.json("status")
    for method in ("GET", "POST", "OPTIONS", "DELETE"):
        for path in ("/mcp", "/sse", "/messages/", "/"):
            headers = {"Authorization": f"Bearer {token}", **FOREIGN[kind]}
            status, body, names = asked(served, method, path, **headers)
            assert status in (401, 403), (method, path)
            assert body == b"" and not any("access-control" in name for name in names)
    assert shared.json("status")["episodes"] == before["episodes"]


def test_right_request_is_served(shared: Product, served: str) -> None:
    token = (shared.data / "token").read_text().strip()
    port = served.rpartition(":")[2]
    for host in (served, f"localhost:{port}", "localhost", f"[::1]:{port}"):
        for more in ({}, {"Origin": f"http://{host}"}, {"Sec_Fetch_Site": "same-origin"}):
            headers = {"Host": host, "Authorization": f"Bearer {token}", **more}
            assert asked(served, "GET", "/sse", **headers)[0] == 200
            status, _, names = asked(served, "POST", "/mcp", **headers)
            assert status not in (401, 403) and not any("access-control" in name for name in names)


def test_token_is_private_and_never_told(shared: Product, served: str) -> None:
    file = shared.data / "token"
    token = file.read_text().strip()
    assert file.stat().st_mode & 0o777 == 0o600 and len(token) >= 32
    asked(served, "POST", "/mcp", Authorization=f"Bearer {token}")
    logs = [each.read_text() for each in (shared.data / "log").iterdir()]
    assert logs and not any(token in each for each in logs)


def test_wider_address_needs_a_token(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0"):
            done = product.run("serve", "--http", address, "--no-token")
            assert done.returncode == 1 and b"--no-token" in done.stderr
        for address in ("127.0.0.1", "localhost:http", ":0", "127.0.0.1:65536"):
            done = product.run("serve", "--http", address)
            assert done.returncode == 1 and b"HOST:PORT" in done.stderr
        assert not (product.data / "token").exists()


def test_loopback_without_a_token_is_closed_to_pages(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        authority = urlsplit(product.http("--no-token")).netloc
        assert asked(authority, "GET", "/sse")[0] == 200
        for kind in ("another host", "a foreign page", "a page of another port", "a cross-site request"):
            assert asked(authority, "POST", "/mcp", **FOREIGN[kind])[:2] == (403, b"")


def test_door_in_use_is_never_idle(tmp_path: Path) -> None:
    with Product(tmp_path, MNEMO_ENCODERS="off", MNEMO_IDLE_SECONDS="0.2") as product:
        authority = urlsplit(product.http("--no-token")).netloc
        time.sleep(1)
        assert asked(authority, "GET", "/sse")[0] == 200
