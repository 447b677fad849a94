"""Numbers worked by hand from the equations of Yang et al. 2016 (hierarchical attention)."""

from __future__ import annotations

import torch

from saccade.attention.layers import AttentionPool
from saccade.attention.windows import padding
from saccade.models.han import Config, Han
from saccade.trace import Lens

STATES = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])


def pool(context: tuple[float, float]) -> AttentionPool:
    """W = I, b = 0, and this context vector u."""
    made = AttentionPool(2)
    with torch.no_grad():
        made.key_weight.copy_(torch.eye(2))
        made.bias.zero_()
        made.v.copy_(torch.tensor(context))
    return made


def test_the_weights_of_three_words() -> None:
    # u·tanh(h) = tanh 1, tanh 1, 2 tanh 1; softmax of (0.7616, 0.7616, 1.5232)
    lens = Lens(detail=["scores"])
    vector = pool((1.0, 1.0))(STATES, lens=lens)
    tight = {"atol": 5e-5, "rtol": 0.0}
    torch.testing.assert_close(
        lens.trace.map("pool").tensors["scores"], torch.tensor([[0.7616, 0.7616, 1.5232]]), **tight
    )
    torch.testing.assert_close(lens.trace.map("pool").weights, torch.tensor([[0.2414, 0.2414, 0.5171]]), **tight)
    torch.testing.assert_close(vector, torch.tensor([[0.7586, 0.7586]]), **tight)


def test_a_sentence_of_padding_alone_is_zero() -> None:
    vector = pool((1.0, 1.0))(STATES, window=padding(torch.tensor([0])))
    assert vector.tolist() == [[0.0, 0.0]]


def test_without_anything_in_its_context_vectors_it_is_hn_ave() -> None:
    torch.manual_seed(3)
    looking = Han(Config(5, hidden=3), 11, 4).eval()
    averaging = Han(Config(5, hidden=3, pool="mean"), 11, 4).eval()
    averaging.load_state_dict({k: v for k, v in looking.state_dict().items() if "pool" not in k})
    with torch.no_grad():
        for each in (looking.word_pool, looking.sentence_pool):
            each.v.zero_()
    tokens, lengths = torch.randint(1, 11, (2, 3, 7)), torch.tensor([[7, 2, 5], [1, 0, 0]])
    lens = Lens()
    torch.testing.assert_close(looking(tokens, lengths, lens=lens), averaging(tokens, lengths))
    torch.testing.assert_close(lens.traces[0].map("sentences").weights, torch.full((1, 3), 1 / 3))


def test_a_score_is_not_bounded_by_a_second_tanh() -> None:
    # Scores within (−1, 1) could not make one weight more than e² times another: here it is.
    lens = Lens()
    pool((9.0, 9.0))(STATES, lens=lens)
    weights = lens.trace.map("pool").weights[0]
    assert weights[2] / weights[0] > 9**2


def test_the_sizes_of_the_paper_are_the_defaults() -> None:
    with torch.device("meta"):
        made = Han(Config(), 10_000, 5)
    assert made.embedding.weight.shape == (10_000, 200)
    assert made.word_pool.v.shape == made.sentence_pool.v.shape == (100,)
    assert made.output.weight.shape == (5, 100)  # 50 units each way
