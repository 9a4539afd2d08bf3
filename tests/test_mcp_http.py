"""MCP over HTTP with the SDK's client: both protocol eras and the older transport, behind the token."""

from __future__ import annotations

import http.client
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from product import Product, until
from sdk import ERAS, call, told

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    with Product(tmp_path_factory.mktemp("home"), MNEMO_ENCODERS="off") as product:
        yield product


@pytest.fixture(scope="module")
def url(memory: Product) -> str:
    return memory.http()


def bearer(memory: Product) -> dict[str, str]:
    return {"Authorization": f"Bearer {(memory.data / 'token').read_text().strip()}"}


@asynccontextmanager
async def transport(memory: Product, url: str) -> AsyncIterator[Any]:
    async with (
        create_mcp_http_client(headers=bearer(memory)) as http_client,
        streamable_http_client(url, http_client=http_client) as streams,
    ):
        yield streams


async def use(client: Client, what: str) -> None:
    assert len((await client.list_tools()).tools) == 5
    assert (await call(client, "remember", what=what)).startswith("added m")
    assert what in await call(client, "recall", query=what)
    well, text = told(await client.call_tool("keep", {"id": "m0000000000000"}))
    assert not well and "m0000000000000" in text


@pytest.mark.parametrize("era", ERAS)
async def test_streamable_http(memory: Product, url: str, era: str) -> None:
    async with Client(transport(memory, url), mode=era, read_timeout_seconds=30) as client:
        assert client.protocol_version == ERAS[era]
        await use(client, f"The {era} ferry leaves at eight")


async def test_sse(memory: Product, url: str) -> None:
    older = sse_client(url.replace("/mcp", "/sse"), headers=bearer(memory))
    async with Client(older, mode="legacy", read_timeout_seconds=30) as client:
        await use(client, "The sandbank moves every winter")


@pytest.mark.parametrize("given", [None, "", "Bearer ", "Bearer wrong", "Basic {token}", "{token}"])
def test_without_the_token_nothing_is_answered(memory: Product, url: str, given: str | None) -> None:
    address = urlsplit(url)
    token = bearer(memory)["Authorization"].removeprefix("Bearer ")
    headers = {} if given is None else {"Authorization": given.format(token=token)}
    for method in ("GET", "POST", "DELETE"):
        for path in ("/mcp", "/sse", "/messages/", "/"):
            connection = http.client.HTTPConnection(address.netloc, timeout=10)
            connection.request(method, path, body=b"{}", headers=headers)
            answer = connection.getresponse()
            assert answer.status == 401 and answer.read() == b""
            connection.close()


async def test_it_ends_quietly_under_open_sessions(memory: Product, url: str) -> None:
    async with Client(transport(memory, url), mode="legacy", read_timeout_seconds=30) as client:
        await client.list_tools()
        await anyio.to_thread.run_sync(memory.run, "stop")
    log = memory.data / "log/daemon.log"
    until(lambda: "mnemo ends" in log.read_text())
    assert [line for line in log.read_text().splitlines() if " INFO " not in line] == []
