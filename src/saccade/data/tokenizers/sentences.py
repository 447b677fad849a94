"""Splits text into sentences, by rules for English and Portuguese that do little harm in other languages. No torch.

A sentence ends

    after . ! ? … and the quotes and brackets that close behind them, where what follows can begin a sentence;
    after 。 ！ ？ and their kin, which need no space behind them;
    at a blank line, at a line break after a mark that ends a sentence, at <br />, <p> and </p>.

It does not end in a number (3.14, R$ 1.500,00), in an abbreviation (Mr., Sra., e.g.), behind an initial (J. K. Rowling) or a
list's number (1. First), where a small letter follows ("Why?" she asked), or where dots trail off (well... maybe). Behind a
stop and a word of three letters a small letter may follow nonetheless (it was dull. and long), and in a text without any
capitals behind every word: there, case carries no information.

An abbreviation that may end a sentence (U.S., etc., Inc., Plan B.) does so where the next word is one that sentences often
begin with.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Followed by a name, a number or an example: never the end of a sentence.
LEADING = _words(
    """mr mrs ms messrs dr drs prof st sto sta mt rev fr hon pres gov gen col maj capt cpt cmdr adm lt sgt cpl pvt sen rep
    sr sra srs sras srta dra profa exmo exma ilmo ilma dom eng arq vs cf viz approx av séc sécs
    dept depto min max temp est ext misc"""
)
# Before a number only: "No. 5" is an abbreviation, "I said no." ends.
NUMBERED = _words("no nos nr n art arts fig figs vol vols cap caps pp p pg pág págs ch sec tel lei ed")
# May end a sentence or not: the next word decides.
TRAILING = _words("etc inc ltd ltda co corp bros jr cia jan feb fev mar apr abr aug ago sept set oct out nov dec dez")
OPENERS = _words(
    """the a an he she it i we you they this that these those there here his her its my our your their but and or so if in on
    at for when while after before as what who how why then now no not yes one all some many most
    o os as um uma ele ela eles elas eu nós você vocês este esta isto isso esse essa aquele aquela aquilo mas e ou se em no na
    nos nas ao à depois antes quando como que quem não sim já agora ainda também todos há foi era é"""
)
# "e.g.", "i.e.", "p.ex.", "a.m.", "U.S.", "S.A.": letters with stops between them; the last stop is the one in question.
LETTERED = re.compile(r"(?:^|[^\w.])((?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2})$")
NEVER_LETTERED = frozenset(("e.g", "i.e", "p.ex", "v.gr"))
WORD_BEFORE = re.compile(r"([^\W\d_]+)$")
ALONE = re.compile(r"[(\[\"'“‘«]*(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,4})$")  # a list's number, and nothing before it

CLOSERS = "\"'”’»)]}›」』）】〉》"
OPENING = "\"'“‘„«‹([{¿¡-–—•*_"
BREAK = r"<(?:[bB][rR]\s*/?|/?[pP])\s*>"
TAG = re.compile(BREAK)
MARK = re.compile(
    rf"""
    (?P<tags>{BREAK}(?:\s*{BREAK})*)                               # HTML's line breaks
  | (?P<blank>\n\s*\n)                                           # a blank line
  | (?P<wide>[。！？｡．‼⁇]+[{re.escape(CLOSERS)}]*)               # marks that need no space
  | (?P<stop>[.!?…؟۔।]+(?:\s?[.!?]+)*[{re.escape(CLOSERS)}]*)    # marks that do
    """,
    re.VERBOSE,
)
GAP = re.compile(r"\s*")
RUN = re.compile(r"\S*")


@dataclass(frozen=True)
class Nesting:
    """How a document is cut: at most so many sentences, none of more words than these: a longer one becomes several."""

    most: int = 50
    words: int = 50

    def __post_init__(self) -> None:
        for name in ("most", "words"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1: got {getattr(self, name)}")

    def __str__(self) -> str:
        return f"{{most: {self.most}, words: {self.words}}}"


def sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends, in order; together they hold every character but the spaces between them.

    >>> text = 'Dr. Silva paid 3.50. "Why?" she asked. He left...'
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. Silva paid 3.50.', '"Why?" she asked.', 'He left...']
    """
    cased = any(character.isupper() for character in text)
    spans: list[tuple[int, int]] = []
    start = GAP.match(text).end()  # type: ignore[union-attr]  # it matches nothing too
    place = start
    while found := MARK.search(text, place):
        place = max(found.end(), place + 1)
        if start < found.end() and _ends(text, start, found, cased):
            _add(spans, text, start, found.end())
            start = place = GAP.match(text, found.end()).end()  # type: ignore[union-attr]
    _add(spans, text, start, len(text))
    return spans


