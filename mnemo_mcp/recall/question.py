"""Reading a question by rules: what it says, which words tell something, and whether it asks at all."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mnemo_mcp.words import STOP_WORDS, is_identifier, telling, words

_HEAD, _TAIL = 2_000, 4_000  # characters: pasted logs come first, the question about them last
_MOST_WORDS = 96

_ACKNOWLEDGEMENTS = frozenset(
    words(
        """
        y yes yep yeah ok okay k sure fine good great nice perfect cool thanks thank thx ty please continue go
        ahead next proceed again done right correct agreed exactly lgtm hello hi hey start begin stop wait no
        nope sounds looks look well sure help keep going carry more now
        si sí vale claro bien bueno perfecto gracias adelante sigue siga continua continúa dale hola siguiente
        listo correcto exacto por favor
        oui merci bien parfait continue continuez vas-y allez suivant salut bonjour
        ja nein danke bitte weiter gut genau passt klar hallo los super
        sim obrigado obrigada certo continue segue próximo olá
        sì grazie avanti va bene perfetto ciao prossimo
        да нет спасибо хорошо дальше продолжай ладно привет
        はい いいえ ありがとう 続けて 続けてください 次 お願いします 了解 わかりました おk
        好 好的 是 是的 对 不 继续 請繼續 请继续 繼續 下一个 谢谢 謝謝 可以 行 嗯 你好
        네 예 아니요 계속 계속해 다음 감사합니다 고마워 좋아 안녕
        """
    )
)

_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Question:
    """A question as read. `words` are folded, distinct, without function words."""

    text: str
    words: tuple[str, ...]
    identifiers: tuple[str, ...]
    bare: bool

    @property
    def says_nothing(self) -> bool:
        """Whether no word of it can find anything."""
        return not self.words


def read(text: str) -> Question:
    """Read any text as a question; of a very long one the beginning and the end count."""
    kept = text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    found = telling(kept)
    if len(found) > _MOST_WORDS:
        found = found[: _MOST_WORDS // 3] + found[-2 * _MOST_WORDS // 3 :]
    return Question(kept, tuple(found), tuple(word for word in found if names_one_thing(word)), _bare(kept))


def names_one_thing(word: str) -> bool:
    """Whether a word is exact enough that sharing it says two texts speak of the same thing.

    Error codes, tickets, hashes, paths and snake_case names are; small figures and years are not.
    """
    if word.isdigit():
        return len(word) >= 4 and not (len(word) == 4 and word[:2] in ("19", "20"))
    return len(word) >= 4 and is_identifier(word) and any(letter.isalpha() for letter in word)


def _bare(text: str) -> bool:
    """Acknowledgements, single digits and signs: nothing is asked."""
    found = [word for word in words(text) if not (word.isdigit() and len(word) < 3)]
    return all(word in _ACKNOWLEDGEMENTS or word in STOP_WORDS for word in found) or not _WORD.search(text)
