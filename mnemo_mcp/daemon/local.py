"""The private socket: hooks and the command line speak HTTP on it, the stdio pipe MCP lines."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import h11

from mnemo_mcp.capture.project import in_repository, project_of
from mnemo_mcp.daemon.arguments import as_object, text
from mnemo_mcp.daemon.resident import Resident
from mnemo_mcp.daemon.verbs import VERBS, Caller
from mnemo_mcp.errors import MnemoError, NotFound, Refused, SettingsError

_CHUNK = 1 << 20
_MOST_BODY = 80 << 20
_MOST_LINE = 16 << 20


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes
    kind: str = "application/json"


class _NotUnderstood(Exception):
    """The client speaks something else."""


class LocalDoor:
    """Serves one connection at a time; what it opens with decides how."""

    def __init__(self, resident: Resident, stop: Callable[[], None]) -> None:
        self._resident = resident
        self._stop = stop
        self._serving: set[asyncio.Task[None]] = set()
        self.answering = 0
        self.served = False

    @property
    def connections(self) -> int:
        return len(self._serving)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one more connection beside the others."""
        self.served = True
        task = asyncio.get_running_loop().create_task(self.serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def close(self, seconds: float) -> None:
        """Let answers that are being written end, then every connection; writes that began are finished."""
        until = time.monotonic() + seconds
        while self.answering and time.monotonic() < until:
            await asyncio.sleep(0.02)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving, timeout=seconds)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from its first byte to its end. An error in it ends it alone."""
        try:
            first = await reader.read(1)
            if first == b"{":
                await self._serve_pipe(first + await _first_line(reader), reader, writer)
            elif first:
                await self._serve_http(first, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, h11.ProtocolError, _NotUnderstood):
            pass  # a client that left, or spoke something else: nobody waits for an answer
        finally:
            writer.close()

    async def _serve_pipe(
        self, hello: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        caller = pipe_caller(as_object(hello.decode("utf-8", errors="replace")))
        mcp = await asyncio.to_thread(_sdk)
        writer.write(b'{"ready": true}\n')
        await writer.drain()
        await mcp(self._resident.service, caller, reader, writer)

    async def _serve_http(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 16)
        connection.receive_data(first)
        request = await _read_request(connection, reader)
        self.answering += 1
        try:
            reply = await asyncio.to_thread(self._answer, request)
            await self._write(connection, reply, writer)
        finally:
            self.answering -= 1

    async def _write(self, connection: h11.Connection, reply: Reply, writer: asyncio.StreamWriter) -> None:
        headers = [
            ("content-type", reply.kind),
            ("content-length", str(len(reply.body))),
            ("connection", "close"),
        ]
        response = h11.Response(
            status_code=reply.status, headers=headers, reason=HTTPStatus(reply.status).phrase
        )
        for event in (response, h11.Data(data=reply.body), h11.EndOfMessage()):
            writer.write(connection.send(event) or b"")
        await writer.drain()

    def _answer(self, request: Request) -> Reply:
        parts = request.path.strip("/").split("/")
        try:
            match (request.method, *parts):
                case ("POST", "hooks", client, moment):
                    return self._hook(client, moment, request)
                case ("POST", "api", "status"):
                    return _json(self._resident.status())
                case ("POST", "api", "stop"):
                    self._stop()
                    return _json({"stopping": True})
                case ("POST", "api", verb) if verb in VERBS:
                    given = as_object(request.body.decode("utf-8", errors="replace") or None)
                    return _json(VERBS[verb](self._resident.service(), given, _caller(request, given)))
                case _:
                    raise NotFound(f"There is nothing at {request.method} {request.path[:80]}.")
        except MnemoError as error:
            return _json({"error": error.message, "advice": error.advice}, _status_of(error))

    def _hook(self, client: str, moment: str, request: Request) -> Reply:
        received = _received(request.headers.get("mnemo-received", ""))
        self._resident.hooked_at = time.monotonic()
        said = self._resident.service().hook(
            client, moment, request.body, received, _profile(request.headers)
        )
        return Reply(200, said.encode(), "text/plain; charset=utf-8")


async def _first_line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except ValueError:  # longer than the reader's limit
        raise _NotUnderstood from None


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> Request:
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _MOST_BODY:
                raise _NotUnderstood
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
            return Request(head.method.decode(), head.target.decode("latin-1"), headers, bytes(body))
        else:
            raise ConnectionError("the client left")


def pipe_caller(hello: Mapping[str, Any]) -> Caller:
    """For whom a stdio pipe speaks. Its working folder proves a project only inside a checkout."""
    folder = text(hello, "project_dir")
    place = folder or text(hello, "cwd")
    if not folder and in_repository(place or "/"):
        folder = place
    profile, session = text(hello, "profile") or None, text(hello, "session")
    return Caller("mcp", project_of(folder), profile, session, folder=place)


Sdk = Callable[..., Awaitable[None]]


def _sdk() -> Sdk:
    """The MCP session; importing the SDK takes seconds, so it waits for the first who needs it."""
    from mnemo_mcp.daemon.mcp import serve_lines

    return serve_lines


def _caller(request: Request, given: Mapping[str, Any]) -> Caller:
    return Caller("cli", "", text(given, "profile") or _profile(request.headers), by="person")


def _profile(headers: Mapping[str, str]) -> str | None:
    coded = headers.get("mnemo-profile", "")
    try:
        return bytes.fromhex(coded).decode("utf-8", errors="replace") or None
    except ValueError:
        raise Refused("The profile's name cannot be read.", "Check MNEMO_PROFILE.") from None


def _received(seconds: str) -> datetime | None:
    try:
        return datetime.fromtimestamp(float(seconds), UTC) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _json(value: Mapping[str, Any], status: int = 200) -> Reply:
    return Reply(status, json.dumps(value, ensure_ascii=False).encode())


def _status_of(error: MnemoError) -> int:
    if isinstance(error, NotFound):
        return 404
    return 400 if isinstance(error, (Refused, SettingsError)) else 503
