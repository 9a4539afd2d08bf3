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


def _shaped(kind: str, *shapes: str) -> Iterator[_Rule]:
    """Keys that are known by how they begin: each shape is its beginning, a bar, and what follows."""
    for shape in shapes:
        begin, _, rest = shape.partition("|")
        pattern = re.compile(rf"(?<![A-Za-z0-9]){re.escape(begin)}{rest}")
        yield _Rule(kind, (begin.lower(),), pattern)


_RULES = (
    _Rule("private passage", ("<private>",), re.compile(r"(?is)<private>.*?(?:</private>|\Z)")),
    _Rule(
        "private key",
        ("-----begin ",),
        re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z ]*-----|\Z)"),
    ),
    *_shaped("private key", r"AGE-SECRET-KEY-|[A-Z0-9]{20,}"),
    *_shaped("GitHub token", r"github_pat_|\w{20,}"),
    *_shaped("GitHub token", *(rf"gh{kind}_|[A-Za-z0-9_]{{20,}}" for kind in "pousr")),
    *_shaped("GitLab token", r"glpat-|[\w-]{16,}", r"gldt-|[\w-]{16,}", r"glrt-|[\w-]{16,}"),
    *_shaped("Slack token", *(rf"xox{kind}-|[\w-]{{8,}}" for kind in "abeoprs"), r"xapp-|[\w-]{20,}"),
    _Rule(
        "webhook address",
        ("hooks.slack.com/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"),
        re.compile(r"(?i)(?:hooks\.slack\.com/\w+/|discord(?:app)?\.com/api/webhooks/)([\w/-]{16,})"),
        1,
    ),
    *_shaped("API key", r"sk-|[\w-]{20,}", r"SG.|[\w-]{16,}\.[\w-]{16,}"),
    *_shaped("API key", r"lin_api_|\w{20,}", r"ntn_|\w{30,}"),
    *_shaped("Stripe key", *(rf"{name}_|\w{{16,}}" for name in ("sk_live", "sk_test", "rk_live", "rk_test"))),
    *_shaped("Stripe key", r"whsec_|\w{20,}"),
    *_shaped("package registry token", r"npm_|[A-Za-z0-9]{30,}", r"pypi-|[\w-]{30,}"),
    *_shaped("package registry token", r"dckr_pat_|[\w-]{16,}"),
    *_shaped("Google key", r"AIza|[\w-]{30,}", r"GOCSPX-|[\w-]{20,}", r"ya29.|[\w-]{20,}"),
    *_shaped("Hugging Face token", r"hf_|[A-Za-z0-9]{30,}"),
    *_shaped("cloud token", r"dop_v1_|[a-f0-9]{32,}", r"hvs.|[\w-]{20,}", r"dapi|[a-f0-9]{32}(?!\w)"),
    *_shaped("cloud token", r"shpat_|[a-fA-F0-9]{32}", r"ATATT3|[\w=-]{30,}", r"glsa_|\w{30,}"),
    _Rule(
        "AWS key",
        ("akia", "asia", "agpa", "aida", "aroa"),
        re.compile(r"\b(?:AKIA|ASIA|AGPA|AIDA|AROA)[A-Z0-9]{12,}\w*"),
    ),
    _Rule("JWT", ("eyj",), re.compile(r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*")),
    _Rule(
        "authorization header",
        ("bearer", "basic"),
        re.compile(r"(?i)\b(?:bearer|basic)\s+([\w.~+/=-]{12,})"),
        1,
    ),
    _Rule(
        "authorization header",
        ("authorization",),
        re.compile(
            r"(?i)authorization[\"']?\s*[:=]\s*[\"']?(?:\w{3,12}\s+)?((?=[^\s\"',;]{0,80}\d)[^\s\"',;\[]{12,})"
            r""
        ),
        1,
    ),
    _Rule("cookie", ("cookie:",), re.compile(r"(?i)cookie:\s*([^\r\n]+)"), 1),
    _Rule("password in an address", ("://",), re.compile(r"(?<=\w)://[^\s/:@]*:([^\s/@]{3,})@"), 1),
    _Rule(
        "password",
        ("-u ", "--user "),
        re.compile(r"(?<!\S)(?:-u|--user) [^\s:]{1,80}:([^\s:'\"\[][^\s:'\"]{3,})"),
        1,
    ),
    _Rule(
        "signature",
        ("sig=", "signature="),
        re.compile(r"(?i)(?<=[?&])(?:sig|signature)=([\w%+/=-]{20,})"),
        1,
    ),
    _Rule(
        "secret",
        (
            "password", "passwd", "passphrase", "pwd", "secret", "token", "api", "access", "private",
            "account", "credential",
        ),
        re.compile(
            r"(?i)(?:password|passwd|passphrase|pwd|secret|token|credentials?|(?:api|access|private"
            r"|account)[_-]?key)"
            rf"[\w.-]{{0,64}}[\"']?\s*[:=]\s*{_VALUE}"
        ),
        1,
    ),
    _Rule(
        "secret",
        ("_key=", "_pass=", "_auth=", "_dsn=", "_salt="),
        re.compile(rf"(?<=[A-Z0-9])_(?:KEY|PASS|AUTH|DSN|SALT)={_VALUE}"),
        1,
    ),
)  # fmt: skip
_CLOUD_SECRET = re.compile(
    r"(?<![\w/+=])(?=[\w/+]*[a-z])(?=[\w/+]*[A-Z])(?=[\w/+]*[0-9])[\w/+]{40,}={0,2}(?![\w/+=])"
)

_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[\[(]|[A-Za-z_]+(?:\.[A-Za-z_]+)+$")


def redact(text: str) -> tuple[str, tuple[str, ...]]:
    """`text` with a mark in the place of each secret, and what kinds were found.

    Passages between <private> marks go too, an unclosed mark to the end of the text.
    """
    found: list[str] = []
    lower = _lowered(text)
    for rule in _RULES:
        if any(begin in lower for begin in rule.begins):
            marked = _marked(text, lower, rule)
            if marked != text:
                text, lower = marked, _lowered(marked)
                found.append(rule.kind)
    if "AWS key" in found:
        text = _CLOUD_SECRET.sub(_mark("AWS key"), text)
    return text, tuple(dict.fromkeys(found))


def _marked(text: str, lower: str, rule: _Rule) -> str:
    kept: list[str] = []
    done = 0
    for place in _places(lower, rule.begins):
        match = rule.pattern.match(text, place) if place >= done else None
        if match and not (rule.kind == "secret" and _harmless(match[1])):
            start, end = match.span(rule.group)
            kept += text[done:start], _mark(rule.kind)
            done = end
    return "".join((*kept, text[done:]))


def _mark(kind: str) -> str:
    return "[private]" if kind == "private passage" else f"[redacted: {kind}]"


def _lowered(text: str) -> str:
    return text.replace("İ", "I").lower()  # the one letter whose lower case is longer


def _places(lower: str, begins: tuple[str, ...]) -> list[int]:
    """Where one of `begins` stands, in order."""
    return sorted(place for begin in begins for place in _finds(lower, begin))


def _finds(text: str, part: str) -> Iterator[int]:
    place = text.find(part)
    while place >= 0:
        yield place
        place = text.find(part, place + 1)


def _harmless(value: str) -> bool:
    """What stands where a secret might: ${NAME}, $NAME, <name>, none, os.environ["NAME"],"
    " read_token(file)."""
    bare = value.strip("\"'")
    if _CODE.match(value):
        return True
    return (
        bare[:1] in ("$", "<", "{", "[")
        or bare.isdigit()
        or (bare.isalpha() and bare.islower())
        or bare in ("None", "True", "False")
    )
