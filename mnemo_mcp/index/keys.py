"""Rows by a 64-bit key: ids and texts are found again without an object for each of them."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from mnemo_mcp.index.arrays import Keys, Rows, grown

_LETTERS = str.maketrans("0123456789abcdefghjkmnpqrstvwxyz", "0123456789abcdefghijklmnopqrstuv")
_OURS = frozenset("0123456789abcdefghjkmnpqrstvwxyz")
_LENGTH = 14


def id_key(name: str) -> int:
    """A key of an id; keys of mnemo's own ids are in the order of their texts."""
    letters = name[1:]
    if len(name) == _LENGTH and _OURS.issuperset(letters):
        return int(letters.translate(_LETTERS), 32) >> 1  # 65 bits
    return text_key(name)


def text_key(text: str) -> int:
    """A key of any text, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class KeyColumn:
    """One key a row. Several rows may share a key, so whoever finds rows by it looks at what they hold."""

    def __init__(self, keys: Keys | None = None) -> None:
        self._keys = np.zeros(0, np.uint64) if keys is None else keys
        self._size = len(self._keys)
        self._order: Rows = np.argsort(self._keys, kind="stable")
        self._sorted = self._keys[self._order]
        self._newer: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return self._size

    def append(self, key: int) -> None:
        self._keys = grown(self._keys, self._size + 1)
        self._keys[self._size] = key
        self._newer.setdefault(key, []).append(self._size)
        self._size += 1

    def blank(self, row: int) -> None:
        """Forget the key of a row; once it is sealed nothing tells of it."""
        self._keys[row] = 0

    def of(self, rows: Rows) -> Keys:
        return self._keys[rows]

    def find(self, key: int) -> list[int]:
        """The rows with a key, in their order."""
        wanted = np.uint64(key)
        first, last = (int(self._sorted.searchsorted(wanted, side)) for side in ("left", "right"))
        return [*self._order[first:last].tolist(), *self._newer.get(key, ())]

    def freeze(self) -> Keys:
        """The keys by now, for sealing and saving outside of anybody's way."""
        return self._keys[: self._size].copy()

    def adopt(self, keys: Keys, order: Rows) -> None:
        """Find the rows of frozen `keys` by their sorted `order`."""
        self._order, self._sorted = order, keys[order]
        newer = {key: [row for row in rows if row >= len(keys)] for key, rows in self._newer.items()}
        self._newer = {key: rows for key, rows in newer.items() if rows}
