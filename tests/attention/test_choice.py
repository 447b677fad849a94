import pytest
import torch

from saccade.attention import attend, hard, read, weigh
from saccade.attention.normalise import sharpened
from saccade.attention.scores import additive, scaled_dot
from saccade.attention.windows import Extent, gaussian, mask
from saccade.errors import SaccadeError
from saccade.trace import Lens, Set


def weights_of(*rows: list[float]) -> torch.Tensor:
    return torch.tensor([list(rows)], dtype=torch.float64)


def test_the_likeliest_key_is_chosen_and_its_value_read() -> None:
    choice = hard(weights_of([0.2, 0.7, 0.1], [0.5, 0.1, 0.4]))
    assert choice.index.tolist() == [[1, 0]]
    torch.testing.assert_close(choice.log_prob.exp(), weights_of([0.7, 0.5])[0])
    value = torch.randn(1, 3, 5, dtype=torch.float64)
    torch.testing.assert_close(read(choice, value), value[:, [1, 0]], rtol=0, atol=0)


def test_hard_attention_is_the_limit_of_attention_that_is_sharpened() -> None:
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 7, 5), torch.randn(2, 7, 4)
    chosen = read(hard(weigh(query, key, score=scaled_dot)), value)
    sharp = attend(query, key, value, score=scaled_dot, normalise=sharpened(1e6))
    torch.testing.assert_close(chosen, sharp)


def test_keys_are_drawn_as_often_as_their_weights_say() -> None:
    weights = weights_of([0.1, 0.6, 0.0, 0.3]).expand(40_000, -1, -1)
    counts = hard(weights, sample=True).index.flatten().bincount(minlength=4) / 40_000
    assert counts[2] == 0
    expected = torch.tensor([0.1, 0.6, 0.0, 0.3])
    assert ((counts - expected).abs() < 4 * (expected * (1 - expected) / 40_000).sqrt() + 1e-12).all()


def test_weights_with_a_gain_need_not_sum_to_one_to_be_drawn_from() -> None:
    weights = weights_of([0.02, 0.06]).expand(10_000, -1, -1)
    share = hard(weights, sample=True).index.double().mean()
    assert abs(share - 0.75) < 4 * (0.75 * 0.25 / 10_000) ** 0.5


def test_log_prob_and_entropy_are_those_of_the_distribution_that_keys_are_drawn_from() -> None:
    query, key = torch.randn(2, 3, 5, dtype=torch.float64), torch.randn(2, 7, 5, dtype=torch.float64)
    window = gaussian(torch.tensor([[0.2, 3.1, 5.9], [6.0, 2.5, 1.0]], dtype=torch.float64), 2)
    scores = (query @ key.mT).requires_grad_()
    gain = window.gain(Extent(3, 7, None, scores.device, scores.dtype))
    visible = window.visible(Extent(3, 7, None, scores.device, scores.dtype))
    logits = scores.masked_fill(~visible, -torch.inf) + gain.log()
    drawn = torch.distributions.Categorical(logits=logits)  # softmax · gain, over its sum
    weights = scores.masked_fill(~visible, -torch.inf).softmax(-1) * gain
    for choice in (hard(weights), hard(weights, sample=True)):
        torch.testing.assert_close(choice.log_prob, drawn.log_prob(choice.index))
        entropies = torch.special.entr(drawn.probs).sum(-1)
        torch.testing.assert_close(choice.entropy, entropies)
        ours, theirs = (
            torch.autograd.grad(part.sum(), scores, retain_graph=True)[0]
            for part in (choice.log_prob, drawn.log_prob(choice.index))
        )
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_log_prob_of_half_precision_weights_is_exact_for_small_weights_too(dtype: torch.dtype) -> None:
    weights = torch.tensor([[[2e-5, 6e-5, 0.0]]], dtype=dtype)
    choice = hard(weights)
    share = weights.double()[0, 0, 1] / weights.double().sum()
    assert choice.log_prob.dtype is torch.float32
    torch.testing.assert_close(choice.log_prob[0, 0].double(), share.log(), rtol=1e-6, atol=0)


def test_a_weight_that_is_not_a_number_shows_in_log_prob() -> None:
    assert hard(weights_of([0.5, torch.nan])).log_prob.isnan().all()


def test_a_query_that_sees_nothing_chooses_nothing_and_gets_zeros() -> None:
    query, key = torch.randn(1, 2, 5), torch.randn(1, 3, 5)
    visible = torch.tensor([[False, False, False], [False, True, False]])
    weights = weigh(query, key, score=scaled_dot, window=mask(visible))
    for sample in (False, True):
        choice = hard(weights, sample=sample)
        assert choice.index.tolist() == [[-1, 1]]
        assert choice.log_prob.tolist() == [[0.0, 0.0]]
        assert choice.entropy.tolist() == [[0.0, 0.0]]
        assert read(choice, torch.ones(1, 3, 4)).tolist() == [[[0.0] * 4, [1.0] * 4]]
    nothing = hard(torch.zeros(2, 3, 0))
    assert nothing.index.tolist() == [[-1] * 3] * 2
    assert read(nothing, torch.zeros(2, 0, 5)).shape == (2, 3, 5)


def test_the_entropy_is_that_of_the_weights() -> None:
    entropies = hard(weights_of([0.25] * 4, [1.0, 0.0, 0.0, 0.0])).entropy
    torch.testing.assert_close(entropies, weights_of([4.0, 1.0])[0].log())


def test_the_gradient_of_log_prob_reaches_the_scores_and_that_of_a_choice_reaches_its_value_alone() -> None:
    v, query = torch.randn(6, dtype=torch.float64, requires_grad=True), torch.randn(1, 3, 6, dtype=torch.float64)
    key, value = torch.randn(1, 4, 6, dtype=torch.float64), torch.randn(1, 4, 5, dtype=torch.float64)
    value.requires_grad_()
    choice = hard(weigh(query, key, score=additive(v)))
    read(choice, value).sum().backward(retain_graph=True)
    assert v.grad is None  # a choice is not differentiable
    assert value.grad is not None
    assert set(value.grad.abs().sum(-1).nonzero()[:, 1].tolist()) == set(choice.index.flatten().tolist())
    choice.log_prob.sum().backward()
    assert v.grad is not None
    assert v.grad.abs().min() > 0


def test_a_lens_that_sets_weights_moves_the_choice() -> None:
    query, key = torch.randn(1, 2, 5), torch.randn(1, 3, 5)
    lens = Lens(edits=Set(row=(0.0, 0.0, 1.0), step=1))
    choice = hard(weigh(query, key, score=scaled_dot, lens=lens))
    assert choice.index[0, 1] == 2
    assert lens.trace.maps[0].weights[1].tolist() == [0.0, 0.0, 1.0]


def test_values_of_another_batch_are_refused() -> None:
    with pytest.raises(SaccadeError, match="batch"):
        read(hard(torch.ones(2, 3, 4)), torch.ones(3, 4, 5))
