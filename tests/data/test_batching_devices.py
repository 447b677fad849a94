"""Batches sent to a device."""

from dataclasses import dataclass

import torch
from torch import Tensor

from saccade.data.batching import TensorBatch


@dataclass(frozen=True)
class Batch(TensorBatch):
    words: Tensor
    marks: Tensor | None
    indices: list[int]
    tokens: int


def test_every_tensor_goes_and_what_the_host_alone_must_know_stays():
    batch = Batch(torch.ones(3, 5), torch.zeros(3), [4, 2, 9], 7)
    sent = batch.to("meta")
    assert sent.words.device.type == sent.marks.device.type == "meta"
    assert (sent.indices, sent.tokens) == ([4, 2, 9], 7) and isinstance(sent, Batch)
    assert batch.words.device.type == "cpu"


def test_a_part_that_is_not_there_stays_away():
    assert Batch(torch.ones(2), None, [], 0).to(torch.device("meta")).marks is None
