"""What a question asks for: which of the six Ws, and whether of the present or of how it was before.

Read from the sentence that asks, by the question words of thirteen languages; only the tables of scripts that
occur in it are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class W(StrEnum):
    """One of the six parts of a memory that a question can ask for."""

    WHAT = "what"
    WHY = "why"
    HOW = "how"
    WHO = "who"
    WHERE = "where"
    WHEN = "when"


@dataclass(frozen=True, slots=True)
class _Words:
    """Question words for one W. `joining` ones join clauses as well: only some of their places ask."""

    asks: W
    forms: str
    joining: bool = False


_BE = "(?:['’]s| is| was| are| were)"
_AUX = "(?=['’]s| (?:did|do|does|is|are|was|were|will|has|have|had|should|can|could|would|shall)\\b)"
_PLACE = (
    "(?:file|folder|directory|place|path|repo|repository|host|server|machine|node|region|city|country|room|module"
    "|package|branch|bucket|table|cluster|environment|section|page|channel)s?"
)
_PLACE_ES = "(?:archivo|fichero|carpeta|directorio|lugar|sitio|servidor|ciudad|país|repositorio|módulo|ruta)"
_PLACE_FR = "(?:fichier|dossier|répertoire|ville|pays|endroit|module|serveur|dépôt)"
_PLACE_DE = "(?:datei|ordner|verzeichnis|stadt|land|modul|server|rechner|host|repo|repository|raum)"
_PLACE_PT = "(?:arquivo|ficheiro|pasta|diretório|lugar|servidor|cidade|país|módulo)"
_PLACE_IT = "(?:file|cartella|directory|posto|città|paese|server|modulo)"

# What follows "was", "comment" and "come" where they are no English words.
_GERMAN = (
    r"(?:ist|sind|war|waren|hat|haben|hatten?|wird|werden|wurden?|mach\w*|passier\w*|geschah|bedeutet|für"
    r"|soll\w*|kann|können|muss|müssen|weiß\w*|wissen|tut|steht|gibt|gilt|heißt|kostet|brauch\w*|nutz\w*"
    r"|verwende\w*|benutz\w*|geht|fehlt|läuft|ich|wir|du|sagt)\b"
    r"|[^?]*\b(?:der|den|dem|im|bei|mit|von|für|auf|wir|ein|eine|zum|zur|nicht|sich|uns)\b"
)
_FRENCH = (
    r" (?:est|fait|ça|ca|se|les|le|la|nous|je|tu|vous|il|elle|sont|marche|fonctionne|avons|a|as|peut|puis"
    r"|dois|doit|\w+(?:er|ir|re)(?= (?!the |this |that |it |on )|\W*$)"
    r"|\w+-(?:nous|vous|je|tu|on|ils?|elles?|t-)"
    r"|on (?!the|this|that|it|my|a\b))|[- ][lts]['’]"
)
_ITALIAN = (
    r" (?:si|è|sono|abbiamo|ho|hai|ha|hanno|va|vanno|fa|faccio|fanno|funzion\w*|posso|possiamo|devo|dobbiamo"
    r"|viene|vengono|era)\b"
    r"|[^?]*(?:\b(?:il|lo|gli|di|del|della|alla|al|un|una|nel|nella|dei|delle)\b|\bl['’])"
)

# Narrower forms stand before the ones they contain: at one place the first that fits is taken.
_LATIN = (
    _Words(
        W.WHY,
        rf"why|how come|(?:for )?(?:what|which){_BE}?(?: the| our| your| their)?(?: main| real| actual"
        rf"| exact)?"
        r" (?:reason|cause|motivation|rationale|motive)s?|what for(?=\W*$)"
        r"|what (?:made|makes|led|drove|caused|causes|prompted)|reasons? (?:for|why|behind)"
        r"|rationale (?:for|behind|of)"
        r"|(?:por|para) qué|porqué|a qué se debe|por (?:qué|cuál) (?:razón|motivo|causa)"
        r"|(?:cuál(?:es)?|qué) (?:es|era|fue|son|fueron) (?:el|la|los|las) (?:raz[oó]n|motivo|causa)(?:es|s)?"
        r"|pourquoi|pour quelles? raisons?|quelles? (?:est|était|sont|fut) (?:la|les) (?:raison|cause)s?"
        r"|dans quel but"
        r"|warum|weshalb|wieso|weswegen|wozu|wofür|aus welche[mn] (?:grund|gründen)"
        r"|was (?:ist|war|sind|waren) (?:der|die) (?:grund|gründe|ursachen?)"
        r"|por ?quê|por que|por qual (?:motivo|razão)|qual (?:é|era|foi) (?:o|a) (?:motivo|razão|causa)"
        r"|come mai|per (?:quale|che) (?:motivo|ragione)|qual ?(?:è|era|fu|é) (?:il|la) (?:motivo|ragione"
        r"|causa)"
        r"|waarom|om welke reden|wat (?:is|was) de reden"
        r"|dlaczego|czemu|po co|z jakiego powodu|jaki (?:jest|był) powód",
    ),
    _Words(W.WHY, r"perch[eé]|porque", joining=True),
    _Words(
        W.WHEN,
        rf"(?:since|until|till|by|from|before|after) when|when{_AUX}|how long (?:ago|since|until|till|have"
        rf"|has|had)"
        r"|how (?:recently|often|frequently|soon|late|early)|at (?:what|which) point"
        r"|(?:what|which) (?:time|day|date|month|year|week|weekday|quarter)s?(?! ?zone)"
        rf"|what{_BE} the (?:date|time|deadline|schedule)"
        r"|(?:desde |hasta |para )?cuándo|(?:desde )?hace cu[aá]nto|cada cu[aá]nto|(?:desde|hasta) cuando"
        r"|(?:en |a )?qué (?:día|fecha|hora|mes|año|momento)"
        r"|(?:depuis|à partir de|jusqu['’]à|de) quand|(?:depuis|il y a) combien de temps|tous les combien"
        r"|quel(?:le)?s? (?:jour|date|heure|mois|année|moment|fréquence)s?"
        r"|wann|wie (?:oft|häufig|lange (?:her|schon|ist|sind|hat|haben))|vor wie (?:vielen|langer)"
        r"|wie ?viel uhr"
        r"|(?:seit|an|in|zu) welche[mrn] (?:tag|jahr|monat|woche|zeitpunkt|zeit)|welches datum"
        r"|(?:desde|até) quando|há quanto tempo|que (?:dia|data|horas?|mês|ano)|com que frequência"
        r"|(?:da|fino a) quando|da quanto(?: tempo)?|ogni quanto|quanto tempo fa"
        r"|(?:che|quale) (?:giorno|data|ora|mese|anno)"
        r"|wanneer|hoe (?:vaak|laat|lang geleden|lang al)|welke (?:dag|datum|maand|week)|welk jaar"
        r"|(?:od|do) kiedy|jak (?:często|dawno)|o której|(?:którego|jakiego) dnia|w którym (?:roku|miesiącu)",
    ),
    _Words(W.WHEN, r"when|cuando|quand|quando|kiedy", joining=True),
    _Words(
        W.WHO,
        r"(?:by|to|from|with|for) who|whom|whose|who['’]s"
        r"|(?:which|what) (?:person|people|team|engineer|developer|colleague|teammate|department|maintainer"
        r"|author"
        r"|reviewer|owner)s?"
        r"|quién(?:es)?|qué (?:persona|equipo)s?|qui est-ce|(?:par|à|avec|chez) qui|quelles? (?:personne"
        r"|équipe)s?"
        r"|wer|wem|wen|wessen|welche[srn]? (?:person|team|kollege|kollegin|abteilung)"
        r"|quem|qual (?:pessoa|equipe|equipa)|(?:da|di|a|con|per) chi|quale (?:persona|squadra)"
        r"|(?:door|van|met|voor) wie|wie (?:heeft|hebben|is|zijn|was|kan|moet|beheert|werkt|weet|bezit"
        r"|schreef|doet)"
        r"|kto|kogo|komu|z kim|czyj[ae]?",
    ),
    _Words(W.WHO, r"who|quien(?:es)?|qui|chi", joining=True),
    _Words(
        W.WHERE,
        rf"where{_AUX}|whereabouts|(?:in|on|at|under|from|to) (?:which|what) {_PLACE}"
        rf"|what{_BE} the (?:location|path)"
        r"|(?:which|what) (?:folder|directory|place|path|city|country|file|repo|repository|location)s?"
        rf"|a?dónde|(?:de|por) donde|en qu[eé] {_PLACE_ES}|qué (?:carpeta|directorio|archivo|fichero|ruta)s?"
        rf"|d['’]où|dans quel(?:le)?s? {_PLACE_FR}s?|woher|wohin|worin|(?:in|auf) welche[mnr] {_PLACE_DE}"
        rf"|aonde|(?:de|por) onde|em qu(?:e|al) {_PLACE_PT}|dov['’]è|da dove|in (?:quale|che) {_PLACE_IT}"
        r"|waarheen|waarvandaan|in welke? (?:bestand|map|stad|land|repo|module)"
        r"|gdzie|skąd|dokąd|w (?:którym|jakim) (?:pliku|folderze|katalogu|mieście|kraju|repozytorium|module)",
    ),
    _Words(W.WHERE, r"where|donde|où|ou (?=est|sont|se )|wo|onde|dove|waar", joining=True),
    _Words(
        W.WHAT,
        r"how (?:many|much|big|large|old|fast|far|high|long|heavy|deep|wide|few|small|slow|expensive|likely)"
        r"|how about|cu[aá]nt[oa]s?|qué tan|combien"
        r"|wie ?(?:viele?[nrms]?|lange|groß|hoch|alt|schnell|teuer|heißt|heißen|hieß|weit|schwer|stark)"
        r"|quant[oa]s|quant[iae]|hoe ?(?:veel|lang|groot|oud|snel|heet|heten|hoog|ver)"
        r"|ile|ilu|jak (?:długo|duż[yea]|wiele|się nazywa)",
    ),
    _Words(W.WHAT, r"quanto", joining=True),
    _Words(
        W.HOW,
        r"how|in (?:what|which) (?:way|manner)|by what means|(?:what|which) steps|steps (?:to|for)"
        rf"|what{_BE} the (?:best |right |correct |usual )?(?:way|procedure|process|steps)"
        r"|cómo|de qu[eé] (?:manera|forma|modo|maneira|jeito)|de quelle (?:façon|manière)"
        r"|auf welche (?:weise|art)"
        r"|womit|wodurch|inwiefern|in (?:che|quale) modo|hoe|op welke manier|w jaki sposób",
    ),
    _Words(
        W.HOW,
        r"como|jak|wie(?! (?:besprochen|immer|gesagt|üblich|folgt|oben|vereinbart|gewohnt|auch|gehabt)\b)"
        rf"|comment(?={_FRENCH})|come(?={_ITALIAN})",
        joining=True,
    ),
    _Words(
        W.WHAT,
        r"what|qué|cuál(?:es)?|qu['’]est-ce|quoi|quel(?:le)?s?|lequel|laquelle|lesquel(?:le)?s"
        rf"|was (?={_GERMAN})"
        r"|welche[rnms]?|worüber|woran|worauf|wovon|o que|qual|quais|(?:che )?cosa|cos['’]è|quali|quale"
        r"|wat|welke?|czego|jaki(?:e|ego|ej|m|ch)?|jak[aą]",
    ),
    _Words(W.WHAT, r"which|que|cual(?:es)?|che|co|któr\w+", joining=True),
)
_CYRILLIC = (
    _Words(
        W.WHY,
        r"почему|отчего|зачем|из-за чего|по какой причине|какова причина|в ч[её]м причина|какие причины"
        r"|чому|навіщо",
    ),
    _Words(
        W.WHEN,
        r"как (?:давно|часто|скоро)|(?:с|до) каких пор|с какого (?:времени|дня|числа|года|месяца)"
        r"|в каком (?:году|месяце)|какого числа|в какой день|во сколько|сколько времени назад|(?:с"
        r"|до) когда|відколи",
    ),
    _Words(W.WHEN, r"когда|коли", joining=True),
    _Words(W.WHO, r"кто|кого|кому|кем|чей|чья|чь[её]|чьи|(?:у|от|с|о) ком|хто|ким"),
    _Words(
        W.WHERE,
        r"откуда|куда|в как(?:ом|ой) (?:файле|папке|каталоге|городе|стране|модуле|репозитории|месте|ветке)"
        r"|звідки",
    ),
    _Words(W.WHERE, r"где|де", joining=True),
    _Words(W.WHAT, r"как (?:долго|называ\w+|зовут|много)|сколько|скільки"),
    _Words(W.HOW, r"каким (?:образом|способом)"),
    _Words(W.HOW, r"как(?! (?:только|будто|раз|и|бы)\b)|як", joining=True),
    _Words(W.WHAT, r"чего|чему|какой|какая|какое|какие|какую|каких|каким|какого|каком|який|яка|яке|які"),
    _Words(W.WHAT, r"что|що|которы\w+", joining=True),
)
_HAN = (
    _Words(
        W.WHY,
        r"[为為]什[么麼]|为何|為何|[为為]啥|何以|(?:什[么麼]|何种|何種)原因|原因是什[么麼]|出于什么|[怎][么麼]会",
    ),
    _Words(
        W.WHEN,
        r"什[么麼][时時](?:候|间|間)|何[时時]|哪[天年月]|哪一[天年]|几点|幾點|几号|幾號|多久(?:以?前|一次)?|多[长長][时時][间間]以?前",
    ),
    _Words(W.WHO, r"[谁誰]|哪位|什[么麼]人|哪个(?:人|团队|同事)|何人"),
    _Words(
        W.WHERE,
        r"哪[里裡裏儿兒]|何[处處]|在哪|什[么麼]地方|哪[个個](?:文件|目录|文件夹|地方|仓库|城市|服务器|模块)",
    ),
    _Words(W.WHAT, r"[怎][么麼](?:了|回事)|怎[样樣]了|多少|几[个個次]|多[大长長高快]"),
    _Words(W.HOW, r"怎[么麼样樣]|如何|咋|什[么麼](?:方法|方式|办法)"),
    _Words(W.WHAT, r"什[么麼]|啥|哪[个個些种種]|何"),
)
_KANA = (
    _Words(W.WHY, r"なぜ|何故|なんで|どうして|何のため|理由[はが](?:何|なん)|(?:どんな|どういう)理由"),
    _Words(
        W.WHEN,
        r"いつ(?!も|か(?!ら)|でも|の間)|何時|何[日月年](?!か(?!ら))|何曜日|どの(?:くらい|ぐらい)前|(?:どれ|どの)(?:くらい|ぐらい)の頻度|何日前",
    ),
    _Words(W.WHO, r"(?:誰|だれ)(?!か(?!ら)|も|でも)|どなた|どの(?:人|チーム|担当)"),
    _Words(
        W.WHERE,
        r"(?:どこ|何処)(?!か(?!ら)|も|でも)|どの(?:ファイル|フォルダ|ディレクトリ|サーバ|リポジトリ|場所|都市|モジュール)",
    ),
    _Words(
        W.WHAT,
        r"どの(?:くらい|ぐらい)|どれ(?:くらい|ぐらい)|いくつ|いくら|どう(?:なった|なって|した(?!ら)|思)",
    ),
    _Words(
        W.HOW,
        r"には[?？]|どのように|どうやって|どうすれば|どうしたら|いかに|どんな(?:方法|ふう)|(?:やり方|方法|手順)(?:は|を)|どう(?!も|ぞ|か|せ|にか)",
    ),
    _Words(
        W.WHAT,
        r"何(?!か(?!ら)|も|でも|度も)|なに(?!か(?!ら)|も)|なん(?:の|です|だ)|どれ|どの|どんな|どちら|どういう|は[?？]",
    ),
)
_HANGUL = (
    _Words(
        W.WHY, r"왜(?!곡|건|소)|어째서|(?:무엇|뭐) ?때문|(?:무슨|어떤) ?이유|이유[가는은] ?(?:뭐|무엇|뭔)"
    ),
    _Words(
        W.WHEN,
        r"언제(?!나|든|라도)|몇 ?[시월년](?!간)|며칠"
        r"|무슨 ?요일|얼마나 ?(?:자주|오래전)|얼마나 오래 ?(?:전|됐|되)|어느 ?날",
    ),
    _Words(W.WHO, r"누가|누구(?!나|든|라도)|누굴|누군|누(?=에게|한테)|어느 ?(?:분|팀)|어떤 ?사람"),
    _Words(
        W.WHERE, r"어디(?!서나|든|에나)|(?:어느|어떤|무슨) ?(?:폴더|파일|곳|서버|도시|저장소|디렉터리|모듈)"
    ),
    _Words(W.HOW, r"어떻게|어떤 ?(?:방법|방식|식)|어찌"),
    _Words(W.WHAT, r"무엇|뭐|뭘|뭔|무슨|어떤|어느|얼마|몇"),
)


@dataclass(frozen=True, slots=True)
class _Family:
    """The question words of the languages that share a script, as one pattern."""

    script: re.Pattern[str]
    pattern: re.Pattern[str]
    words: tuple[_Words, ...]
    spaced: bool = True


def _family(script: str, words: tuple[_Words, ...], spaced: bool = True) -> _Family:
    either = "|".join(f"({each.forms})" for each in words)
    return _Family(re.compile(script), re.compile(rf"\b(?:{either})\b" if spaced else either), words, spaced)


_KANA_FAMILY = _family("[\u3041-\u30ff]", _KANA, spaced=False)
_HAN_FAMILY = _family("[\u4e00-\u9fff]", _HAN, spaced=False)
_OTHERS = (
    _family("[\uac00-\ud7af]", _HANGUL, spaced=False),
    _family("[\u0400-\u04ff]", _CYRILLIC),
    _family("[a-z]", _LATIN),
)

_Found = tuple[re.Match[str], _Words]

_ASKS = re.compile(r"[?？؟]")
_OPENING_WORDS = """
    so and but or ok okay hey hi please also then well now again actually remind tell me us exactly
    just in on at for to from with of by since until till about under during y e pero entonces ahora
    oye a de con por para desde hasta en sobre et mais alors donc dis à avec pour depuis dans sur
    und aber also mal von mit seit bis auf aus an für über zu mas então agora até em sobre ma allora
    di da per su fra tra maar dus van met voor op i ale więc z od do w na o а и но ну так с от в на
    у к по для из за про
    """
_OPENING = frozenset(_OPENING_WORDS.split())
_INTRODUCED = re.compile(
    r"(?:\b(?:know|tell|remember|remind|explain|recall|wonder|wondering|ask|asked|see|check|find out"
    r"|figure out"
    r"|understand|show|sabe[s]?|dime|recuerda[s]?|sais|savez|dis|dites|rappelle|weißt|weiss|wissen|sag"
    r"|erklär\w*|sai"
    r"|dimmi|ricordi|diga|lembra|weet|zeg|wiesz|powiedz|знаешь|знаете|помнишь|помните|скажи|расскажи|объясни)"
    r"(?:[ -](?:me|us|mir|uns|moi|nous|again|exactly|mi|мне))*[\s,:]*)$"
)
_PAUSE = re.compile(r"[,;:(¿–—]\s*$|\b(?:and|or|y|et|und|e|и|i)\s+$")
_ALSO = frozenset(["and", "y", "et", "und", "e", "и", "i", "en"])
_EARLY = 4  # words before which a question word asks although no question mark follows
_CONTEXT = 40  # letters looked at before a question word


def asked_part(sentence: str) -> tuple[W, int] | None:
    """Which W a lower-cased sentence asks for, and where it begins to."""
    for family in _families(sentence):
        found = [
            (match, family.words[(match.lastindex or 1) - 1]) for match in family.pattern.finditer(sentence)
        ]
        chosen = _chosen(sentence, found) if family.spaced else next(iter(found), None)
        if chosen:
            return chosen[1].asks, chosen[0].start()
    return None


def _families(text: str) -> Iterable[_Family]:
    """The families whose scripts occur; Chinese signs beside Japanese letters are Japanese."""
    if not text.isascii():
        if _KANA_FAMILY.script.search(text):
            yield _KANA_FAMILY
        elif _HAN_FAMILY.script.search(text):
            yield _HAN_FAMILY
        yield from (family for family in _OTHERS[:2] if family.script.search(text))
    yield _OTHERS[2]


def _chosen(sentence: str, found: Sequence[_Found]) -> _Found | None:
    """The first question word that asks; one that opens a side clause gives way to one after its comma."""
    questioned = bool(_ASKS.search(sentence))
    asking = [
        each
        for each in found
        if (not each[1].joining or _opens(sentence, each[0])) and (questioned or _early(sentence, each[0]))
    ]
    if not asking:
        after = (each for each in found if questioned and _PAUSE.search(sentence, 0, each[0].start()))
        return next(after, None)
    first, words = asking[0]
    if words.joining:
        for later, other in found[1:]:
            comma = sentence.find(",", first.end(), later.start())
            between = sentence[comma + 1 : later.start()].strip()
            asks = not other.joining or _PAUSE.search(sentence, 0, later.start())
            if comma >= 0 and asks and between not in _ALSO:
                return later, other
    return asking[0]


def _opens(sentence: str, match: re.Match[str]) -> bool:
    """Whether a word that also joins clauses stands where it asks: first, last, or told to be asked."""
    before = sentence[max(0, match.start() - _CONTEXT) : match.start()]
    if not sentence[match.end() :].strip(" ?!.…\"'»”)"):
        return True
    if before.rstrip().endswith("¿") or _INTRODUCED.search(before):
        return True
    return match.start() < _CONTEXT and all(word in _OPENING for word in re.findall(r"\w+", before))


def _early(sentence: str, match: re.Match[str]) -> bool:
    before = sentence[: match.start()]
    return len(before) < 2 * _CONTEXT and (len(before.split()) < _EARLY or bool(_INTRODUCED.search(before)))
