"""Memories as compact bytes, decoded when they are asked for: a million objects would need gigabytes."""

from __future__ import annotations

import json
from collections import OrderedDict
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.memory import Claim, EntityRef, Kind, Memory, Period, Role

_KEPT = 2_048  # decoded memories, some 2 KB each
_CLAIM = ("what", "why", "how", "who", "where", "when", "kind", "subject", "field")


class Memories:
    """One memory a row. Those of `base` lie in one block of bytes, newer states beside it."""

    def __init__(self, base: bytes = b"", ends: npt.NDArray[np.int64] | None = None) -> None:
        self._base = base
        self._ends = np.zeros(0, np.int64) if ends is None else ends
        self._newer: dict[int, bytes] = {}
        self._size = len(self._ends)
        self._decoded: OrderedDict[int, Memory] = OrderedDict()

    def __len__(self) -> int:
        return self._size

    def put(self, row: int, memory: Memory) -> None:
        self._newer[row] = encoded(memory)
        self._size = max(self._size, row + 1)
        self._keep(row, memory)

    def __getitem__(self, row: int) -> Memory:
        return self.get(row)

    def get(self, row: int) -> Memory:
        memory = self._decoded.get(row)
        if memory is None:
            memory = decoded(self.bytes_of(row))
            self._keep(row, memory)
        else:
            self._decoded.move_to_end(row)
        return memory

    def id(self, row: int) -> str:
        return self.bytes_of(row).partition(b"\n")[0].decode()

    def bytes_of(self, row: int) -> bytes:
        newer = self._newer.get(row)
        if newer is not None:
            return newer
        if not 0 <= row < len(self._ends):
            raise IndexError(row)
        return self._base[int(self._ends[row - 1]) if row else 0 : int(self._ends[row])]

    def block(self) -> tuple[bytes, npt.NDArray[np.int64]]:
        """Every row's bytes in one block, and where each ends."""
        parts = [self.bytes_of(row) for row in range(self._size)]
        return b"".join(parts), np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))

    def _keep(self, row: int, memory: Memory) -> None:
        self._decoded[row] = memory
        self._decoded.move_to_end(row)
        if len(self._decoded) > _KEPT:
            self._decoded.popitem(last=False)


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
