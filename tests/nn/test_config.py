"""A Config made in Python is checked as one from a recipe is."""

import pytest

from saccade.models import luong, pointer, rnnsearch, seq2seq


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
