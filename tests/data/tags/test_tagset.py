"""The tags of a tagger: their names, what they are taught as, and which may follow which."""

from __future__ import annotations

import numpy as np
import pytest

from saccade.data.tags.records import Tagged, TaggedData
from saccade.data.tags.tagset import Tags
from saccade.errors import InputError

RECORDS = [Tagged(("a", "b", "c"), ("B-X", "I-X", "O")), Tagged(("d",), ("B-Y",))]
BIOES = TaggedData(train="x", scheme="bio", learn="bioes")


def test_every_tag_of_every_type_is_there_in_the_scheme_that_is_taught() -> None:
    tags = Tags.of(RECORDS, BIOES)
    assert tags.names == ("O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y")
    assert dict(zip(tags.names, tags.counts)) == {**dict.fromkeys(tags.names, 0), "O": 1, "B-X": 1, "E-X": 1, "S-Y": 1}
    assert tags.learnt(RECORDS[0].target) == ["B-X", "E-X", "O"] and tags.in_file_scheme(["B-X", "E-X", "O"]) == [
        "B-X",
        "I-X",
        "O",
    ]
    assert tags.in_file_scheme(["O", "E-X"]) == ["O", "B-X"]  # repaired


def test_moves_say_which_tags_may_follow_which() -> None:
    tags = Tags.of(RECORDS, TaggedData(train="x", scheme="bio"))
    assert tags.names == ("O", "B-X", "I-X", "B-Y", "I-Y") and tags.moves.shape == (6, 6)
    into = {tags.names[row] if row < 5 else "start" for row in np.flatnonzero(tags.moves[:, 2])}
    assert into == {"B-X", "I-X"} and tags.moves[:, -1].all()
    assert Tags.of([Tagged(("a", "b"), ("N", "V"))], TaggedData(train="x")).moves.all()


def test_unknown_tags_are_refused_and_labels_may_list_them() -> None:
    tags = Tags.of(RECORDS, BIOES)
    with pytest.raises(
        InputError,
        match=r"test 3: expected one of the types of the training records \(X, Y\), found 'B-Z' .*data.labels",
    ):
        tags.numbers(["O", "B-Z"], "test 3")  # as the file writes it
    assert tags.numbers(["B-Y", "B-X", "I-X"], "test") == [8, 1, 3]
    data = TaggedData(train="x", labels=("N", "V", "X"))
    assert Tags.of([Tagged(("a",), ("N",))], data).numbers(["X", "N"], "test") == [2, 0]


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(InputError, match="expected two different tags at least, found the tag 'N' alone"):
        Tags.of([Tagged(("a",), ("N",))], TaggedData(train="x"))
    with pytest.raises(InputError, match="expected at least one span"):
        Tags.of([Tagged(("a",), ("O",))], BIOES)


def test_what_there_is_is_told_and_what_held_out_sentences_lack() -> None:
    tags = Tags.of(RECORDS, BIOES)
    assert tags.described(RECORDS, training=True) == "2 sentences, 4 words; 2 spans: X 1 (50.0 %), Y 1 (50.0 %)"
    assert tags.described(RECORDS[1:], training=False).endswith("Y 1 (100.0 %); none of X")


def test_a_listed_tag_that_training_lacks_is_reported() -> None:
    data = TaggedData(train="x", labels=("N", "V", "X"))
    records = [Tagged(("a", "b"), ("N", "V"))]
    assert Tags.of(records, data).described(records, training=True).endswith("V 1 (50.0 %); none of X")


def test_a_bundle_keeps_them() -> None:
    tags = Tags.of(RECORDS, BIOES)
    assert Tags.from_json(tags.to_json(), "labels.json") == tags
    for text in ("{}", "[", '{"tags": ["a"], "counts": [1], "scheme": "odd", "learn": "bio"}'):
        with pytest.raises(InputError, match=r"labels\.json:(1:| tags:| scheme:) expected "):
            Tags.from_json(text, "labels.json")
