"""Neighbours: the few live memories a candidate may say again, replace or contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mnemo_mcp.errors import ModelError
from mnemo_mcp.index.arrays import Floats, Mask
from mnemo_mcp.index.entities import named_in
from mnemo_mcp.index.index import Index
from mnemo_mcp.index.postings import EVEN
from mnemo_mcp.index.profile import ProfileIndex, Scope
from mnemo_mcp.judge.candidate import Candidate
from mnemo_mcp.ledger.store import Store
from mnemo_mcp.memory import Instant, Memory, Status, same_text
from mnemo_mcp.models.registry import EncoderPair
from mnemo_mcp.search.embedding import CachedEmbedding
from mnemo_mcp.settings import Judging
from mnemo_mcp.words import telling

_MOST_WORDS = 48


class Neighbourhood:
    """Finds neighbours behind a profile's wall, in the candidate's project or none, true now or later."""

    def __init__(self, store: Store, index: Index, encoders: EncoderPair, constants: Judging) -> None:
        self._index = index
        self._encoders = encoders
        self._embedding = CachedEmbedding(store.vectors)
        self._constants = constants

    def of(self, candidate: Candidate, now: Instant, without: Iterable[str] = ()) -> list[Memory]:
        """Up to `neighbours` memories: the nearest by meaning, by words, then by entities in common.

        A candidate that is a memory already is compared with those known by its own time; later ones are
        compared with it in their turn.
        """
        index, constants = self._index.profile(candidate.profile), self._constants
        text = candidate.claim.text()
        meaning = self._meaning(text)
        with index.lock:
            allowed = _allowed(index, candidate, now, without)
            rows: dict[int, None] = {}
            if meaning is not None and meaning[0] in index.matrices:
                near, _ = index.matrices[meaning[0]].nearest(meaning[1], allowed, constants.by_meaning)
                rows |= dict.fromkeys(map(int, near))
            words = telling(text)[:_MOST_WORDS]
            if words:
                depth = len(rows) + constants.by_words
                found, _ = index.postings.search(words, EVEN, allowed, depth)
                fresh = [int(row) for row in found if int(row) not in rows]
                rows |= dict.fromkeys(fresh[: constants.by_words])
            rows |= dict.fromkeys(_sharing(index, candidate, allowed))
            return [index.memory(row) for row in list(rows)[: constants.neighbours]]

    def _meaning(self, text: str) -> tuple[str, Floats] | None:
        """The text's vector by the encoder that reads its language; None while no encoder is ready."""
        encoder = self._encoders.for_question(text)
        if encoder is None:
            return None
        try:
            return encoder.id, self._embedding.get(encoder, [text])[0]
        except ModelError:
            return None


def _allowed(index: ProfileIndex, candidate: Candidate, now: Instant, without: Iterable[str]) -> Mask:
    states = index.states
    live = states.having(now, Status.CURRENT) | states.having(now, Status.FUTURE)
    allowed = live & index.inside(Scope(projects=frozenset({candidate.project})))
    for name in (*without, candidate.memory):
        if (row := index.row(name)) is not None:
            allowed[row] = False
    return allowed & states.known_by(candidate.known_at) if candidate.memory else allowed


def _sharing(index: ProfileIndex, candidate: Candidate, allowed: Mask) -> list[int]:
    """The allowed rows that name entities the candidate names, those in common with most first."""
    counts: Counter[int] = Counter()
    for name in {same_text(each.name) for each in named_in(candidate.claim)}:
        rows = index.entities.rows_of(name)
        counts.update(rows[allowed[rows]].tolist())
    return [row for row, _ in sorted(counts.items(), key=lambda each: (-each[1], -each[0]))]
