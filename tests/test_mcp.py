"""MCP as clients speak it: the SDK's own client, in both protocol eras, against the real pipe and daemon."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from product import ROOT, Product, until
from sdk import ERAS, call, told

from mnemo_mcp.daemon import opening

pytestmark = pytest.mark.anyio

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": ERAS["auto"],
    "io.modelcontextprotocol/clientCapabilities": {},
}
ANNOTATIONS = {  # read only, destructive, idempotent, open world
    "recall": (True, False, True, False),
    "remember": (False, False, True, False),
    "forget": (False, True, True, False),
    "keep": (False, False, True, False),
    "recall_episode": (True, False, True, False),
}


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One mnemo for all tests here; words alone answer, for vectors are not the point."""
    with Product(tmp_path_factory.mktemp("home"), MNEMO_ENCODERS="off") as product:
        yield product


@asynccontextmanager
async def connected(product: Product, era: str) -> AsyncIterator[Client]:
    command = ["-m", "mnemo_mcp.cli", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=command, env=product.environ, cwd=ROOT)
    async with Client(server, mode=era, read_timeout_seconds=30) as client:
        assert client.protocol_version == ERAS[era]
        yield client


@contextmanager
def writers_wait(product: Product) -> Iterator[None]:
    """Hold the store as another process may: what writes waits, what reads goes on."""
    store = sqlite3.connect(product.data / "mnemo.db", isolation_level=None)
    store.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        store.rollback()
        store.close()


async def remembered(client: Client, what: str, **more: Any) -> str:
    """The id of a memory stored for this."""
    outcome, name = (await call(client, "remember", what=what, **more)).split()[:2]
    assert outcome == ("updated" if more.get("replaces") else "added")
    return name.rstrip(".")


async def heard(client: Client) -> None:
    """Return when the daemon has got every call made so far: it reads them in order and goes on answering."""
    await anyio.wait_all_tasks_blocked()
    await call(client, "recall", query="anything")


# what a client is told at the opening


async def test_recorded_opening_is_what_the_session_says() -> None:
    assert json.loads(opening.FILE.read_text("utf-8")) == await opening.record()


async def test_tools_are_those_of_the_recorded_opening(memory: Product, era: str) -> None:
    saved = json.loads(opening.FILE.read_text("utf-8"))["tools"]["legacy" if era == "legacy" else "modern"]
    async with connected(memory, era) as client:
        await call(client, "recall", query="anything")  # from here on the daemon itself answers
        listed = await client.list_tools(cache_mode="bypass")
    assert listed.model_dump(mode="json", by_alias=True, exclude_unset=True) == saved


async def test_every_tool_sets_all_hints_and_promises_text(memory: Product, era: str) -> None:
    async with connected(memory, era) as client:
        tools = (await client.list_tools()).tools
    hints = {
        tool.name: (
            tool.annotations.read_only_hint,
            tool.annotations.destructive_hint,
            tool.annotations.idempotent_hint,
            tool.annotations.open_world_hint,
        )
        for tool in tools
        if tool.annotations
    }
    assert hints == ANNOTATIONS
    assert all(tool.output_schema is None for tool in tools)
    assert all(tool.description and tool.title for tool in tools)
    properties = [each for tool in tools for each in tool.input_schema["properties"].values()]
    assert all("type" in each or "anyOf" in each for each in properties)


async def test_first_words_of_the_instructions_say_what_it_is_for(memory: Product, era: str) -> None:
    async with connected(memory, era) as client:
        told_first = (client.instructions or "")[:240]  # all that some clients show
    assert told_first.startswith("mnemo is long-term memory")
    assert "Search with `recall` before" in told_first
    assert "needs with `remember`." in told_first


# calls


async def test_five_tools_at_work(memory: Product, era: str) -> None:
    async with connected(memory, era) as client:
        old = await remembered(client, f"The {era} gateway gives up after 30 s", kind="decision")
        new = await remembered(client, f"The {era} gateway gives up after 90 s", replaces=[old])
        found = await call(client, "recall", query=f"When does the {era} gateway give up?", project="*")
        assert found.index(new) < found.index(old) and "NO LONGER TRUE" in found
        assert "kept" in await call(client, "keep", id=new)
        assert "gives up after 90 s" in await call(client, "recall_episode", id=new)
        assert new in await call(client, "forget", id=new, mode="retract", reason="never measured")
        assert "RETRACTED" in await call(
            client, "recall", query=f"When does the {era} gateway give up?", history=True
        )


