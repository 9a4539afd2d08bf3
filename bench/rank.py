"""One whole rank in RAM, without embedding, against one exact pass over the same int8 matrix.

The vectors are no neat clusters: each is a blend of two sentences' vectors, in any proportion, plus noise
at one of four levels, for half of them with a heavy-tailed scale per dimension. Texts are sentences of the
Python standard library's documentation, so words are as frequent as words are; the questions are sentences
kept apart.
"""

from __future__ import annotations

import argparse
import ast
import os
import platform
import random
import re
import resource
import statistics
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import common
import numpy as np
import numpy.typing as npt
from crowd import PROJECTS, crowd
from threadpoolctl import threadpool_limits

from mnemo_mcp.index.arrays import Floats
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.postings import EVEN
from mnemo_mcp.index.profile import ProfileIndex
from mnemo_mcp.index.snapshot import Snapshot
from mnemo_mcp.index.snapshot import read as read_snapshot
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Claim, EntityRef, Kind, Memory, Period, identity, instant
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.recall.channels import Meaning
from mnemo_mcp.recall.question import read
from mnemo_mcp.recall.recall import Ask, Recaller
from mnemo_mcp.settings import Encoders, Settings

QUESTIONS = 120
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SENTENCES, HELD_BACK = 2_400, 400
DEPTH = 50
PLAIN_BLOCK = 32_768
"""Rows widened at once by the exact pass that `ratio_p95` goes by, as one writes it first. `exact_tuned`
takes 4,096, which stay in the processor's cache, and is two to five times faster; `ratio_p95_tuned` goes by
that."""
_CHUNK = 50_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its vector, and the project it is asked in."""

    text: str
    vector: Floats
    project: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with threadpool_limits(1):  # so that one thread's clock tells all that a question costs
        chance = np.random.default_rng(given.rows)
        texts = sentences()
        encoder, made = embedded(texts[:SENTENCES], given.dims)
        before = resident()
        began = time.process_time()
        index = crowd(texts[HELD_BACK:], given.rows, NOW)
        while index.names.tidy():
            pass
        text_mib = resident() - before
        fill_vectors(index, encoder, made[HELD_BACK:], given.rows, chance)
        common.progress(f"filled in {time.process_time() - began:.0f} s of CPU")
        with tempfile.TemporaryDirectory(prefix="mnemo-bench-") as folder:
            store = Store(Path(folder) / "mnemo.db", NOW)
            asked = questions(texts, made, chance)
            result = measure(index, encoder, asked, ranking(index, encoder, store))
            store.close()
            result |= snapshot(index, Path(folder) / "index" / "snapshot")
        result |= growing(index, encoder, texts, made)
    result |= {
        "memory_mib": round(resident()),
        "index_mib": round(resident() - before),
        "bytes_a_memory_but_vectors": round(text_mib * 2**20 / given.rows),
        "conditions": conditions(),
    }
    common.report({"rows": given.rows, "dims": given.dims, **result}, given.json)


def ranking(index: ProfileIndex, encoder: str, store: Store) -> Callable[[Asked], Any]:
    """What is measured: from the text of a question and its vector to rows in order, without embedding."""
    settings = Settings(home=Path(tempfile.gettempdir()))
    recaller = Recaller(store, Index(store), EncoderPair(settings.encoders), settings, lambda *_: [])
    now = instant(NOW)

    def rank(asked: Asked) -> Any:
        question = read(asked.text, index.names, UTC, now)
        projects = frozenset({asked.project}) if asked.project else None
        ask = Ask(asked.text, "personal", now, settings.recall.limit, projects)
        return recaller.rank(index, question, Meaning(encoder, asked.vector), ask)

    return rank


def measure(
    index: ProfileIndex, encoder: str, asked: Sequence[Asked], rank: Callable[[Asked], Any]
) -> dict[str, Any]:
    """CPU time of every question ranked, and of the exact pass, in turns so that both meet the same noise."""
    matrix = index.matrices[encoder]
    everything = index.states.everything()
    times: dict[str, list[float]] = {"rank": [], "meaning": [], "words": [], "exact": [], "exact_tuned": []}
    found = 0
    for each in asked[:5]:
        rank(each)
    for each in asked:
        timed(times["rank"], lambda each=each: rank(each))
        near = timed(times["meaning"], lambda each=each: matrix.nearest(each.vector, everything, DEPTH))
        words = read(each.text, index.names, UTC, instant(NOW)).words
        timed(times["words"], lambda words=words: index.postings.search(words, EVEN, everything, DEPTH))
        exact = timed(
            times["exact"], lambda each=each: matrix.exact(each.vector, everything, DEPTH, PLAIN_BLOCK)
        )
        timed(times["exact_tuned"], lambda each=each: matrix.exact(each.vector, everything, DEPTH))
        found += len(set(near[0][:20].tolist()) & set(exact[0][:20].tolist()))
    ratio, tuned = (
        common.percentile(times["rank"], 0.95) / common.percentile(times[name], 0.95)
        for name in ("exact", "exact_tuned")
    )
    figures = {}
    for name, values in times.items():
        figures[f"{name}_p50_ms"] = round(statistics.median(values), 3)
        figures[f"{name}_p95_ms"] = round(common.percentile(values, 0.95), 3)
    recall = found / (20 * len(asked))
    return {
        "ratio_p95": round(ratio, 3),
        "ratio_p95_tuned": round(tuned, 3),
        "recall_at_20": round(recall, 4),
        "questions": len(asked),
        **figures,
    }


def snapshot(index: ProfileIndex, path: Path) -> dict[str, float]:
    """What it costs to save the index and to have it again, first question included."""
    began = time.thread_time()
    frozen = index.freeze()
    froze = time.thread_time()
    made = frozen.sealed()
    index.adopt(frozen, made)
    with Snapshot(path) as file:
        frozen.save(file, "", made, index.lock)
        file.finish({})
        file.publish()
    saved = time.thread_time()
    back = ProfileIndex.restored(read_snapshot(path, {}))
    back.postings.search(["timeout"], EVEN, back.states.everything(), DEPTH)
    return {
        "freeze_ms": round(1000 * (froze - began), 1),
        "save_s": round(saved - began, 2),
        "load_s": round(time.thread_time() - saved, 2),
        "snapshot_mib": round(path.stat().st_size / 2**20),
    }


def growing(index: ProfileIndex, encoder: str, texts: Sequence[str], made: Floats) -> dict[str, float]:
    """What one more memory costs, its vector and the next search included."""
    times = list[float]()
    everything = np.ones(len(index) + 200, np.bool_)
    for number in range(100):
        new = one_more(number, texts)

        def enter(new: Memory = new, number: int = number) -> None:
            row = index.apply(new)
            scale = float(np.abs(made[number]).max()) / 127
            index.attach(
                encoder,
                made.shape[1],
                {new.id: (scale, np.rint(made[number] / scale).astype(np.int8).tobytes())},
            )
            index.postings.search(["timeout"], EVEN, everything[: (row or 0) + 1], DEPTH)

        timed(times, enter)
    return {"one_more_p50_ms": round(statistics.median(times), 2), "one_more_most_ms": round(max(times), 2)}


def timed(times: list[float], work: Callable[[], Any]) -> Any:
    began = time.thread_time()
    result = work()
    times.append((time.thread_time() - began) * 1000)
    return result


# the made-up store


def sentences() -> list[str]:
    """Sentences of the standard library's documentation, in a fixed order that mixes its modules."""
    root = Path(sysconfig.get_path("stdlib"))
    found: set[str] = set()
    for file in sorted((*root.glob("*.py"), *root.glob("[a-z]*/*.py"))):
        if not {"site-packages", "test", "idlelib", "lib2to3"} & set(file.parts):
            found.update(_documentation(file.read_text("utf-8", errors="replace")))
    mixed = sorted(found)
    random.Random(7).shuffle(mixed)
    return mixed


def _documentation(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
            for part in re.split(r"(?<=[.!?])\s+|\n\n", ast.get_docstring(node) or ""):
                text = " ".join(part.split())
                if 30 < len(text) < 220:
                    yield text


def embedded(texts: Sequence[str], dims: int) -> tuple[str, Floats]:
    """Vectors of sentences by the packaged English encoder, cut or spread out to `dims` dimensions."""
    encoders = EncoderPair(Encoders())
    encoders.load()
    encoder = next(each for each in encoders.ready_encoders() if each.dims == 384)
    kept = Path(tempfile.gettempdir()) / f"mnemo-bench-{encoder.id}-{len(texts)}.npy"
    if not kept.exists():
        common.progress(f"embedding {len(texts)} sentences, once")
        np.save(kept, encoder.encode(list(texts)))
    made = np.load(kept)
    if dims > made.shape[1]:
        turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(dims, dims)))
        made = made @ turn[: made.shape[1]]
    return encoder.id, unit(made[:, :dims].astype(np.float32))


def unit(vectors: npt.NDArray[np.float32]) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def blended(made: Floats, count: int, chance: np.random.Generator) -> Floats:
    one, two = (made[chance.integers(len(made), size=count)] for _ in range(2))
    share = chance.beta(0.6, 0.6, size=(count, 1)).astype(np.float32)
    level = chance.choice(np.array([0.1, 0.3, 0.6, 1.0], np.float32), size=(count, 1))
    heavy = np.random.default_rng(5).lognormal(sigma=0.6, size=made.shape[1]).astype(np.float32)
    heavy /= np.sqrt((heavy**2).mean())
    noise = chance.standard_normal((count, made.shape[1]), dtype=np.float32) / np.sqrt(made.shape[1])
    noise *= np.where(chance.random((count, 1)) < 0.5, heavy, np.float32(1))
    return unit(share * one + (1 - share) * two + level * noise)


