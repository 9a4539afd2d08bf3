"""A product over a store without encoders, disks that fail under it, and what lies in its files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from product import EVENTS, Product

NOTHING_STORED = "Nothing was stored"


def payload(moment: str, session: str = "s-1", **fields: Any) -> bytes:
    common = {"session_id": session, "cwd": "/home/dev/atlas", "hook_event_name": EVENTS[moment]}
    return json.dumps({**common, **fields}).encode()


def quiet(done: subprocess.CompletedProcess[bytes]) -> bool:
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def rows(product: Product, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"file:{product.data}/mnemo.db?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


@contextmanager
def stopped(product: Product) -> Iterator[None]:
    """The daemon does nothing at all for a while."""
    pid = product.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def configure(product: Product, **values: float) -> None:
    product.data.mkdir(exist_ok=True)
    lines = ["[daemon]", *(f"{name} = {value}" for name, value in values.items())]
    (product.data / "config.toml").write_text("\n".join(lines) + "\n")


def claim(number: int) -> str:
    return f"Gateway {number} listens on port {9_000 + number}."


def answer(number: int) -> str:
    return f"Round {number}: " + "the gateway was moved behind the balancer. " * 11


@contextmanager
def mounted(*arguments: str, on: Path) -> Iterator[None]:
    """Something mounted on a folder; skips the test where that is not allowed."""
    on.mkdir(parents=True, exist_ok=True)
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting takes root")
    done = subprocess.run(["mount", *arguments, str(on)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(on)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    with mounted("--bind", str(folder), on=folder):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield
