"""Redaction: secrets are taken out of every text before anything is stored.

Texts can be whole logs of many megabytes, and a hook waits: a pattern is tried only where a word it must
begin with stands, and none may look far ahead from each of many such places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Rule:
    """A kind of secret. `begins` are the lower-case beginnings of all that `pattern` matches."""

    kind: str
    begins: tuple[str, ...]
    pattern: re.Pattern[str]
    group: int = 0


_VALUE = r"(\"[^\"\n]{6,}\"|'[^'\n]{6,}'|[^\s\"',;]{6,})"
_RULES = (
    _Rule("private passage", ("<private>",), re.compile(r"(?is)<private>.*?(?:</private>|\Z)")),
    _Rule(
        "private key",
        ("-----begin ",),
        re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    ),
    _Rule(
        "token",
        ("gh", "glpat-", "xox", "sk-", "sk_", "npm_", "pypi-", "aiza", "hf_"),
        re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9_]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{8,}"
            r"|sk-[\w-]{20,}|sk_(?:live|test)_\w{16,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"
            r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{30,})"
        ),
    ),
    _Rule(
        "access key",
        ("akia", "asia", "agpa", "aida", "aroa"),
        re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}\w*"),
    ),
    _Rule("web token", ("eyj",), re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*")),
    _Rule(
        "authorization",
        ("bearer", "basic"),
        re.compile(r"(?i)\b(?:bearer|basic)\s+([\w.~+/=-]{12,})"),
        1,
    ),
    _Rule("cookie", ("cookie:",), re.compile(r"(?i)cookie:\s*([^\r\n]+)"), 1),
    _Rule("password in an address", ("://",), re.compile(r"(?<=\w)://[^\s/:@]+:([^\s/@]{3,})@"), 1),
    _Rule(
        "secret",
        ("password", "passwd", "pwd", "secret", "token", "api", "access", "private"),
        re.compile(
            r"(?i)(?:password|passwd|pwd|secret|token|(?:api|access|private)[_-]?key)"
            rf"[\w.-]{{0,64}}[\"']?\s*[:=]\s*{_VALUE}"
        ),
        1,
    ),
)
_CLOUD_SECRET = re.compile(
    r"(?<![\w/+=])(?=[\w/+]*[a-z])(?=[\w/+]*[A-Z])(?=[\w/+]*[0-9])[\w/+]{40,}={0,2}(?![\w/+=])"
)


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with a mark in the place of each secret, and what kinds were found.

    Passages between <private> marks go too, an unclosed mark to the end of the text.
    """
    found: list[str] = []
    for rule in _RULES:
        marked = _marked(text, rule)
        if marked != text:
            text = marked
            found.append(rule.kind)
    if "access key" in found:
        text = _CLOUD_SECRET.sub(_mark("access key"), text)
    return text, tuple(found)


def _marked(text: str, rule: _Rule) -> str:
    kept: list[str] = []
    done = 0
    for place in _places(text, rule.begins):
        match = rule.pattern.match(text, place) if place >= done else None
        if match and not (rule.kind == "secret" and _harmless(match[1])):
            start, end = match.span(rule.group)
            kept += text[done:start], _mark(rule.kind)
            done = end
    return "".join((*kept, text[done:]))


def _mark(kind: str) -> str:
    return "[private]" if kind == "private passage" else f"[{kind} left out]"


def _places(text: str, begins: tuple[str, ...]) -> list[int]:
    """Where one of `begins` stands in whatever case, in order."""
    lower = text.replace("İ", "I").lower()  # the one letter whose lower case is longer
    return sorted(place for begin in begins for place in _finds(lower, begin))


def _finds(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


def _harmless(value: str) -> bool:
    """References and placeholders that stand where a secret might: ${NAME}, $NAME, <name>, none."""
    bare = value.strip("\"'")
    return (
        bare[:1] in ("$", "<", "{", "[")
        or bare.isdigit()
        or (bare.isalpha() and bare.islower())
        or bare in ("None", "True", "False")
    )
