"""What every encoder-decoder has, on a network small enough to follow."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.nn.decoder import EncoderDecoder
from saccade.trace import Lens


class Counter(EncoderDecoder):
    """Its next token is always the last one plus the source's length; it notes what it was fed."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.fed: list[list[int]] = []
        self.offsets: list[int] = []
        self.lenses: list[Lens | None] = []

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Lens | None = None) -> Any:
        self.lenses.append(lens)
        return (lengths,)

    def start(self, memory: Any) -> Any:
        return (torch.zeros_like(memory[0]),)

    def step(
        self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Lens | None = None
    ) -> tuple[Tensor, Any]:
        self.fed.append(token.tolist())
        self.offsets.append(offset)
        self.lenses.append(lens)
        following = (token + memory[0]) % 11
        return nn.functional.one_hot(following, 11) * self.scale, (state[0] + 1,)


SOURCE, LENGTHS = torch.zeros(2, 5, dtype=torch.int64), torch.tensor([1, 5])
TARGET = torch.tensor([[1, 7, 7, 7], [1, 3, 3, 3]])


def test_teaching_feeds_the_true_tokens_and_counts_the_steps() -> None:
    network = Counter()
    logits = network(SOURCE, LENGTHS, TARGET)
    assert logits.shape == (2, 4, 11)
    assert network.fed == TARGET.T.tolist()
    assert network.offsets == [0, 1, 2, 3]
    assert logits.argmax(-1).tolist() == [[2, 8, 8, 8], [6, 8, 8, 8]]


def test_sampling_at_rate_one_feeds_what_the_network_wrote() -> None:
    network = Counter()
    network(SOURCE, LENGTHS, TARGET, sampling=1.0)
    assert network.fed == [[1, 1], [2, 6], [3, 0], [4, 5]]


def test_sampling_at_a_small_rate_mixes_token_by_token() -> None:
    network = Counter()
    target = torch.full((400, 3), 9)
    network(torch.zeros(400, 1, dtype=torch.int64), torch.ones(400, dtype=torch.int64), target, sampling=0.25)
    first, second, third = network.fed
    assert set(first) == {9}
    share = sum(token != 9 for token in second) / 400
    assert 0.18 < share < 0.32
    assert set(third) == {9, 10, 0}  # its own 10 is followed by 0 where it was its own again


def test_a_lens_goes_to_the_encoder_and_to_every_step() -> None:
    for sampling in (0.0, 0.5):
        network, lens = Counter(), Lens()
        network(SOURCE, LENGTHS, TARGET, sampling=sampling, lens=lens)
        assert network.lenses == [lens] * 5


def test_a_network_must_give_its_three_parts() -> None:
    bare, memory = EncoderDecoder(), (LENGTHS,)
    with pytest.raises(NotImplementedError):
        bare.encode(SOURCE, LENGTHS)
    with pytest.raises(NotImplementedError):
        bare.start(memory)
    with pytest.raises(NotImplementedError):
        bare.step(LENGTHS, memory, memory, offset=0)
