"""A file of named arrays with checksums: written whole or not at all, believed when every byte is right."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

_MAGIC = b"mnemoix1"
_END = struct.Struct("<8sQQI")  # magic, where the table begins, its length, its checksum
_KINDS = frozenset({"u1", "u2", "u4", "u8", "i1", "i4", "i8", "f4", "b1"})

Array = npt.NDArray[Any]


class Unusable(Exception):
    """A snapshot that cannot be believed; why, in words."""


@dataclass(slots=True)
class _Section:
    kind: str
    shape: list[int]
    at: int
    crc: int = 0


class Snapshot:
    """Writes one snapshot: sections in any order, then `finish` and `publish`; without, nothing changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._new = path.with_name(path.name + ".new")
        self._sections: dict[str, _Section] = {}
        self._file: BufferedWriter

    def __enter__(self) -> Self:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(handle, "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        with suppress(FileNotFoundError):
            self._new.unlink()

    def array(self, name: str, chunks: Iterable[Array]) -> None:
        """A section of arrays that follow on each other, at least one."""
        section: _Section | None = None
        for chunk in chunks:
            plain = np.ascontiguousarray(chunk)
            if section is None:
                section = _Section(plain.dtype.str.lstrip("<|"), [0, *plain.shape[1:]], self._file.tell())
            section.shape[0] += len(plain)
            data = plain.data.cast("B") if plain.size else b""
            section.crc = zlib.crc32(data, section.crc)
            self._file.write(data)
        if section is None:
            raise ValueError(f"nothing is given of {name}")
        self._sections[name] = section

    def value(self, name: str, value: Any) -> None:
        """A section of anything that JSON can say."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        self.array(name, [np.frombuffer(text, np.uint8)])

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write what the file holds, and wait until it is on disk."""
        sections = {name: [each.kind, each.shape, each.at, each.crc] for name, each in self._sections.items()}
        table = json.dumps({"header": header, "sections": sections}).encode()
        at = self._file.tell()
        self._file.write(table + _END.pack(_MAGIC, at, len(table), zlib.crc32(table)))
        self._file.flush()
        os.fsync(self._file.fileno())

    def publish(self) -> None:
        """Put a finished snapshot in the place of the one before."""
        self._new.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot as it was read: its header, and sections by name."""

    header: Mapping[str, Any]
    arrays: Mapping[str, Array] = field(repr=False)

    def value(self, name: str) -> Any:
        return json.loads(self.arrays[name].tobytes().decode("utf-8", "surrogatepass"))

    def under(self, prefix: str) -> Saved:
        """The sections whose names begin so, by the rest of their names."""
        cut = len(prefix)
        return Saved(
            self.header, {name[cut:]: each for name, each in self.arrays.items() if name.startswith(prefix)}
        )


def read(path: Path, fits: Mapping[str, Any]) -> Saved:
    """The snapshot in a file whose header says what `fits` says.

    Raises `FileNotFoundError`, and `Unusable` for one that is damaged or of another kind.
    """
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size, fits)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise Unusable(f"it is damaged: {error}") from error


def _read(file: Any, size: int, fits: Mapping[str, Any]) -> Saved:
    file.seek(max(0, size - _END.size))
    magic, at, length, crc = _END.unpack(file.read(_END.size))
    if magic != _MAGIC or at + length + _END.size != size:
        raise Unusable("it does not end as a snapshot does")
    file.seek(at)
    table = file.read(length)
    if zlib.crc32(table) != crc:
        raise Unusable("its table is damaged")
    header, sections = (json.loads(table)[name] for name in ("header", "sections"))
    for name, value in fits.items():
        if header.get(name) != value:
            raise Unusable(f"its {name} is {header.get(name)!r}, not {value!r}")
    arrays = {}
    for name, (kind, shape, place, crc) in sections.items():
        if kind not in _KINDS:
            raise Unusable(f"{name} is of the kind {kind}")
        file.seek(place)
        flat = np.fromfile(file, np.dtype(kind), int(np.prod(shape)))
        if zlib.crc32(flat.data.cast("B") if flat.size else b"") != crc:
            raise Unusable(f"{name} is damaged")
        arrays[name] = flat.reshape(shape)
    return Saved(header, arrays)
