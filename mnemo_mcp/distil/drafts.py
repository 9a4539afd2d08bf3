"""Drafts: what a model answered, element by element, read as far as it can be."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mnemo_mcp.capture.redaction import redact
from mnemo_mcp.distil.prompt import ENTITY_KINDS, ENTITY_ROLES
from mnemo_mcp.inject.render import one_line
from mnemo_mcp.memory import EntityRef, Kind, same_text

_LONGEST = {"what": 600, "why": 400, "how": 600, "who": 160, "where": 160, "when": 120, "until": 120}
_MOST_ENTITIES = 12
_NOTHING = frozenset(
    {"", "none", "null", "n/a", "na", "unknown", "not stated", "not specified", "unspecified"}
)
_FIGURES = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Draft:
    """One claim as a model gave it. `numbers` are the lines it cites, as far as they are numbers."""

    what: str
    why: str = ""
    how: str = ""
    who: str = ""
    where: str = ""
    when: str = ""
    until: str = ""
    kind: Kind = Kind.FACT
    entities: tuple[EntityRef, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """All that it claims, as one text."""
        return " ".join(part for part in (self.what, self.why, self.how) if part)


def drafts(elements: Iterable[Any], most: int) -> list[Draft]:
    """The distinct claims in an answer, at most so many. An element without a `what` is none."""
    found: dict[str, Draft] = {}
    for element in elements:
        if isinstance(element, Mapping) and (draft := _draft(element)).what:
            found.setdefault(same_text(draft.what), draft)
    return list(found.values())[:most]


def _draft(element: Mapping[str, Any]) -> Draft:
    parts = {name: _part(element.get(name), most) for name, most in _LONGEST.items()}
    return Draft(
        **parts,
        kind=_kind(element.get("kind")),
        entities=_entities(element.get("entities")),
        numbers=_numbers(element.get("episodes", element.get("sources"))),
    )


def _part(value: Any, most: int) -> str:
    """A text on one line, secrets out. What is far too long for its part is no such part."""
    text = redact(one_line(value))[0].strip() if isinstance(value, str) else ""
    return "" if text.casefold().strip(" .-") in _NOTHING or len(text) > most else text


def _kind(value: Any) -> Kind:
    name = str(value).strip().lower()
    return Kind(name) if name in set(Kind) else Kind.FACT


def _entities(value: Any) -> tuple[EntityRef, ...]:
    found: dict[tuple[str, str], EntityRef] = {}
    for each in value if isinstance(value, Sequence) and not isinstance(value, str) else ():
        given = each if isinstance(each, Mapping) else {"name": each}
        name = _part(given.get("name"), 120)
        kind, role = (str(given.get(part, "")).strip().lower() for part in ("kind", "role"))
        if name:
            entity = EntityRef(
                name, kind if kind in ENTITY_KINDS else "thing", role if role in ENTITY_ROLES else "about"
            )
            found.setdefault((same_text(name), entity.kind), entity)
    return tuple(found.values())[:_MOST_ENTITIES]


def _numbers(value: Any) -> tuple[int, ...]:
    """Numbers however they are written: 3, "3", "[3]", "3, 4"."""
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    found = (int(number) for each in given if each is not None for number in _FIGURES.findall(str(each))[:8])
    return tuple(dict.fromkeys(number for number in found if number < 1_000_000))
