"""BERT's pieces: its marks, its cuts, its vocabulary file."""

import os
from pathlib import Path

import pytest

from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from saccade.data.tokenizers.wordpiece import MARKS, WordPieces, learn_tokenizer, stored_tokenizer
from saccade.errors import InputError, SaccadeError

LOWER = TokenizerConfig(kind="bert", lower=True)
TEXTS = ["the dogs sleep .", "the dog sleeps !", "these cats (and dogs) slept"] * 3


@pytest.fixture(scope="module")
def learnt() -> WordPieces:
    return WordPieces.train(TEXTS, TokenizerConfig(kind="bert", lower=True, size=80))


def test_marks_come_first_in_a_learnt_vocabulary_and_lie_where_a_file_has_them(learnt, tmp_path):
    assert learnt.vocabulary[:5] == list(MARKS)
    assert (learnt.PAD, learnt.BOS, learnt.EOS, learnt.UNK, learnt.MASK) == (0, 1, 2, 3, 4)
    (tmp_path / "vocab.txt").write_text("a\n[MASK]\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n\n", encoding="utf-8")
    read = WordPieces.read(tmp_path / "vocab.txt", LOWER)
    assert (read.PAD, read.BOS, read.EOS, read.UNK, read.MASK) == (2, 4, 5, 3, 1)
    assert read.size == 6 and read.encode("a b") == [0, 3]


def test_no_text_spells_a_mark_but_blanks_can_be_asked_for(learnt):
    marks = {learnt.PAD, learnt.BOS, learnt.EOS, learnt.MASK}
    assert not marks & set(learnt.encode("[CLS] the [MASK] [SEP] [PAD]"))
    ids, spans = learnt.blanked("the [MASK] sleep[MASK]")
    text = "the [MASK] sleep[MASK]"
    assert [text[first:last] for first, last in spans] == ["the", "[MASK]", "sleep", "[MASK]"]
    assert [index for index, token in enumerate(ids) if token == learnt.MASK] == [1, 3]


def test_words_are_cut_into_the_longest_pieces_and_joined_again(learnt):
    assert learnt.pieces(learnt.encode("Dogs sleeps")) == ["dogs", "sleeps"]
    assert learnt.decode(learnt.encode("the dogtheps")) == "the dogtheps"
    assert learnt.decode([learnt.BOS, *learnt.encode("the dog"), learnt.EOS, learnt.PAD]) == "the dog"
    assert learnt.encode("☃") == [learnt.UNK]


def test_spans_point_at_what_was_written():
    pieces = WordPieces.of([*MARKS, "e", "##t", "##e", "."], LOWER)
    text = "  Été."
    assert [text[first:last] for first, last in pieces.spans(text)] == ["É", "t", "é", "."]


def test_the_same_texts_give_the_same_vocabulary_and_a_file_gives_it_back(learnt):
    again = WordPieces.train(TEXTS, TokenizerConfig(kind="bert", lower=True, size=80))
    assert again.vocabulary == learnt.vocabulary
    back = stored_tokenizer(learnt.to_json())
    assert isinstance(back, WordPieces)
    assert back.vocabulary == learnt.vocabulary and back.to_json() == learnt.to_json()
    assert back.encode("The cats!") == learnt.encode("The cats!")


def test_other_kinds_are_learnt_and_restored_as_before():
    plain = learn_tokenizer(["ab", "b"], TokenizerConfig())
    assert type(plain) is Tokenizer and type(stored_tokenizer(plain.to_json())) is Tokenizer
    with pytest.raises(SaccadeError, match="tasks pretrain and classify"):
        Tokenizer.train(["ab"], LOWER)


def test_a_vocabulary_with_a_fault_is_told_with_its_line(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*MARKS, "a", "b", "a"]), encoding="utf-8")
    with pytest.raises(InputError, match=r"vocab.txt:8: expected a piece of its own, found 'a' again, after line 6"):
        WordPieces.read(path, LOWER)
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"found no \[MASK\]"):
        WordPieces.read(path, LOWER)
    with pytest.raises(SaccadeError, match=r"tokens\.vocabulary"):
        TokenizerConfig(kind="words", vocabulary="vocab.txt")


def test_the_pieces_are_those_of_the_transformers_library():
    transformers = pytest.importorskip("transformers", reason="the library to compare with is not installed")
    path = Path(os.environ.get("SACCADE_DATA", "/nowhere")) / "bert_vocab" / "vocab.txt"
    if not path.is_file():
        pytest.skip("SACCADE_DATA holds no bert_vocab/vocab.txt")
    theirs, ours = transformers.BertTokenizer(str(path)), WordPieces.read(path, LOWER)
    assert (ours.PAD, ours.BOS, ours.EOS, ours.UNK, ours.MASK) == (0, 101, 102, 100, 103)
    for text in (
        "Unbelievably, Éclairs aren't 3.5€!",
        "你好 world — naïve",
        "a\tb\u00a0c x²",
        "Antidisestablishmentarianism",
    ):
        assert [101, *ours.encode(text), 102] == theirs(text)["input_ids"]
