"""Word vectors from files: both formats, packed or not, odd words, wrong lines, and a vocabulary that grows."""

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from saccade.data.labels.records import LabelledData, WordTokens
from saccade.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from saccade.data.tokenizers.vectors import (
    Vectors,
    as_vectors,
    check_vectors,
    extended,
    is_frozen,
    learn_words,
    read_vectors,
    words_in,
)
from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe

GLOVE = "the 0.5 -1 2e-1\ndog 1 2 3\nCat 4 5 6\n. 7 8 9\n"


def found_in(folder: Path, text: str, *words: str, name: str = "v.txt"):
    (folder / name).write_text(text, encoding="utf-8")
    return read_vectors(Vectors(name), folder, {word: number for number, word in enumerate([*SPECIAL, *words])})


def test_words_have_their_vectors_and_others_have_none(tmp_path):
    found = found_in(tmp_path, GLOVE, "dog", "owl", "the")
    assert found.matrix.dtype == np.float32 and found.matrix.shape == (7, 3)
    np.testing.assert_allclose(found.matrix[[4, 6]], [[1, 2, 3], [0.5, -1, 0.2]], rtol=1e-6)
    assert found.known.tolist() == [False] * 4 + [True, False, True]
    assert found.note == "data.vectors: 2 of 3 words (66.7 %) have a vector of 3 numbers; 1 begin at random"


def test_a_word_is_looked_up_as_written_and_then_in_lower_case(tmp_path):
    found = found_in(tmp_path, GLOVE + "Dog 0 0 1\n", "Dog", "THE", "cat")
    assert found.matrix[4].tolist() == [0, 0, 1]  # as written, though "dog" came first
    assert found.matrix[5].tolist() == pytest.approx([0.5, -1, 0.2])
    assert not found.known[6]  # the file has "Cat" only
    assert "begin at random" not in found_in(tmp_path, GLOVE, "dog").note


def test_the_first_of_two_vectors_of_a_word_counts(tmp_path):
    assert found_in(tmp_path, "dog 1 2\ndog 3 4\n", "dog").matrix[4].tolist() == [1, 2]


def test_a_files_own_vector_of_unknown_words_serves_and_is_not_counted(tmp_path):
    found = found_in(tmp_path, "<unk> 1 2\ndog 3 4\n", "dog")
    assert found.matrix[Tokenizer.UNK].tolist() == [1, 2] and found.known.tolist() == [False] * 3 + [True] * 2
    assert "1 of 1 words (100.0 %)" in found.note


def test_word2vec_says_first_how_many_words_and_numbers_there_are(tmp_path):
    found = found_in(tmp_path, "2 3\n7 1 2 3 \ndog 4 5 6 \n", "7", "dog")  # each line of its ends in a blank
    assert found.matrix[4:].tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(InputError, match=r"v.txt: expected 3 words, as its first line says, found 2"):
        found_in(tmp_path, "3 3\n7 1 2 3\ndog 4 5 6\n", "dog")


def test_a_number_may_be_the_first_word_of_a_file_without_a_header(tmp_path):
    assert found_in(tmp_path, "7 1 2 3\ndog 4 5 6\n", "7").matrix[4].tolist() == [1, 2, 3]


@pytest.mark.parametrize(("name", "pack"), [("v.txt.gz", gzip.compress), ("v.txt.xz", lzma.compress)])
def test_files_may_be_packed(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(GLOVE.encode()))
    assert read_vectors(Vectors(name), tmp_path, {"dog": 0}).matrix.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("word", [". . .", "at name@domain.com", "1\u00a0000", "a\u2028b", "windows 95", "\x85"])
