"""A made-up index of any size in seconds: the arrays of a snapshot, restored as a start restores them.

Each memory says halves of two sentences of the Python standard library's documentation, so that hardly two
are the same; most give another half as the reason, some name a file and a ticket; entities are named by few
or by very many; one in twelve has ended.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from mnemo_mcp.index.keys import text_key
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.sealed import FIELDS, MOST
from mnemo_mcp.index.snapshot import Saved
from mnemo_mcp.index.states import HOW, WHEN, WHY
from mnemo_mcp.memory import Kind, instant, same_text
from mnemo_mcp.words import STOP_WORDS, words

PROJECTS = ("", *(f"project-{number}" for number in range(12)))
NAMES = (
    "gateway",
    "billing",
    "Kestrel",
    "ledger",
    "pgpool",
    "importer",
    "Plover",
    "router",
    "vault",
    "mailer",
)
ROLES = ("about", "who", "where")
_ALPHABET = np.frombuffer(b"0123456789abcdefghjkmnpqrstvwxyz", np.uint8)
_DAY = 86_400_000
_NEVER = np.iinfo(np.int64).max
_ENTITIES = 20_000

Ints = npt.NDArray[np.int64]


class Pool:
    """Texts with the numbers of their words."""

    def __init__(self, texts: Sequence[str], number: Callable[[str], int]) -> None:
        self.quoted = [json.dumps(text, ensure_ascii=False) for text in texts]
        read = [[number(word) for word in words(text) if word not in STOP_WORDS] for text in texts]
        self.lengths = np.array([len(each) for each in read], np.int64)
        self._flat = np.array([word for each in read for word in each], np.int64)
        self._starts = np.cumsum(self.lengths) - self.lengths

    def words_of(self, chosen: Ints) -> Ints:
        """The words of the chosen texts, one text after the other."""
        lengths = self.lengths[chosen]
        before = np.cumsum(lengths) - lengths
        return self._flat[np.arange(int(lengths.sum())) - np.repeat(before - self._starts[chosen], lengths)]


def crowd(texts: Sequence[str], rows: int, now: datetime) -> ProfileIndex:
    """An index of `rows` memories, with entities and links, without vectors."""
    chance = np.random.default_rng(rows)
    names = [f"{NAMES[each % len(NAMES)]}-{each}" for each in range(_ENTITIES)]
    files = [f"{NAMES[each % 7]}_{each} in {NAMES[each % 10]}.toml" for each in range(5_000)]
    parts, vocabulary = _pools(texts, files, [f"OPS-{each}" for each in range(rows)], names)
    some = _said(chance, rows, len(texts), len(files))
    counts = chance.integers(0, 4, size=rows)
    named = (len(names) * chance.random(int(counts.sum())) ** 4).astype(np.int64)
    roles = chance.integers(len(ROLES), size=len(named))
    some["names"] = (3, np.repeat(np.arange(rows), counts), named)
    times = start, end, known = _times(chance, rows, now)
    project, kind = chance.integers(len(PROJECTS), size=rows), chance.integers(len(Kind), size=rows)
    letters = chance.integers(0, 32, size=(rows, 13), dtype=np.uint8)
    arrays: dict[str, Any] = {
        "states.start": start,
        "states.end": end,
        "states.dead": np.zeros(rows, np.bool_),
        "states.known": known,
        "states.changed": known,
        "states.project": project.astype(np.int32),
        "states.kind": (kind + len(PROJECTS)).astype(np.int32),
        "states.filled": _filled(rows, [some[part][1] for part in ("why", "how", "when")]),
        "states.cited": np.ones(rows, np.uint16),
        "erased": np.zeros(rows, np.bool_),
        "successions": np.zeros((0, 2), np.int64),
        "ids": _id_keys(letters),
        "texts": _text_keys(texts, some["what"][2], some["more"][2]),
        "entities.numbers": named.astype(np.uint32),
        "entities.parts": roles.astype(np.uint16),
        "entities.ends": np.cumsum(counts).astype(np.uint64),
    }
    told = [(field, held, parts[part], chosen) for part, (field, held, chosen) in some.items()]
    arrays |= _postings(rows, len(vocabulary), told)
    ids = _ALPHABET[letters].tobytes().decode()
    lines = _lines(rows, ids, parts, some, times, (project, kind), (counts, named, roles, names))
    arrays |= _texts(lines) | _values(vocabulary, names, named)
    index = ProfileIndex.restored(Saved({}, arrays))
    _link(index, chance, rows)
    return index


def _pools(
    texts: Sequence[str], files: Sequence[str], tickets: Sequence[str], names: Sequence[str]
) -> tuple[dict[str, Pool], list[str]]:
    """What each part of a memory may say, and all the words of it by their numbers."""
    numbers: dict[str, int] = {}

    def number(word: str) -> int:
        return numbers.setdefault(word, len(numbers))

    halves = [Pool([_half(text, which) for text in texts], number) for which in (0, 1)]
    parts = {"what": halves[0], "more": halves[1], "how": Pool(files, number), "when": Pool(tickets, number)}
    parts |= {"why": halves[0], "names": Pool(names, number)}
    return parts, list(numbers)


def _said(
    chance: np.random.Generator, rows: int, texts: int, files: int
) -> dict[str, tuple[int, Ints, Ints]]:
    """By part its field in the postings, the rows that say something there, and what each of them says."""
    return {
        "what": (0, np.arange(rows), chance.integers(texts, size=rows)),
        "more": (0, np.arange(rows), chance.integers(texts, size=rows)),
        "why": (1, *_some(chance, rows, 0.7, texts)),
        "how": (2, *_some(chance, rows, 0.4, files)),
        "when": (3, held := np.flatnonzero(chance.random(rows) < 0.3), held),
    }


def _times(chance: np.random.Generator, rows: int, now: datetime) -> tuple[Ints, Ints, Ints]:
    """When each memory begins and ends to hold, and since when it is known, in milliseconds."""
    known = round(now.timestamp() * 1000) - chance.integers(0, 700 * _DAY, size=rows)
    fate = chance.random(rows)
    start = np.where(fate > 0.98, known + 730 * _DAY, known)
    return start, np.where(fate < 0.08, known + _DAY, _NEVER), known


def _texts(lines: Sequence[str]) -> dict[str, Any]:
    encoded = [line.encode() for line in lines]
    ends = np.cumsum([len(line) for line in encoded])
    return {"memories.text": np.frombuffer(b"".join(encoded), np.uint8), "memories.ends": ends}


def _values(vocabulary: list[str], names: Sequence[str], named: Ints) -> dict[str, Any]:
    """What a snapshot keeps as JSON."""
    values = {
        "states.codes": {name: place for place, name in enumerate((*PROJECTS, *Kind))},
        "states.pieces": [],
        "postings.words": vocabulary,
        "entities.keys": [same_text(name) for name in names],
        "entities.roles": ROLES,
        "awaited": {},
        "written": dict.fromkeys((word for name in names for word in words(name)), 1),
        "named": [[names[each], same_text(names[each]), 1] for each in np.unique(named)],
        "encoders": [],
    }
    return {
        name: np.frombuffer(json.dumps(value, ensure_ascii=False).encode(), np.uint8)
        for name, value in values.items()
    }


def _link(index: ProfileIndex, chance: np.random.Generator, rows: int) -> None:
    """Each row to one a little before it."""
    back = np.minimum(np.arange(rows), 1 + chance.exponential(500, size=rows).astype(np.int64))
    for row, (steps, weight) in enumerate(zip(back.tolist(), chance.random(rows).tolist(), strict=True)):
        index.links.add(row, row - steps, weight)


def _half(text: str, which: int) -> str:
    found = text.split()
    return " ".join(found[len(found) // 2 :] if which else found[: len(found) // 2])


def _text_keys(texts: Sequence[str], first: Ints, second: Ints) -> npt.NDArray[np.uint64]:
    halves = [[_half(text, which) for text in texts] for which in (0, 1)]
    said = (
        f"{halves[0][one]} {halves[1][two]}" for one, two in zip(first.tolist(), second.tolist(), strict=True)
    )
    return np.fromiter((text_key(same_text(text)) for text in said), np.uint64, len(first))


def _some(chance: np.random.Generator, rows: int, share: float, texts: int) -> tuple[Ints, Ints]:
    held = np.flatnonzero(chance.random(rows) < share)
    return held, chance.integers(texts, size=len(held))


def _filled(rows: int, held: Sequence[Ints]) -> npt.NDArray[np.uint8]:
    filled = np.zeros(rows, np.uint8)
    for each, bit in zip(held, (WHY, HOW, WHEN), strict=True):
        filled[each] |= bit
    return filled


def _id_keys(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    keys = np.zeros(len(letters), np.uint64)
    for place in range(12):
        keys = keys << np.uint64(5) | letters[:, place]
    return keys << np.uint64(4) | letters[:, 12] >> np.uint8(1)


def _postings(rows: int, words: int, parts: Sequence[tuple[int, Ints, Pool, Ints]]) -> dict[str, Any]:
    """The postings of all parts: each says in which field the texts stand that it gives to which rows."""
    lengths = np.zeros(rows, np.float32)
    keys = []
    for field, held, pool, chosen in parts:
        docs = np.repeat(held, pool.lengths[chosen])
        lengths += np.bincount(docs, minlength=rows)
        keys.append((pool.words_of(chosen) * rows + docs) * FIELDS + field)
    every, counts = np.unique(np.concatenate(keys), return_counts=True)
    codes = np.minimum(counts, MOST) << 4 * (every % FIELDS)
    pairs = every // FIELDS
    first = np.flatnonzero(np.diff(pairs, prepend=-1))
    number, doc = np.divmod(pairs[first], rows)
    return {
        "postings.starts": np.searchsorted(number, np.arange(words + 1)),
        "postings.docs": doc.astype(np.uint32),
        "postings.codes": np.add.reduceat(codes, first).astype(np.uint16),
        "postings.lengths": lengths,
    }


def _lines(
    rows: int,
    ids: str,
    parts: dict[str, Pool],
    some: dict[str, tuple[int, Ints, Ints]],
    times: tuple[Ints, Ints, Ints],
    codes: tuple[Ints, Ints],
    entities: tuple[Ints, Ints, Ints, Sequence[str]],
) -> list[str]:
    """The memories as an index keeps them."""
    said = {}
    for part in ("what", "more", "why", "how", "when"):
        said[part] = ['""'] * rows
        for row, chosen in zip(some[part][1].tolist(), some[part][2].tolist(), strict=True):
            said[part][row] = parts[part].quoted[chosen]
    counts, named, roles, names = entities
    refs = [
        f'"{names[each]}","thing","{ROLES[role]}"'
        for each, role in zip(named.tolist(), roles.tolist(), strict=True)
    ]
    ends = np.cumsum(counts).tolist()
    start, end, known = (each.tolist() for each in times)
    kinds = list(Kind)
    lines = []
    for row, (project, kind) in enumerate(zip(*(each.tolist() for each in codes), strict=True)):
        name = ids[13 * row : 13 * row + 13]
        what, why, how, when = (said[part][row] for part in ("what", "why", "how", "when"))
        what = f"{what[:-1]} {said['more'][row][1:]}"
        claim = f'{what},{why},{how},"","",{when},"{kinds[kind]}","",""'
        held = ",".join(refs[ends[row] - int(counts[row]) : ends[row]])
        began, heard = _instant(start[row]), _instant(known[row])
        ended = "null" if end[row] == _NEVER else f'"{_instant(end[row])}"'
        lines.append(
            f'm{name}\n["personal","{PROJECTS[project]}",[{claim}],[{held}],["{began}",{ended}],"{heard}","{heard}",'
            f'["e{name}"],0,[],[],"","","assistant","{began}"]'
        )
    return lines


_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _instant(milliseconds: int) -> str:
    return instant(_EPOCH + timedelta(milliseconds=milliseconds))
