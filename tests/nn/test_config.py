"""A Config made in Python is checked as one from a recipe is."""

from collections.abc import Callable

import pytest

from saccade.models import bert, luong, pointer, rnnsearch, seq2seq
from saccade.nn.search import Diverse, Sampling, Search


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: luong.Config(window="locl"),
            "window must be one of global, local-m, local-p, or your own .*: got 'locl' .did you mean 'local-p'",
        ),
        (lambda: seq2seq.Config(context="end"), "context must be one of every_step, start: got 'end'"),
        (lambda: rnnsearch.Config(alignment=0), "alignment must be at least 1: got 0"),
        (lambda: rnnsearch.Config(dropout=1.0), "dropout must be at least 0 and below 1: got 1.0"),
        (lambda: pointer.Config(hidden=0), "hidden must be at least 1: got 0"),
    ],
)
def test_a_field_out_of_its_range_is_named(make, message):
    # The shape checker of the tests would refuse a wrong choice first, in its own words.
    with pytest.raises(Exception, match=message) as raised:
        make()
    assert raised.type is ValueError


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (lambda: rnnsearch.Config(copy="no"), "copy must be true or false: got 'no'"),
        (lambda: rnnsearch.Config(dropout=True), "dropout must be at least 0 and below 1: got True"),
        (lambda: rnnsearch.Config(hidden="3"), "hidden must be at least 1: got '3'"),
        (lambda: bert.Config(eps="1e-12"), "eps must be a number: got '1e-12'"),
        (lambda: bert.Config(attention_dropout="0"), "attention_dropout must be a number: got '0'"),
        (lambda: Search(beam="3"), "beam must be a whole number: got '3'"),
        (lambda: Search(n_best=1.0), "n_best must be a whole number: got 1.0"),
        (lambda: Search(length_penalty=None), "length_penalty must be a number: got None"),
        (lambda: Search(diverse=2), "diverse must be a value of Diverse: got 2"),
        (lambda: Sampling(top_k="5"), "top_k must be a whole number: got '5'"),
        (lambda: Diverse(strength=[0.5]), r"strength must be a number: got \[0.5\]"),
    ],
)
def test_numbers_and_flags_of_another_kind_are_refused_by_name(make: Callable[[], object], facts: str) -> None:
    with pytest.raises(ValueError, match=facts):
        make()
