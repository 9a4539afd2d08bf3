"""Support: who stands behind a claim, by what each cited line does: state, ask, propose or refuse.

An assistant's proposal becomes a person's word only by a reply that accepts it, and then both are cited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mnemo_mcp.distil.chunks import Chunk
from mnemo_mcp.distil.likeness import Likeness, content
from mnemo_mcp.distil.lines import Line
from mnemo_mcp.distil.speech import Act, acts, agrees, denies, refuses
from mnemo_mcp.memory import Role
from mnemo_mcp.words import is_identifier, telling

_AUTHORITY = (Role.PERSON, Role.ASSISTANT, Role.SUBAGENT, Role.STEP, Role.NOTICE, Role.TOOL)


@dataclass(frozen=True, slots=True)
class Support:
    """Who stands behind a claim. `stated` gives the lines that state it, `said` the clauses about it.

    `accepted` says that a person said yes to it, `refused` that one said no, `floated` that nobody did more
    than ask, propose or consider it.
    """

    lines: tuple[Line, ...]
    stated: tuple[Line, ...] = ()
    said: tuple[str, ...] = field(default=())
    accepted: bool = False
    refused: bool = False
    floated: bool = False

    @property
    def by_person(self) -> bool:
        return self.accepted or any(line.episode.role is Role.PERSON for line in self.stated)

    @property
    def origin(self) -> Role:
        """The one of most authority behind it; where none states it, the one of most that is cited."""
        if self.accepted:
            return Role.PERSON
        roles = {line.episode.role for line in self.stated or self.lines}
        return next(role for role in _AUTHORITY if role in roles)


def support_of(claim: str, cited: Sequence[Line], chunk: Chunk, likeness: Likeness) -> Support:
    """What stands behind a claim in the lines it cites and in the replies to them."""
    negative = denies(claim)
    seen: dict[int, list[tuple[str, Act]]] = {}
    for line in cited:
        seen[line.number] = _about(claim, line, likeness)
    lines, accepted, refused = list(cited), False, False
    for reply in _replies(cited, chunk):
        asked = chunk.before(reply)
        if asked is None or asked.episode.role is Role.PERSON:
            continue
        about = seen[asked.number] if asked.number in seen else _about(claim, asked, likeness)
        if not about:
            continue
        if refuses(reply.text) and not negative:
            refused = True
        elif (refuses(reply.text) or agrees(reply.text)) and _says_nothing_else(
            reply.text, asked.text, claim
        ):
            accepted = True
            lines += [each for each in (asked, reply) if each not in lines]
    said = [(line, clause, act) for line in cited for clause, act in seen[line.number]]
    stated = [line for line, _, act in said if act is Act.STATES or (act is Act.REFUSES and negative)]
    refused = refused or (
        not negative and not stated and any(act is Act.REFUSES and _person(line) for line, _, act in said)
    )
    return Support(
        tuple(sorted(lines, key=lambda line: line.number)),
        tuple(dict.fromkeys(stated)),
        tuple(clause for _, clause, _ in said),
        accepted,
        refused and not any(map(_person, stated)),
        bool(said) and not stated and not accepted,
    )


def _about(claim: str, line: Line, likeness: Likeness) -> list[tuple[str, Act]]:
    """The clauses of a line that speak of the claim; a yes or no speaks of what it names alone."""
    told = list(acts(line.text, of_person=_person(line)))
    reply = _person(line) and (agrees(line.text) or refuses(line.text))
    near = likeness.alike(claim, [clause for clause, _ in told], by_meaning=not reply)
    return [each for each, alike in zip(told, near, strict=True) if alike]


def _replies(cited: Sequence[Line], chunk: Chunk) -> list[Line]:
    """The person's lines that are cited, or that answer a cited one."""
    found = [line for line in cited if _person(line)]
    for line in chunk.lines:
        before = chunk.before(line)
        if _person(line) and line not in found and before is not None and before in cited:
            found.append(line)
    return found


def _says_nothing_else(reply: str, asked: str, claim: str) -> bool:
    """Whether whatever a reply names by a name or a figure is in what it answers or in the claim."""
    known = content(asked) | content(claim)
    marked = {word for word in telling(reply) if is_identifier(word)}
    capitals = {word.strip(".,;:!?()'\"") for word in reply.split()[1:] if word[:1].isupper()}
    named = marked | {each for word in capitals if len(word) > 1 for each in telling(word)}
    return content(" ".join(named)) <= known


def _person(line: Line) -> bool:
    return line.episode.role is Role.PERSON
