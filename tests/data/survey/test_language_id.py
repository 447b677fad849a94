"""A guess at the language of a text."""

import gzip
import os
from pathlib import Path

import pytest

from saccade.data.survey.language_id import NAMES, SHORT_WORDS, guess, line_shares, short_words, words_of

SENTENCES = {
    "en": "The dog sleeps in the house that my brother built.",
    "pt": "O cachorro dorme na casa que o meu irmão não quer.",
    "es": "No sé qué hacer con los libros que me has dado, pero está muy bien.",
    "fr": "Le chien dort dans la maison et il ne veut pas sortir.",
    "de": "Der Hund schläft in dem Haus und will nicht nach draußen.",
    "it": "Il cane dorme nella casa di mio fratello e non vuole uscire.",
    "nl": "De hond slaapt in het huis van mijn broer en wil niet naar buiten.",
    "sv": "Jag vet inte vad jag ska göra med böckerna som du gav mig.",
    "pl": "Nie wiem, co mam zrobić z tymi książkami.",
    "cs": "Nevím, co mám s těmi knihami dělat, když je tma.",
    "ro": "Nu știu ce să fac cu aceste cărți.",
    "fi": "En tiedä, mitä minun pitäisi tehdä, koska se on vanha.",
    "tr": "Bu kitaplar ile ne yapacağımı bilmiyorum ama çok güzel.",
    "ru": "Я не знаю, что делать с книгами, которые ты мне дал.",
    "uk": "Я не знаю, що робити з книжками, які ти мені дав.",
    "ar": "لا أعرف ماذا أفعل مع الكتب التي أعطيتني في البيت.",
    "hi": "मैं घर पर हूँ और वह नहीं है।",
    "el": "Ο σκύλος κοιμάται.",
    "he": "הכלב ישן.",
    "ja": "犬は兄の家で寝ています。",
    "zh": "狗在我哥哥的家里睡觉。",
    "ko": "개는 형의 집에서 잔다.",
    "th": "สุนัขนอนในบ้าน",
}


@pytest.mark.parametrize(("language", "sentence"), SENTENCES.items())
def test_a_sentence_is_known_for_its_language(language, sentence):
    assert guess([sentence]).language == language
    assert str(guess([sentence])) == NAMES[language]


@pytest.mark.parametrize("texts", [[], [""], ["2017-03-04", "7"], ["Anna Kowalska", "Peter Smith"], ["..."], ["Tom"]])
def test_names_and_numbers_are_unsure(texts):
    assert guess(texts).language is None
    assert str(guess(texts)) == "unsure"


def test_one_word_by_chance_is_no_language():
    assert guess(["Bom dia", "Tchau"]).language is None  # "dia" is Indonesian for he


def test_a_guess_between_two_names_both():
    unsure = guess(["Hunden sover i huset og vi har ikke noget at gøre."])
    assert unsure.language is None
    assert set(unsure.near) == {"da", "nb"}
    assert "Danish" in str(unsure) and "Norwegian" in str(unsure)


def test_few_foreign_words_do_not_change_the_guess():
    assert guess([*[SENTENCES["en"]] * 5, SENTENCES["ru"], SENTENCES["de"]]).language == "en"


def test_lines_are_shared_out_among_their_languages():
    assert line_shares([SENTENCES["en"]] * 3 + [SENTENCES["ru"], "Tom"]) == {"en": 0.75, "ru": 0.25}


def test_words_are_without_marks_digits_and_case():
    assert words_of("L'eau, 12 fois «Très» bien-aimée!") == ["l", "eau", "fois", "très", "bien", "aimée"]


def test_every_language_has_a_name_and_enough_short_words():
    assert set(SHORT_WORDS) <= set(NAMES)
    assert all(len(short_words(language)) >= 25 for language in SHORT_WORDS)
    assert short_words("ja") == frozenset()


@pytest.mark.parametrize("language", ["de", "en"])
def test_real_captions_are_known_for_their_language(language):
    folder = os.environ.get("SACCADE_DATA")
    if not folder or not Path(folder, "multi30k").is_dir():
        pytest.skip("SACCADE_DATA names no folder with multi30k")
    with gzip.open(Path(folder, "multi30k", f"val.{language}.gz"), "rt", encoding="utf-8") as file:
        lines = file.readlines()[:300]
    assert guess(lines).language == language
    assert line_shares(lines)[language] > 0.95