def _add(spans: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    end = start + len(text[start:end].rstrip())
    if end > start:
        spans.append((start, end))


def _ends(text: str, start: int, found: re.Match[str], cased: bool) -> bool:
    """Whether the sentence that began at ``start`` ends behind this mark."""
    if found["stop"] is None:
        return True
    gap = GAP.match(text, found.end())
    after = found.end() if gap is None else gap.end()
    marks = found["stop"].rstrip(CLOSERS)
    if after == len(text):
        return True
    if "\n" in text[found.end() : after]:
        return marks != "." or not _leads(text, start, found.start())
    if TAG.match(text, after):
        return False  # what follows is a break, which takes the mark with it
    if after == found.end():
        return _glued(text, found, marks)
    if marks == "." and _abbreviates(text, start, found.start(), after):
        return False
    if _begins(text, after):
        return True
    before = text[max(start, found.start() - 3) : found.start()]
    apart = before[-1:].isspace()  # "word ." was cut into words already
    careless = found["stop"] == "." and len(before) == 3 and before.isalpha()
    return marks in (".", "!", "?") and (apart or careless or not cased)


def _glued(text: str, found: re.Match[str], marks: str) -> bool:
    """Whether a mark without a space behind it ends a sentence: "the end.The film", but not "Node.js", "3.14" or "U.S.A"."""
    before, after = text[max(0, found.start() - 3) : found.start()], text[found.end() : found.end() + 2]
    return len(before) == 3 and before.isalpha() and before.islower() and after[:1].isupper() and marks[-1] in ".!?…"


def _begins(text: str, place: int) -> bool:
    """Whether a sentence can begin here: with a capital, a digit, a letter of a script without capitals, or a sign."""
    while place < len(text) and text[place] in OPENING:
        place += 1
        if text[place : place + 1].isspace() and text[place - 1] in "-–—•*":
            place += 1
    run = RUN.match(text, place)
    for character in run.group() if run else "":
        if character.isalnum():
            return not character.islower()
    return True


def _abbreviates(text: str, start: int, stop: int, after: int) -> bool:
    """Whether the stop at ``stop`` belongs to the word before it."""
    before = text[max(start, stop - 24) : stop]
    line = max(start, text.rfind("\n", max(start, stop - 24), stop) + 1)
    if ALONE.fullmatch(text, line, stop) or _leads(text, start, stop):
        return True
    opens = _begins(text, after) and _word_at(text, after) in OPENERS
    lettered = LETTERED.search(before) if "." in before else None
    if lettered:
        return lettered[1].lower() in NEVER_LETTERED or not opens
    found = WORD_BEFORE.search(before)
    if found is None:
        return False
    word = found[1]
    lower = word.lower()
    if lower in NUMBERED and text[after].isdigit():
        return True
    if (len(word) == 1 and word.isupper()) or lower in TRAILING:
        return not opens
    return False


def _leads(text: str, start: int, stop: int) -> bool:
    """Whether the word before the stop is one that needs another behind it."""
    found = WORD_BEFORE.search(text[max(start, stop - 24) : stop])
    return found is not None and found[1].lower() in LEADING


def _word_at(text: str, place: int) -> str:
    while place < len(text) and text[place] in OPENING:
        place += 1
    end = place
    while end < len(text) and text[end].isalpha():
        end += 1
    return text[place:end].lower()
