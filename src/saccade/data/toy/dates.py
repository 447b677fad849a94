"""Generates dates as people write them → ISO 8601, from CLDR's data (Babel's copy), without a download.

    "terça-feira, 5 de maio de 2009"  →  "2009-05-05"        "en-US 3/4/2009"  →  "2009-03-04"

Every source is one of CLDR's own forms of a language, varied a little as people do (`ODDS`). An ambiguous form has its
locale in front (`pl 5 listopada 2009`: November in Polish, October in Croatian): all-numeric forms
that no four-digit year leads (even where the day is above 12), two-digit years, and month names that name
different months in different chosen languages. Years are Gregorian. A calendar date belongs to one split alone,
so that no date of `valid` or `test` was ever trained on.
"""

from __future__ import annotations

import datetime
import random
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

from saccade.errors import InputError

LANGUAGES: tuple[str, ...] = (
    *("pt", "pt_PT", "es", "ca", "fr", "it", "ro", "de", "nl", "sv", "da", "nb", "en_US", "en_GB"),
    *("pl", "cs", "hr", "lt", "fi", "hu", "tr", "vi", "id"),
    *("ru", "uk", "bg", "sr", "el", "ar", "he", "hi", "bn", "zh", "ja", "ko"),
)

FIRST, LAST = datetime.date(1940, 1, 1), datetime.date(2060, 12, 31)
PIVOT = 69  # two-digit years: 69–99 are 1969–1999, 00–68 are 2000–2068; a date outside is never shortened
SHORT_YEARS = range(1900 + PIVOT, 2000 + PIVOT)
HELD_OUT = {"valid": 0.05, "test": 0.05}  # share of the calendar dates; all others are for training

ODDS: Mapping[str, float] = {
    "iso": 0.04,  # 2009-05-05 or 2009/05/05 instead of a form of the language
    "lower": 0.08,  # dienstag, 5. mai 2009
    "UPPER": 0.05,  # DIENSTAG, 5. MAI 2009
    "Title": 0.08,  # Terça-feira, 5 de Maio de 2009: names alone, not the words between
    "standalone": 0.05,  # 5 maj 2009 for 5 maja 2009: the month's name as it stands in a calendar's heading
    "own digits": 0.5,  # ٥ مايو ٢٠٠٩, in languages that have their own
    "padding": 0.12,  # 05 for 5, or 5 for 05
    "separator": 0.08,  # 05-05-2009 for 05/05/2009
    "no tail": 0.15,  # 5 мая 2009 for 5 мая 2009 г.
    "no commas": 0.10,  # May 5 2009
    "no periods": 0.10,  # 5 Mai 2009
    "tight comma": 0.03,  # May 5,2009
    "double space": 0.04,  # 5  mai 2009
}

EXAMPLES: tuple[str, ...] = (
    "sexta-feira, 27 de março de 1998",
    "понедельник, 21 июля 1969 г.",
    "٦ أكتوبر ١٩٧٣",
    "2024年2月29日木曜日",
    "शनिवार, १ जनवरी २०००",
    "en-US 03/04/2009",
)

ISO_PATTERNS = ("y-MM-dd", "y/MM/dd")
SKELETONS = ("yMMMMd", "yMMMMEd", "yMMMd", "yMMMEd", "yMd", "yMEd")  # CLDR's, beside its full, long, medium, short
ZEROS = {"arab": "٠", "arabext": "۰", "deva": "०", "beng": "০"}  # numbering systems people write dates in
OTHER_CALENDARS = ("TH", "IR", "AF")  # whose everyday years are not Gregorian (CLDR's calendar preferences)
SEPARATORS = "/.-"
PHRASE = "[ ’]"  # Catalan's "de maig", "d’abril": no name to capitalise, nor to put "maig" in its place

MONTHS = {  # a pattern's field → where CLDR keeps its names
    "MMMM": ("format", "wide"),
    "MMM": ("format", "abbreviated"),
    "LLLL": ("stand-alone", "wide"),
    "LLL": ("stand-alone", "abbreviated"),
}
WEEKDAYS = {
    "EEEE": ("format", "wide"),
    "E": ("format", "abbreviated"),
    "cccc": ("stand-alone", "wide"),
    "ccc": ("stand-alone", "abbreviated"),
}
STANDALONE = {"MMMM": "LLLL", "MMM": "LLL"}
NUMBERS = ("d", "dd", "M", "MM", "y", "yy")
SAME_FIELD = {"EE": "E", "EEE": "E", "L": "M", "LL": "MM", "yyyy": "y"}

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Dates:
    """The recipe's fields for `source: dates`."""

    train: int = 60000  # pairs to train on
    valid: int = 1000  # pairs of dates held out for choosing
    test: int = 2000  # pairs of other dates held out for the figure
    seed: int = 1  # the same seed makes the same pairs, everywhere
    languages: tuple[str, ...] = LANGUAGES  # CLDR locale ids


def generate(dates: Dates) -> dict[str, Pairs]:
    """The pairs (source, target) of each split; sources are unique within a split.

    Each split is drawn by itself: `valid` and `test` do not change with the size of `train`.
    """
    if len(set(dates.languages)) < max(1, len(dates.languages)):
        expected = "one or more different CLDR locale ids"
        raise InputError("data.languages", expected=expected, found=repr(list(dates.languages)))
    languages = [read_language(name) for name in dates.languages]
    twofold = twofold_months(languages)
    splits: dict[str, Pairs] = {}
    for split, days in split_days(dates.seed).items():
        size, most = getattr(dates, split), len(days) * len(languages)
        if not 0 <= size <= most:
            hint = f"{len(days)} dates in {len(languages)} languages"
            raise InputError(f"data.{split}", expected=f"0 to {most} pairs", found=str(size), hint=hint)
        rng = random.Random(f"{dates.seed} {split}")  # seeding by text is the same in every process
        pairs: dict[str, str] = {}
        while len(pairs) < size:
            day, language = rng.choice(days), rng.choice(languages)
            form, manner = draw_form(language, day, rng), draw_manner(rng)
            pairs.setdefault(write(day, form, language, manner, twofold), day.isoformat())
        splits[split] = list(pairs.items())
    return splits


def split_days(seed: int) -> dict[str, list[datetime.date]]:
    """Every date from FIRST to LAST, in exactly one split, by a draw that depends on the seed alone."""
    days = [datetime.date.fromordinal(n) for n in range(FIRST.toordinal(), LAST.toordinal() + 1)]
    random.Random(f"{seed} split").shuffle(days)
    valid, test = (round(len(days) * HELD_OUT[split]) for split in ("valid", "test"))
    return {"train": days[valid + test :], "valid": days[:valid], "test": days[valid : valid + test]}


# --- forms: CLDR's patterns, parsed once ---------------------------------------------------------------------------


class Piece(NamedTuple):
    """Of a pattern: a field to fill (`MMMM`), or the text between fields."""

    field: str
    text: str


@dataclass(frozen=True)
class Form:
    """One way to lay out a date: `d 'de' MMMM 'de' y`."""

    pieces: tuple[Piece, ...]

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(piece.field for piece in self.pieces if piece.field)

    @cached_property
    def order(self) -> str:
        """The order of year, month and day: "dMy"."""
        return "".join(name[0].replace("L", "M") for name in self.fields if name[0] in "yMLd")

    @cached_property
    def numeric(self) -> bool:
        """The month is a number."""
        return not any(name in MONTHS for name in self.fields)

    @cached_property
    def marked(self) -> bool:
        """Could be read two ways, so it carries its locale."""
        return "yy" in self.fields or (self.numeric and self.order != "yMd")

    @cached_property
    def bare(self) -> bool:
        """Numbers and separators alone: 05/05/2009."""
        between = {piece.text.strip() for piece in self.pieces[:-1] if not piece.field}
        return all(name in NUMBERS for name in self.fields) and between <= set(SEPARATORS)


def parse_pattern(pattern: str) -> Form | None:
    """The form of a CLDR pattern; None where it has fields that no plain date needs (an era, a week)."""
    # People type plain spaces and no direction marks.
    pattern = pattern.translate({0x202F: " ", 0xA0: " ", 0x200E: "", 0x200F: ""})
    pieces: list[Piece] = []
    for match in re.finditer(r"'([^']*)'|(([A-Za-z])\3*)|[^A-Za-z']+", pattern):
        if match[2]:
            pieces.append(Piece(SAME_FIELD.get(match[2], match[2]), ""))
            continue
        text = match[0] if match[1] is None else match[1] or "'"
        before = pieces.pop().text if pieces and not pieces[-1].field else ""
        pieces.append(Piece("", before + text))
    form = Form(tuple(pieces))
    known = all(name in NUMBERS or name in MONTHS or name in WEEKDAYS for name in form.fields)
    return form if known and sorted(form.order) == ["M", "d", "y"] else None


ISO_FORMS = tuple(filter(None, map(parse_pattern, ISO_PATTERNS)))


def draw_form(language: Language, day: datetime.date, rng: random.Random) -> Form:
    if rng.random() < ODDS["iso"]:
        return rng.choice(ISO_FORMS)
    return rng.choice(language.forms if day.year in SHORT_YEARS else language.long_year_forms)


# --- languages -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Language:
    """What CLDR says of writing dates in one locale."""

    tag: str  # en-US
    forms: tuple[Form, ...]
    long_year_forms: tuple[Form, ...]  # those without two-digit years
    names: Mapping[str, tuple[str, ...]]  # field → its names, January or Monday first
    digits: Mapping[int, str]  # for str.translate; empty where the language writes 0–9


@cache
def read_language(name: str) -> Language:
    """Read one CLDR locale; raises InputError where there is none, or its years are not Gregorian."""
    from babel import Locale, localedata
    from babel.core import get_global

    if name not in localedata.locale_identifiers():
        hint = "for example 'pt' or 'en_US'"
        raise InputError("data.languages", expected="CLDR locale ids", found=repr(name), hint=hint)
    locale = Locale.parse(name)
    territory = locale.territory or get_global("likely_subtags").get(name, "").rpartition("_")[2]
    if territory in OTHER_CALENDARS:
        raise InputError("data.languages", expected="languages of the Gregorian calendar", found=repr(name))

    names = {key: _names(name, "months", *place) for key, place in MONTHS.items()}
    names |= {key: _names(name, "days", *place) for key, place in WEEKDAYS.items()}
    patterns = [locale.date_formats[key].pattern for key in ("full", "long", "medium", "short")]
    patterns += [locale.datetime_skeletons[key].pattern for key in SKELETONS if key in locale.datetime_skeletons]
    forms = _of_one_order([form for form in map(parse_pattern, patterns) if form])
    zero = ord(ZEROS.get(locale.other_numbering_systems.get("native", ""), "0"))
    return Language(
        tag=name.replace("_", "-"),
        forms=forms,
        long_year_forms=tuple(form for form in forms if "yy" not in form.fields),
        names=names,
        digits={} if zero == ord("0") else {ord("0") + n: chr(zero + n) for n in range(10)},
    )


def _of_one_order(forms: list[Form]) -> tuple[Form, ...]:
    """The different forms, less those that would still be read two ways: Maltese has both M/d/y and d/M/y."""
    orders = [form.order for form in forms if form.marked]
    return tuple(dict.fromkeys(form for form in forms if not form.marked or form.order == orders[0]))


def _names(locale: str, kind: str, context: str, width: str) -> tuple[str, ...]:
    """The names in the order of their number.

    Babel shares what locales inherit, and writes one locale's resolved names into it: once the Hebrew stand-alone
    months are read, Japanese has them too. What the root says of them is always "as in format", so it is never asked.
    """
    from babel import localedata

    data: dict[Any, Any] = localedata.load(locale)
    if context == "stand-alone":
        names, inherited = (source[kind][context][width] for source in (data, localedata.load("root")))
        if names is inherited or isinstance(names, localedata.Alias):
            context = "format"
    names = localedata.LocaleDataDict(data)[kind][context][width]
    return tuple(names[number] for number in sorted(names))


def fold(name: str) -> str:
    """What of a name outlives every manner of writing it: neither case, nor accents that capitals drop, nor periods."""
    plain = unicodedata.normalize("NFD", name).casefold()
    return re.sub("[\u0301\u0307.]", "", plain).replace("ı", "i")


def twofold_months(languages: list[Language]) -> frozenset[str]:
    """The folded names that mean different months in different languages (listopad: November; in Croatian October)."""
    months: dict[str, set[int]] = {}
    for language in languages:
        for key in MONTHS:
            for month, name in enumerate(language.names[key]):
                months.setdefault(fold(name), set()).add(month)
    return frozenset(name for name, meant in months.items() if len(meant) > 1)


