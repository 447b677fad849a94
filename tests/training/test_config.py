"""The train part of a recipe."""

import pytest

from saccade.errors import InputError
from saccade.recipes.recipe import read_recipe
from saccade.training.config import Train, batch_size_warning


def test_it_is_said_when_tokens_keep_batches_below_the_records_asked_for():
    batches = [list(range(16))] * 10
    told = batch_size_warning(Train(batch_records=64, batch_tokens=4096), batches)
    assert told.startswith(
        "batches have 16.0 records in the mean, not train.batch_records (64): train.batch_tokens (4,096)"
    )
    assert batch_size_warning(Train(batch_records=64, batch_tokens=None), batches) == ""
    assert batch_size_warning(Train(batch_tokens=4096), batches) == ""
    assert (
        batch_size_warning(Train(batch_records=16), [*batches, [1, 2]]) == ""
    )  # the last of an epoch has what is left
    assert batch_size_warning(Train(batch_records=32), [list(range(32)), list(range(8))]) == ""


def test_a_distance_between_averaged_networks_is_refused_where_none_are_averaged():
    with pytest.raises(ValueError, match="average_every must be left out unless average says how many: got 5"):
        Train(average_every=5)
    with pytest.raises(InputError, match=r"train\.average_every: expected .* left out unless .*, found 5"):
        read_recipe("rnnsearch_dates", ["train.average_every=5"])
    assert Train(average_every=5, average=2).average_every == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stop_after": 3}, "stop_after must be left out where the last network is kept: got 3"),
        ({"average": 2, "average_of": "best"}, "average_of must be last where the last network is kept: got best"),
    ],
)
def test_where_the_last_network_is_kept_nothing_may_choose_by_the_validation_set(fields, message):
    with pytest.raises(ValueError, match=message):
        Train(keep="last", **fields)
    assert Train(**fields).keep == "best"
    assert Train(keep="last", average=2).average == 2
