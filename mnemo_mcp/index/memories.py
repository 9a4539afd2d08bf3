"""Memories as compact bytes, decoded when they are asked for: a million objects would need gigabytes."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.memory import Claim, EntityRef, Kind, Memory, Period, Role

_KEPT = 2_048  # decoded memories, some 2 KB each
_CLAIM = ("what", "why", "how", "who", "where", "when", "kind", "subject", "field")


@dataclass(frozen=True, slots=True)
class Block:
    """The bytes of many rows from `first` on, and where each ends."""

    first: int
    text: bytes
    ends: npt.NDArray[np.int64]

    def of(self, row: int) -> bytes:
        place = row - self.first
        if place >= len(self.ends):
            raise IndexError(row)
        return self.text[int(self.ends[place - 1]) if place else 0 : int(self.ends[place])]

    def renewed(self, newer: Mapping[int, bytes]) -> Block:
        """The block with other bytes in some rows, which come in their order."""
        if not newer:
            return self
        parts, lengths, done = [], np.diff(self.ends, prepend=0), 0
        for row, text in newer.items():
            place = row - self.first
            parts += [self.text[done : int(self.ends[place] - lengths[place])], text]
            done, lengths[place] = int(self.ends[place]), len(text)
        return Block(self.first, b"".join([*parts, self.text[done:]]), np.cumsum(lengths))


@dataclass(frozen=True, slots=True)
class Frozen:
    """The bytes of all rows as they were: blocks, and newer states of single rows."""

    blocks: tuple[Block, ...]
    newer: Mapping[int, bytes]
    size: int

    def unblocked(self) -> Block:
        """One more block, of the rows that are in none."""
        first = sum(len(block.ends) for block in self.blocks)
        return _block(first, [self.newer[row] for row in range(first, self.size)])

    def whole(self) -> Iterator[Block]:
        """Blocks with the newest state of every row."""
        for block in self.blocks:
            rows = range(block.first, block.first + len(block.ends))
            yield block.renewed({row: self.newer[row] for row in sorted(self.newer) if row in rows})
        yield self.unblocked()


class Memories:
    """One memory a row, in blocks of bytes; what is newer than its block stands beside them."""

    def __init__(self, blocks: Sequence[Block] = ()) -> None:
        self._blocks = list(blocks)
        self._firsts = [block.first for block in blocks]
        self._size = sum(len(block.ends) for block in blocks)
        self._newer: dict[int, bytes] = {}
        self._decoded: OrderedDict[int, Memory] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def put(self, row: int, memory: Memory) -> None:
        self._newer[row] = encoded(memory)
        self._size = max(self._size, row + 1)
        self._keep(row, memory)

    def get(self, row: int) -> Memory:
        memory = self._decoded.get(row)
        if memory is None:
            memory = decoded(self._bytes(row))
            self._keep(row, memory)
        else:
            self._decoded.move_to_end(row)
        return memory

    def id(self, row: int) -> str:
        return self._bytes(row).partition(b"\n")[0].decode("utf-8", "surrogatepass")

    def freeze(self) -> Frozen:
        """All of it by now, for sealing and saving outside of anybody's way."""
        return Frozen(tuple(self._blocks), dict(self._newer), self._size)

    def adopt(self, block: Block) -> None:
        """Answer from a block that was made meanwhile."""
        self._blocks.append(block)
        self._firsts.append(block.first)
        for row in range(block.first, block.first + len(block.ends)):
            if self._newer[row] == block.of(row):
                del self._newer[row]

    def _bytes(self, row: int) -> bytes:
        newer = self._newer.get(row)
        if newer is not None:
            return newer
        if not 0 <= row < self._size:
            raise IndexError(row)
        return self._blocks[bisect_right(self._firsts, row) - 1].of(row)

    def _keep(self, row: int, memory: Memory) -> None:
        self._decoded[row] = memory
        self._decoded.move_to_end(row)
        if len(self._decoded) > _KEPT:
            self._decoded.popitem(last=False)


def _block(first: int, parts: Sequence[bytes]) -> Block:
    return Block(first, b"".join(parts), np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts))))


def encoded(memory: Memory) -> bytes:
    """A memory as its id and a line of JSON without names."""
    claim = memory.claim
    parts: list[Any] = [
        memory.profile,
        memory.project,
        [getattr(claim, name) for name in _CLAIM],
        list(chain.from_iterable((each.name, each.kind, each.role) for each in claim.entities)),
        list(chain.from_iterable((each.start, each.end) for each in memory.periods)),
        memory.known_at,
        memory.changed_at,
        memory.episodes,
        memory.assumed + 2 * memory.retracted + 4 * memory.erased,
        memory.replaced_by,
        memory.replaces,
        memory.reason,
        memory.merged_into,
        memory.origin,
        memory.began,
    ]
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    return f"{memory.id}\n{text}".encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> Memory:
    """The memory that `encoded` wrote."""
    name, _, text = data.decode("utf-8", "surrogatepass").partition("\n")
    (
        profile,
        project,
        claim,
        entities,
        periods,
        known_at,
        changed_at,
        episodes,
        flags,
        replaced_by,
        replaces,
        reason,
        merged_into,
        origin,
        began,
    ) = json.loads(text)
    parts = dict(zip(_CLAIM, claim, strict=True))
    kind = Kind(parts.pop("kind"))
    named = tuple(EntityRef(*entities[place : place + 3]) for place in range(0, len(entities), 3))
    return Memory(
        name,
        profile,
        project,
        Claim(**parts, kind=kind, entities=named),
        tuple(Period(*periods[place : place + 2]) for place in range(0, len(periods), 2)),
        known_at,
        changed_at,
        tuple(episodes),
        assumed=bool(flags & 1),
        retracted=bool(flags & 2),
        erased=bool(flags & 4),
        replaced_by=tuple(replaced_by),
        replaces=tuple(replaces),
        reason=reason,
        merged_into=merged_into,
        origin=Role(origin),
        began=began,
    )
