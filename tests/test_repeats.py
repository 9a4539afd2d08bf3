"""Near-exact repeats confirm instead of adding, and only where nothing that matters was changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemo_mcp.guard import repeats
from mnemo_mcp.service import Service
from tests import desk
from tests.test_guard import APART, TEXTS


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with desk.opened(Path(tmp_path_factory.mktemp("repeats")) / "data") as opened:
        yield opened


REPEATED = (
    ("The gateway timeout is 600 s.", "Gateway timeout: 600 seconds."),
    ("Deploys happen on Thursdays.", "We deploy every Thursday."),
    ("Uploads stop at 1.5 GB.", "uploads STOP at 1536 MB"),
    ("The wiki runs on PostgreSQL.", "The wiki runs on Postgres."),
)
APART_ALL = (
    ("The load balancer cuts at 120 s.", "The load balancer cuts at 600 s."),
    ("API listens on port 8080.", "API listens on port 8081."),
    ("We run Postgres 15.4.", "We run Postgres 15.14."),
    ("Well mw-2 is sampled monthly.", "Well mw-3 is sampled monthly."),
    ("Task order 044 is closed.", "Task order 44 is closed."),
    ("Kestrel sends events to Quill.", "Quill sends events to Kestrel."),
    ("Trial accounts are deleted.", "Trial accounts are removed."),
)


@pytest.mark.parametrize(("first", "second"), REPEATED)
def test_the_same_words_confirm(service: Service, first: str, second: str) -> None:
    known = service.remember(first, at="2026-09-01")
    again = service.remember(second, at="2026-09-02")
    assert (known.outcome, again.outcome, again.id) == ("added", "confirmed", known.id)


@pytest.mark.parametrize(("first", "second"), APART_ALL)
def test_in_doubt_both_stay(service: Service, first: str, second: str) -> None:
    known = service.remember(first, at="2026-09-01")
    other = service.remember(second, at="2026-09-02")
    assert other.outcome == "added" and other.id != known.id


def test_another_reason_is_another_memory(service: Service) -> None:
    service.remember("Quill is written in Rust.", why="It is fast.", at="2026-09-01")
    again = service.remember("Quill is written in rust.", why="It is safe.", at="2026-09-02")
    assert again.outcome == "added"


@pytest.mark.parametrize(("one", "other"), [each[1:] for each in APART])
def test_nothing_that_differs_is_a_repeat(one: str, other: str) -> None:
    assert not repeats(one, other)


GUARDED = ("120 s", "8081", "v1.2", "OPS-1187", "parse_order", "not", "never", "Kenji", "staging", "only")


@given(st.sampled_from(TEXTS), st.integers(0, 40), st.sampled_from(GUARDED))
def test_a_guarded_word_more_is_never_a_repeat(text: str, place: int, word: str) -> None:
    words = text.split(" ")
    place %= len(words)
    if word.split(" ")[0] in text or not text.isascii():
        return
    assert not repeats(text, " ".join([*words[:place], word, *words[place:]]))


DIGIT = re.compile(r"\d")


@given(st.sampled_from([text for text in TEXTS if DIGIT.search(text)]), st.data())
def test_a_digit_changed_is_never_a_repeat(text: str, data: st.DataObject) -> None:
    at = data.draw(st.sampled_from([match.start() for match in DIGIT.finditer(text)]))
    digit = data.draw(st.sampled_from([each for each in "0123456789" if each != text[at]]))
    assert not repeats(text, text[:at] + digit + text[at + 1 :])


@given(st.sampled_from([text for text in TEXTS if " " in text]), st.data())
def test_a_word_left_out_or_exchanged_is_never_a_repeat_by_its_content(
    text: str, data: st.DataObject
) -> None:
    words = text.split(" ")
    place = data.draw(st.integers(0, len(words) - 1))
    other = data.draw(st.sampled_from(("zebra", "Marlin", "42", "never", "eu-west-9")))
    changed = [*words[:place], other, *words[place + 1 :]]
    assert words[place].casefold() == other or not repeats(text, " ".join(changed))
