"""Ids give the text back, no text spells a special token, nothing is dropped, and training is the same everywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import unicodedata
from dataclasses import replace

import pytest
from tokenizers import Tokenizer as Pipeline

from saccade.data.tokenizers.tokenizer import SPECIAL, Kind, Tokenizer, TokenizerConfig
from saccade.errors import InputError, SaccadeError

KINDS: tuple[Kind, ...] = ("characters", "words", "bpe", "wordpiece", "unigram")
LOSSLESS: tuple[Kind, ...] = ("characters", "bpe", "wordpiece", "unigram")
TEXTS = [
    "The house is old, the garden is new.",
    "नमस्ते दुनिया, कैसे हो?",
    "שלום עולם! مرحبا بالعالم",
    "👩‍👩‍👧 and 🏳️‍🌈 go </script> <b>home</b>",
    "<eos> <pad> <bos> <unk> <eos><pad>",
    "##a ## #b ▁c Ġd",
    "two  spaces\tand\na new line",
    "東京は大きい",
    "cafe\u0301 \u1112\u1161\u11ab",  # decomposed: é, and the Hangul syllable 한
    " the space before",
] * 3


def trained(kind: Kind, **options: object) -> Tokenizer:
    return Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, size=300, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", LOSSLESS)
@pytest.mark.parametrize("text", TEXTS[:10])
def test_ids_give_the_text_back(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    assert tokenizer.decode(tokenizer.encode(text)) == unicodedata.normalize("NFC", text)


def test_words_are_joined_by_spaces() -> None:
    tokenizer = trained("words")
    assert tokenizer.decode(tokenizer.encode("The old\n house, </b>!")) == "The old house , < / b > !"
    assert tokenizer.pieces(tokenizer.encode("नमस्ते दुनिया")) == ["नमस्ते", "दुनिया"]  # vowel signs stay in their word


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_can_spell_a_special_token(kind: Kind) -> None:
    tokenizer = trained(kind)
    reloaded = Tokenizer.from_json(tokenizer.to_json())
    foreign = Pipeline.from_str(tokenizer.to_json())  # whoever reads the file, with whatever settings
    for text in (*SPECIAL, "<eos><pad>", "a<bos>b", "the <eos> house"):
        ids = tokenizer.encode(text)
        assert tokenizer.UNK not in ids
        assert not {tokenizer.PAD, tokenizer.BOS, tokenizer.EOS} & set(ids)
        assert reloaded.encode(text) == foreign.encode(text).ids == ids


@pytest.mark.parametrize("kind", KINDS)
def test_no_piece_that_was_learnt_reads_like_a_special_token(kind: Kind) -> None:
    # Trainers that merged "<eos>" out of the texts would give it the special token's id.
    tokenizer = Tokenizer.train(["<eos> <eos> <eos>"] * 50, TokenizerConfig(kind=kind, size=300))
    labels = tokenizer.pieces(range(tokenizer.size))
    assert labels[:4] == list(SPECIAL)
    assert not set(labels[4:]) & set(SPECIAL)
    assert tokenizer.decode(tokenizer.encode("<eos>")).replace(" ", "") == "<eos>"


@pytest.mark.parametrize("kind", KINDS)
def test_the_unknown_becomes_unk_and_is_never_dropped(kind: Kind) -> None:
    tokenizer = trained(kind)
    text = "the 漢 house"
    ids = tokenizer.encode(text)
    assert ids.count(tokenizer.UNK) == 1
    start, end = tokenizer.spans(text)[ids.index(tokenizer.UNK)]
    assert text[start:end] == "漢"
    assert "漢" not in tokenizer.decode(ids)
    assert "⁇" in tokenizer.decode(ids, unknown="⁇")


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_are_skipped_in_texts_and_shown_in_labels(kind: Kind) -> None:
    tokenizer = trained(kind)
    ids = [tokenizer.BOS, *tokenizer.encode("the house"), tokenizer.EOS, tokenizer.PAD]
    assert tokenizer.decode(ids) == "the house"
    assert tokenizer.pieces(ids)[0] == "<bos>"
    assert tokenizer.pieces(ids)[-2:] == ["<eos>", "<pad>"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [*TEXTS[:10], "", "  ", "the  house"])
def test_spans_point_at_what_each_label_says(kind: Kind, text: str) -> None:
    tokenizer = trained(kind)
    ids = tokenizer.encode(text)
    spans = tokenizer.spans(text)
    assert len(spans) == len(ids)
    for label, index, (start, end) in zip(tokenizer.pieces(ids), ids, spans, strict=True):
        if index != tokenizer.UNK and (start, end) != (0, 0):
            assert unicodedata.normalize("NFC", text[start:end]) == label
    covered = {place for start, end in spans for place in range(start, end)}
    assert {place for place in range(len(text)) if place not in covered and not text[place].isspace()} == set()


def test_spans_survive_what_lower_casing_and_composing_do_to_lengths() -> None:
    tokenizer = Tokenizer.train(["i̇stanbul kg"], TokenizerConfig(lower=True, normalise="nfkc"))
    text = "İst e\u0301 ㎏"
    assert tokenizer.spans(text) == [
        (0, 1), (0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 7), (7, 8), (7, 8),
    ]  # fmt: skip
    assert tokenizer.pieces(tokenizer.encode(text)) == ["i", "\u0307", "s", "t", " ", "<unk>", " ", "k", "g"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_encoded_as_its_texts_one_by_one(kind: Kind) -> None:
    tokenizer = trained(kind)
    texts = [*TEXTS[:10], "", "漢 unknown"]
    assert tokenizer.encode_all(texts) == [tokenizer.encode(text) for text in texts]


def test_characters_and_words_are_numbered_by_count_then_by_text() -> None:
    characters = Tokenizer.train(["cab", "ba", "b"], TokenizerConfig())
    assert characters.pieces(range(4, characters.size)) == ["b", "a", "c"]
    words = Tokenizer.train(["z y, z", "x y"], TokenizerConfig(kind="words"))
    assert words.pieces(range(4, words.size)) == ["y", "z", ",", "x"]


def test_size_and_min_count_bound_the_vocabulary() -> None:
    texts = ["a a a b b c"]
    assert Tokenizer.train(texts, TokenizerConfig(kind="words", size=6)).pieces([4, 5]) == ["a", "b"]
    assert Tokenizer.train(texts, TokenizerConfig(kind="words", size=6)).size == 6
    assert Tokenizer.train(texts, TokenizerConfig(kind="words", min_count=2)).size == 6
    assert Tokenizer.train(texts, TokenizerConfig(min_count=3)).pieces([4, 5]) == [" ", "a"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [9, 40, 97, 180])
def test_no_vocabulary_is_larger_than_asked_for(kind: Kind, size: int) -> None:
    tokenizer = Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, size=size))
    assert tokenizer.size <= size
    assert tokenizer.UNK in tokenizer.encode("漢")


def test_subwords_join_what_stands_together_often() -> None:
    texts = ["low lower lowest newer newest"] * 5
    for kind in ("bpe", "wordpiece"):
        tokenizer = Tokenizer.train(texts, TokenizerConfig(kind=kind, size=60))
        assert len(tokenizer.encode("low lower")) < 6
    rare = Tokenizer.train(texts, TokenizerConfig(kind="bpe", size=60, min_count=11))
    assert len(rare.encode("lowest")) > len(
        Tokenizer.train(texts, TokenizerConfig(kind="bpe", size=60)).encode("lowest")
    )


def test_a_word_is_the_same_piece_at_the_start_and_later() -> None:
    tokenizer = Tokenizer.train(["house house house"] * 9, TokenizerConfig(kind="bpe", size=60))
    assert len(set(tokenizer.encode("house house"))) == 1


def test_a_long_word_is_not_unknown_for_its_length() -> None:
    tokenizer = Tokenizer.train(["ab ba"], TokenizerConfig(kind="wordpiece"))
    assert tokenizer.UNK not in tokenizer.encode("ab" * 200)


def test_lower_casing_and_normal_forms_are_choices() -> None:
    assert Tokenizer.train(["Aa"], TokenizerConfig(lower=True)).size == 5
    assert Tokenizer.train(["é", "e\u0301"], TokenizerConfig(normalise="nfc")).size == 5
    assert Tokenizer.train(["é", "e\u0301"], TokenizerConfig(normalise="none")).size == 7
    assert Tokenizer.train(["ﬁ"], TokenizerConfig(normalise="nfkc")).pieces([4, 5]) == ["f", "i"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_tokenizer_comes_back_whole(kind: Kind) -> None:
    tokenizer = trained(kind, min_count=2, lower=True)
    back = Tokenizer.from_json(tokenizer.to_json())
    assert back.config == tokenizer.config
    assert back.size == tokenizer.size
    assert back.to_json() == tokenizer.to_json()
    assert back.encode_all(TEXTS) == tokenizer.encode_all(TEXTS)
    assert [back.spans(text) for text in TEXTS] == [tokenizer.spans(text) for text in TEXTS]


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_is_one_that_others_read_and_decode_alike(kind: Kind) -> None:
    tokenizer = trained(kind)
    foreign = Pipeline.from_str(tokenizer.to_json())
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert foreign.encode(text).ids == ids
        assert foreign.decode(ids) == tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "bundle/tokenizer.json:1: expected valid JSON, found Expecting value"),
        ('{\n"version": ', "bundle/tokenizer.json:2: expected valid JSON, found Expecting value"),
        ("[" * 100_000, "bundle/tokenizer.json: expected valid JSON, found brackets nested too deep"),
        ("[]", "pre_tokenizer.saccade: expected a tokenizer that saccade wrote, found None"),
        (
            '{"pre_tokenizer": {"saccade": {"kind": "runes"}}}',
            "pre_tokenizer.saccade.kind: expected one of 'characters'",
        ),
        ('{"pre_tokenizer": {"saccade": {"colour": 3}}}', "expected a tokenizer that saccade wrote, found {'colour'"),
        ('{"pre_tokenizer": {"saccade": {}}}', "model: expected a mapping with vocab, merges, found nothing"),
    ],
)
def test_a_bad_file_is_told_with_its_name(text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        Tokenizer.from_json(text, where="bundle/tokenizer.json")
    assert str(caught.value).startswith("bundle/tokenizer.json")
    assert told in str(caught.value)


def test_a_file_with_other_special_ids_or_with_added_tokens_is_refused() -> None:
    document = json.loads(trained("characters").to_json())
    vocabulary = document["model"]["vocab"]
    vocabulary["<pad>"], vocabulary["<bos>"] = 1, 0
    with pytest.raises(InputError, match=r"beginning with <pad>, <bos>, <eos>, <unk>, found .* tokens: <bos>, <pad>"):
        Tokenizer.from_json(json.dumps(document))
    document = json.loads(trained("characters").to_json())
    del document["model"]["vocab"]["e"]
    with pytest.raises(InputError, match="expected ids 0, 1, 2"):
        Tokenizer.from_json(json.dumps(document))
    pipeline = Pipeline.from_str(trained("characters").to_json())
    pipeline.add_special_tokens(["<eos>"])
    document = json.loads(pipeline.to_str())
    document["pre_tokenizer"]["saccade"] = {}
    with pytest.raises(InputError, match=r"added_tokens: expected .*, found .*<eos>"):
        Tokenizer.from_json(json.dumps(document))


def test_limits_in_a_file_do_not_cut_texts() -> None:
    pipeline = Pipeline.from_str(trained("characters").to_json())
    pipeline.enable_truncation(3)
    pipeline.enable_padding(length=7)
    document = json.loads(pipeline.to_str())
    document["pre_tokenizer"]["saccade"] = {}
    assert len(Tokenizer.from_json(json.dumps(document)).encode("house")) == 5


def test_what_is_no_text_is_told() -> None:
    tokenizer = trained("characters")
    for call in (tokenizer.encode, tokenizer.spans, lambda text: tokenizer.encode_all(["fine", text])):
        with pytest.raises(SaccadeError, match="half of a surrogate pair"):
            call("a\ud83d")
        with pytest.raises(SaccadeError, match="expected a text, found int"):
            call(3)  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match="half of a surrogate pair"):
        Tokenizer.train(["a\ud83d"], TokenizerConfig())


def test_ids_outside_the_vocabulary_are_told() -> None:
    tokenizer = Tokenizer.train(["ab"], TokenizerConfig())
    for ids in ([6], [-1]):
        with pytest.raises(SaccadeError, match="expected ids from 0 to 5, found"):
            tokenizer.decode(ids)
        with pytest.raises(SaccadeError, match="expected ids from 0 to 5, found"):
            tokenizer.pieces(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_training_needs_texts(kind: Kind) -> None:
    for texts in ([], ["", ""]):
        with pytest.raises(SaccadeError, match="a tokenizer needs texts to learn from: found no text"):
            Tokenizer.train(texts, TokenizerConfig(kind=kind))
    with pytest.raises(SaccadeError, match="got one text"):
        Tokenizer.train("abc", TokenizerConfig(kind=kind))


def test_settings_out_of_range_are_told() -> None:
    with pytest.raises(SaccadeError, match=r"tokens\.kind: expected one of characters, words, bpe, .*, found 'byte'"):
        TokenizerConfig(kind="byte")  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match=r"tokens\.normalise: expected one of none, nfc, nfkc, found 'nfd'"):
        TokenizerConfig(normalise="nfd")  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match=r"tokens\.size: expected a whole number of at least 5, found 4"):
        TokenizerConfig(size=4)
    with pytest.raises(SaccadeError, match=r"tokens\.min_count: expected a whole number of at least 1, found 0"):
        TokenizerConfig(min_count=0)


TRAIN_ALL = """
import random, hashlib
from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
draw = random.Random(5)
words = ["".join(draw.choice("bdfgklmn") + draw.choice("aeiou") for _ in range(3)) for _ in range(300)]
texts = [" ".join(words[i : i + 5]) for i in range(0, 300, 5)] * 2  # equal counts everywhere: nothing but ties
for kind in ("characters", "words", "bpe", "wordpiece", "unigram"):
    for size in (50, 90, 150):
        tokenizer = Tokenizer.train(texts, TokenizerConfig(kind=kind, size=size))
        print(kind, size, hashlib.sha256(tokenizer.to_json().encode()).hexdigest())
