"""Where an answer ends, and what cannot be one: the same rules as `crates/spechop-embed/src/reader/boundary.rs`.

That file says why. Both are held against its `boundary/cases.tsv`, and both read its `boundary/namesakes.tsv`.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

CASES = Path(__file__).resolve().parents[2] / "crates/spechop-embed/src/reader/boundary/cases.tsv"
NAMESAKES = CASES.with_name("namesakes.tsv")
# Spans of a passage that may be passed over before it says nothing.
PASSED_OVER_MAX = 32

TIME, MONTH, NUMBER, MEASURE, PLACE, PERSON, OTHER = "time", "month", "number", "measure", "place", "person", "other"
_QUANTITIES = set("many much old tall large far".split())
_TIME_UNITS = set("year date day century decade".split())
_SHARES = "what percent", "what per cent", "which percent", "which per cent", "what is the percent", "what was the percent"
_PLACE_KINDS = set("city town place country region state county district village province".split())
_SCHOOLS = set("educated study studied school university college attend attended graduate graduated".split())
_MONTHS = set("january february march april may june july august september october november december".split())
_ERAS = set("bc bce ad ce".split())
_TIMES = _MONTHS | set(
    "monday tuesday wednesday thursday friday saturday sunday minute minutes hour hours day days week weeks weekend "
    "weekends month months year years decade decades century centuries millennium millennia dawn morning noon "
    "afternoon dusk evening night nights midnight yesterday today tonight tomorrow present now season seasons spring "
    "summer autumn fall winter christmas easter ramadan twenties thirties forties fifties sixties seventies eighties "
    "nineties era age ages antiquity renaissance period dynasty reign war wartime infancy childhood adolescence "
    "during after before under until since when".split()
)
_BEGIN_TIMES = set("during after before under until since when".split())
_PRONOUNS = set("he she it they his hers its their this that these those there here".split())
_NUMBERS = set(
    "zero no none one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand "
    "thousands million millions billion billions half third quarter single twice couple both few several dozen dozens "
    "most majority all second seconds minute minutes hour hours day days week weeks month months year years decade "
    "decades century centuries lifetime inches feet yards meters metres kilometers kilometres mile miles percent".split()
)


_RANK = (
    "(?:Grand |Crown |Hereditary )?(?:King|Queen|Prince|Princess|Duke|Duchess|Count|Countess|Earl|Marquess|Marquis|"
    "Margrave|Margravine|Landgrave|Landgravine|Baron|Baroness|Viscount|Viscountess|Elector|Lord|Emperor|Empress|Archduke|"
    "Archduchess|Burgrave)"
)
_NUMBER = "[0-9]+ ?(?:st|nd|rd|th) "
_WORD = r"[A-ZÀ-ÖØ-Þ](?:[^\s,.;:()\[\]'’]|['’][^\s,.;:()\[\]'’s])*"
_NAME = f"(?:St[.] )?{_WORD}(?:- {_WORD})?"
_NAMES = f"{_NAME}(?: {_NAME})*"
_OF_PLACE = f"(?:{_NUMBER})?{_RANK} of (?:the )?{_NAMES}"
_TITLE = re.compile(
    rf"( ?, ?(?:the )?{_OF_PLACE} and {_NAME})(?:$|\n| ?[,.;:()\[]| and )|"
    f"( ?, ?(?:the )?(?:{_OF_PLACE}|{_NUMBER}{_RANK} {_NAMES}|{_NUMBER}Baronet))"
)

_CALLINGS = (
    "artist|actor|actress|singer|songwriter|musician|rapper|director|filmmaker|producer|writer|author|"
    "novelist|poet|playwright|screenwriter|politician|footballer|player|composer|painter|sculptor|"
    "architect|journalist|comedian|businessman|businesswoman|entrepreneur|scientist|physicist|chemist|"
    "mathematician|philosopher|historian|explorer|photographer|dancer|choreographer|model|pianist|"
    "guitarist|drummer|conductor|cartoonist|illustrator|engineer|inventor|coach|manager|presenter|star|"
    "personality|duo|band|group|lawyer|professor|critic|editor|designer"
)
_PLACES = (
    "state|city|town|capital|village|region|province|district|county|country|island|municipality|suburb|"
    "borough|neighborhood|neighbourhood|republic"
)
_INTRODUCED_WORD = r"[A-ZÀ-ÖØ-Þ][^\s,;:()\[\]]*"
_INTRODUCED_NAMES = f"{_INTRODUCED_WORD}(?: (?:(?:de|da|di|del|der|den|la|le|von|van|of) ){{0,2}}{_INTRODUCED_WORD})*"
# In regular expressions of Python a small letter is a letter that is no capital, as far as these texts go.
_FOLLOWED = re.compile(rf"({_INTRODUCED_NAMES}) (?:from(?: [^\W\d_A-ZÀ-ÖØ-Þ]|$)|(?:who|whose|during|before|after|while) |in [0-9]).*")
_INTRODUCED = {
    PERSON: re.compile(rf"(?:.*[\s-])?(?:{_CALLINGS}) ({_INTRODUCED_NAMES})"),
    PLACE: re.compile(rf"(?:[^\W\d_A-ZÀ-ÖØ-Þ].*[\s-])?(?:{_PLACES}) of ({_INTRODUCED_NAMES})"),
}


def _read_namesakes() -> tuple[list[str], dict[str, tuple[list[str], list[str]]]]:
    """Regions that have places of many of the names; of each city, its bare name's regions and further ones."""
    regions: list[str] = []
    cities: dict[str, tuple[list[str], list[str]]] = {}
    for line in NAMESAKES.read_text(encoding="utf-8").splitlines():
        kind, *fields = line.split("\t")
        if kind == "region":
            regions += fields[0].split(",")
        elif kind == "city":
            name, own, also = [*fields, ""][:3]
            cities[name] = own.split(","), also.split(",") if also else []
    return regions, cities


