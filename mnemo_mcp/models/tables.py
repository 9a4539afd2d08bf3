"""Tables of config.toml that describe a model: unknown keys and values of another kind are told by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemo_mcp.errors import SettingsError

_IN_WORDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number that is not negative",
    float: "a number above zero",
    bool: "true or false",
    list: "a list",
    Mapping: "a table of digests by file name",
}


def check_table(where: str, table: Mapping[str, Any], types: Mapping[str, type]) -> None:
    """Raises `SettingsError` for what no entry of `types` allows."""
    for key, value in table.items():
        if key not in types:
            raise SettingsError(
                f"{where}: unknown setting {key!r}.", f"Known are {', '.join(sorted(types))}."
            )
        if not _fits(types[key], value):
            raise SettingsError(f"{where}.{key} is {value!r}.", f"It takes {_IN_WORDS[types[key]]}.")


def _fits(wanted: type, value: Any) -> bool:
    if wanted is int:
        return type(value) is int and value >= 0
    if wanted is float:
        return type(value) in (int, float) and 0 < value < float("inf")
    if wanted is Mapping:
        return isinstance(value, Mapping) and all(
            type(digest) is str and Path(name).name == name for name, digest in value.items()
        )
    return isinstance(value, wanted)
