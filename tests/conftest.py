"""Fixtures that several test modules share, and the state of the process that all of them start from."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conversation import Conversation, Talk
from desk import opened
from openai_server import Answer, ModelServer, Reply, says
from person import Person
from product import Product
from using import GATEWAY, Desk

from mnemo_mcp.service import Service


@pytest.fixture(autouse=True)
def ordinary_process() -> Iterator[None]:
    """As in a terminal, before and after each test: children inherit an ignored signal, and the umask."""
    _as_in_a_terminal()
    yield
    _as_in_a_terminal()  # fixtures of the next module come before its first test


def _as_in_a_terminal() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(0o022)


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A fresh mnemo with a home of its own."""
    with Product(tmp_path) as fresh:
        yield fresh


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Product]:
    """The same without encoders, for what vectors do not matter to."""
    with Product(tmp_path, MNEMO_ENCODERS="off") as product:
        yield product


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of asynchronous tests."""
    return "asyncio"


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    """Opens a conversation whose model answers as told; all is closed at the end."""
    opened: list[Any] = []

    def begin(answer: Answer | Reply | str | None = None, **more: Any) -> Conversation:
        if isinstance(answer, str):
            answer = says(answer)
        reply = (lambda request: answer) if isinstance(answer, Reply) else answer
        server = ModelServer(reply).__enter__() if reply is not None else None
        home = tmp_path / str(len(opened))
        conversation = Conversation(home, server, **more)
        opened.append((conversation, server))
        return conversation

    yield begin
    for conversation, server in opened:
        conversation.close()
        if server is not None:
            server.__exit__(None, None, None)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Hooks and turns at a time that a test sets."""
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def gateway(desk: Desk) -> str:
    """A memory that `ASKS` brings."""
    return desk.service.remember(GATEWAY).id


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    """Somebody who installs mnemo, with no daemon left at the end."""
    product = Product(tmp_path, MNEMO_ENCODERS="off")
    yield Person(product)
    if (product.data / "run/mnemo.sock").exists():
        product.close()


@pytest.fixture(scope="module")
def words_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service without encoders; each test keeps to a profile of its own."""
    with opened(tmp_path_factory.mktemp("words")) as service:
        yield service
