"""Keras's layers over our core, against Keras itself where it is installed.

Keras runs on its torch backend, so that one set of tensors, weights and gradients serves both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.nn import MultiHead, from_keras

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # numpy's, about Keras

B, T, S, D, E = 3, 5, 7, 4, 6  # batch, queries, keys, width of queries and keys, width of values

SINGLE = [
    ("Attention", {}),
    ("Attention", {"use_scale": True}),
    ("Attention", {"score_mode": "concat"}),
    ("Attention", {"score_mode": "concat", "use_scale": True}),
    ("AdditiveAttention", {}),
    ("AdditiveAttention", {"use_scale": False}),
]
every_single = pytest.mark.parametrize(("kind", "options"), SINGLE)
both_precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """``keras.layers`` on torch. Keras reads its settings once, as it is imported, and writes a file into its home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERAS_BACKEND", "torch")
        patch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
        keras = pytest.importorskip("keras", reason="Keras is not installed: nothing to compare its layers with")
        if keras.backend.backend() != "torch":
            pytest.skip(f"Keras was imported before, on {keras.backend.backend()}: it is compared on torch")
        yield keras.layers


def inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """[query, value, key]."""
    sizes = [(B, T, D), (B, S, E), (B, S, D)]
    return [torch.randn(size, dtype=dtype, requires_grad=True) for size in sizes]


def masks() -> tuple[Tensor, Tensor]:
    """Of queries [B, T] and values [B, S]; the first key is visible to all, so that every query sees something."""
    query_mask, value_mask = torch.rand(B, T) > 0.4, torch.rand(B, S) > 0.5
    value_mask[:, 0] = True
    return query_mask, value_mask


def built(layers: Any, kind: str, options: dict[str, Any], dtype: torch.dtype, *shown: Any) -> Any:
    """A Keras layer, called once and with weights of its own."""
    layer = getattr(layers, kind)(dtype=str(dtype).removeprefix("torch."), **options)
    layer(*shown)
    layer.set_weights([torch.randn(weight.shape).numpy() for weight in layer.weights])
    return layer


