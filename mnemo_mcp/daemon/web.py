"""MCP over HTTP for clients that want a URL: streamable HTTP and SSE, on loopback, behind a token."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemo_mcp.daemon.main import Door
from mnemo_mcp.daemon.resident import Resident
from mnemo_mcp.daemon.verbs import Caller
from mnemo_mcp.errors import SettingsError
from mnemo_mcp.settings import data_folder

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.sse import SseServerTransport
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("0.0.0.0", "::")
_AUTHORITY = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII)
_CALLER = Caller("http")


def web_door(address: str, *, token: bool) -> Door:
    """A door that serves `address` (HOST:PORT) as long as the daemon lives.

    Raises `SettingsError` for an address that cannot be read, or one beyond loopback without a token.
    """
    host, port = _address(address)
    if host not in _LOOPBACK and not token:
        raise SettingsError(f"{host} can be reached by others.", "Leave out --no-token.")
    listening = _listen(host, port)
    secret = _token(data_folder() / "token") if token else ""

    async def serve(resident: Resident) -> None:
        app = await asyncio.to_thread(_application, resident)
        print(
            f"mnemo: MCP on http://{address}/mcp and /sse".replace(
                f":{port}/", f":{listening.getsockname()[1]}/"
            ),
            file=sys.stderr,
            flush=True,
        )
        await _run(Guard(app, host, secret), listening)

    return serve


class Guard:
    """Lets a request through that names this host, comes from no foreign page, and holds the token."""

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app = app
        self._hosts = {*_LOOPBACK, host}
        self._any_host = host in _EVERYWHERE  # this machine has more names than it knows; the token decides
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status = self._refused(scope) if scope["type"] == "http" else 0
        if not status:
            await self._app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer")] if status == 401 else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    def _refused(self, scope: Scope) -> int:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        authority = headers.get("host", "").lower()
        host = _host_of(authority)
        if not host or (host not in self._hosts and not self._any_host):
            return 403
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != authority:
            return 403  # a page of another host, or of another port of this one
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403
        given = headers.get("authorization", "").encode("latin-1")
        if self._token and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return 401
        return 0


def _application(resident: Resident) -> Starlette:
    """Both transports over one server."""
    from mcp.server.sse import SseServerTransport
    from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    from mnemo_mcp.daemon.mcp import server

    served = server(resident.service, _CALLER)
    manager = StreamableHTTPSessionManager(app=served)
    sse = SseServerTransport("/messages/")

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(
        routes=[
            Route("/mcp", endpoint=StreamableHTTPASGIApp(manager)),
            Route("/sse", endpoint=_SseEndpoint(served, sse)),
            Mount("/messages/", app=sse.handle_post_message),
        ],
        lifespan=living,
    )


class _SseEndpoint:
    """The older transport: one stream a client, its messages posted beside it."""

    def __init__(self, served: Server[Any], sse: SseServerTransport) -> None:
        self._served = served
        self._sse = sse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._sse.connect_sse(scope, receive, send) as (read, write):
            await self._served.run(read, write, self._served.create_initialization_options())


async def _run(app: ASGIApp, listening: socket.socket) -> None:
    import uvicorn

    config = uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1)
    serving = uvicorn.Server(config)
    serving.capture_signals = nullcontext  # type: ignore  # the daemon minds its own signals
    with listening:
        served = asyncio.ensure_future(serving.serve([listening]))
        try:
            await asyncio.shield(served)
        except asyncio.CancelledError:
            serving.should_exit = True  # left alone, it lets answers end and its sessions close
            logging.getLogger("uvicorn.error").disabled = True  # a stream lies open till it is cut: no fault
            await served


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SettingsError(
            f"{host}:{port} cannot be listened on ({error.strerror}).",
            "Choose another port, or 0 for any free one.",
        ) from None


def _address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise SettingsError(f"{address!r} is not HOST:PORT.", "Use for example 127.0.0.1:8765.")
    return host.strip("[]"), int(port)


def _host_of(authority: str) -> str:
    """The host in `host`, `host:port` or `[v6]:port`; "" for anything else."""
    found = _AUTHORITY.fullmatch(authority)
    return (found[1] or found[2]) if found else ""


def _token(file: Path) -> str:
    """The bearer token in the data folder, made at first use, readable by its owner alone."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_urlsafe(32) + "\n", "ascii")
    print(f"mnemo: the bearer token is in {file}", file=sys.stderr)
    return file.read_text("ascii").strip()
