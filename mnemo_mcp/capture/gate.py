"""The gate before distilling: whether a text holds anything that could last, by its words, never its length.

It decides over texts alone, so the same episodes give the same verdicts after a restart. What it refuses
stays stored as an episode and can be found; it is only not distilled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mnemo_mcp.guard import repeats
from mnemo_mcp.words import ACKNOWLEDGEMENTS, STOP_WORDS, is_identifier, words

_WINDOW = 50  # accepted texts that a new one may repeat
_LIKE_ENOUGH = (
    0.3  # of the words of the shorter; a text less alike repeats nothing and need not be compared closely
)
_LONGEST_REPLY = 400  # characters; a longer text says something
_FEWEST_DIGITS = 3  # of a bare figure that is more than a choice from a list

# What is asked of an assistant every day and says nothing that lasts.
_CHORES = frozenset(
    words(
        """
        run rerun test tests testing check try retry fix fixes it build commit push pull merge rebase
        deploy lint
        format debug explain show see read open close write code file files look again help me tell
        think know
        understand mean problem problems worries error errors failing failed work works working change
        changes
        that's thats good job well thank great awesome amazing lovely brilliant cheers welcome morning
        afternoon
        evening night day bye goodbye later everyone there clean up clear compact undo redo revert
        finish finished
        complete summarize summary status update progress ready idea ideas question questions answer
        thing things you're i'm it's we're
        something anything everything need want lets let's got get give review first another one time
        bit little
        ejecuta ejecutar corre correr pasa las pruebas test arregla arréglalo prueba otra vez ayuda
        ayúdame puedes
        explica explícame muestra muéstrame entiendo entendido problema buenos días buenas tardes noches
        muchas
        qué opinas piensas hacemos haz hazlo hecho eso
        lance lancer exécute les tests corrige corrige-le essaie encore aide aide-moi peux-tu explique
        montre
        compris problème bonsoir bonne nuit beaucoup penses d'accord fais-le c'est bon
        führe tests aus starte teste testen behebe beheb reparier probier nochmal hilf mir kannst du
        erkläre zeig
        verstanden problem guten morgen tag abend vielen dank denkst mach mache das bitte einverstanden
        rode roda execute os testes corrija conserta tenta novamente ajuda ajude-me explique mostre
        entendi bom dia
        boa tarde noite muito acha faz faça isso
        esegui lancia i test correggi riprova aiutami spiega mostra capito buongiorno buonasera molte
        mille pensi
        fallo d'accordo puoi
        запусти запустить тесты тест исправь попробуй ещё раз помоги мне объясни покажи понял поняла
        понятно
        проблема доброе утро добрый день вечер большое думаешь сделай это можешь здравствуйте пожалуйста
        テストを実行して テスト実行 テストを走らせて 直して 修正して もう一度 手伝って
        説明して 見せて 分かりました なるほど
        おはよう こんにちは こんばんは どう思いますか どう思う やって ありがとうございます
        すみません お願い
        运行测试 跑测试 跑一下测试 跑一遍 测试一下 修一下 修复 修改 再试一次 再来 帮我
        帮忙 解释一下 看看 给我看 明白了 明白
        知道了 收到 没问题 早上好 晚上好 下午好 你觉得呢 怎么看 做吧 多谢 非常感谢 辛苦了
        好了 可以了 谢谢你
        테스트 실행해 실행해줘 돌려줘 고쳐줘 수정해줘 다시 해줘 해봐 도와줘 설명해줘
        보여줘 알겠습니다 알겠어 이해했어 문제없어
        안녕하세요 좋은 아침 어떻게 생각해 정말 고맙습니다 감사해요
        """
    )
)
# A word that denies makes a rule of a chore: "don't run the tests".
_DENIALS = frozenset(
    words(
        """
        not never don't dont without nunca jamás jamais sans nicht kein keine nie ohne niemals não nao sem
        non mai senza не никогда без しない ないで 不要 不能 别 勿 마세요 않
        """
    )
)
_COMMAND = re.compile(r"/[\w:-]+")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a text goes on to distilling, and in words why not."""

    keep: bool
    reason: str = ""


def worth_distilling(text: str, accepted: Sequence[str] = ()) -> Verdict:
    """Whether `text` may hold something lasting that none of the texts `accepted` just before it has said."""
    if not informative(text):
        return Verdict(False, "nothing that could last")
    mine = set(words(text))
    for earlier in accepted[-_WINDOW:]:
        if _alike(mine, set(words(earlier))) and repeats(text, earlier):
            return Verdict(False, "said a moment ago")
    return Verdict(True)


def informative(text: str) -> bool:
    """Whether a text has a word that an acknowledgement, a greeting or a daily chore has not."""
    bare = text.strip()
    if not _WORD.search(bare) or _COMMAND.fullmatch(bare):
        return False
    if len(bare) > _LONGEST_REPLY:
        return True
    found = words(bare)
    if _exact(found):
        return True
    said = [
        word
        for word in found
        if word not in ACKNOWLEDGEMENTS and word not in STOP_WORDS and not word.isdigit()
    ]
    chores = [word for word in said if word in _CHORES]
    return len(chores) < len(said) or (bool(chores) and not _DENIALS.isdisjoint(found))


def _exact(found: Sequence[str]) -> bool:
    """An identifier, a path, a figure: whatever names one thing."""
    return any(is_identifier(word) and not (word.isdigit() and len(word) < _FEWEST_DIGITS) for word in found)


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) >= _LIKE_ENOUGH * min(len(one), len(other))
