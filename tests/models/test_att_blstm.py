"""Its ways of pooling and joining, and its three dropouts."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from saccade.models.att_blstm import AttBlstm, Config
from saccade.testing import check_classifier

V, C = 20, 4
BATCH = torch.tensor([[4, 5, 6, 7, 8], [4, 5, 6, 0, 0]]), torch.tensor([5, 3])


@pytest.mark.parametrize(("directions", "pool"), [*product(("sum", "concat"), ("attention", "last", "max"))])
def test_every_promise_is_kept(directions: str, pool: str) -> None:
    check_classifier(AttBlstm, Config(4, 3, directions, pool))


@torch.no_grad()
def test_the_last_state_is_the_forward_one_at_the_end_and_the_backward_one_at_the_beginning() -> None:
    model = AttBlstm(Config(4, 3, pool="last"), V, C).eval()
    both, _ = model.encoder(model.embedding(BATCH[0]), BATCH[1])
    wanted = torch.stack([both[0, 4, :3] + both[0, 0, 3:], both[1, 2, :3] + both[1, 0, 3:]])
    torch.testing.assert_close(model.pooled(both, BATCH[1]), wanted)
    assert model.sites == ()


@pytest.mark.parametrize("which", ["dropout", "dropout_states", "dropout_output"])
def test_each_dropout_acts_by_itself_and_in_training_alone(which: str) -> None:
    none = {"dropout": 0.0, "dropout_states": 0.0, "dropout_output": 0.0}
    model = AttBlstm(Config(4, 3, **none | {which: 0.5}), V, C)
    assert not torch.equal(model.train()(*BATCH), model(*BATCH))
    assert torch.equal(model.eval()(*BATCH), model(*BATCH))


def test_without_dropout_training_and_evaluation_are_alike() -> None:
    model = AttBlstm(Config(4, 3, dropout=0.0, dropout_states=0.0, dropout_output=0.0), V, C)
    torch.testing.assert_close(model.train()(*BATCH), model.eval()(*BATCH))


def test_bad_settings_name_the_field() -> None:
    bad = {"hidden": 0, "dropout_states": 1.0, "dropout_output": -0.1}
    for name, value in bad.items():
        with pytest.raises(ValueError, match=name):
            Config(**{name: value})
