"""Checks: what stands against keeping a claim. One function each, and the reason it gives is kept.

They are made after the model has answered and rest on nothing it says of itself, so they hold with any model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mnemo_mcp.distil import speech
from mnemo_mcp.distil.chunks import Chunk
from mnemo_mcp.distil.drafts import Draft
from mnemo_mcp.distil.instructions import restates
from mnemo_mcp.distil.likeness import Likeness, content
from mnemo_mcp.distil.lines import Line
from mnemo_mcp.distil.sources import Source
from mnemo_mcp.distil.support import Support
from mnemo_mcp.guard import repeats
from mnemo_mcp.memory import Kind, Role

_OF_PEOPLE = (Kind.DECISION, Kind.PREFERENCE)
_MACHINES = (Role.TOOL, Role.NOTICE, Role.STEP, Role.SUBAGENT)
_SHORT = 600  # characters of a line that gives an order as a whole
_TOLD = 0.8  # of a claim's words in a note that was recalled
_CONDITION = re.compile(
    r"\b(?:when|whenever|if|unless|because|until|must|always|never|only|due to|root cause|caused)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Background:
    """What is known around a chunk: the notes its session was shown, and the lines of instruction files."""

    recalled: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A claim with what it rests on."""

    draft: Draft
    support: Support
    source: Source
    background: Background

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.draft.entities)

    @property
    def sayings(self) -> str:
        """The whole sentences in which the claim is stated."""
        lines = self.support.stated or self.support.lines
        told = [sentence for line in lines for sentence in speech.sentences(line.text)]
        return "\n".join(each for each in told if any(part in each for part in self.support.said))


def cited_lines(draft: Draft, chunk: Chunk, likeness: Likeness) -> tuple[Line, ...]:
    """The lines a claim rests on: those it cites, one more where only that holds its figures and names.

    A claim that cites no line there is gets those that speak of it, fresh ones, the last three.
    """
    lines = [line for number in draft.numbers if (line := chunk.line(number))]
    if not lines:
        fresh = [line for line in chunk.lines if line.fresh and line.spoken]
        about = [line for line in fresh if any(likeness.alike(draft.what, list(speech.sentences(line.text))))]
        lines = about[-3:]
    names = [each.name for each in draft.entities]
    lacking = Source([line.text for line in lines]).lacks(draft.what, names) if lines else []
    if lacking:
        for line in chunk.lines:
            if (
                line not in lines
                and line.spoken
                and not Source([line.text]).lacks(", ".join(lacking), lacking)
            ):
                lines.append(line)
                break
    return tuple(sorted(lines, key=lambda line: line.number))


def unfounded(case: Case) -> str:
    lacking = case.source.lacks(case.draft.what, case.names)
    return f"its lines do not hold {', '.join(lacking[:4])}" if lacking else ""


def ordered(case: Case) -> str:
    """Nobody but a person tells what is to be kept; texts that try are material."""
    if case.support.by_person or case.support.origin not in _MACHINES:
        return ""
    claim = content(case.draft.what)
    for line in case.support.lines:
        for sentence in speech.sentences(line.text):
            near = len(line.text) <= _SHORT or bool(claim & content(sentence))
            if near and speech.gives_orders(sentence):
                return "it was ordered by a text that is no person's"
    return ""


def without_person(case: Case) -> str:
    if case.support.by_person:
        return ""
    kind, machine = case.draft.kind, case.support.origin in _MACHINES
    if kind is Kind.PREFERENCE or (machine and kind in (Kind.DECISION, Kind.PROCEDURE)):
        return f"a {kind} that no person stated or accepted"
    return ""


def refused(case: Case) -> str:
    return "a person turned it down" if case.support.refused else ""


def floated(case: Case) -> str:
    if not case.support.floated:
        return ""
    if speech.tells_of_proposing(case.draft.what) and case.draft.kind not in _OF_PEOPLE:
        return ""
    return "it was only proposed, asked or considered"


def logged(case: Case) -> str:
    """Work that is over by the next conversation; what holds under a condition is more than that."""
    what = case.draft.what
    if speech.mood(what):
        return "it tells how somebody felt"
    by_rule = case.support.by_person and case.draft.kind in (*_OF_PEOPLE, Kind.PROCEDURE)
    if speech.passing(what) and not by_rule and not _CONDITION.search(what):
        return "it logs work under way"
    return ""


def momentary(case: Case) -> str:
    if case.draft.kind not in (Kind.PREFERENCE, Kind.PROCEDURE):
        return ""
    said = case.sayings
    return "it was said for the moment" if speech.of_the_moment(said) and not speech.lasting(said) else ""


def about_itself(case: Case) -> str:
    return "it tells what the assistant can do" if speech.about_itself(case.draft.what) else ""


def restated(case: Case) -> str:
    line = restates(case.draft.what, case.background.instructions)
    return f"an instruction file says so: {line[:120]}" if line else ""


def recalled(case: Case) -> str:
    """What mnemo told a session is no news from it, unless a person says it again."""
    if case.support.by_person:
        return ""
    claim = content(case.draft.what)
    for note in case.background.recalled:
        covered = len(claim & content(note)) >= _TOLD * len(claim)
        if repeats(case.draft.what, note) or (covered and claim):
            return "mnemo itself had told it"
    return ""


Check = Callable[[Case], str]
CHECKS: Sequence[Check] = (
    unfounded,
    ordered,
    refused,
    floated,
    without_person,
    logged,
    momentary,
    about_itself,
    restated,
    recalled,
)
"""In the order in which they are made; the first that has a reason decides."""
