"""Bounds on what is encoded: cuts by bytes and pieces, alike in every language, before a model sees it."""

from __future__ import annotations

import re
from itertools import islice

QUESTION_BYTES = 256  # about 64 tokens: 256 English letters, 85 Japanese ones
_PIECE = re.compile(r"[A-Z]?[a-z]{1,12}|[A-Z]{1,4}|\d{1,3}|[^\W\d_A-Za-z]{1,12}|[^\w\s]|_")
_WORD_SLACK = 24  # so many letters are given up so that no word is cut in two
_GAP = " … "


def sound(text: str) -> str:
    """`text` as every tokenizer can take it: lone surrogates and NUL become question marks and spaces."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def cut_question(text: str) -> str:
    """About 64 tokens of a question: all of it, or as much of its start as of its end.

    A long prompt often begins with what it is about and ends with what is wanted; logs lie between.
    """
    text = text.strip()
    if len(text) <= QUESTION_BYTES and len(text.encode("utf-8", "replace")) <= QUESTION_BYTES:
        return sound(text)
    half = QUESTION_BYTES // 2
    return sound(_whole_words(_first_bytes(text, half)) + _GAP + _whole_words_at_end(_last_bytes(text, half)))


def cut_document(text: str, most_bytes: int, most_pieces: int) -> str:
    """The start of `text`, at most so many UTF-8 bytes and so many pieces.

    Pieces stand for tokens (parts of words, short numbers, signs), so that neither a page of signs nor
    a language without spaces takes longer than prose of the same budget.
    """
    text = sound(_first_bytes(text.strip(), most_bytes))
    last = next(islice(_PIECE.finditer(text), most_pieces, None), None)
    return text if last is None else text[: last.start()]


def _first_bytes(text: str, most: int) -> str:
    return text[:most].encode("utf-8", "replace")[:most].decode("utf-8", "ignore")


def _last_bytes(text: str, most: int) -> str:
    return text[-most:].encode("utf-8", "replace")[-most:].decode("utf-8", "ignore")


def _whole_words(head: str) -> str:
    gap = max(head.rfind(" ", len(head) - _WORD_SLACK), head.rfind("\n", len(head) - _WORD_SLACK))
    return head[:gap] if gap > 0 else head


def _whole_words_at_end(tail: str) -> str:
    return _whole_words(tail[::-1])[::-1]
