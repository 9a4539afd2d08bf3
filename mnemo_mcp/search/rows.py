"""Rows: what the search tables keep of a memory or an episode, and which text its vectors are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.memory import Episode, Memory
from mnemo_mcp.words import words

EMBEDDED_CHARACTERS = 2_000  # what an encoder reads of one episode: the packaged ones cut at 256 tokens
WORDS_CHARACTERS = 20_000
CONTEXT_CHARACTERS = 200  # 0, 300 and 400 found less than 200 on LoCoMo


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a search table. `embedded` is not stored; `state` holds the columns of its table alone."""

    id: str
    profile: str
    project: str
    text: str
    words: str
    embedded: str
    state: Mapping[str, Any]


def memory_row(memory: Memory) -> Row:
    claim = memory.claim
    parts = (claim.what, claim.why, claim.how, claim.who, claim.where, claim.when)
    names = (each.name for each in claim.entities)
    return Row(
        id=memory.id,
        profile=memory.profile,
        project=memory.project,
        text=claim.text(),
        words=_searchable(*parts, *names),
        embedded=claim.text(),
        state={
            "kind": str(claim.kind),
            "valid_from": memory.valid_from,
            "valid_to": memory.valid_to,
            "retracted": memory.retracted,
        },
    )


def episode_row(episode: Episode, before: str) -> Row:
    """The row of an episode; `before` is the text of the one before it in its thread.

    An answer often lacks the words of its question, so an episode is also found by the end of what came
    before, while its own words count twice: recall@10 went from 0.54 to 0.62 (LoCoMo, three conversations
    on which nothing was tuned, MiniLM).
    """
    own = bounded(episode.text, WORDS_CHARACTERS)
    return Row(
        id=episode.id,
        profile=episode.profile,
        project=episode.project,
        text=own,
        words=_searchable(own, own, _context(before)),
        embedded=episode_embedded(episode.text, before),
        state={
            "role": str(episode.role),
            "session": episode.session,
            "occurred_at": episode.occurred_at,
        },
    )


def episode_embedded(text: str, before: str) -> str:
    """The text whose vector stands for an episode: the end of what came before it, then its own."""
    own = bounded(text, EMBEDDED_CHARACTERS)
    return f"{_context(before)}\n{own}" if before else own


def bounded(text: str, most: int) -> str:
    """`text`, or where it is longer than `most` characters its beginning and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n{text[-half:]}"


def _context(before: str) -> str:
    return before[-CONTEXT_CHARACTERS:]


def _searchable(*texts: str) -> str:
    return " ".join(word for text in texts for word in words(text))
