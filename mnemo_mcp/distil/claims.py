"""Claims: a draft that passed the checks becomes a candidate, with nothing that its lines do not hold."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from mnemo_mcp.distil import speech
from mnemo_mcp.distil.checks import CHECKS, Background, Case, cited_lines
from mnemo_mcp.distil.chunks import Chunk
from mnemo_mcp.distil.dating import Dated, dated
from mnemo_mcp.distil.drafts import Draft
from mnemo_mcp.distil.likeness import Likeness
from mnemo_mcp.distil.lines import Line
from mnemo_mcp.distil.sources import Source
from mnemo_mcp.distil.support import support_of
from mnemo_mcp.judge.candidate import SUPPORT_CHARACTERS, Candidate
from mnemo_mcp.memory import Claim, EntityRef, Kind, Role, instant, moment, same_text
from mnemo_mcp.settings import Distilling

NO_LINES = "it cites no line of this thread"

_BROKEN = re.compile(
    r"\b(?:is|are|was) (?:currently )?(?:down|offline|unavailable|unreachable|broken)\b", re.I
)
_DONE = "Done by the assistant, not decided by a person: "
_ASSISTANTS = frozenset(
    {"assistant", "the assistant", "agent", "the agent", "claude", "codex", "ai", "the ai"}
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of a draft: a candidate, or the reason for none; `mended` says what was taken out of it."""

    draft: Draft
    candidate: Candidate | None
    reason: str
    episodes: tuple[str, ...]
    mended: tuple[str, ...] = ()


def checked(
    draft: Draft, chunk: Chunk, likeness: Likeness, background: Background, constants: Distilling
) -> Checked:
    """Check a draft against the lines of its chunk."""
    cited = cited_lines(draft, chunk, likeness)
    if not cited:
        return Checked(draft, None, NO_LINES, ())
    support = support_of(draft.what, cited, chunk, likeness)
    source = Source([line.text for line in support.lines])
    when = dated(draft.what, draft.when, draft.until, support.lines)
    case = Case(replace(draft, what=when.what), support, source, background)
    episodes = tuple(line.episode.id for line in support.lines)
    for check in CHECKS:
        if reason := check(case):
            return Checked(draft, None, reason, episodes)
    claim, mended = _claim(case, when, likeness)
    return Checked(draft, _candidate(case, claim, when, constants), "", episodes, (*mended, *when.dropped))


def _claim(case: Case, when: Dated, likeness: Likeness) -> tuple[Claim, list[str]]:
    """The claim with only those parts that its lines hold."""
    draft, support = case.draft, case.support
    texts = [line.text for line in support.lines]
    project = support.lines[-1].episode.project
    mended: list[str] = []

    def held(name: str, part: str, holds: bool) -> str:
        if part and not holds:
            mended.append(f"{name}: {part}")
        return part if holds else ""

    kind, what = draft.kind, draft.what
    if kind is Kind.DECISION and not support.by_person:
        kind, what = Kind.FACT, _DONE + what
    elif kind is Kind.FACT and _BROKEN.search(what):
        kind = Kind.STATE
    sentences = [each for text in texts for each in speech.sentences(text)]
    claim = Claim(
        what=what,
        why=held("why", draft.why, _holds(case, draft.why) and likeness.supports(draft.why, sentences)),
        how=held("how", draft.how, _holds(case, draft.how) and likeness.supports(draft.how, sentences)),
        who=_who(case, held("who", draft.who, not case.source.lacks(draft.who, [draft.who]))),
        where=held("where", draft.where, _is_there(case, draft.where, project)),
        when="" if when.assumed else _told(when, support.lines),
        kind=kind,
        entities=_entities(case, project),
    )
    return claim, mended


def _holds(case: Case, part: str) -> bool:
    return not part or not case.source.lacks(part, case.names)


def _is_there(case: Case, where: str, project: str) -> bool:
    if not where or same_text(where) in _of_project(project):
        return True
    return case.source.has_name(where) or not case.source.lacks(where, [where])


def _who(case: Case, who: str) -> str:
    """Who decided: the person who accepted, whoever proposed it."""
    by_person = case.support.by_person and case.draft.kind in (Kind.DECISION, Kind.PREFERENCE)
    if by_person and (not who or same_text(who) in _ASSISTANTS):
        return "the person"
    return who


def _told(when: Dated, lines: Sequence[Line]) -> str:
    """The days a claim holds, as they are where it was said."""
    zone = lines[-1].at.tzinfo
    start = moment(when.start).astimezone(zone)
    end = f" until {moment(when.end).astimezone(zone):%Y-%m-%d}" if when.end else ""
    return f"{start:%Y-%m-%d}{end}"


def _entities(case: Case, project: str) -> tuple[EntityRef, ...]:
    """The entities that the lines name. Where something was said is not what it is about."""
    here = _of_project(project)
    found = []
    for each in case.draft.entities:
        named = case.source.has_name(each.name)
        if same_text(each.name) in here and same_text(each.name) not in same_text(case.draft.what):
            each, named = replace(each, role="where"), True
        if named:
            found.append(each)
    return tuple(found)


def _of_project(project: str) -> frozenset[str]:
    """The names a project goes by."""
    return frozenset(filter(None, (same_text(project), same_text(project.rstrip("/").rpartition("/")[2]))))


def _candidate(case: Case, claim: Claim, when: Dated, constants: Distilling) -> Candidate:
    lines = case.support.lines
    end = when.end
    if claim.kind is Kind.STATE and end is None and _of_the_moment(case, claim):
        end = instant(moment(when.start) + timedelta(days=constants.state_days))
    return Candidate(
        claim=claim,
        episodes=tuple(line.episode.id for line in lines),
        profile=lines[0].episode.profile,
        project=lines[-1].episode.project,
        valid_from=when.start,
        valid_to=end,
        known_at=max(line.episode.recorded_at for line in lines),
        assumed=when.assumed,
        origin=case.support.origin,
        support=_fragments(case),
    )


def _of_the_moment(case: Case, claim: Claim) -> bool:
    return bool(_BROKEN.search(claim.what)) or speech.of_the_moment(case.sayings)


def _fragments(case: Case) -> str:
    """The lines a claim rests on; of long ones the sentences that speak of it."""
    each = SUPPORT_CHARACTERS // len(case.support.lines)
    told = []
    for line in case.support.lines:
        text = line.text
        if len(text) > each:
            near = [
                part for part in speech.sentences(text) if any(said in part for said in case.support.said)
            ]
            text = " ... ".join(near) or text
        told.append(f"{_TELLER.get(line.episode.role, str(line.episode.role))}: {text}"[:each])
    return "\n".join(told)[:SUPPORT_CHARACTERS]


_TELLER = {Role.PERSON: "person", Role.ASSISTANT: "assistant"}
