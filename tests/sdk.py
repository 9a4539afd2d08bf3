"""What tests with the SDK's own client share: the two eras, and results read as every tool gives them."""

from __future__ import annotations

from typing import Any

from mcp import Client
from mcp.types import CallToolResult, TextContent

ERAS = {"legacy": "2025-11-25", "auto": "2026-07-28"}  # the SDK's name for how to begin, and what comes of it


def told(result: CallToolResult) -> tuple[bool, str]:
    """Whether a call went well, and its text: always one block of text and no structure."""
    assert result.structured_content is None
    [block] = result.content
    assert isinstance(block, TextContent)
    return not result.is_error, block.text


async def call(client: Client, tool: str, **arguments: Any) -> str:
    """The text of a call that goes well."""
    well, text = told(await client.call_tool(tool, arguments))
    assert well, text
    return text
