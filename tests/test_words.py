"""Texts of any language taken apart: spellings meet, identifiers stay whole, unspaced scripts pair up."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_mcp.words import STOP_WORDS, fold, is_identifier, telling, words

LATIN = st.text("abcdefgh áéíóúüñçàèâêôïößœ", max_size=40)
CJK = st.text("日本語のデプロイは木曜日适者生存飞书插件결제서비스큐를쓴다", min_size=2, max_size=12)
NAME = st.text(string.ascii_lowercase, min_size=2, max_size=8)
ANY = st.text(st.characters(exclude_categories=()), max_size=200)


@given(ANY)
def test_any_text_has_words_without_signs_of_case_or_accent(text: str) -> None:
    for word in words(text):
        assert word
        assert not any(letter.isspace() for letter in word)
        assert word == word.casefold()


@given(ANY)
def test_telling_words_are_distinct_and_tell_something(text: str) -> None:
    found = telling(text)
    assert len(found) == len(set(found))
    assert not STOP_WORDS & set(found)
    assert set(found) <= set(words(text))


@given(ANY)
def test_composed_and_decomposed_texts_have_the_same_words(text: str) -> None:
    forms = {form: words(unicodedata.normalize(form, text)) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    assert all(found == forms["NFC"] for found in forms.values())


@given(LATIN)
def test_accents_may_be_left_out(text: str) -> None:
    assert words(fold(text)) == words(text)


@given(LATIN)
def test_case_makes_no_difference_to_plain_words(text: str) -> None:
    assert words(text.upper()) == words(text.upper().lower())


@given(CJK)
def test_scripts_without_spaces_are_read_as_overlapping_pairs(text: str) -> None:
    assert words(text) == [text[at : at + 2] for at in range(len(text) - 1)]


@given(CJK, st.integers(0, 9), st.integers(2, 6))
def test_a_part_of_an_unspaced_phrase_meets_the_phrase(text: str, start: int, size: int) -> None:
    part = text[start : start + size]
    if len(part) > 1:
        assert set(words(part)) <= set(words(text))


@given(NAME, NAME, st.sampled_from("_-./:@\\"), st.integers(0, 99_999))
def test_a_compound_is_kept_whole_beside_its_parts(left: str, right: str, sign: str, number: int) -> None:
    compound = f"{left}{sign}{right}{number}"
    found = words(f"see {compound}, then go")
    assert found[0] == "see"
    assert found[1] == compound
    assert f"{right}{number}" in found
    assert is_identifier(compound)


@given(st.lists(NAME.map(str.capitalize), min_size=2, max_size=4))
def test_humps_are_parts(parts: list[str]) -> None:
    found = words("".join(parts))
    assert found[0] == "".join(parts).lower()
    singular = [words(part)[0] for part in parts]
    assert [word for word in found[1:] if word in singular] == list(dict.fromkeys(singular))


@given(ANY, ANY)
def test_words_of_two_lines_are_those_of_each(first: str, second: str) -> None:
    assert words(f"{first}\n{second}") == words(first) + words(second)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("--error-on-warnings", {"error-on-warnings", "error", "warning"}),
        ("Disk does 3.2 GB/s", {"3.2", "gb/s"}),
        ("src/lib/db/index.ts", {"src/lib/db/index.ts", "index", "db"}),
        ("Don't", {"dont"}),
        ("Don’t", {"dont"}),
        ("C++ and C#", {"c++", "c#"}),
        ("100% of it costs $5", {"100%", "$5"}),
        ("parseInvoiceV2", {"parseinvoicev2", "parse", "invoice", "v2"}),
        ("HTTPServerError", {"http", "server", "error"}),
        ("KeyError: 'sub_total'", {"keyerror", "sub_total"}),
        ("Full width ＳＱＬ, ﬁle.txt", {"sql", "file.txt"}),
        ("wg0 has MTU 1420", {"wg0", "1420"}),
        ("OPS-1187", {"ops-1187", "1187"}),
        ("10.0.0.1:8080", {"10.0.0.1:8080"}),
        ("hunting for queries", {"query"}),
        ("Größe, Straße", {"grosse", "strasse"}),
        ("Ёлка", {"елка"}),
        ("مُحَمَّد", {"محمد"}),
        ("שָׁלוֹם", {"שלום"}),
        ("नमस्ते_दुनिया", {"नमस्ते", "दुनिया"}),
        ("NATSを使う", {"nat", "使う"}),
    ],
)
def test_what_a_text_is_found_by(text: str, held: set[str]) -> None:
    assert held <= set(words(text))


def test_a_word_of_marks_and_letters_is_not_cut_at_its_marks() -> None:
    assert words("हिन्दी") == ["हिन्दी"]
    assert words("ไทย") == ["ไทย"]


def test_function_words_tell_nothing_in_whatever_form() -> None:
    assert telling("How does this use those? Dans quels, sans elles; los cuales, nosotros und das") == []


def test_plain_words_are_no_identifiers() -> None:
    assert not any(map(is_identifier, ("gateway", "日本", "naive")))
    assert all(map(is_identifier, ("e4312", "sub_total", "a/b", "v2.1", "x@y")))
