"""`from_keras` on weights given as arrays, without Keras: formulas, names, and refused layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from saccade.errors import SaccadeError
from saccade.nn import (
    Attention,
    KerasAdditiveAttention,
    KerasAttention,
    KerasMultiHeadAttention,
    from_keras,
)

B, S, D, E = 3, 7, 4, 6

draw = np.random.default_rng(0).standard_normal


def softmax(scores: np.ndarray) -> np.ndarray:
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def saved(kind: str, **config: Any) -> dict[str, Any]:
    return {"module": "keras.layers", "class_name": kind, "config": config, "registered_name": None}


def heads(**config: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
    """A MultiHeadAttention with 2 heads of 3 over queries of 4 and values of 6, and its weights."""
    shapes = [(D, 2, 3), (2, 3), (E, 2, 3), (2, 3), (E, 2, 3), (2, 3), (2, 3, D), (D,)]
    return saved("MultiHeadAttention", **{"num_heads": 2, "key_dim": 3, **config}), [draw(shape) for shape in shapes]


def test_a_saved_layer_and_its_arrays_are_enough() -> None:
    layer = from_keras(saved("Attention", use_scale=True, score_mode="concat"), [np.float32(0.5), np.float32(2)])
    assert type(layer) is KerasAttention and not layer.training
    assert (layer.scale.item(), layer.concat_score_weight.item()) == (0.5, 2.0)
    additive = from_keras(saved("AdditiveAttention"), [np.arange(3, dtype="float64")])
    assert type(additive) is KerasAdditiveAttention
    torch.testing.assert_close(additive.scale.detach(), torch.arange(3, dtype=torch.float64))
    assert not list(from_keras(saved("Attention")).parameters())


def test_each_head_keeps_its_own_kernel() -> None:
    layer, weights = heads()
    ours = from_keras(layer, weights)
    assert type(ours) is KerasMultiHeadAttention
    query, value = draw((B, 5, D)), draw((B, S, E))
    parts = dict(zip(("q", "qb", "k", "kb", "v", "vb", "o", "ob"), weights))
    expected = parts["ob"].copy()
    for head in range(2):
        q = query @ parts["q"][:, head] + parts["qb"][head]
        k = value @ parts["k"][:, head] + parts["kb"][head]
        v = value @ parts["v"][:, head] + parts["vb"][head]
        expected = expected + softmax(q @ k.swapaxes(1, 2) / np.sqrt(3)) @ v @ parts["o"][head]
    outputs = ours(torch.tensor(query), torch.tensor(value))
    np.testing.assert_allclose(outputs.detach().numpy(), expected, atol=1e-12)


def test_tensors_serve_as_arrays_and_are_copied() -> None:
    scale = torch.tensor(0.5, requires_grad=True)
    layer = from_keras(saved("Attention", use_scale=True), [scale])
    with torch.no_grad():
        scale.fill_(3.0)
    assert layer.scale.item() == 0.5


@pytest.mark.parametrize(
    ("layer", "weights", "message"),
    [
        (saved("Attention", use_scale=True), None, r"weights: expected 1 \(scale\), found 0"),
        (saved("Attention"), [np.float32(1)], r"weights: expected 0 \(none\), found 1"),
        (saved("Attention", use_scale=True), [draw(4)], r"scale: expected \[\], found \[4\]"),
        (saved("AdditiveAttention"), [draw((1, 4))], r"scale: expected \[4\], found \[1, 4\]"),
        (saved("Attention", causal=True), None, "causal=True goes with each call"),
        (
            saved("Dense", units=3),
            None,
            "expected one of Attention, AdditiveAttention, MultiHeadAttention, found Dense",
        ),
        ({"config": {}}, None, r"expected the fields class_name and config, found \['config'\]"),
        (saved("MultiHeadAttention"), None, "expected num_heads and key_dim"),
        (heads(use_gate=True)[0], heads()[1], "without a gate"),
        (heads(attention_axes=[1, 2])[0], heads()[1], r"found attention_axes=\[1, 2\]"),
        (heads(key_dim=4)[0], heads()[1], r"query.weight: expected \[in, H, K\] with H=2, K=4, found \[4, 2, 3\]"),
        (heads(value_dim=5)[0], heads()[1], r"value.weight: .* K=5, found \[6, 2, 3\]"),
        (heads(use_bias=False)[0], heads()[1], r"weights: expected 4 .* found 8"),
        (object(), None, "expected a layer of Keras, found object"),
        (Attention(3, 3), None, "expected a layer of Keras, found Attention"),
    ],
)
def test_what_cannot_be_converted_is_refused(layer: Any, weights: Any, message: str) -> None:
    with pytest.raises(SaccadeError, match=message):
        from_keras(layer, weights)