def fill_vectors(
    index: ProfileIndex, encoder: str, made: Floats, rows: int, chance: np.random.Generator
) -> None:
    matrix = index.matrix(encoder, made.shape[1])
    for start in range(0, rows, _CHUNK):
        vectors = blended(made, min(_CHUNK, rows - start), chance)
        scales = np.abs(vectors).max(axis=1) / np.float32(127)
        matrix.fill(start, scales, np.rint(vectors / scales[:, None]).astype(np.int8))


def one_more(number: int, texts: Sequence[str]) -> Memory:
    """A memory as it is just said."""
    now, name = instant(NOW), f"Plover-{number % 7}"
    claim = Claim(texts[number], why=texts[-number - 1], kind=Kind.DECISION, entities=(EntityRef(name),))
    return Memory(
        identity("m", number),
        "personal",
        "",
        claim,
        (Period(now),),
        now,
        now,
        (identity("e", number),),
        began=now,
    )


def questions(texts: Sequence[str], made: Floats, chance: np.random.Generator) -> list[Asked]:
    """Sentences that no memory holds, some cut short, some a little off, a third asked in one project."""
    asked = []
    for number, place in enumerate(chance.choice(HELD_BACK, QUESTIONS, replace=False)):
        words = texts[place].split()[: (6, 12, 30)[number % 3]]
        noise = 0.3 * (number % 2) * chance.standard_normal(made.shape[1]) / np.sqrt(made.shape[1])
        vector = unit((made[place] + noise)[None].astype(np.float32))[0]
        asked.append(
            Asked(" ".join(words), vector, PROJECTS[number % len(PROJECTS)] if number % 3 == 0 else "")
        )
    return asked


def resident() -> float:
    """MiB of this process in RAM."""
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * resource.getpagesize() / 2**20


def conditions() -> dict[str, Any]:
    return {
        "clock": "CPU time of one thread",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    main()
