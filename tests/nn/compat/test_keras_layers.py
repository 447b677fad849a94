"""Keras's layers over our core: their formulas, masks, dropout and errors, without Keras."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.nn import KerasAdditiveAttention, KerasAttention, KerasMultiHeadAttention
from saccade.trace import Lens

B, T, S, D, E = 3, 5, 7, 4, 6  # batch, queries, keys, width of queries and keys, width of values


def inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """[query, value, key]."""
    return [torch.randn(size, dtype=dtype) for size in ((B, T, D), (B, S, E), (B, S, D))]


def test_the_formulas_of_the_scores() -> None:
    query, value, key = inputs(torch.float64)
    scale, weight, v = 0.7, -1.3, torch.randn(D, dtype=torch.float64)
    together = query.unsqueeze(2) + key.unsqueeze(1)  # [B, T, S, D]
    dot, concat = KerasAttention(use_scale=True), KerasAttention(use_scale=True, score_mode="concat")
    additive = KerasAdditiveAttention(D).double()
    with torch.no_grad():
        dot.scale.fill_(scale), concat.scale.fill_(scale), concat.concat_score_weight.fill_(weight)
        additive.scale.copy_(v)
    expected = {
        dot: scale * query @ key.mT,
        concat: weight * torch.tanh(scale * together).sum(-1),
        additive: torch.tanh(together) @ v,
        KerasAdditiveAttention(use_scale=False): torch.tanh(together).sum(-1),
    }
    for layer, scores in expected.items():
        context, weights = layer([query, value, key], return_attention_scores=True)
        torch.testing.assert_close(weights, scores.softmax(-1))
        torch.testing.assert_close(context, scores.softmax(-1) @ value)


def test_a_hidden_query_reads_nothing_and_others_do_not_mind() -> None:
    given, layer = inputs(), KerasAttention()
    query_mask = torch.ones(B, T, dtype=torch.bool)
    query_mask[1, 2] = False
    context = layer(given, [query_mask, None])
    assert not context[1, 2].any()
    torch.testing.assert_close(context[query_mask], layer(given)[query_mask])


def test_a_mask_of_ones_and_zeros_is_not_a_list_of_lengths() -> None:
    given, value_mask = inputs(), torch.rand(B, S) > 0.5
    layer = KerasAttention()
    torch.testing.assert_close(layer(given, [None, value_mask.int()]), layer(given, [None, value_mask]))


def test_a_hidden_query_of_many_heads_gives_the_output_bias() -> None:
    layer = KerasMultiHeadAttention(2, 3, width=D, value_width=E, key_width=D)
    torch.nn.init.normal_(layer.output.bias)
    query, value, key = inputs()
    query_mask = torch.ones(B, T, dtype=torch.bool)
    query_mask[1, 2] = False
    outputs = layer(query, value, key, query_mask=query_mask)
    torch.testing.assert_close(outputs[1, 2], layer.output.bias)
    torch.testing.assert_close(outputs[query_mask], layer(query, value, key)[query_mask])


@pytest.mark.parametrize("shape", [(T, S), (B, T, S), (B, 1, T, S), (B, 2, T, S)])
def test_an_attention_mask_may_leave_out_batch_and_heads(shape: tuple[int, ...]) -> None:
    layer = KerasMultiHeadAttention(2, 3, width=D, value_width=E, key_width=D)
    query, value, key = inputs()
    mask = (torch.rand(shape) > 0.5) | (torch.arange(S) == 0)
    _, weights = layer(query, value, key, attention_mask=mask, return_attention_scores=True)
    whole = mask.unsqueeze(1) if mask.dim() == 3 else mask
    assert torch.equal(weights > 0, whole.expand(B, 2, T, S))


def test_heads_show_their_weights_before_dropout_and_read_after_it() -> None:
    layer = KerasMultiHeadAttention(2, 3, width=D, value_width=E, key_width=D, dropout=0.5, seed=3)
    query, value, key = inputs()
    outputs, weights = layer(query, value, key, return_attention_scores=True, training=True)
    calm, expected = layer(query, value, key, return_attention_scores=True, training=False)
    torch.testing.assert_close(weights, expected)
    assert not torch.allclose(outputs, calm)


def test_an_attention_mask_of_another_size_is_refused() -> None:
    layer = KerasMultiHeadAttention(2, 3, width=D, value_width=E, key_width=D)
    query, value, key = inputs()
    with pytest.raises(SaccadeError, match=r"the mask is \[7, 5\], but there are 5 queries and 7 keys"):
        layer(query, value, key, attention_mask=torch.ones(S, T))


@pytest.mark.parametrize("seed", [None, 5])
def test_a_seed_makes_dropout_repeatable_and_no_two_draws_alike(seed: int | None) -> None:
    given = inputs()

    def draws() -> list[Tensor]:
        layer = KerasAttention(dropout=0.4, seed=seed).train()
        return [layer(given) for _ in range(2)]

    first, again = draws(), draws()
    assert not torch.equal(first[0], first[1])
    assert torch.equal(first[0], again[0]) == torch.equal(first[1], again[1]) == (seed is not None)


def test_dropout_keeps_the_mean() -> None:
    query, value = torch.zeros(1, 1, 3), torch.ones(1, 20_000, 3)
    layer = KerasAttention(dropout=0.3, seed=1)
    torch.testing.assert_close(layer([query, value])[0, 0], torch.ones(3), atol=0.02, rtol=0)
    assert not KerasAttention(dropout=1.0, seed=1)([query, value]).any()


def test_the_lens_sees_weights_before_dropout_and_the_context() -> None:
    given, lens = inputs(), Lens(detail=["context"])
    layer = KerasAdditiveAttention(D, dropout=0.5).eval()
    _, weights = layer(given, return_attention_scores=True)
    context = layer.train()(given, lens=lens, site="look")
    trace = lens.traces[1]
    torch.testing.assert_close(trace.map("look").weights, weights[1].detach())
    torch.testing.assert_close(trace.signals["look.context"].values, context[1].detach())


def test_what_a_layer_cannot_take_is_reported(shapes_unchecked: None) -> None:
    query, value, key = inputs()
    layer = KerasAttention()
    for wrong, found in ([query], "1 tensors"), ([query, value, key, key], "4 tensors"), (query, "Tensor"):
        with pytest.raises(SaccadeError, match=rf"expected \[query, value\] or \[query, value, key\], found {found}"):
            layer(wrong)
    with pytest.raises(SaccadeError, match=r"expected \[query_mask, value_mask\], found Tensor"):
        layer([query, value, key], torch.ones(B, S))
    with pytest.raises(SaccadeError, match=r"value_mask: expected \[B, S\].* found \[3\]"):
        layer([query, value, key], [None, torch.tensor([7, 4, 2])])
    with pytest.raises(SaccadeError, match="score_mode must be 'dot' or 'concat': got 'cosine'"):
        KerasAttention(score_mode="cosine")  # type: ignore[arg-type]
    with pytest.raises(SaccadeError, match="needs width="):
        KerasAdditiveAttention()
    with pytest.raises(SaccadeError, match=r"dropout must (be|lie) between 0 and 1: got 1\.5"):
        KerasAttention(dropout=1.5)