def equal(ours: Tensor, theirs: Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(ours, theirs.to(ours.dtype), atol=tolerance, rtol=tolerance)


def alike(own: list[Tensor], theirs: list[Tensor]) -> None:
    """Gradients sum over T × S terms: they are measured against the greatest of them."""
    for one, other in zip(own, theirs, strict=True):
        equal(one / other.abs().max().clamp(min=1), other / other.abs().max().clamp(min=1))


# Against Keras: Attention and AdditiveAttention --------------------------------------------------------------------------


@every_single
@both_precisions
@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_context_and_weights_are_those_of_keras(
    layers: Any, kind: str, options: dict[str, Any], dtype: torch.dtype, use_causal_mask: bool, masked: bool
) -> None:
    given, mask = inputs(dtype), list(masks()) if masked else None
    layer = built(layers, kind, options, dtype, given)
    call = {"mask": mask, "use_causal_mask": use_causal_mask, "return_attention_scores": True}
    context, weights = from_keras(layer)(given, **call)
    expected_context, expected_weights = layer(given, **call)
    assert context.dtype == dtype
    equal(weights, expected_weights)
    equal(context, expected_context)


@every_single
def test_gradients_of_inputs_and_weights_are_those_of_keras(layers: Any, kind: str, options: dict[str, Any]) -> None:
    given, mask, towards = inputs(), list(masks()), torch.randn(B, T, E)
    layer = built(layers, kind, options, torch.float32, given)
    ours = from_keras(layer)
    (ours(given, mask, use_causal_mask=True) * towards).sum().backward()
    own = [tensor.grad.clone() for tensor in given] + [parameter.grad for parameter in ours.parameters()]
    for tensor in given:
        tensor.grad = None
    (layer(given, mask=mask, use_causal_mask=True) * towards).sum().backward()
    theirs = [tensor.grad for tensor in given] + [weight.value.grad for weight in layer.weights]
    assert len(own) == 3 + len(layer.weights)
    alike(own, theirs)


@every_single
def test_without_a_key_the_values_are_the_keys_as_in_keras(layers: Any, kind: str, options: dict[str, Any]) -> None:
    query, _, value = inputs()
    layer = built(layers, kind, options, torch.float32, [query, value])
    equal(from_keras(layer)([query, value]), layer([query, value]))


def test_one_mask_of_the_two_may_be_missing_as_in_keras(layers: Any) -> None:
    given, (query_mask, value_mask) = inputs(), masks()
    layer = built(layers, "Attention", {}, torch.float32, given)
    for mask in ([query_mask, None], [None, value_mask], [None, value_mask.int(), None]):
        equal(from_keras(layer)(given, mask), layer(given, mask=mask))


def test_hidden_by_a_number_keras_looks_everywhere_and_we_look_nowhere(layers: Any) -> None:
    query, value, key = inputs(torch.float64)
    value_mask = torch.ones(B, S, dtype=torch.bool)
    value_mask[1] = False  # nothing to see for the second of the batch
    call = {"mask": [None, value_mask], "return_attention_scores": True}

    single = [tensor.float() for tensor in (query, value, key)]
    layer = built(layers, "AdditiveAttention", {}, torch.float32, single)
    equal(layer(single, **call)[1][1], torch.full((T, S), 1 / S))  # 1e9 drowns float32's scores: all alike

    layer = built(layers, "AdditiveAttention", {}, torch.float64, [query, value, key])
    context, weights = from_keras(layer)([query, value, key], **call)
    _, theirs = layer([query, value, key], **call)
    _, unmasked = layer([query, value, key], return_attention_scores=True)
    equal(theirs[1], unmasked[1])  # float64 keeps them: as if nothing were hidden
    assert not weights[1].any() and not context[1].any()
    equal(weights[[0, 2]], theirs[[0, 2]])


def test_a_causal_row_whose_first_keys_are_padding_does_not_see_the_future(layers: Any) -> None:
    given = inputs()
    value_mask = torch.ones(B, S, dtype=torch.bool)
    value_mask[:, :2] = False  # padded on the left: queries 0 and 1 see nothing
    layer = built(layers, "Attention", {}, torch.float32, given)
    call = {"mask": [None, value_mask], "use_causal_mask": True, "return_attention_scores": True}
    _, theirs = layer(given, **call)
    _, ours = from_keras(layer)(given, **call)
    assert bool((theirs[:, :2, 2:] > 0.1).all())  # Keras: a seventh everywhere, the future included
    assert not ours[:, :2].any()
    equal(ours[:, 2:], theirs[:, 2:])


def test_half_precision_stays_finite_where_nothing_is_visible(layers: Any) -> None:
    query, value, key = (tensor.detach().half() for tensor in inputs())
    value_mask = torch.ones(B, S, dtype=torch.bool)
    value_mask[1, 1:], value_mask[2] = False, False
    layer = built(layers, "Attention", {}, torch.float16, [query, value, key])
    ours = from_keras(layer)([query, value, key], [None, value_mask])
    theirs = layer([query, value, key], mask=[None, value_mask])
    torch.testing.assert_close(ours[:2], theirs[:2], atol=5e-3, rtol=5e-3)
    assert not ours[2].any()


def test_dropout_and_seed_come_with_the_layer_and_wait_for_training(layers: Any) -> None:
    given = inputs()
    layer = built(layers, "Attention", {"dropout": 0.5, "seed": 11}, torch.float32, given)
    ours = from_keras(layer)
    assert (ours.dropout.rate, ours.dropout.seed) == (0.5, 11)
    equal(ours(given), layer(given))
    _, dropped = ours(given, training=True, return_attention_scores=True)
    _, whole = ours(given, return_attention_scores=True)
    kept = dropped != 0
    assert 0.2 < kept.float().mean() < 0.8
    torch.testing.assert_close(dropped[kept], 2 * whole[kept])


def test_a_layer_that_was_never_called_is_reported_to_be(layers: Any) -> None:
    with pytest.raises(SaccadeError, match=r"weights: expected 1 \(scale\), found 0: .*once it was called"):
        from_keras(layers.Attention(use_scale=True))


def test_other_layers_of_keras_are_named_in_the_error(layers: Any) -> None:
    with pytest.raises(SaccadeError, match=r"expected one of Attention, .* found Dense"):
        from_keras(layers.Dense(3))


def test_a_layer_of_ones_own_is_not_taken_for_keras(layers: Any) -> None:
    class Attention(layers.Attention):
        pass

    with pytest.raises(SaccadeError, match=r"expected a layer of Keras, found .*Attention"):
        from_keras(Attention())


# Against Keras: MultiHeadAttention ----------------------------------------------------------------------------------------

HEADS = [
    {"num_heads": 2, "key_dim": 3},
    {"num_heads": 3, "key_dim": 2, "value_dim": 5},
    {"num_heads": 1, "key_dim": 5, "use_bias": False},
    {"num_heads": 2, "key_dim": 3, "output_shape": 7},
]
every_head = pytest.mark.parametrize("options", HEADS)


@every_head
@both_precisions
@pytest.mark.parametrize("use_causal_mask", [False, True])
@pytest.mark.parametrize("scores", [False, True])
def test_heads_are_those_of_keras(
    layers: Any, options: dict[str, Any], dtype: torch.dtype, use_causal_mask: bool, scores: bool
) -> None:
    query, value, key = inputs(dtype)
    layer = built(layers, "MultiHeadAttention", options, dtype, query, value, key)
    _, value_mask = masks()
    call = {
        "value_mask": value_mask,
        "attention_mask": (torch.rand(B, T, S) > 0.3) | (torch.arange(S) == 0),
        "use_causal_mask": use_causal_mask,
        "return_attention_scores": scores,
    }
    ours, theirs = from_keras(layer)(query, value, key, **call), layer(query, value, key, **call)
    if scores:
        equal(ours[1], theirs[1], 2e-6)
    equal(ours[0] if scores else ours, theirs[0] if scores else theirs, 2e-6)


def test_gradients_of_heads_are_those_of_keras(layers: Any) -> None:
    given, towards = inputs(), torch.randn(B, T, D)
    layer = built(layers, "MultiHeadAttention", HEADS[1], torch.float32, *given)
    ours = from_keras(layer)
    (ours(*given, use_causal_mask=True) * towards).sum().backward()
    kernels = [part.weight.grad for part in (ours.query, ours.key, ours.value, ours.output)]
    own = [tensor.grad.clone() for tensor in given] + kernels
    for tensor in given:
        tensor.grad = None
    (layer(*given, use_causal_mask=True) * towards).sum().backward()
    parts = (layer.query_dense, layer.key_dense, layer.value_dense)
    theirs = [tensor.grad for tensor in given] + [part.kernel.value.grad.flatten(1).mT for part in parts]
    theirs.append(layer.output_dense.kernel.value.grad.flatten(0, 1).mT)
    alike(own, theirs)


def test_a_sliding_window_is_a_band(layers: Any) -> None:
    x = torch.randn(B, S, D)
    try:
        layer = built(layers, "MultiHeadAttention", {"num_heads": 2, "key_dim": 3, "sliding_window": 2}, x.dtype, x, x)
    except TypeError:
        pytest.skip("this Keras has no sliding windows yet")
    _, weights = from_keras(layer)(x, x, return_attention_scores=True)
    equal(weights, layer(x, x, return_attention_scores=True)[1])
    assert int((weights[0, 0] > 0).sum()) == 3 * S - 2


def test_where_the_heads_fill_the_width_the_weights_are_multi_heads(layers: Any) -> None:
    query, key = torch.randn(B, T, 6), torch.randn(B, S, 5)
    layer = built(layers, "MultiHeadAttention", {"num_heads": 3, "key_dim": 2}, torch.float32, query, key)
    multi_head = MultiHead(6, heads=3, key_width=5)
    multi_head.load_state_dict(from_keras(layer).state_dict())
    equal(multi_head(query, key), layer(query, key))


def test_attention_over_two_axes_is_refused(layers: Any) -> None:
    image = torch.randn(2, 3, 5, 4)
    layer = layers.MultiHeadAttention(2, 3)
    layer(image, image)
    with pytest.raises(SaccadeError, match=r"attention over one axis, found attention_axes=\[1, 2\]"):
        from_keras(layer)


# Against Keras: all three --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Attention", "AdditiveAttention", "MultiHeadAttention"])
def test_a_layer_travels_as_json_and_arrays(layers: Any, kind: str, tmp_path: Path) -> None:
    shown = [torch.randn(B, T, D), torch.randn(B, S, D)]
    many = kind == "MultiHeadAttention"
    options = {"num_heads": 3, "key_dim": 5} if many else {"use_scale": True}
    layer = built(layers, kind, options, torch.float32, *(shown if many else [shown]))
    saved = json.loads(json.dumps({"class_name": type(layer).__name__, "config": layer.get_config()}))
    np.savez(tmp_path / "weights.npz", *layer.get_weights())
    moved = from_keras(saved, list(np.load(tmp_path / "weights.npz").values()))
    equal(moved(*shown) if many else moved(shown), layer(*shown) if many else layer(shown), 2e-6)


def test_weights_of_sixteen_bits_are_read(layers: Any) -> None:
    given = [tensor.detach().bfloat16() for tensor in inputs()]
    layer = built(layers, "AdditiveAttention", {}, torch.bfloat16, given)
    moved = from_keras(layer)
    assert moved.scale.dtype == torch.bfloat16
    torch.testing.assert_close(moved(given), layer(given), atol=3e-2, rtol=3e-2)
