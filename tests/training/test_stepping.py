"""One update, and what is left out of it."""

import pytest
import torch
from torch import nn

from saccade import api
from saccade.errors import SaccadeError
from saccade.tasks.translate import Translate
from saccade.training.stepping import freeze, top_parts
from tests.tiny import tiny


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 7))
        self.output = nn.Linear(7, 2)
        self.scale = nn.Parameter(self.output.weight[0].detach().clone())


def learning(network: nn.Module) -> set[str]:
    return {name for name, parameter in network.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("names", "left"),
    [
        ([], {"scale", "encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "encoder.1.bias", "output.weight",
              "output.bias"}),
        (["encoder", "scale"], {"output.weight", "output.bias"}),
        (["encoder.1", "output.bias", "scale"], {"encoder.0.weight", "encoder.0.bias", "output.weight"}),
    ],
)  # fmt: skip
def test_modules_and_parameters_are_frozen_by_name(names, left):
    network = Small()
    freeze(network, names)
    assert learning(network) == left


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["decoder"], r"train\.freeze: expected parts of the network, such as scale, encoder, output, found 'decoder'"),
        (["encodr"], r"found 'encodr' \(did you mean 'encoder'\?\)"),
        ([""], r"found ''"),
        (["encoder", "output", "scale"], r"expected at least one trainable parameter"),
    ],
)
def test_a_part_that_is_not_there_or_nothing_left_is_refused(names, message):
    with pytest.raises(SaccadeError, match=message):
        freeze(Small(), names)


def test_parts_are_named_by_the_first_word():
    parts = {name: sum(each.numel() for each in own) for name, own in top_parts(Small()).items()}
    assert parts == {"scale": 7, "encoder": 3 * 5 + 5 + 5 * 7 + 7, "output": 7 * 2 + 2}


def test_too_little_memory_is_reported_with_what_to_change(tmp_path, monkeypatch):
    def exhausted(*given, **named):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB …")

    monkeypatch.setattr(Translate, "loss", exhausted)
    with pytest.raises(SaccadeError, match=r"cpu: expected memory for a batch, .*train\.batch_records \(now 32\)"):
        api.train(tiny(), folder=tmp_path / "run")
