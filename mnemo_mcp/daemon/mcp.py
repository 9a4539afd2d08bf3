"""The SDK's session over the private socket and over HTTP: the same five tools in both protocol eras.

`serve_dual_era_loop` is public by name but undocumented; it is used here and nowhere else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import mcp.types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage

from mnemo_mcp import __version__
from mnemo_mcp.daemon.arguments import as_object
from mnemo_mcp.daemon.tools import BY_NAME, INSTRUCTIONS, TOOLS, Tool
from mnemo_mcp.daemon.verbs import Caller
from mnemo_mcp.daemon.wire import Unreadable, read_message, write_message
from mnemo_mcp.errors import MnemoError, NotFound
from mnemo_mcp.service import Service

Lookup = Callable[[], Service]
"""Gives the open service, or raises why there is none."""

# Calls of one session at work at the same time. Reading has its own, for writers may wait seconds for the
# store; and so has each session, for none is to wait behind another's.
_READING, _WRITING = 16, 8


def server(lookup: Lookup, caller: Caller) -> Server[Any]:
    """The server of one connection; its tools speak for `caller`."""
    reading, writing = anyio.CapacityLimiter(_READING), anyio.CapacityLimiter(_WRITING)

    async def list_tools(
        context: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_declared(tool) for tool in TOOLS])

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        turn = writing if tool and not tool.read_only else reading
        work = partial(called, lookup, caller, params.name, params.arguments)
        with anyio.CancelScope(shield=True):  # a write that began is finished, whoever hangs up
            result = await anyio.to_thread.run_sync(work, limiter=turn)
        return result

    return Server(
        "mnemo",
        version=__version__,
        title="mnemo",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def called(lookup: Lookup, caller: Caller, name: str, given: Any) -> types.CallToolResult:
    """The result of one call; what went wrong is told as a result the model can act on."""
    try:
        if name not in BY_NAME:
            raise NotFound(f"There is no tool {name!r}.", f"There are {', '.join(BY_NAME)}.")
        tool = BY_NAME[name]
        return _result(tool.told(tool.verb(lookup(), as_object(given), caller)), failed=False)
    except MnemoError as error:
        return _result(str(error), failed=True)


async def serve_lines(
    lookup: Lookup, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Run one session over a stream of lines until its client leaves."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](64)
    serving = server(lookup, caller)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_lines, reader, incoming, write.clone())
        tasks.start_soon(_write_lines, writer, outgoing)
        await serve_dual_era_loop(
            serving, read, write, lifespan_state={}, init_options=serving.create_initialization_options()
        )
        tasks.cancel_scope.cancel()


async def _read_lines(
    reader: asyncio.StreamReader,
    incoming: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
) -> None:
    async with incoming, refusals:
        try:
            while line := await reader.readline():
                try:
                    await incoming.send(SessionMessage(read_message(line)))
                except Unreadable as unreadable:
                    if unreadable.answer:
                        await refusals.send(SessionMessage(unreadable.answer))
        except (OSError, ValueError, anyio.BrokenResourceError):
            return  # the client left in the middle of a line, or sent one without an end


async def _write_lines(
    writer: asyncio.StreamWriter, outgoing: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async with outgoing:
        async for each in outgoing:
            try:
                writer.write(write_message(each.message))
                await writer.drain()
            except OSError:
                return


def _declared(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=True,
            open_world_hint=False,
        ),
        _meta={"anthropic/alwaysLoad": True},
    )


def _result(text: str, *, failed: bool) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)
