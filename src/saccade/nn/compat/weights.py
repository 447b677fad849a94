"""Weights that come from elsewhere: layers of Keras and of TensorFlow Addons as layers of ours. Neither is needed here:
a layer is read through its own methods, or given as arrays.

Both keep kernels as [in, out] where a Linear keeps [out, in]; Keras's heads are an axis of their own, ours lie side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from saccade.attention.layers import Attention
from saccade.errors import SaccadeError
from saccade.nn.compat.keras import KerasAdditiveAttention, KerasAttention, KerasMultiHeadAttention, ScoreMode
from saccade.nn.compat.normed import NormedAttention

Layer = TypeVar("Layer", bound=nn.Module)

KERAS_LAYERS = ("Attention", "AdditiveAttention", "MultiHeadAttention")

# What TensorFlow Addons calls its variables, and the last part of the names they are saved under.
TFA_NAMES = {
    "memory_layer": ("memory_layer", "memory_layer/kernel"),
    "query_layer": ("query_layer", "query_layer/kernel"),
    "attention_v": ("attention_v",),
    "attention_g": ("attention_g", "scale_weight"),
    "attention_b": ("attention_b",),
}


def from_keras(layer: Any, weights: Sequence[Any] | None = None) -> KerasAttention | KerasMultiHeadAttention:
    """A layer of :mod:`saccade.nn.compat.keras` built like a Keras ``Attention``, ``AdditiveAttention`` or
    ``MultiHeadAttention``, whichever backend Keras runs on. It comes in evaluation mode, as Keras calls a layer outside
    ``fit``: no dropout until ``.train()``.

    Args:
        layer: the Keras layer, built (called once); or what is left of it where Keras is not at hand:
            ``{"class_name": "Attention", "config": layer.get_config()}``, as Keras itself saves it.
        weights: the arrays of ``layer.get_weights()``, in their order; those of the layer unless given.

    >>> saved = {"class_name": "Attention", "config": {"use_scale": True}}
    >>> attention = from_keras(saved, [np.float32(0.5)])
    >>> attention([torch.randn(2, 3, 4), torch.randn(2, 5, 4)]).shape
    torch.Size([2, 3, 4])
    """
    kind, config, arrays = _described(layer, weights)
    tensors = [_tensor(array) for array in arrays]
    made, state = _multi_head(config, tensors) if kind == "MultiHeadAttention" else _single(kind, config, tensors)
    if tensors:
        made = made.to(tensors[0].dtype)
    return _filled(kind, made, state)


def from_tfa(weights: Mapping[str, Any]) -> Attention:
    """The attention mechanism of TensorFlow Addons whose variables these are, by name. It comes in evaluation mode.

    | mechanism | variables | what is made of it |
    |---|---|---|
    | ``LuongAttention`` | memory_layer [E, units]; with ``scale`` attention_g () | ``Attention(score="general")`` |
    | ``BahdanauAttention`` | memory_layer, query_layer [D, units], attention_v [units] | ``Attention(score="additive")`` |
    | … with ``normalize`` | … and attention_g (), attention_b [units] | ``NormedAttention`` |

    Names may be those of a checkpoint, with what stands before them: ``decoder/…/memory_layer/kernel:0``. The layer takes
    query [B, T, D] (a decoder's one step is T = 1; Luong's D is units) and the memory [B, S, E] as its key, which is also
    what is read. ``memory_sequence_length`` becomes ``window=padding(lengths)``.

    >>> from_tfa({"memory_layer/kernel:0": np.ones((7, 5)), "attention_g:0": np.array(2.0)}).weight.shape
    torch.Size([5, 7])
    """
    variables = {name: _tensor(array) for name, array in _tfa_variables(weights).items()}
    for name in variables.keys() & {"memory_layer", "query_layer"}:
        if variables[name].dim() != 2:
            raise SaccadeError(f"from_tfa: {name}: expected [in, units], found {list(variables[name].shape)}")
    return _bahdanau(variables) if "attention_v" in variables else _luong(variables)


def _luong(variables: Mapping[str, Tensor]) -> Attention:
    """g · qᵀ (memory_layerᵀ k) is qᵀ W k with W = g · memory_layerᵀ."""
    weight = variables["memory_layer"].mT  # [units, E]
    if "attention_g" in variables:
        weight = weight * variables["attention_g"]
    made = Attention(weight.shape[0], weight.shape[1], score="general").to(weight.dtype)
    return _filled("LuongAttention", made, {"weight": weight})


def _bahdanau(variables: Mapping[str, Tensor]) -> Attention:
    query, key, v = variables["query_layer"].mT, variables["memory_layer"].mT, variables["attention_v"]
    state = {"v": v, "query_weight": query, "key_weight": key}
    made: Attention
    if "attention_g" in variables:
        state |= {"g": variables["attention_g"], "bias": variables["attention_b"]}
        made = NormedAttention(query.shape[1], key.shape[1], width=v.numel())
    else:
        made = Attention(query.shape[1], key.shape[1], score="additive", width=v.numel())
    return _filled("BahdanauAttention", made.to(v.dtype), state)


def _described(layer: Any, weights: Sequence[Any] | None) -> tuple[str, Mapping[str, Any], Sequence[Any]]:
    """The class, the settings and the arrays of a Keras layer."""
    if isinstance(layer, Mapping):
        if not {"class_name", "config"} <= layer.keys():
            raise SaccadeError(f"from_keras: expected the fields class_name and config, found {sorted(layer)}")
        kind, config, own = layer["class_name"], layer["config"], []
    else:
        # People name layers of their own "Attention" too; what those compute is not known.
        if type(layer).__module__.partition(".")[0] not in ("keras", "tf_keras", "tensorflow"):
            raise SaccadeError(f"from_keras: expected a layer of Keras, found {type(layer).__qualname__}")
        kind, config, own = type(layer).__name__, layer.get_config(), layer.get_weights()
    if kind not in KERAS_LAYERS:
        raise SaccadeError(f"from_keras: expected one of {', '.join(KERAS_LAYERS)}, found {kind}")
    if config.get("causal"):
        raise SaccadeError(
            f"{kind}: causal=True goes with each call: set it to False and call with use_causal_mask=True"
        )
    return kind, config, own if weights is None else weights


def _single(
    kind: str, config: Mapping[str, Any], tensors: Sequence[Tensor]
) -> tuple[KerasAttention, dict[str, Tensor]]:
    use_scale = bool(config.get("use_scale", kind == "AdditiveAttention"))
    mode: ScoreMode = config.get("score_mode", "dot") if kind == "Attention" else "dot"
    state = _named(kind, ["scale"] * use_scale + ["concat_score_weight"] * (mode == "concat"), tensors)
    drops: dict[str, Any] = {"dropout": config.get("dropout", 0.0), "seed": config.get("seed")}
    if kind == "Attention":
        return KerasAttention(use_scale=use_scale, score_mode=mode, **drops), state
    width = state["scale"].numel() if use_scale else None
    return KerasAdditiveAttention(width, use_scale=use_scale, **drops), state


def _multi_head(
    config: Mapping[str, Any], tensors: Sequence[Tensor]
) -> tuple[KerasMultiHeadAttention, dict[str, Tensor]]:
    if config.get("use_gate"):
        raise SaccadeError("MultiHeadAttention: use_gate=True has no counterpart here: expected a layer without a gate")
    axes = config.get("attention_axes") or [1]
    if list(axes) not in ([1], [-2]):
        raise SaccadeError(f"MultiHeadAttention: expected attention over one axis, found attention_axes={list(axes)}")
    if not {"num_heads", "key_dim"} <= config.keys():
        raise SaccadeError(f"MultiHeadAttention: config: expected num_heads and key_dim, found {sorted(config)}")
    heads, key_dim, value_dim = config["num_heads"], config["key_dim"], config.get("value_dim") or config["key_dim"]
    use_bias = bool(config.get("use_bias", True))
    kinds = ("weight", "bias") if use_bias else ("weight",)
    names = [f"{part}.{kind}" for part in ("query", "key", "value", "output") for kind in kinds]
    state = _named("MultiHeadAttention", names, tensors)
    for name, tensor in state.items():
        width = value_dim if name.startswith(("value", "output")) else key_dim
        state[name] = _flat(name, tensor, heads, width)
    made = KerasMultiHeadAttention(
        heads,
        key_dim,
        width=state["query.weight"].shape[1],
        value_width=state["value.weight"].shape[1],
        key_width=state["key.weight"].shape[1],
        output_width=state["output.weight"].shape[0],
        value_dim=value_dim,
        use_bias=use_bias,
        dropout=config.get("dropout", 0.0),
        sliding_window=config.get("sliding_window"),
        seed=config.get("seed"),
    )
    return made, state


def _flat(name: str, tensor: Tensor, heads: int, width: int) -> Tensor:
    """Keras's kernel [in, H, K] (of the output [H, K, out]) as a Linear's [out, in], its bias [H, K] as [out]."""
    if name == "output.bias":
        return tensor
    if name == "output.weight":
        expected, split = "[H, K, out]", tensor.shape[:-1]
    elif name.endswith("weight"):
        expected, split = "[in, H, K]", tensor.shape[1:]
    else:
        expected, split = "[H, K]", tensor.shape
    if tuple(split) != (heads, width):
        raise SaccadeError(
            f"MultiHeadAttention: {name}: expected {expected} with H={heads}, K={width}, found {list(tensor.shape)}"
        )
    if name == "output.weight":
        return tensor.flatten(0, 1).mT
    return tensor.flatten(1).mT if tensor.dim() == 3 else tensor.flatten()


def _named(kind: str, names: Sequence[str], tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    if len(names) != len(tensors):
        raise SaccadeError(
            f"{kind}: weights: expected {len(names)} ({', '.join(names) or 'none'}), found {len(tensors)}: a Keras layer "
            "has its weights once it was called; without the layer, pass weights=layer.get_weights()"
        )
    return dict(zip(names, tensors, strict=True))


def _tfa_variables(weights: Mapping[str, Any]) -> dict[str, Any]:
    """The variables under TensorFlow Addons' own names, whole and no others."""
    found: dict[str, Any] = {}
    for given, array in weights.items():
        name = given.removesuffix("/.ATTRIBUTES/VARIABLE_VALUE").removesuffix(":0")
        known = [ours for ours, ends in TFA_NAMES.items() if any(f"/{name}".endswith(f"/{end}") for end in ends)]
        if not known:
            raise SaccadeError(f"from_tfa: {given}: expected names that end in one of {', '.join(TFA_NAMES)}")
        if known[0] in found:
            raise SaccadeError(f"from_tfa: {given}: {known[0]} is there twice: pass one mechanism's variables")
        found[known[0]] = array
    bahdanau = {"memory_layer", "query_layer", "attention_v"}
    luong = {"memory_layer"}
    if found.keys() not in (luong, luong | {"attention_g"}, bahdanau, bahdanau | {"attention_g", "attention_b"}):
        raise SaccadeError(
            "from_tfa: expected memory_layer (and attention_g), or memory_layer, query_layer, attention_v (and "
            f"attention_g, attention_b), found {', '.join(found) or 'nothing'}"
        )
    return found


def _filled(kind: str, made: Layer, state: Mapping[str, Tensor]) -> Layer:
    for name, parameter in made.named_parameters():
        if parameter.shape != state[name].shape:
            raise SaccadeError(f"{kind}: {name}: expected {list(parameter.shape)}, found {list(state[name].shape)}")
    made.load_state_dict(state)
    return made.eval()


def _tensor(array: Any) -> Tensor:
    if isinstance(array, Tensor):
        return array.detach().clone()
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":  # a type of numpy's by extension, which torch does not take
        return torch.tensor(array.astype("float32")).bfloat16()
    if array.dtype.kind != "f":
        raise SaccadeError(f"weights: expected arrays of real numbers, found {array.dtype} {list(array.shape)}")
    return torch.tensor(array)
