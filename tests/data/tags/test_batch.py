"""Tagged sentences as rows: marks, first pieces, characters, parts, and batches in few shapes."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.data.labels.batch import IGNORED
from saccade.data.tags.batch import Part, Row, collate, corpus_of, parts_of, tags_within
from saccade.data.tags.records import Tagged, TaggedData, TagTokens
from saccade.data.tags.schemes import fault_in
from saccade.data.tags.tagset import Tags
from saccade.data.tokenizers.words import Cut, WordReader
from saccade.errors import InputError

ROWS = [Row([7, 8, 9], [0, 2], [1, 0], []), Row([6], [0], [2], [])]
LONG = Tagged(tuple("abcdefg"), ("O", "B-A", "I-A", "I-A", "I-A", "O", "B-A"))


def test_first_pieces_are_tagged_and_marks_are_not() -> None:
    batch = collate(ROWS, [3, 5], None, first=1, last=2, padding=0)
    assert batch.text.tolist() == [[1, 7, 8, 9, 2], [1, 6, 2, 0, 0]]
    assert batch.tags.tolist() == [[IGNORED, 1, IGNORED, 0, IGNORED], [IGNORED, 2, IGNORED, IGNORED, IGNORED]]
    assert batch.lengths.tolist() == [5, 3] and batch.tokens == 3 and batch.indices == [3, 5]
    plain = batch.rows("plain")
    assert plain.text.tolist() == [[7, 8, 9], [6, 2, 0]] and plain.lengths.tolist() == [3, 1]
    assert plain.tags.tolist() == [[1, IGNORED, 0], [2, IGNORED, IGNORED]] and batch.rows("marked") is batch


def test_characters_stand_where_their_words_do_and_no_wider_than_they_must() -> None:
    letters = np.array([[0, 0, 0], [5, 6, 0], [7, 0, 0]])
    rows = [Row([4, 5], [0, 1], [0, 0], [1, 2]), Row([4], [0], [0], [2])]
    batch = collate(rows, [0, 1], letters, first=1, last=2, padding=0)
    assert batch.characters.tolist() == [
        [[0, 0], [5, 6], [7, 0], [0, 0]],
        [[0, 0], [7, 0], [0, 0], [0, 0]],
    ]
    assert batch.rows("plain").characters.shape == (2, 2, 2)


def test_few_shapes_add_rows_and_positions_without_a_tag() -> None:
    letters = np.arange(6).reshape(2, 3)
    batch = collate([Row([4] * 5, [0], [0], [1])] * 3, [0, 1, 2], letters, first=1, last=2, padding=0)
    wide = batch.bucketed()
    assert wide.text.shape == (8, 8) and wide.characters.shape == (8, 8, 8) and wide.tokens == 3
    assert int((wide.tags != IGNORED).sum()) == 3 and wide.lengths.tolist() == [7, 7, 7, 3, 3, 3, 3, 3]
    from dataclasses import replace

    assert replace(batch, longest=7).bucketed().text.shape == (8, 7)


def test_a_long_sentence_is_parted_between_words() -> None:
    assert parts_of(Cut(list(range(7)), [0, 2, 3, 6]), 3) == [Part(0, 2), Part(2, 3), Part(3, 4)]
    assert parts_of(Cut([1, 2, 3], [0]), 2) == [Part(0, 1)]  # a word is never parted


def test_a_span_that_a_cut_goes_through_is_legal_on_either_side() -> None:
    first, second = (tags_within(LONG.target, part, "bio") for part in (Part(0, 3), Part(3, 7)))
    assert first == ["O", "B-A", "I-A"] and second == ["B-A", "I-A", "O", "B-A"]
    assert fault_in(second, "bio") is None and tags_within(("X", "Y"), Part(1, 2), "none") == ["Y"]


def test_long_sentences_are_refused_or_read_in_parts() -> None:
    data = TaggedData(train="x", scheme="bio", learn="bioes", max_length=3)
    reader = WordReader.learn([LONG.source], TagTokens())[0]
    tags = Tags.of([LONG], data)
    with pytest.raises(
        InputError, match=r"test 1 \('a b c d e f g'\): expected at most 3 tokens, found 7 \(set data.too_long: split"
    ):
        corpus_of([LONG], reader, tags, data, "test")
    from dataclasses import replace

    corpus = corpus_of([LONG], reader, tags, replace(data, too_long="split"), "test")
    assert [len(row.ids) for row in corpus.rows[0]] == [3, 3, 1] and "1 of 1 sentences" in corpus.cut
    said = [[tags.names[number] for number in row.tags] for row in corpus.rows[0]]
    assert said == [["O", "B-A", "E-A"], ["B-A", "E-A", "O"], ["S-A"]]
    assert [token for row in corpus.rows[0] for token in row.ids] == reader.cut(LONG.source).ids
    assert corpus.costs == [7 + 3 * 2]  # every part has its own marks