def test_a_word_may_have_blanks_of_any_kind_inside(tmp_path, word):
    found = found_in(tmp_path, f"the 1 2 3\n{word} 4 5 6\ndog 7 8 9\n", word, "dog")
    assert found.matrix[4:].tolist() == [[4, 5, 6], [7, 8, 9]]
    if word != "windows 95":  # in a first line nothing tells a number from a word
        first = found_in(tmp_path, f"{word} 4.5 5.5 6.5\ndog 7 8 9\n", word, "dog")
        assert first.matrix[4:].tolist() == [[4.5, 5.5, 6.5], [7, 8, 9]]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("dog 1 2", "v.txt:2: expected a word and 3 numbers, as in the lines before, found 2"),
        ("dog 1.5 2 3 4", "v.txt:2: expected a word and 3 numbers, as in the lines before, found 4"),
        ("dog 1 two 3", "v.txt:2: expected numbers behind the word, found 'two'"),
        ("dog 1 nan 3", "v.txt:2: expected finite numbers behind the word, found 'nan'"),
        ("dog 1 1e60 3", "v.txt:2: expected finite numbers behind the word, found '1e60'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, told):
    with pytest.raises(InputError) as error:
        found_in(tmp_path, f"the 1 2 3\n{line}\nowl 1 2 3\n", "dog", "owl")
    assert str(error.value).endswith(told)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a word and its numbers a line, found nothing"),
        ("a text that holds no vectors\n", "v.txt:1: expected a word and its numbers, found 'a text that"),
        ("el 1 2\nperro 3 4\n", "expected vectors of words in the training texts, found none of them"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, text, told):
    with pytest.raises(InputError) as error:
        found_in(tmp_path, text, "dog")
    assert told in str(error.value)


@pytest.mark.parametrize("header", [b"", b"2 2\n"])
def test_a_binary_file_is_told_as_such(tmp_path, header):
    (tmp_path / "v.bin").write_bytes(header + b"the \xcd\xcc\x8c\x3f\xff\ndog \x9a\x99\xff\n")
    with pytest.raises(
        InputError, match=r"expected a word and its numbers, found bytes that are not text .*not the binary"
    ):
        read_vectors(Vectors("v.bin"), tmp_path, {"dog": 0})


def test_a_word_that_was_cut_within_a_character_is_passed_over(tmp_path):
    (tmp_path / "v.txt").write_bytes(b"the 1 2\n" + "é".encode()[:1] + b" 3 4\ndog 5 6\n")
    assert read_vectors(Vectors("v.txt"), tmp_path, {"dog": 0}).matrix.tolist() == [[5, 6]]


def test_a_missing_file_is_told_with_what_stands_beside_it(tmp_path):
    (tmp_path / "glove.txt").write_text(GLOVE)
    with pytest.raises(InputError, match=r"did you mean glove.txt\?"):
        read_vectors(Vectors("glvoe.txt"), tmp_path, {"dog": 0})


def test_a_file_is_short_for_vectors_that_are_learnt_on(tmp_path):
    assert as_vectors("v.txt") == Vectors("v.txt", extend=False, frozen=False) and as_vectors(None) is None
    assert is_frozen(Vectors("v.txt", frozen=True)) and not is_frozen("v.txt") and not is_frozen(None)
    with pytest.raises(ValueError, match=r"vectors must be left out unless tokens.kind is words: got tokens.kind bpe"):
        check_vectors("v.txt", WordTokens(kind="bpe"))
    with pytest.raises(ValueError, match="vectors must be left out"):
        LabelledData(source="opinions", vectors="v.txt", tokens=WordTokens(kind="characters"))
    with pytest.raises(ValueError, match="file must name"):
        Vectors(" ")


def test_words_of_the_file_join_the_vocabulary_in_its_order_as_far_as_there_is_room(tmp_path):
    (tmp_path / "v.txt").write_text("n't 0 0\nowl 1 2\nThe 3 4\ncat 5 6\ndog 7 8\nant 9 9\n")
    vectors = Vectors(str(tmp_path / "v.txt"), extend=True)
    tokens = WordTokens(lower=True, size=4 + 2 + 2)
    tokenizer, found = learn_words(["the dog", "The"], tokens, vectors)
    assert tokenizer.pieces(range(4, tokenizer.size)) == ["the", "dog", "owl", "cat"]
    assert tokenizer.encode("Owl the ant") == [6, 4, Tokenizer.UNK]
    assert found is not None and found.known.tolist() == [False] * 5 + [True] * 3  # the file has "The" only
    assert found.note.endswith("; 1 begin at random; 2 words are not in the training texts")
    assert Tokenizer.from_json(tokenizer.to_json()).encode("cat") == [7]
    plain, none = learn_words(["the dog", "The"], tokens, None)
    assert none is None and extended(plain, ["owl", "cat"]).to_json() == tokenizer.to_json()


def test_what_no_text_gives_as_one_word_does_not_join(tmp_path):
    tokenizer, _ = learn_words(["the dog"], WordTokens(lower=True, size=50), None)
    grown = extended(tokenizer, ["n't", "a b", "DOG", "cafe\u0301", "café", "<unk>", "", "…", "owl"])
    assert grown.pieces(range(tokenizer.size, grown.size)) == ["café", "…", "owl"]


def test_paths_start_where_those_of_recipes_do(tmp_path, monkeypatch):
    (tmp_path / "v.txt").write_text(GLOVE)
    recipe = tmp_path / "my.yaml"
    recipe.write_text(
        "task: classify\ndata: {source: opinions, vectors: v.txt}\nmodel: {name: attentive_classifier, embedding: 3}\n"
    )
    monkeypatch.chdir(tmp_path.parent)
    assert read_recipe(recipe).data.vectors == str(tmp_path.resolve() / "v.txt")
    typed = read_recipe(recipe, ["data.vectors={file: w.txt, frozen: true}"]).data.vectors
    assert typed == Vectors(str(Path.cwd() / "w.txt"), frozen=True)
    monkeypatch.setenv("WORDS", str(tmp_path))
    assert list(words_in(Vectors("$WORDS/v.txt"), Path())) == ["the", "dog", "Cat", "."]
    recipe.write_text(recipe.read_text().replace("vectors: v.txt", "vectors: {file: v.txt, extend: true}"))
    assert read_recipe(recipe).data.vectors == Vectors(str(tmp_path.resolve() / "v.txt"), extend=True)


@pytest.mark.skipif(not os.environ.get("SACCADE_DATA"), reason="needs SACCADE_DATA: GloVe's vectors")
def test_gloves_vectors_are_read():
    vectors = Vectors("$SACCADE_DATA/glove_6b_50d/glove.6B.50d.top40k.txt.gz")
    found = read_vectors(vectors, Path(), {"the": 0, "King": 1, "queen": 2, "pear": 3, "xqzt": 4})
    assert found.known.tolist() == [True] * 4 + [False] and found.matrix.shape == (5, 50)
    assert found.matrix[0, :3].tolist() == pytest.approx([0.418, 0.24968, -0.41242])
    unit = found.matrix[:4] / np.linalg.norm(found.matrix[:4], axis=1, keepdims=True)
    cosines = unit @ unit.T
    assert cosines[1, 2] > cosines[1, 3]
