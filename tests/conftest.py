"""Fixtures that several test modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from product import Product


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A fresh mnemo with a home of its own."""
    with Product(tmp_path) as fresh:
        yield fresh


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of asynchronous tests."""
    return "asyncio"