MEANT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("recall", {"query": "which queue", "limit": "2", "kinds": None, "entities": None, "history": None}),
    ("recall", {"query": "which queue", "limit": 2.0, "history": "false", "project": ""}),
    ("recall", {"query": "which queue", "limit": 10_000, "valid_at": "", "known_at": None}),
    ("recall", {"query": "which queue", "limit": -1, "kinds": "fact", "project": "*"}),
    ("recall", {"query": "which queue", "kinds": '["fact", "state"]', "reasoning": "I should look"}),
    ("recall", {"question": "which queue", "entities": "Harbour, Jetty"}),
    ("recall", {"q": "which queue", "entities": [{"name": "Harbour"}, None, ""]}),
    ("recall", {"query": 42}),
    ("recall", {"query": ["which", "queue"]}),
    ("recall", {"query": "which 🚢 queue \x00 \x1b[31m <b>"}),
    ("remember", {"content": "Harbour queues in Jetty", "kind": "Decision", "entities": "Harbour"}),
    ("remember", {"what": "Harbour queues in Jetty", "why": None, "replaces": "", "correction": "no"}),
    ("remember", {"what": "Harbour queues in Jetty", "kind": None, "entities": {"name": "Jetty"}}),
    ("remember", {"what": "Harbour queues in Jetty", "entities": '["Harbour", "Jetty"]'}),
    ("remember", {"what": {"claim": "Jetty is drained at noon"}, "how": ["drain", "wait"]}),
)

REFUSED: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("recall", {}, "query"),
    ("recall", {"query": "  "}, "query"),
    ("recall", {"query": "x", "limit": "many"}, "whole number"),
    ("recall", {"query": "x", "kinds": ["rule"]}, "decision"),
    ("recall", {"query": "x", "kinds": '["fact"'}, "JSON"),
    ("recall", {"query": "x", "history": "perhaps"}, "true or false"),
    ("recall", {"query": "x", "valid_at": "the other day"}, "2026"),
    ("remember", {"why": "no reason without a claim"}, "what"),
    ("remember", {"what": "Nothing is stored by this", "kind": "rule"}, "decision"),
    ("remember", {"what": "Nothing is stored by this", "replaces": ["m0000000000000"]}, "m0000000000000"),
    ("remember", {"what": "Nothing is stored by this", "valid_to": "soon"}, "2026"),
    ("forget", {}, "id"),
    ("forget", {"id": []}, "id"),
    ("forget", {"id": "the memory about queues"}, "Recall first"),
    ("forget", {"id": "m0000000000000", "mode": "delete"}, "retract"),
    ("keep", {"id": "m0000000000000"}, "m0000000000000"),
    ("recall_episode", {"id": "e0000000000000"}, "e0000000000000"),
    ("search", {"query": "x"}, "There are recall"),
)


async def test_arguments_are_read_as_they_are_meant(memory: Product, era: str) -> None:
    async with connected(memory, era) as client:
        for tool, arguments in MEANT:
            well, text = told(await client.call_tool(tool, arguments))
            assert well, (tool, arguments, text)


async def test_arguments_in_another_form_mean_the_same(memory: Product, era: str) -> None:
    quay = f"Quay {era}"
    async with connected(memory, era) as client:
        fact = await remembered(client, f"{quay} has four cranes", entities=f"Crane {era}, Bollard")
        rule = await remembered(client, f"{quay} is swept first", kind="Decision")

        async def found(**arguments: Any) -> list[str]:
            text = await call(client, "recall", query=quay, **arguments)
            return [name for name in (fact, rule) if name in text]

        assert await found(limit="9", kinds=None, history="no") == [fact, rule]
        assert len(await found(limit="1")) == 1
        assert await found(kinds="decision") == [rule]
        assert await found(kinds='["fact", "state"]') == [fact]
        assert await found(entities=f"Crane {era}") == [fact]
        assert await found(entities=[{"name": f"Crane {era}"}, None]) == [fact]
        await call(client, "forget", ids=f'["{fact}"]', mode="retract")
        assert await found(history="false") == [rule]
        assert await found(history="true") == [fact, rule]


async def test_what_cannot_be_done_is_told_with_what_to_do(memory: Product, era: str) -> None:
    async with connected(memory, era) as client:
        for tool, arguments, hint in REFUSED:
            well, text = told(await client.call_tool(tool, arguments))
            assert not well and hint in text and len(text) < 400, (tool, arguments, text)
        assert "Nothing is stored by this" not in await call(
            client, "recall", query="Nothing is stored by this"
        )


