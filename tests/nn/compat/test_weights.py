"""Weights given as arrays, without the library they come from: the formulas, the names, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from saccade.attention.windows import padding
from saccade.errors import SaccadeError
from saccade.nn import (
    Attention,
    KerasAdditiveAttention,
    KerasAttention,
    KerasMultiHeadAttention,
    NormedAttention,
    from_keras,
    from_tfa,
)

B, S, D, E, UNITS = 3, 7, 4, 6, 5

draw = np.random.default_rng(0).standard_normal


def luong(**more: Any) -> dict[str, Any]:
    return {"memory_layer": draw((E, UNITS)), **more}


def bahdanau(**more: Any) -> dict[str, Any]:
    return {"memory_layer": draw((E, UNITS)), "query_layer": draw((D, UNITS)), "attention_v": draw(UNITS), **more}


def softmax(scores: np.ndarray) -> np.ndarray:
    exponents = np.exp(scores - scores.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


# TensorFlow Addons: one query [B, width], memory [B, S, E] ------------------------------------------------------------------


@pytest.mark.parametrize("scaled", [False, True])
def test_luong_of_tensorflow_addons_is_the_general_score(scaled: bool) -> None:
    weights = luong(attention_g=np.array(1.7)) if scaled else luong()
    query, memory, lengths = draw((B, UNITS)), draw((B, S, E)), np.array([7, 3, 1])
    keys = memory @ weights["memory_layer"]
    scores = weights.get("attention_g", 1.0) * np.einsum("bu,bsu->bs", query, keys)
    scores[np.arange(S) >= lengths[:, None]] = -np.inf
    expected = np.einsum("bs,bse->be", softmax(scores), memory)
    layer = from_tfa(weights)
    context = layer(
        torch.tensor(query).unsqueeze(1), torch.tensor(memory), window=padding(torch.tensor(lengths))
    )  # [B, 1, E]
    assert type(layer) is Attention and layer.kind == "general"
    np.testing.assert_allclose(context.squeeze(1).detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("normed", [False, True])
def test_bahdanau_of_tensorflow_addons_is_the_additive_score(normed: bool) -> None:
    weights = bahdanau(attention_g=np.array(0.6), attention_b=draw(UNITS)) if normed else bahdanau()
    query, memory = draw((B, D)), draw((B, S, E))
    hidden = (query @ weights["query_layer"])[:, None] + memory @ weights["memory_layer"]
    v = weights["attention_v"]
    if normed:
        hidden, v = hidden + weights["attention_b"], weights["attention_g"] * v / np.sqrt((v**2).sum())
    expected = np.einsum("bs,bse->be", softmax(np.tanh(hidden) @ v), memory)
    layer = from_tfa(weights)
    context = layer(torch.tensor(query).unsqueeze(1), torch.tensor(memory))
    assert type(layer) is (NormedAttention if normed else Attention)
    np.testing.assert_allclose(context.squeeze(1).detach().numpy(), expected, atol=1e-12)


def test_names_of_variables_and_of_checkpoints_are_known() -> None:
    plain = bahdanau(attention_g=np.array(0.6), attention_b=draw(UNITS))
    as_variables = {
        "memory_layer/kernel:0": plain["memory_layer"],
        "attention_wrapper/query_layer/kernel:0": plain["query_layer"],
        "BahdanauAttention/attention_v:0": plain["attention_v"],
        "BahdanauAttention/attention_g:0": plain["attention_g"],
        "BahdanauAttention/attention_b:0": plain["attention_b"],
    }
    ending = "/.ATTRIBUTES/VARIABLE_VALUE"
    as_checkpoint = {f"decoder/mechanism/{name}{'/kernel' * ('layer' in name)}{ending}": plain[name] for name in plain}
    for named in as_variables, as_checkpoint:
        for name, parameter in from_tfa(named).state_dict().items():
            torch.testing.assert_close(parameter, from_tfa(plain).state_dict()[name])
    scaled = luong(attention_g=np.array(2.0))
    object_named = {f"m/memory_layer/kernel{ending}": scaled["memory_layer"], f"m/scale_weight{ending}": 2.0}
    torch.testing.assert_close(from_tfa(object_named).weight, from_tfa(scaled).weight)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "expected memory_layer .* found nothing"),
        (bahdanau(attention_g=np.array(1.0)), "found memory_layer, query_layer, attention_v, attention_g"),
        (luong(attention_score_bias=np.array(0.0)), "attention_score_bias: expected names that end in"),
        (luong(**{"b/memory_layer/kernel:0": draw((E, UNITS))}), "memory_layer is there twice"),
        ({"memory_layer": draw(E)}, r"memory_layer: expected \[in, units\], found \[6\]"),
        (bahdanau(query_layer=draw((D, 3))), r"query_weight: expected \[5, 4\], found \[3, 4\]"),
        ({"memory_layer": np.ones((E, UNITS), dtype=int)}, r"expected arrays of real numbers, found int64 \[6, 5\]"),
    ],
)
def test_what_is_no_mechanism_is_refused(weights: dict[str, Any], message: str) -> None:
    with pytest.raises(SaccadeError, match=message):
        from_tfa(weights)


# Keras ----------------------------------------------------------------------------------------------------------------------


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