_REGIONS, _CITIES = _read_namesakes()

_SIGNS = {"+": " plus", "＋": " plus", "#": " sharp", "＃": " sharp", "♯": " sharp", "♭": " flat"}
_SIGNS_BEHIND_LETTER = re.compile(r"(?<=[^\W\d_]|[\u0300-\u036f])[+＋#＃♯♭]+")


def canonical(text: str) -> str:
    """Lower case, without accents and punctuation, for comparing words (`spechop_types::canonical`, near enough)."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    plain = re.sub(r"(?<=\d)[.'’](?=\d)", " ", plain)
    plain = re.sub(r"[.'’]", "", plain)
    return " ".join(re.sub(r"[\W_]+", " ", plain).split())


def canonical_name(text: str) -> str:
    """The same with the signs behind a letter, which make another name: C++, C# and C are three, C♯ is C#."""
    return canonical(_SIGNS_BEHIND_LETTER.sub(lambda signs: "".join(_SIGNS[sign] for sign in signs[0]), text))


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The span with what is missing of its first and last word (a token may be a part of a word), without blanks."""
    while 0 < start < end and _in_word(text[start - 1]) and _in_word(text[start]):
        start -= 1
    while start < end < len(text) and _in_word(text[end - 1]) and _in_word(text[end]):
        end += 1
    span = text[start:end]
    start += len(span) - len(span.lstrip())
    return start, start + len(span.strip())


def _in_word(c: str) -> bool:
    # Behind U+2E80 are the scripts that put no blanks between words. Marks and soft hyphens stand within a word.
    return ord(c) < 0x2E80 and (c.isalnum() or c == "\u00ad" or unicodedata.category(c).startswith("M"))


def kind_of(question: str) -> str:
    """What is asked for. The first question word decides."""
    words = canonical_name(question).split()
    said = f" {' '.join(words)} "
    for word, following in zip(words, [*words[1:], ""]):
        if word == "how":
            if following == "long":
                return MEASURE
            return NUMBER if following in _QUANTITIES else OTHER
        if word == "when":
            return TIME
        if word in ("who", "whom", "whose"):
            return PERSON
        if word == "where":
            return OTHER if _SCHOOLS & set(words) else PLACE
        if word in ("what", "which"):
            if any(share in said for share in _SHARES):
                return MEASURE
            if following == "month":
                return MONTH
            if following in _TIME_UNITS:
                return TIME
            if following in _PLACE_KINDS or " place of " in said:
                return PLACE
            return TIME if " date of " in said else OTHER
    return OTHER


def with_addition(question: str, text: str, end: int) -> str:
    """The first `end` characters of a text, and a title that follows the name of a person there or begins in it.

    The region behind the name of a city counts as its title, if a better known one has that name.
    """
    kind = kind_of(question)
    if kind == PLACE:
        return text[: max(_region_end(text, len(_first_part(text[:end]))) or end, end)]
    if kind != PERSON:
        return text[:end]
    name, comma, _ = text[:end].partition(",")
    completed = _title_end(text, len(name.rstrip())) if comma else None
    begun = completed if completed and completed > end else end
    return text[: _title_end(text, end) or begun]


def _title_end(text: str, end: int) -> int | None:
    """Where the title ends that stands behind the first `end` characters, if those end with a name."""
    is_name = text[:end].rsplit(" ", 1)[-1][:1].isupper()
    title = _TITLE.match(text[end:]) if is_name else None
    return end + len(title[1] or title[2]) if title else None


def _region_end(text: str, end: int) -> int | None:
    """The end of the region behind a city's name in the first `end` characters, if a better known one lies elsewhere."""
    begin = next((at for at, c in enumerate(text[:end]) if c.isupper()), end)
    if text[begin:end] not in _CITIES:
        return None
    own, also = _CITIES[text[begin:end]]
    rest = _behind_comma(text[end:])
    county, said, behind = rest.partition(" County")
    if said and all(word.isalpha() and word[0].isupper() for word in county.split(" ")):
        rest = _behind_comma(behind)
    others = [*(region for region in _REGIONS if region not in own), *also]
    region = next((region for region in others if _begins_with(rest, region)), None)
    return len(text) - len(rest) + len(region) if region else None


