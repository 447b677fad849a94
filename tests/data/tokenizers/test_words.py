"""Words are looked up whole, or cut to BERT's pieces; characters are those of the training words."""

from __future__ import annotations

import pytest

from saccade.data.tags.records import TagTokens
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.data.tokenizers.vectors import Vectors
from saccade.data.tokenizers.words import UNKNOWN, WordReader, written
from saccade.errors import InputError, SaccadeError

SENTENCES = [("Don't", "panic", "in", "1990"), ("don't", "panic", "<unk>")]


def learnt(**fields) -> WordReader:
    return WordReader.learn(SENTENCES, TagTokens(**fields))[0]


def test_words_are_looked_up_as_they_are_given() -> None:
    reader = learnt()
    assert reader.tokenizer.pieces(reader.cut(SENTENCES[0]).ids) == list(SENTENCES[0])
    unknown = reader.tokenizer.UNK
    assert reader.cut(["panic!", "PANIC"]).ids == [unknown, unknown] and reader.cut(["a", "b"]).places == [0, 1]


def test_no_word_can_spell_a_mark() -> None:
    reader = learnt()
    assert reader.cut(["<unk>", "<pad>", "<bos>"]).ids == [reader.tokenizer.UNK] * 3


def test_case_and_digits_fall_where_that_is_asked_for() -> None:
    assert written("Café-1990", TagTokens(lower=True, digits=True)) == "café-0000"
    reader = learnt(lower=True, digits=True)
    one, other, year, later = reader.cut(["Don't", "DON'T", "1990", "2021"]).ids
    assert one == other != year == later


def test_rare_words_are_unknown_and_the_commonest_come_first() -> None:
    reader = learnt(min_count=2, lower=True)
    assert reader.tokenizer.pieces(range(4, reader.tokenizer.size)) == ["don't", "panic"]
    assert learnt(size=5).tokenizer.size == 5
    with pytest.raises(SaccadeError, match="none seen 9 times"):
        learnt(min_count=9)


def test_characters_are_spelled_with_their_case_and_long_words_by_both_ends() -> None:
    reader = learnt(characters=4, lower=True)
    table = reader.spelled(["", "in", "Don't", "é"])
    letters = ["", "?", *reader.characters]
    assert table.shape == (4, 4) and not table[0].any() and table[3].tolist() == [UNKNOWN, 0, 0, 0]
    assert [letters[number] for number in table[1]] == ["i", "n", "", ""]
    assert [letters[number] for number in table[2]] == ["D", "o", "'", "t"]
    assert reader.alphabet == len(reader.characters) + 2


def test_a_bundle_keeps_words_and_characters_as_a_tokenizer_of_words() -> None:
    reader = learnt(lower=True, min_count=2)
    files = reader.files()
    again = WordReader.restore(files, reader.config)
    assert again.cut(["Don't", "x"]) == reader.cut(["Don't", "x"]) and again.characters == reader.characters
    assert again.files() == files and Tokenizer.from_json(files["tokenizer.json"]).config.kind == "words"
    for missing in files:
        kept = {name: text for name, text in files.items() if name != missing}
        with pytest.raises(InputError, match=missing):
            WordReader.restore(kept, reader.config)
    with pytest.raises(InputError, match="expected tokens of the kind bert, found words"):
        WordReader.restore(files, TagTokens(kind="bert"))


def test_pieces_remember_where_words_begin() -> None:
    reader = learnt(kind="bert", lower=True, size=40)
    cut = reader.cut(["panic", "don't", "\u200b"])
    assert cut.places[0] == 0 and len(cut.places) == 3 and len(cut.ids) > 3 and reader.alphabet == 0
    for place, word in zip(cut.places, ("panic", "don't")):
        assert cut.ids[place] == reader.tokenizer.encode(word)[0]
    assert cut.ids[cut.places[2] :] == [reader.tokenizer.UNK]  # a word that is nothing once it is normalised
    assert WordReader.restore(reader.files(), reader.config).cut(["panic"]) == reader.cut(["panic"])


def test_vectors_are_found_and_extend_the_words(tmp_path) -> None:
    (tmp_path / "v.txt").write_text("panic 0.5 1.5\nDon't 1.0 2.0\ncalm 3.0 4.0\n")
    vectors = Vectors(str(tmp_path / "v.txt"), extend=True)
    reader, found = WordReader.learn(SENTENCES, TagTokens(lower=True), vectors)
    words = reader.tokenizer.pieces(range(reader.tokenizer.size))
    assert "calm" in words and "Don't" not in words  # no text that is looked up in lower case reads so
    assert found.matrix[words.index("calm")].tolist() == [3.0, 4.0] and found.known.sum() == 2
    assert "1 of them are not in the training texts" in found.note