def line(identity: int, arguments: str, meta: Mapping[str, Any]) -> bytes:
    """A tool call as it comes over the wire, its arguments as they are given here."""
    params = f'{{"name": "recall", "arguments": {arguments}, "_meta": {json.dumps(meta)}}}'
    return f'{{"jsonrpc": "2.0", "id": {identity}, "method": "tools/call", "params": {params}}}\n'.encode()


@pytest.mark.parametrize("meta", [{}, ENVELOPE], ids=["legacy", "modern"])
def test_odd_lines_are_answered_like_any_other(memory: Product, meta: dict[str, Any]) -> None:
    server = memory.stdio()
    if not meta:
        server.open()
    fine = (
        '{"query": "a text that was cut inside \\ud83d"}',
        '{"query": "deep", "more": ' + "[" * 240 + "]" * 240 + "}",
        '{"query": "twice", "query": "over"}',
        '"{\\"query\\": \\"an object that was sent as a text\\"}"',
    )
    for identity, arguments in enumerate(fine, 100):
        server.write(line(identity, arguments, meta))
        assert server.answer(identity)["result"]["isError"] is False
    for identity, arguments in enumerate(("[]", "5", '"no object"', '"[1]"'), 200):
        server.write(line(identity, arguments, meta))
        assert server.answer(identity)["error"]["code"] == -32602
    server.write(b'{"jsonrpc": "2.0", "id": 300, "method": "tools/list", "params": [1]}\n')
    assert server.answer(300)["error"]["code"] == -32600


# many at once, and people who leave


async def test_parallel_calls_each_get_their_own_answer(memory: Product, era: str) -> None:
    names: dict[int, str] = {}
    reports: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def one(client: Client, number: int) -> None:
        what = f"Shelf {era}{number} holds crate {number * 7}"
        well, text = told(await client.call_tool("remember", {"what": what}, progress_callback=progressed))
        assert well
        names[number] = text.split()[1].rstrip(".")
        assert f"crate {number * 7}" in await call(client, "recall_episode", id=names[number])

    async with connected(memory, era) as client, anyio.create_task_group() as tasks:
        for number in range(60):
            tasks.start_soon(one, client, number)
    assert len(set(names.values())) == 60
    assert reports == []  # no tool takes long enough to tell of progress; asking for it does no harm


async def test_reading_goes_on_while_writers_wait(memory: Product, era: str) -> None:
    async with connected(memory, era) as client, anyio.create_task_group() as tasks:
        with writers_wait(memory), anyio.fail_after(4):
            for number in range(45):
                tasks.start_soon(remembered, client, f"Berth {era}{number} waits")
            await heard(client)
    assert len(memory.recall(f"Berth {era} waits", "--limit", "50")) >= 45


async def test_write_that_began_is_finished_though_it_is_cancelled(memory: Product, era: str) -> None:
    what = f"Pier {era} closes at dusk"
    async with connected(memory, era) as client:
        with writers_wait(memory):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(remembered, client, what)
                await heard(client)
                tasks.cancel_scope.cancel()
            await heard(client)
        with anyio.fail_after(10):
            while what not in await call(client, "recall", query=what):
                await anyio.sleep(0.05)


async def test_write_that_began_is_finished_though_its_client_is_gone(memory: Product) -> None:
    what = "Wharf seven is dredged in May"
    server = memory.stdio()
    server.open()
    with writers_wait(memory):
        server.send("tools/call", {"name": "remember", "arguments": {"what": what}})
        assert server.call("recall", query="anything")[0]
        server.process.kill()
    until(lambda: [each for each in memory.recall(what) if each["what"] == what] != [])


async def test_session_goes_on_when_its_daemon_is_killed(memory: Product, era: str) -> None:
    answers: list[tuple[bool, str]] = []

    async def under_way(client: Client, number: int) -> None:
        what = f"Buoy {era}{number} is lost"
        answers.append(told(await client.call_tool("remember", {"what": what})))

    async with connected(memory, era) as client:
        name = await remembered(client, f"The {era} lighthouse blinks every 7 s")
        with writers_wait(memory):
            async with anyio.create_task_group() as tasks:
                for number in range(3):
                    tasks.start_soon(under_way, client, number)
                await heard(client)
                memory.kill()
            assert [well for well, _ in answers] == [False] * 3
            assert all("restarted" in text for _, text in answers)
        assert f"The {era} lighthouse" in await call(client, "recall_episode", id=name)

        memory.kill()  # nothing is under way, so nobody notices
        assert "Buoy" not in await call(client, "recall", query=f"Is Buoy {era} lost?")
        assert len((await client.list_tools(cache_mode="bypass")).tools) == 5
