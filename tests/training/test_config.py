"""The train part of a recipe."""

from saccade.training.config import Train, held_back


def test_it_is_said_when_tokens_keep_batches_below_the_records_asked_for():
    batches = [list(range(16))] * 10
    told = held_back(Train(batch_records=64, batch_tokens=4096), batches)
    assert told.startswith(
        "batches have 16.0 records in the mean, not train.batch_records (64): train.batch_tokens (4,096)"
    )
    assert held_back(Train(batch_records=64, batch_tokens=None), batches) == ""
    assert held_back(Train(batch_tokens=4096), batches) == ""
    assert held_back(Train(batch_records=16), [*batches, [1, 2]]) == ""  # the last of an epoch has what is left
    assert held_back(Train(batch_records=32), [list(range(32)), list(range(8))]) == ""
