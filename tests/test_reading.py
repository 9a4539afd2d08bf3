"""What language models write for JSON is read as it is meant, and nothing is made up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from language_models import MEMORIES

from mnemo_mcp.models.reading import read_json, without_loop, without_thoughts

ONE = {"memories": [{"what": "The gateway listens on port 8443"}]}
PLAIN = json.dumps(ONE)
ITEM = json.dumps(ONE["memories"][0])


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"```json\n{PLAIN}\n```",
        f"```\n{PLAIN}\n```\nThat is all.",
        f"Sure! Here it is:\n{PLAIN}\nHope this helps.",
        f"The set {{A}} and [1] were discussed. {PLAIN}",
        f'<think>The user says... {{"memories": [{{"what": "wrong"}}]}} {{not json}}</think>\n{PLAIN}',
        f"{{not json}}</think>{PLAIN}",
        '{"memories": [{"what": "The gateway listens on port 8443",},]}',
        '{"memories": [{"what": "The gateway listens on port 8443"}] // one\n}',
        '{memories: [{what: "The gateway listens on port 8443"}]}',
        f"[{ITEM}]",
        ITEM,
        json.dumps({"memories": ONE["memories"][0]}),
        json.dumps({"memories": ONE["memories"] * 400}),
        f"{PLAIN}\n{PLAIN}",
    ],
)
def test_nearly_json_is_read(text: str) -> None:
    read = read_json(without_thoughts(text), MEMORIES)
    assert read is not None and read.whole
    assert read.value == ONE


def test_what_is_written_in_a_text_stays_as_it_is() -> None:
    for what in (
        "line one\nline two",
        "C:\\temp\\x",
        'say "no", [not] {never}',
        "// no comment",
        "ünï 王小明",
    ):
        text = json.dumps({"memories": [{"what": what}]}, ensure_ascii=False)
        read = read_json(text.replace("\\n", "\n"), MEMORIES)
        assert read is not None and read.value == {"memories": [{"what": what}]}


def test_an_escape_json_does_not_know_is_kept_as_letters() -> None:
    read = read_json(r'{"memories": [{"what": "in C:\projects\d"}]}', MEMORIES)
    assert read is not None and read.value["memories"][0]["what"] == r"in C:\projects\d"


def test_zeros_before_a_number_are_kept() -> None:
    read = read_json('{"order": 044, "other": 44}')
    assert read is not None and read.value == {"order": "044", "other": 44}


@pytest.mark.parametrize(
    "rest", ['{"what": "The dead', '{"what": "The deadline", "why": ', "{", "", '{"what"']
)
def test_of_a_broken_off_list_whole_elements_are_kept(rest: str) -> None:
    text = '{"memories": [{"what": "A"}, {"what": "B"}, ' + rest
    read = read_json(text, MEMORIES)
    assert read is not None and not read.whole
    assert read.value == {"memories": [{"what": "A"}, {"what": "B"}]}


@pytest.mark.parametrize(
    "text", ['{"memories": [{"what": "The dead', "I cannot do that.", "", "{}", '{"error": "no"}', "[", "nul"]
)
def test_nothing_usable_is_none(text: str) -> None:
    assert read_json(text, MEMORIES) is None


def test_an_empty_list_is_an_answer() -> None:
    for text in ('{"memories": []}', "[]", "```json\n[]\n```"):
        read = read_json(text, MEMORIES)
        assert read is not None and read.whole and read.value == {"memories": []}


def test_thoughts_without_an_end_leave_nothing() -> None:
    assert without_thoughts(f"<think>Let me see: {PLAIN}") == ""


def test_endless_nesting_ends() -> None:
    assert read_json("[" * 100_000, MEMORIES) is None
    assert read_json('{"a":' * 100_000) is None


def test_loops_are_cut_to_one() -> None:
    line = "- The gateway listens on port 8443.\n"
    cut, looped = without_loop("Notes:\n" + line * 300)
    assert (cut.strip(), looped) == (f"Notes:\n{line}".strip(), True)
    entity = ITEM + ", "
    cut, looped = without_loop('{"memories": [' + entity * 50 + entity[:17])
    assert looped
    read = read_json(cut, MEMORIES)
    assert read is not None and read.value == ONE


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200,
        "=" * 120,
        json.dumps({"memories": [{"what": f"Service {number} listens on {number}"} for number in range(99)]}),
        "no no no no no no",
    ],
)
def test_what_only_looks_like_a_loop_is_left(text: str) -> None:
    assert without_loop(text) == (text, False)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(value=st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4))
def test_sound_json_is_read_as_any_reader_does(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        read = read_json(text)
        assert read is not None and read.whole and read.value == value


lists = st.lists(st.text(), max_size=5, unique=True).map(lambda texts: [{"what": each} for each in texts])


@given(items=lists, share=st.floats(0, 1))
def test_a_text_cut_anywhere_gives_a_beginning_of_its_list(items: list[dict[str, str]], share: float) -> None:
    text = json.dumps({"memories": items})
    read = read_json(text[: int(len(text) * share)], MEMORIES)
    if read is not None:
        found = read.value["memories"]
        assert found == items[: len(found)]