def _behind_comma(text: str) -> str:
    before, _, behind = text.partition(",")
    return "" if before.strip(" ") else behind.lstrip(" ")


def _begins_with(text: str, name: str) -> bool:
    """Whether the name ends there as well: "Virginia Beach" is not Virginia."""
    behind = text[len(name) :]
    return text.startswith(name) and not behind[:1].isalnum() and not re.sub("^[ -]", "", behind)[:1].isupper()


def cut(question: str, span: str) -> str | None:
    """What of the span is the answer; None if it answers something else."""
    if _runs_on(span):
        return None
    kind = kind_of(question)
    whole = _within_brackets(span)
    answer = first = _first_part(whole) if kind == PLACE else whole
    followed = _FOLLOWED.fullmatch(answer) if kind == PERSON else None
    answer = followed[1] if followed else answer
    introduced = _INTRODUCED[kind].fullmatch(answer) if kind in _INTRODUCED else None
    answer = introduced[1] if introduced else answer
    asked, words = f" {canonical_name(question)} ", canonical_name(answer)
    # What the question says in brackets only tells which of several things is meant.
    told = f" {canonical_name(re.sub(r'[(][^()]*[)]', ' ', question))} "
    if not words or (" or " not in asked and f" {words} " in told):
        return None
    digit = re.search(r"[0-9]", answer)
    said = set(words.split())
    if kind == TIME and not digit and (not _TIMES & said or said <= _BEGIN_TIMES):
        return None
    if kind in (PLACE, PERSON) and said <= _PRONOUNS:
        return None
    if kind == MONTH and not _names_a_month(words):
        return None
    if kind in (NUMBER, MEASURE) and not digit and not _NUMBERS & said:
        return None
    if kind == MEASURE and _names_a_date(answer, words):
        return None
    if kind in (PLACE, PERSON) and digit and all(re.fullmatch(r"[0-9]+", w) or w in _MONTHS for w in words.split()):
        return None
    if kind == PLACE:
        # The rules above are about the name alone. It stands at the end of `first`.
        named = whole[len(first) - len(answer) :]
        answer = named[: _region_end(named, len(answer)) or len(answer)]
    return answer


def _names_a_month(words: str) -> bool:
    """Whether they have a month's name, also a short one ("Sept. 1998"), or stand for one ("next month")."""
    said = words.split()
    if any(word == "ramadan" or len(word) >= 3 and any(month.startswith(word) for month in _MONTHS) for word in said):
        return True
    return said[-1] == "month" and not re.search(r"[0-9]", words)


def _names_a_date(answer: str, words: str) -> bool:
    """Whether it is a year or a date and no more: "1368", "in 495 BC". "May–June 1914" is a length of time."""
    said = [word for word in words.split() if word not in ("in", "on")]
    if len(said) == 1:
        return bool(re.fullmatch(r"1[0-9]{3}|20[0-9]{2}", said[0]))
    times = _MONTHS | _ERAS
    bare = all(re.fullmatch(r"[0-9]+", word) or word in times for word in said)
    return bare and not times.isdisjoint(said) and not re.search("[-–—]", answer)


def joined(answer: str) -> str:
    """An answer in the common way of writing: "Saxe-Coburg" for "Saxe- Coburg"."""
    return re.sub(r"(?<=[^\W_])- (?=[A-ZÀ-ÖØ-Þ])", "-", answer)


def _runs_on(span: str) -> bool:
    if "\n" in span.strip():
        return True
    for stop in re.finditer(r"[.;!?] ", span):
        before = span[: stop.start()]
        word = before.rsplit(" ", 1)[-1]
        short = len(word.encode()) <= 4 and word[:1].isupper() or word == "vs"
        ended = len(before) > 1 and all(c.islower() or c in "0123456789)" for c in before[-2:])
        if span[stop.end() : stop.end() + 1].isupper() and ended and not short:
            return True
    return False


def _within_brackets(span: str) -> str:
    opened, closed = span.count("("), span.count(")")
    if opened == closed:
        return span
    kept = span.rsplit("(", 1)[0] if opened > closed else span.split(")", 1)[1]
    kept = kept.strip(" ,\t\n")
    return _within_brackets(kept) if any(c.isalnum() for c in kept) else span.strip(" ,()\t\n")


def _first_part(place: str) -> str:
    first, comma, rest = place.partition(",")
    rest = rest.lstrip()
    name = re.match(r"[A-Z]", rest) and not rest.startswith("D.C")
    return first.rstrip() if comma and name and first.strip() and not re.search(r"[0-9]", first) else place
