"""The opening exchange of both protocol eras, recorded from the SDK's own session.

The stdio pipe answers with this recording (`thin/opening.json`) while the daemon still imports the SDK.
`python -m mnemo_mcp.daemon.opening` makes it anew; a test holds it against the session.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

import anyio
import mcp.types as types
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_MODERN_VERSION

from mnemo_mcp import __version__
from mnemo_mcp.daemon.mcp import server
from mnemo_mcp.daemon.verbs import Caller
from mnemo_mcp.thin import link

FILE = Path(link.THIN) / "opening.json"

_CLIENT = {"name": "mnemo", "version": __version__}
_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientInfo": _CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def record() -> dict[str, Any]:
    """What the session answers to `initialize`, `server/discover` and `tools/list`."""
    greetings: dict[str, Any] = {}
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        greeting = {"protocolVersion": version, "capabilities": {}, "clientInfo": _CLIENT}
        greetings[version], listed = await _exchange([("initialize", greeting), ("tools/list", {})])
    discovered, modern = await _exchange(
        [(method, {"_meta": _ENVELOPE}) for method in ("server/discover", "tools/list")]
    )
    return {"initialize": greetings, "discover": discovered, "tools": {"legacy": listed, "modern": modern}}


async def _exchange(requests: list[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The results of a session's first requests."""
    to_server, read = anyio.create_memory_object_stream[SessionMessage | Exception](8)
    write, from_server = anyio.create_memory_object_stream[SessionMessage](8)
    serving = server(_no_service, Caller())
    results = []
    async with anyio.create_task_group() as tasks, to_server, from_server:
        tasks.start_soon(_serve, serving, read, write)
        for number, (method, params) in enumerate(requests):
            await to_server.send(_message({"id": number, "method": method, "params": params}))
            answer = (await from_server.receive()).message
            results.append(answer.model_dump(by_alias=True, exclude_unset=True, mode="json")["result"])
            if method == "initialize":
                await to_server.send(_message({"method": "notifications/initialized"}))
        tasks.cancel_scope.cancel()
    return results


async def _serve(serving: Any, read: Any, write: Any) -> None:
    options = serving.create_initialization_options()
    await serve_dual_era_loop(serving, read, write, lifespan_state={}, init_options=options)


def _message(content: dict[str, Any]) -> SessionMessage:
    return SessionMessage(
        types.jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **content}, by_name=False)
    )


def _no_service() -> NoReturn:
    raise AssertionError("the opening calls no tool")


if __name__ == "__main__":
    FILE.write_text(json.dumps(anyio.run(record), indent=1, sort_keys=True) + "\n", "utf-8")
