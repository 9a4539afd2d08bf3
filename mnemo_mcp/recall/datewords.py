"""The words by which eleven languages that write spaces name times; `spoken` says what they mean together."""

from __future__ import annotations

from collections.abc import Mapping

from mnemo_mcp.recall.span import Grain


def _words(text: str) -> list[str]:
    """Words and, written with `_`, phrases of several."""
    return [word.replace("_", " ") for word in text.split()]


def _numbers(text: str) -> Mapping[str, int]:
    """The number of each word: the one that stands before it."""
    found: dict[str, int] = {}
    number = 0
    for word in _words(text):
        if word.lstrip("-").isdecimal():
            number = int(word)
        else:
            found[word] = number
    return found


MONTHS = _numbers(
    """
    1 january jan enero janvier janv januar jänner janeiro gennaio januari styczeń stycznia styczniu
      январь января январе
    2 february feb febrero février fevrier februar fevereiro febbraio februari luty lutego lutym февраль
      февраля феврале
    3 march mar marzo mars märz maerz março maart marzec marca marcu март марта марте
    4 april apr abril avril aprile kwiecień kwietnia kwietniu апрель апреля апреле
    5 may mayo mai maio maggio mei maj maja maju май мая мае
    6 june jun junio juin juni junho giugno czerwiec czerwca czerwcu июнь июня июне
    7 july jul julio juillet juli julho luglio lipiec lipca lipcu июль июля июле
    8 august aug agosto août aout augustus sierpień sierpnia sierpniu август августа августе
    9 september sep sept septiembre setiembre septembre setembro settembre wrzesień września wrześniu
      сентябрь сентября сентябре
    10 october oct octubre octobre oktober outubro ottobre październik października październiku октябрь
      октября октябре
    11 november nov noviembre novembre novembro listopad listopada listopadzie ноябрь ноября ноябре
    12 december dec diciembre décembre decembre dezember dez dezembro dicembre grudzień grudnia grudniu
      декабрь декабря декабре
    """
)
# Months that are other words as well, verbs, names and short forms: only with a capital or a figure.
DOUBTFUL = frozenset(_words("may mar mars march mai mei maj jan jun dec dez sep nov april june"))
WEEKDAYS = _numbers(
    """
    0 monday lunes lundi montag segunda segunda-feira lunedì lunedi maandag poniedziałek poniedziałku
      понедельник понедельника
    1 tuesday martes mardi dienstag terça terça-feira martedì martedi dinsdag wtorek wtorku вторник
      вторника
    2 wednesday miércoles miercoles mercredi mittwoch quarta quarta-feira mercoledì mercoledi woensdag
      środa środę środy среда среду среды
    3 thursday jueves jeudi donnerstag quinta quinta-feira giovedì giovedi donderdag czwartek czwartku
      четверг четверга
    4 friday viernes vendredi freitag sexta sexta-feira venerdì venerdi vrijdag piątek piątku пятница
      пятницу пятницы
    5 saturday sábado sabado samedi samstag sonnabend sabato zaterdag sobota sobotę soboty суббота
      субботу субботы
    6 sunday domingo dimanche sonntag domenica zondag niedziela niedzielę niedzieli воскресенье
      воскресенья
    """
)
DAYS = _numbers(
    """
    0 today tonight this_morning this_afternoon this_evening hoy esta_mañana esta_tarde aujourd'hui
      ce_matin heute hoje oggi stamattina vandaag vanochtend dziś dzisiaj сегодня
    -1 yesterday last_night yesterday's ayer anoche hier gestern ontem ieri gisteren wczoraj вчера
    -2 day_before_yesterday anteayer antes_de_ayer avant-hier vorgestern anteontem antes_de_ontem
      altro_ieri avantieri eergisteren przedwczoraj позавчера
    1 tomorrow demain amanhã domani jutro завтра
    2 day_after_tomorrow pasado_mañana après-demain übermorgen dopodomani overmorgen pojutrze
      послезавтра
    """
)
NEAR = _numbers(
    """
    -1 last past previous pasado pasada pasados pasadas último última últimos últimas ultimo ultima
      ultimos ultimas anterior dernier dernière derniers dernières passé passée passés précédent
      précédente letzte letzten letzter letztes letztem vorige vorigen voriger voriges vergangene
      vergangenen vergangener vergangenes passado passada passados passadas scorso scorsa scorsi scorse
      ultimi ultime afgelopen laatste zeszły zeszłym zeszłego zeszłą zeszłej ubiegły ubiegłym ubiegłego
      ubiegłą ubiegłej poprzednim poprzedniego poprzedni ostatni ostatnie ostatnich ostatnim прошлый
      прошлой прошлом прошлую прошлого последние последний последних последнюю прошедшей прошедшем
    -2 before_last antepasado antepasada avant-dernier avant-dernière vorletzte vorletzten vorletzter
      vorletztes retrasado позапрошлой позапрошлом позапрошлый
    0 this current este esta estes estas ce cet cette ces diese dieser diesen dieses diesem quest questo
      questa deze dit tym tego tej ten tę этой этом эту этот этого нынешнем corrente
    1 next coming próximo próxima proximo proxima siguiente que_viene prochain prochaine qui_vient
      nächste nächsten nächster nächstes kommende kommenden kommender que_vem seguinte prossimo prossima
      volgende komende przyszły przyszłym przyszłego następnym следующий следующей следующем следующую
      будущем
    """
)
_UNITS = {
    Grain.MINUTE: """
        minute minutes min mins minuto minutos minuten minuti minut minuty минуту минуты минут
    """,
    Grain.HOUR: """
        hour hours hora horas heure heures stunde stunden ora ore uur uren godzinę godziny godzin
        час часа часов
    """,
    Grain.DAY: """
        day days día días dia dias jour jours tag tage tagen giorno giorni dag dagen dzień dni день
        дня дней
    """,
    Grain.WEEK: """
        week weeks semana semanas semaine semaines woche wochen settimana settimane weken tydzień
        tygodniu tygodnia tygodnie tygodni неделя неделю недели недель неделе
    """,
    Grain.MONTH: """
        month months mes meses mois monat monate monaten monats mês mese mesi maand maanden miesiąc
        miesiąca miesiącu miesiące miesięcy месяц месяца месяце месяцев
    """,
    Grain.QUARTER: """
        quarter trimestre quartal kwartaal kwartał kwartale kwartału квартал квартале квартала
    """,
    Grain.YEAR: """
        year years año años ano anos an ans année années jahr jahre jahren jahres anno anni jaar rok
        roku lata lat год года году лет
    """,
}
UNITS: Mapping[str, Grain] = {word: grain for grain, words in _UNITS.items() for word in _words(words)}
NUMBERS = _numbers(
    """
    1 a an one un una une ein eine einem einer einen um uma één een jeden jedną один одну
    2 two couple dos deux zwei dois duas due twee dwa dwie два две
    3 three tres trois drei três tre drie trzy три
    4 four cuatro quatre vier quatro quattro cztery четыре
    5 five cinco cinq fünf cinque vijf pięć пять
    6 six seis sechs sei zes sześć шесть
    7 seven siete sept sieben sete sette zeven siedem семь
    8 eight ocho huit acht oito otto osiem восемь
    9 nine nueve neuf neun nove negen dziewięć девять
    10 ten diez dix zehn dez dieci tien dziesięć десять
    """
)
ORDINALS = _numbers(
    """
    1 first primer primero primera premier première erste ersten erstes primeiro primo primi eerste
      pierwszym pierwszy первый первом первого
    2 second segundo deuxième zweite zweiten zweites secondo tweede drugim drugi второй втором второго
    3 third tercer tercero troisième dritte dritten drittes terceiro terzo derde trzecim trzeci третий
      третьем
    4 fourth cuarto quatrième vierte vierten viertes quarto vierde czwartym czwarty четвертый четвёртый
      четвертом
    """
)
AGO = frozenset(_words("ago atrás atras fa geleden temu назад"))
AGO_BEFORE = frozenset(_words("hace il_y_a vor há hà"))
SINCE = frozenset(_words("since desde depuis seit dal dallo dalla sinds od с со"))
UNTIL = frozenset(_words("until till til hasta jusqu jusque bis até fino tot"))
BEFORE = frozenset(_words("before antes avant prima przed до vóór vor"))
AFTER = frozenset(_words("after después despues après nach depois dopo po после"))
BETWEEN = frozenset(_words("between entre zwischen tra fra tussen między miedzy между"))
FROM = frozenset(_words("from de del du von vom van da z")) | SINCE
JOINING = frozenset(_words("до do and to y e et und en i и a al à au zu zum по through thru – —")) | UNTIL
INSIDE = frozenset(
    _words(
        """
        in during en em im nel nell w в early late mid durante pendant während around within throughout back
        """
    )
)
# What is numbered by years and months as well.
NUMBERED = frozenset(_words("version versión versão versione release tag build ticket rfc schema"))
OF = frozenset(_words("of de di d del do"))
HALF = frozenset(_words("half medio media demi halben halbes halbe meio meia mezzo mezza pół полгода"))
ON = frozenset(_words("on el am le na no op il w we в во"))
# Words by which something is said to have been done.
DONE = frozenset(
    _words(
        """
        did was were had happened changed decided said shipped deployed hicimos pasó fue decidimos dijo cambió
        avons fait passé était haben hat war wurde wurden fizemos foi aconteceu mudou abbiamo ha
        stato successo
        hebben heeft gebeurde zrobiliśmy robiliśmy było stało делали сделали было произошло решили случилось
        """
    )
)
FILLING = frozenset(
    _words(
        """
        the of de del di du da do el la los las le les l der die das den dem des o os as il lo gli i het d
        au en in on na w в на за em no to a à all al ao
        """
    )
)
# What is written together with the word it belongs to.
PARTICLES = frozenset(_words("l d qu quest dell nell all dall jusqu s"))
