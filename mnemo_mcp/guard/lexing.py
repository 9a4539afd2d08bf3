"""Taking a text apart into words, numbers, dates, times, identifiers and pauses, in linear time."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from mnemo_mcp.guard.lexicon import simple

_CJK = "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_L = rf"[^\W{_CJK}]"  # a letter, digit or underscore of a script that is written with spaces
# Every repetition is bounded or consumed by the match it is tried for, so no text makes the reading slow.
_TOKEN = re.compile(
    rf"""
    (?P<url>[A-Za-z][A-Za-z0-9+.-]{{1,20}}://[^\s<>"'()]{{1,2000}})
    |(?P<iso>\d{{4}}-\d{{2}}-\d{{2}}(?!\d))
    |(?P<eastern>(?:\d{{4}}\s?[年년]\s?)?\d{{1,2}}\s?[月월](?!間)(?:\s?\d{{1,2}}\s?[日号號일])?)
    |(?P<numeric>\d{{1,2}}[./]\d{{1,2}}[./]\d{{4}}(?!\d))
    |(?P<time>\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?![\d:])|\d{{1,2}}h\d{{2}}(?!{_L}))
    |(?P<path>(?:~|\.{{1,2}})?(?<!{_L})/[A-Za-z0-9_.@-]{{1,200}}(?:/[A-Za-z0-9_.@-]{{1,200}}){{0,50}}
        |~/[A-Za-z0-9_./@-]{{1,2000}}|[A-Za-z]:\\[\w\\.-]{{1,500}}
        |[A-Za-z0-9_@][A-Za-z0-9_.@-]{{0,200}}(?:/[A-Za-z0-9_.@-]{{1,200}}){{1,50}})
    |(?P<flag>(?<!{_L})--?[A-Za-z](?:-?\w){{0,60}})
    |(?P<operator>[<>!=]=|[≤≥≠≈]|[<>](?=\s?\d)|(?<=\s)[<>](?=\s))
    |(?P<sign>(?<![^\s(\[=:])[-−](?=\d))
    |(?P<money>[$€£¥₽])
    |(?P<number>\d{{1,40}}(?:[.,']\d{{1,20}}){{0,8}})(?P<suffix>[^\W\d_{_CJK}]{{0,12}})(?!{_L}|[-_.@:]{_L})
    |(?P<unspaced>[{_CJK}]+)
    |(?P<word>{_L}+(?:[-._:@#'’]{{1,3}}{_L}+)*[+#]{{0,2}})
    |(?P<percent>[%°])
    |(?P<slash>/)
    |(?P<stop>[.!?。！？\n]+)
    |(?P<pause>[,;:()、，；：—–]+)
    """,
    re.VERBOSE,
)
_UNSPACED = re.compile(f"[{_CJK}]")
_ELISION = re.compile(r"['’]")
_HUMPS = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
_PLAIN_PATH = re.compile(r"[A-Za-z]+/[A-Za-z]+")
_VERSION = re.compile(r"[vV](\d+(?:\.\d+)*)")
_PORT = re.compile(r"((?:[\w-]+\.)+[\w-]+|localhost):(\d{2,5})")
_COUNTED = re.compile(r"(\d+(?:\.\d+)?)-([^\W\d_]+)")
_NEGATED = "n't"
_SHORT_FLAG = 2  # characters


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text. `folded` is how it is compared; `initial` whether a sentence begins with it."""

    kind: str
    text: str
    folded: str
    initial: bool = False
    suffix: str = ""


def tokens(text: str) -> list[Token]:
    """The pieces of `text` in order."""
    text = unicodedata.normalize("NFKC", text)
    shouted = text.upper() == text and not _UNSPACED.search(
        text
    )  # where all is capital, capitals tell nothing
    found: list[Token] = []
    initial = True
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup if match.lastgroup != "suffix" else "number")
        piece = match[0].lower() if shouted and kind == "word" else match[0]
        if kind == "number":
            found.append(Token(kind, match["number"], match["number"], initial, match["suffix"]))
        elif kind == "word":
            found += _words(piece, initial)
        elif kind == "path":
            found += _path(piece, initial)
        else:
            exact = kind == "flag" and len(piece) == _SHORT_FLAG  # -v and -V are two options
            found.append(Token(kind, piece, piece if exact else simple(piece), initial))
        initial = kind == "stop" or (initial and kind in ("pause", "percent", "slash"))
    return found


def _path(piece: str, initial: bool) -> list[Token]:
    """`and/or` and `req/s` are words; what has a dot, a sign, a digit or several steps is a path."""
    if not _PLAIN_PATH.fullmatch(piece):
        plain = piece.rstrip("./")
        number, _, unit = plain.partition("/")
        if number.isdigit() and unit.isalpha():
            return [Token("number", number, number, initial), Token("slash", "/", "/"), *_words(unit, False)]
        return [Token("identifier", plain, simple(plain), initial)]
    first, _, second = piece.partition("/")
    return [*_words(first, initial), Token("slash", "/", "/"), *_words(second, False)]


def _words(piece: str, initial: bool) -> list[Token]:
    """A word, or what several words written together amount to."""
    if piece.isalpha():
        return [
            _identifier(piece, initial) if _HUMPS.search(piece) and _mixed(piece) else _word(piece, initial)
        ]
    if found := _elided(piece, initial):
        return found
    if version := _VERSION.fullmatch(piece):
        return [Token("number", version[1], version[1], initial)]
    if counted := _COUNTED.fullmatch(piece):
        return [Token("number", counted[1], counted[1], initial), _word(counted[2], False)]
    if port := _PORT.fullmatch(piece):
        return [_identifier(port[1], initial), Token("number", port[2], port[2])]
    if ":" in piece and "::" not in piece and not piece.startswith(":"):
        first, *rest = piece.split(":")
        pause = Token("pause", ":", ":")
        return [
            *_words(first, initial),
            *(each for part in rest if part for each in (pause, *_words(part, False))),
        ]
    if all(part.isalpha() and not _HUMPS.search(part) for part in piece.split("-")):
        return [Token("joined", piece, simple(piece), initial)]
    return [_identifier(piece, initial)]


def _mixed(piece: str) -> bool:
    """camelCase and PascalCase, but not the plural of an abbreviation (APIs)."""
    return not (piece[-1:] == "s" and piece[:-1].isupper())


def _elided(piece: str, initial: bool) -> list[Token]:
    if not _ELISION.search(piece):
        return []
    plain = piece.replace("’", "'")
    if plain.lower().endswith(_NEGATED):
        return [_word(plain[: -len(_NEGATED)] or "not", initial), Token("word", "not", "not")]
    if plain.lower() in ("can't", "cannot"):
        return [Token("word", "cannot", "cannot")]
    found = [part for part in plain.split("'") if part]
    if len(found) > 1 and found[-1].lower() in ("s", "re", "ve", "ll", "d", "m"):
        found.pop()
    rest = [each for part in found[1:] for each in _words(part, False)]
    return [*(_words(found[0], initial) if found else []), *rest]


def _word(piece: str, initial: bool) -> Token:
    return Token("word", piece, simple(piece), initial)


def _identifier(piece: str, initial: bool) -> Token:
    return Token("identifier", piece, simple(piece), initial)
