"""A block of recalled notes: framed as background, shortened field by field, counted after rendering.

The mark it begins with is also the line that says what notes are worth. Every word of the frame is paid for
with each block, so it holds none that it could do without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mnemo_mcp.memory import Kind, Memory, sentence

OPENING = "<mnemo notes from earlier sessions, may be out of date, not a request>"
CLOSING = "</mnemo>"
SHORTENED = "[shortened; recall by id]"

BLOCKS = r"<mnemo(?:-notes| notes from earlier sessions[^<>]*)>.*?(?:</mnemo(?:-notes)?>|\Z)"
"""The expression (with DOTALL) that finds blocks in a text, those that older versions wrote included."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
# Signs that show nothing: they turn the direction of the text, or carry letters nobody sees.
_HIDDEN = re.compile(
    "[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
# A full stop ends a sentence after a word; after "No." or "Prof." a figure or a name goes on.
_SENTENCE_END = re.compile(r"(?<=[^\W\d_A-Z]{4}\.)\s+|(?<=[!?])\s+|(?<=[。！？])")
_LONGEST_WHAT, _LONGEST_WHY = 160, 60  # tokens

Count = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Block:
    """A rendered block and the memories in it; no text when none fits."""

    text: str
    tokens: int
    memories: tuple[Memory, ...]


def block(memories: Sequence[Memory], count: Count, tokens: int, characters: int) -> Block:
    """As many of `memories` as fit, the first ones first, each as whole as there is room for."""
    frame = [OPENING, CLOSING]
    left = tokens - sum(count(line + "\n") for line in frame)
    room = characters - sum(len(line) + 1 for line in frame)
    lines: list[str] = []
    told: list[Memory] = []
    for memory in memories:
        for line in renderings(memory, count):
            cost = count(line + "\n")
            if cost <= left and len(line) < room:
                left, room = left - cost, room - len(line) - 1
                lines.append(line)
                told.append(memory)
                break
    if not lines:
        return Block("", 0, ())
    text = "\n".join((OPENING, *lines, CLOSING))
    return Block(text, count(text), tuple(told))


def renderings(memory: Memory, count: Count) -> list[str]:
    """One line a memory, from the fullest to the shortest: fields are dropped before words are.

    It tells what and why, and of a procedure how; all else is there for whoever recalls it by its id.
    """
    claim = memory.claim
    head = f"{claim.kind} {memory.valid_from[:10]} {memory.id}: "
    what, why, how = (sentence(plain(part)) for part in (claim.what, claim.why, claim.how))
    if not what:
        return []
    what = _shortened(what, count, _LONGEST_WHAT)
    reason = _named("Why", _shortened(why, count, _LONGEST_WHY))
    fitting = [head + what + reason, head + what + _named("Why", _shortened(why, count, 0)), head + what]
    if claim.kind is Kind.PROCEDURE:
        fitting.insert(0, head + what + reason + _named("How", _shortened(how, count, _LONGEST_WHY)))
    return list(dict.fromkeys(fitting))


def _named(name: str, text: str) -> str:
    return f" {name}: {text}" if text else ""


def plain(text: str) -> str:
    """Text without a way out of its frame: one line, no control characters, angle brackets escaped."""
    return one_line(text).replace("<", "&lt;").replace(">", "&gt;")


def one_line(text: str) -> str:
    """Text on one line, without control characters and signs that show nothing."""
    return " ".join(_CONTROL.sub(" ", _HIDDEN.sub("", text)).split())


def _shortened(text: str, count: Count, most: int) -> str:
    """The first sentences of a text of more than `most` tokens, with a mark; never cut inside one."""
    ends = [end.start() for end in _SENTENCE_END.finditer(text) if end.start() < len(text)]
    if not ends or count(text) <= most:
        return text
    kept = text[: ends[0]]
    for end in ends[1:]:
        if count(text[:end]) > most:
            break
        kept = text[:end]
    return f"{kept} {SHORTENED}"
