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
        self._keys = np.zeros(256, np.uint64) if keys is None else keys
        self._size = 0 if keys is None else len(keys)
        self._tail: dict[int, list[int]] = {}
        self._order: Rows = np.zeros(0, np.int64)
        self._sorted = np.zeros(0, np.uint64)
        self.seal()

    def __len__(self) -> int:
        return self._size

    def append(self, key: int) -> None:
        self._keys = grown(self._keys, self._size + 1)
        self._keys[self._size] = key
        self._tail.setdefault(key, []).append(self._size)
        self._size += 1

    def of(self, rows: Rows) -> Keys:
        return self._keys[rows]

    def all(self) -> Keys:
        return self._keys[: self._size]

    def find(self, key: int) -> list[int]:
        """The rows with a key, in their order."""
        wanted = np.uint64(key)
        first, last = (int(self._sorted.searchsorted(wanted, side)) for side in ("left", "right"))
        return [*self._order[first:last].tolist(), *self._tail.get(key, ())]

    @property
    def unsealed(self) -> int:
        return self._size - len(self._order)

    def seal(self) -> None:
        """Take the newest rows into the sorted part; a fraction of a second for a million."""
        order = np.argsort(self.all(), kind="stable")
        self._sorted, self._order, self._tail = self.all()[order], order, {}
