"""Where sentences end: hard cases in English and Portuguese, other scripts, and what holds for every text."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from saccade.data.tokenizers.sentences import Nesting, sentences

# A bar stands where a sentence ends.
ENGLISH = {
    "stops": "It rained.| We left!| Why?| Nobody knows.",
    "titles": "Mr. and Mrs. Brown met Dr. Hill at St. Paul's.| They sat.",
    "initials": "J. K. Rowling wrote it.| George W. Bush read it.",
    "the word I": "So did I.| The end came.",
    "plan b": "We took Plan B.| It worked.",
    "decimals": "Pi is 3.14 and e is 2.72.| Both are odd.",
    "a year": "It was 1990.| The wall was gone.",
    "addresses": "See www.example.com/a.html for v2.0.1 now.| Then write.",
    "said": '"Why?" she asked.| "Stop!" he cried.',
    "quotes": 'He said "Stop."| Then he left.',
    "curly": "“It is late.”| She stood up.",
    "brackets": "It ended (badly.)| We slept.",
    "trailing dots": "Well... maybe it was… fine.| Or not.",
    "dots that end": "He waited...| Nobody came.",
    "many marks": "What?!| Really!!!| No way...",
    "latin": "Cats, e.g. Tom, sleep (i.e. rest).| Dogs do, too.",
    "acronyms": "The U.S. Army left the U.S.| They came at 5 p.m. and sat.",
    "etc": "Bring tea, milk, etc. and sit.| Bring tea, etc.| We wait.",
    "companies": "Acme Inc. Chairman Lee spoke.| He works at Acme Inc.| He likes it.",
    "numbers of": "See No. 5 and fig. 3.| I said no.| Then art. 7.",
    "lists": "1. Wash it.|\n2. Dry it.",
    "no space": "That was the end.|The film failed!|Avoid it.",
    "names with stops": "Node.js and asp.net and the file a.Txt stay.| Fine.",
    "small letters": "i liked it.| it was good!| was it?| yes.",
    "careless": "This was dull.| and it was long.| i left, e.g. at 5 approx. or so.",
    "small and mr": "mr. smith left.| he ran.",
    "cut into words": "The film was fine .| It was long !| the end .",
    "html": "Good.<br /><br />|Bad film<br>|but short. <p>|End</p>",
    "blank line": "A title|\n\nThe text begins\nand goes on.",
    "line ends": "one line.|\nanother line.|\nMore",
    "wrapped lines": "They met Dr.\nHill.|\nHe sat at approx.\nfive.",
    "lists without stops": "A list:\n1. Wash it\n2. Dry it.| Done.",
    "windows lines": "A title|\r\n\r\nText.",
    "smile": "Great.| :) Loved it.",
    "rating": "I liked it.| 8/10.",
    "dashes": "It is over.| — Is it?| – Yes.",
}
PORTUGUESE = {
    "tratamentos": "O Sr. Silva e a Sra. Dias viram a Dra. Ana.| Foi ontem.",
    "números": "Custa R$ 1.500,00 hoje.| Amanhã custa 3.14 vezes mais.",
    "artigos": "Veja o art. 5º e a pág. 12 do vol. 3.| Depois leia.",
    "séculos": "No séc. XX houve guerras.| A paz veio.",
    "avenida": "Mora na Av. Paulista.| É longe.",
    "exemplo": "Frutas, p.ex. Maçã e uva, etc. são boas.| Coma!",
    "diálogo": "— Não! — disse ele.| — Venha cá.",
    "aspas": "Ele disse «Pare.»| Depois saiu.",
    "reticências": "Bem... talvez.| Não sei...",
    "acento": "Ótimo filme.| Às vezes chato.| É assim.",
    "sociedade": "A Vale S.A.| Ela lucrou.| A Silva Ltda. foi vendida.",
    "horas": "Saiu às 15h30.| Chegou às 16h.",
}
OTHERS = {
    "japanese": "彼は来た。|「本当？」|私は笑った！|終わり",
    "spanish": "Hola.| ¿Qué tal?| ¡Bien!",
    "german": "Er kam z.B. am Montag.| Über Nacht.",
    "arabic": "هل جاء؟| نعم جاء.",
    "hindi": "वह आया।| मैं गया।",
}
CASES = {**ENGLISH, **PORTUGUESE, **OTHERS}


@pytest.mark.parametrize("name", CASES)
def test_sentences_end_where_a_reader_ends_them(name: str) -> None:
    text = CASES[name].replace("|", "")
    assert [text[start:end] for start, end in sentences(text)] == [part.strip() for part in CASES[name].split("|")]


def test_nothing_has_no_sentence() -> None:
    assert sentences("") == sentences(" \n\n ") == []
    assert sentences("...") == [(0, 3)] and sentences("<br />") == [(0, 6)] and sentences(" a ") == [(1, 2)]


def test_no_character_is_lost_and_none_is_in_two_sentences() -> None:
    draw = random.Random(1)
    alphabet = [
        ".",
        "!",
        "?",
        "…",
        " ",
        "\n",
        "a",
        "B",
        "3",
        '"',
        "(",
        ")",
        "<br />",
        "。",
        "Mr",
        "é",
        "—",
        "\u00a0",
        "\x00",
    ]
    for _ in range(3000):
        text = "".join(draw.choice(alphabet) for _ in range(draw.randrange(40)))
        places = sentences(text)
        assert all(start < end for start, end in places)
        assert all(one[1] <= other[0] for one, other in pairwise(places))
        inside = "".join(text[start:end] for start, end in places)
        assert "".join(inside.split()) == "".join(text.split())
        assert all(text[start:end].strip() == text[start:end] for start, end in places)


def test_a_long_text_is_cut_quickly() -> None:
    for text in (
        "a" * 200_000,
        "." * 200_000,
        "a. " * 60_000,
        "<br /> " * 30_000,
        " " * 200_000,
        "\n" * 200_000,
        "U.S." * 50_000,
    ):
        sentences(text)


@pytest.mark.parametrize("name", ["most", "words"])
def test_limits_are_at_least_one(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1: got 0"):
        Nesting(**{name: 0})
