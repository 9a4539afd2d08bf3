"""Arguments as models and scripts really send them: read as meant where clear, refused in words elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from mnemo_mcp.capture.payload import clean
from mnemo_mcp.errors import Refused
from mnemo_mcp.memory import EntityRef

Arguments = Mapping[str, Any]

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


def as_object(given: Any) -> dict[str, Any]:
    """The arguments themselves: an object, or a JSON text of one."""
    if isinstance(given, str):
        given = _parsed(given)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Refused("The arguments are not an object.", "Send one JSON object with named arguments.")
    return {str(key): value for key, value in given.items()}


def text(given: Arguments, name: str, *others: str, required: bool = False) -> str:
    """A text argument under its name or another name models guess for it; null counts as left out."""
    value = _first(given, name, *others)
    if value is None:
        value = ""
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    found = clean(str(value))
    if required and not found.strip():
        raise Refused(f"`{name}` is missing or empty.", f"Give `{name}` as a text.")
    return found


def texts(given: Arguments, name: str, *others: str) -> list[str]:
    """A list of texts: a list, a JSON text of one, or a single text."""
    value = _first(given, name, *others)
    if isinstance(value, str):
        value = _parsed(value) if value.strip().startswith("[") else [value]
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused(f"`{name}` is not a list.", f'Give `{name}` as a list of texts like ["..."].')
    return [clean(str(each)) for each in value if each is not None and str(each).strip()]


def number(given: Arguments, name: str) -> int | None:
    """A whole number, also as a text; None when left out."""
    value = given.get(name)
    if value is None or value == "":
        return None
    try:
        return int(float(value))
    except (TypeError, ValueError, OverflowError):
        raise Refused(f"`{name}` is {str(value)[:40]!r}.", f"Give `{name}` as a whole number.") from None


def flag(given: Arguments, name: str, default: bool = False) -> bool:
    """A yes or no, also as a text."""
    value = given.get(name)
    if value is None:
        return default
    word = str(value).strip().lower()
    if word not in _TRUE + _FALSE:
        raise Refused(f"`{name}` is {word[:40]!r}.", f"Give `{name}` as true or false.")
    return word in _TRUE


def entities(given: Arguments) -> list[EntityRef]:
    """Entities as names, or as objects with name, kind and role."""
    value = given.get("entities")
    if isinstance(value, str):
        value = _parsed(value) if value.strip().startswith(("[", "{")) else value.split(",")
    if isinstance(value, dict):
        value = [value]
    if value is None:
        return []
    if not isinstance(value, list):
        raise Refused("`entities` is not a list.", 'Give names like ["Atlas"] or objects with name and kind.')
    return [found for each in value if (found := _entity(each))]


def _entity(value: Any) -> EntityRef | None:
    if isinstance(value, dict):
        name = text(value, "name").strip()
        kind, role = text(value, "kind", "type") or "thing", text(value, "role") or "about"
        return EntityRef(name, kind, role) if name else None
    name = clean(str(value)).strip() if value is not None else ""
    return EntityRef(name) if name else None


def _first(given: Arguments, *names: str) -> Any:
    return next((given[name] for name in names if given.get(name) is not None), None)


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise Refused(f"{value[:40]!r} looks like JSON but is not.", "Send valid JSON.") from None


def one_or_more(given: Arguments, name: str, *others: str) -> Sequence[str]:
    """Ids: at least one."""
    found = texts(given, name, *others)
    if not found:
        raise Refused(f"`{name}` is missing or empty.", "Recall first and pass an id it prints.")
    return found
