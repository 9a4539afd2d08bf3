"""Fetching a model when a person asks: it goes on where it broke off, and only the right bytes are kept."""

from __future__ import annotations

import errno
import fcntl
import http.client
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from mnemo_mcp import __version__
from mnemo_mcp.errors import ModelError, Refused
from mnemo_mcp.models.catalogue import HubFile, HubModel, place
from mnemo_mcp.models.files import checked
from mnemo_mcp.models.proxy import proxy_for, without_credentials

_CHUNK_BYTES = 1 << 18
_SILENCE_SECONDS = 30.0  # a server that sends nothing for so long has broken off
_WAITS = (1.0, 2.0, 4.0)  # seconds before each try that follows one without a byte
_SPARE_BYTES = 64 * 2**20  # are left free on the disk

Told = Callable[[HubFile, int], None]
"""Is told of a file and how many of its bytes are there."""


@dataclass(frozen=True, slots=True)
class Hub:
    """Where models are fetched from, and how long is waited between tries."""

    url: str
    silence_seconds: float = _SILENCE_SECONDS
    sleep: Callable[[float], None] = time.sleep


def missing(model: HubModel, folder: Path) -> list[HubFile]:
    """The files of a model that are not there, or not in their size; what is in them `fetch` looks at."""
    return [each for each in model.files if _size(place(folder, model.name, each.path)) != each.bytes]


def fetch(model: HubModel, hub: Hub, folder: Path, told: Told) -> None:
    """Bring every file of `model` into its part of `folder`. What is there and right is not fetched again.

    Raises `ModelError` where the hub does not give what is expected, `Refused` where the disk is too small
    or another fetch of the same model is at work.
    """
    if urlsplit(hub.url).scheme not in ("http", "https"):
        raise Refused(f"{hub.url!r} is no address of a hub.", "Set `hub` in [encoders] to an https:// one.")
    home = folder / model.name
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(home, model):
        wanted = [each for each in model.files if not _is_right(place(folder, model.name, each.path), each)]
        _check_space(home, wanted)
        for each in wanted:
            _fetch_file(model, each, hub, place(folder, model.name, each.path), told)


def _fetch_file(model: HubModel, file: HubFile, hub: Hub, target: Path, told: Told) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    url = model.url(hub.url, file)
    waits, most = iter(_WAITS), _size(part)
    while _size(part) < file.bytes:
        trouble = _receive(url, file, part, hub.silence_seconds, told)
        if _size(part) > most:
            waits, most = iter(_WAITS), _size(part)
            continue
        wait = next(waits, None)
        if wait is None:
            raise ModelError(
                f"{url} broke off after {most} of {file.bytes} bytes ({trouble}).",
                "Run the same command again: it goes on where this one ended.",
            )
        hub.sleep(wait)
    _keep(part, target, file, url)


def _receive(url: str, file: HubFile, part: Path, silence_seconds: float, told: Told) -> str:
    """Append what the server sends to `part`; why it ended early, "" where it did not."""
    have = _size(part)
    headers = {"User-Agent": f"mnemo/{__version__}", "Accept-Encoding": "identity"}
    request = urllib.request.Request(url, headers=headers)
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        with _opener(url).open(request, timeout=silence_seconds) as answer:
            goes_on = answer.status == 206 and _begins_at(answer.headers.get("Content-Range", ""), have)
            with part.open("ab" if goes_on else "wb") as sink:  # the server may send all of it again
                return _copy(answer, sink, file, have if goes_on else 0, told)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # it has no more than what is here, which is not all: begin anew
            part.unlink(missing_ok=True)
            return "nothing more"
        if error.code in (408, 429) or error.code >= 500:
            return f"answers {error.code}"
        raise ModelError(
            f"{url} answers {error.code} {error.reason}.",
            "See to `hub`, `repo`, `revision` and `files` in config.toml.",
        ) from None
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise Refused(f"The disk is full: {part}.", "Free some space; what is there is kept.") from None
        return str(error) or type(error).__name__


def _copy(answer: Any, sink: BinaryIO, file: HubFile, have: int, told: Told) -> str:
    told(file, have)
    while chunk := answer.read(_CHUNK_BYTES):
        sink.write(chunk)
        have += len(chunk)
        told(file, min(have, file.bytes))
        if have > file.bytes:
            return ""
    return "the connection was closed"


def _keep(part: Path, target: Path, file: HubFile, url: str) -> None:
    """Give the file its name if its bytes are the ones meant; else take it away."""
    try:
        if _size(part) != file.bytes:
            raise ModelError(f"{url} is longer than {file.bytes} bytes.")
        checked(part, file.sha256)
    except ModelError as error:
        part.unlink(missing_ok=True)
        raise ModelError(
            f"{error.message} It was removed.",
            "Run the command again; if it comes out the same, the hub has another file than the one meant.",
        ) from None
    with part.open("rb") as file_there:
        os.fsync(file_there.fileno())
    part.replace(target)


def _is_right(target: Path, file: HubFile) -> bool:
    if _size(target) != file.bytes:
        return False
    try:
        checked(target, file.sha256)
    except ModelError:
        return False
    return True


def _check_space(home: Path, wanted: list[HubFile]) -> None:
    here = sum(_size(path) for path in home.rglob("*.part"))
    needed = sum(each.bytes for each in wanted) - here
    free = shutil.disk_usage(home).free
    if needed > 0 and free < needed + _SPARE_BYTES:
        raise Refused(
            f"{needed // 2**20} MiB are to be fetched, and only {free // 2**20} MiB are free in {home}.",
            "Free some space first.",
        )


@contextmanager
def _alone(home: Path, model: HubModel) -> Iterator[None]:
    """Two that write one file would spoil it."""
    with (home / ".fetching").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"{model.name} is being fetched already.", "Wait for that to end.") from None
        yield


def _opener(url: str) -> urllib.request.OpenerDirector:
    proxy = proxy_for(url)
    proxies = {"http": proxy, "https": proxy} if proxy else {}
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    except ValueError as error:
        raise ModelError(f"The proxy {without_credentials(proxy or '')} cannot be used: {error}.") from None


def _begins_at(content_range: str, have: int) -> bool:
    return content_range.startswith(f"bytes {have}-")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