"""


def test_the_same_texts_give_the_same_ids_in_every_process() -> None:
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", TRAIN_ALL],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in (1, 2, 3)
    ]
    first, second, third = (run.communicate()[0].splitlines() for run in runs)
    assert len(first) == 15
    assert first == second == third


# Strings kept whole -------------------------------------------------------------------------------------------------


MARKED = TokenizerConfig(kind="words", lower=True, whole=("<e1>", "</e1>", "N't"))


def test_whole_strings_survive_punctuation_and_lower_casing_and_have_an_entry():
    tokenizer = Tokenizer.train(["the <E1>Storm</e1> is n't here", "a b"], replace(MARKED, size=12))
    text = "a<e1>storm</e1> is n't <e2>"
    assert tokenizer.pieces(tokenizer.encode(text)) == [
        "a",
        "<e1>",
        "storm",
        "</e1>",
        "is",
        "n't",
        "<unk>",
        "<unk>",
        "<unk>",
    ]
    assert [text[start:end] for start, end in tokenizer.spans(text)][:4] == ["a", "<e1>", "storm", "</e1>"]
    assert tokenizer.pieces(range(4, 7)) == ["<e1>", "</e1>", "n't"]


def test_whole_strings_have_an_entry_though_training_lacks_them_and_however_rare():
    tokenizer = Tokenizer.train(["a a b b", "<e1> a b"], replace(MARKED, min_count=2))
    assert tokenizer.size == 4 + 3 + 2
    assert tokenizer.encode("n't </e1>") == [6, 5]


def test_the_longer_of_two_whole_strings_wins():
    tokenizer = Tokenizer.train(["a"], TokenizerConfig(kind="words", whole=("#", "##", "#a#")))
    assert tokenizer.pieces(tokenizer.encode("###a# #a")) == ["##", "#a#", "#", "a"]


def test_a_tokenizer_with_whole_strings_is_stored_and_one_from_before_still_loads():
    tokenizer = Tokenizer.train(["a <e1> b"], MARKED)
    again = Tokenizer.from_json(tokenizer.to_json())
    assert again.config == MARKED and again.encode("b<E1>a") == tokenizer.encode("b<E1>a")
    document = json.loads(Tokenizer.train(["a b"], TokenizerConfig(kind="words")).to_json())
    del document["pre_tokenizer"]["saccade"]["whole"]
    assert Tokenizer.from_json(json.dumps(document)).config == TokenizerConfig(kind="words")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"kind": "bpe", "whole": ("<e1>",)}, "tokens.whole: expected with kind words only, found it with bpe"),
        ({"whole": ("<EOS>",)}, "none of <pad>, <bos>, <eos>, <unk> among them, found '<EOS>'"),
        ({"whole": (" a",)}, "found ' a'"),
        ({"whole": ("",)}, "found ''"),
        ({"whole": ("a", "b"), "size": 6}, "tokens.size: expected room for words"),
    ],
)
def test_bad_whole_strings_are_refused(fields, told):
    with pytest.raises(SaccadeError, match=re.escape(told)):
        TokenizerConfig(**{"kind": "words", **fields})