# --- writing -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Manner:
    """How one writer departs from CLDR's form; the defaults do not depart."""

    case: str = ""  # "", "lower", "UPPER" or "Title"
    standalone: bool = False
    own_digits: bool = False
    padding: bool = False
    separator: str = ""  # instead of the language's own
    tail: bool = True
    commas: str = ", "  # ", ", "," or " "
    periods: bool = True
    doubled: int | None = None  # which space is typed twice


CASES = ("", "lower", "UPPER", "Title")
CASE_ODDS = (1 - ODDS["lower"] - ODDS["UPPER"] - ODDS["Title"], ODDS["lower"], ODDS["UPPER"], ODDS["Title"])


def draw_manner(rng: random.Random) -> Manner:
    def happens(what: str) -> bool:
        return rng.random() < ODDS[what]

    return Manner(
        case=rng.choices(CASES, CASE_ODDS)[0],
        standalone=happens("standalone"),
        own_digits=happens("own digits"),
        padding=happens("padding"),
        separator=rng.choice(SEPARATORS) if happens("separator") else "",
        tail=not happens("no tail"),
        commas=" " if happens("no commas") else "," if happens("tight comma") else ", ",
        periods=not happens("no periods"),
        doubled=rng.randrange(4) if happens("double space") else None,
    )


def write(
    day: datetime.date, form: Form, language: Language, manner: Manner, twofold: frozenset[str] = frozenset()
) -> str:
    """One source: the form filled with the date, disordered by the manner, its locale in front where it must be."""
    if manner.separator and form.bare:
        form = separate(form, manner.separator)
    marked = form.marked
    words: list[str] = []
    for piece in form.pieces if manner.tail else without_tail(form.pieces):
        key = piece.field
        if not key:
            words.append(piece.text)
        elif key in NUMBERS:
            words.append(_number(day, key, manner.padding))
        else:
            if manner.standalone and not re.search(PHRASE, language.names[key][0]):
                key = STANDALONE.get(key, key)
            name = language.names[key][day.month - 1 if key in MONTHS else day.weekday()]
            marked = marked or (key in MONTHS and fold(name) in twofold)
            words.append(_capitalised(name) if manner.case == "Title" else name)
    text = _punctuate("".join(words), form, manner)
    if manner.own_digits:
        text = text.translate(language.digits)
    text = _cased(text, language.tag, manner.case)
    return f"{language.tag} {text}" if marked else text


def separate(form: Form, separator: str) -> Form:
    """A bare numeric form with another separator, and none at its end: 5-5-2009 for 5. 5. 2009."""
    pieces = tuple(piece if piece.field else Piece("", separator) for piece in form.pieces)
    return Form(pieces if pieces[-1].field else pieces[:-1])


def without_tail(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Without the abbreviated word or period at the end (`г.`), which people leave out; a 日 or 일 they do not."""
    return pieces[:-1] if pieces[-1].text.endswith(".") else pieces


def _number(day: datetime.date, key: str, otherwise_padded: bool) -> str:
    if key[0] == "y":
        return f"{day.year}" if key == "y" else f"{day.year % 100:02}"
    number = day.day if key[0] == "d" else day.month
    return f"{number:02}" if (len(key) == 2) != otherwise_padded else f"{number}"


def _punctuate(text: str, form: Form, manner: Manner) -> str:
    if manner.commas != ", ":
        text = re.sub("[,،] ", manner.commas, text)
    if not manner.periods and not form.numeric:  # in 5.5.2009 the periods are what keeps the numbers apart
        text = text.replace(".", "")
    spaces = [place for place, character in enumerate(text) if character == " "]
    if manner.doubled is not None and spaces:
        place = spaces[manner.doubled % len(spaces)]
        text = f"{text[:place]} {text[place:]}"
    return text


def _capitalised(name: str) -> str:
    return name if re.search(PHRASE, name) else name[:1].upper() + name[1:]


def _cased(text: str, tag: str, case: str) -> str:
    language = tag.partition("-")[0]
    if case == "lower":
        return (text.replace("İ", "i").replace("I", "ı") if language in ("tr", "az") else text).lower()
    if case == "UPPER":
        if language in ("tr", "az"):
            text = text.replace("i", "İ")
        if language == "el":  # Greek capitals carry no accent
            text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace("\u0301", ""))
        return text.upper()
    return text
