"""Redaction: secrets are taken out of every text before anything is stored."""

from __future__ import annotations

import re

_SECRET_NAME = (
    r"[\w.-]*(?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key)[\w.-]*"
)
_VALUE = r"(\"[^\"\n]{6,}\"|'[^'\n]{6,}'|[^\s\"',;]{6,})"
_PATTERNS: tuple[tuple[str, re.Pattern[str], int], ...] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
        ),
        0,
    ),
    (
        "token",
        re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9_]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeoprs]-[\w-]{8,}"
            r"|sk-[\w-]{20,}|sk_(?:live|test)_\w{16,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"
            r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{30,})"
        ),
        0,
    ),
    ("access key", re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}\w*"), 0),
    ("web token", re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"), 0),
    ("authorization", re.compile(r"(?i)\b(?:bearer|basic)\s+([\w.~+/=-]{12,})"), 1),
    ("cookie", re.compile(r"(?i)\b(?:set-)?cookie:\s*([^\r\n]+)"), 1),
    ("password in an address", re.compile(r"\b[a-z][\w+.-]*://[^\s/:@]+:([^\s/@]{3,})@"), 1),
    ("secret", re.compile(rf"(?i)\b{_SECRET_NAME}\s*[:=]\s*{_VALUE}"), 1),
)
_CLOUD_SECRET = re.compile(
    r"(?<![\w/+=])(?=[\w/+]*[a-z])(?=[\w/+]*[A-Z])(?=[\w/+]*[0-9])[\w/+]{40,}={0,2}(?![\w/+=])"
)
_PRIVATE = re.compile(r"<private>.*?(?:</private>|\Z)", re.DOTALL | re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]+")


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with a mark in the place of each secret, and what kinds were found.

    Passages between <private> marks go too, an unclosed mark to the end of the text.
    """
    found: dict[str, None] = {}
    if "<private>" in text.lower():
        text, count = _PRIVATE.subn("[private]", text)
        if count:
            found["private passage"] = None
    for kind, pattern, group in _PATTERNS:
        text = _marked(text, kind, pattern, group, found)
    if "access key" in found:
        text = _marked(text, "access key", _CLOUD_SECRET, 0, found)
    return text, tuple(found)


def _marked(text: str, kind: str, pattern: re.Pattern[str], group: int, found: dict[str, None]) -> str:
    def mark(match: re.Match[str]) -> str:
        secret = match[group]
        if kind == "secret" and _harmless(secret):
            return match[0]
        found[kind] = None
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return f"{match[0][:start]}[{kind} left out]{match[0][end:]}"

    return pattern.sub(mark, text)


def _harmless(value: str) -> bool:
    """References and placeholders that stand where a secret might: ${NAME}, $NAME, <name>, none."""
    bare = value.strip("\"'")
    return (
        bare[:1] in ("$", "<", "{", "[")
        or bare.isdigit()
        or (bare.isalpha() and bare.islower())
        or bare in ("None", "True", "False")
    )
