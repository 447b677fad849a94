"""Keras's attention layers on saccade's core, with Keras's call signatures, and the conversion of Keras layers.

| layer | Keras | score(q, k) |
|---|---|---|
| ``KerasAttention`` | ``Attention`` | "dot": scale · qᵀk; "concat": c · Σ tanh(scale · (q + k)) |
| ``KerasAdditiveAttention`` | ``AdditiveAttention`` | scaleᵀ tanh(q + k): Bahdanau et al. 2015 without the projections |
| ``KerasMultiHeadAttention`` | ``MultiHeadAttention`` | qᵀk / √K in each head: Vaswani et al. 2017 |

Inputs are query, value, key; masks are True where a key is visible; ``training`` defaults to the module's mode.
``from_keras`` builds them from Keras's own layers, weights included. Keras itself is not needed: a layer is read through its
own methods, or given as a config and arrays. Keras stores kernels as [in, out] where ``nn.Linear`` has [out, in], and gives
heads an axis of their own where ours lie side by side.

Differences: Keras hides keys by a large negative number, so that a query that sees nothing attends everywhere; here it gets
zeros. A ``seed`` makes this layer's dropout repeatable; it does not drop the same weights as Keras.

Legend: B batch, H heads, T queries, S keys, D width of queries and keys, E width of values, K width of a head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.checks import check_dropout, check_flag
from saccade.attention.core import read, weigh
from saccade.attention.scores import Score, additive, dot, scaled_dot
from saccade.attention.windows import Window, band, causal, everywhere, mask, padding
from saccade.errors import SaccadeError
from saccade.trace.lens import Lens, Site

ScoreMode = Literal["dot", "concat"]
Layer = TypeVar("Layer", bound=nn.Module)

KERAS_LAYERS = ("Attention", "AdditiveAttention", "MultiHeadAttention")


class KerasAttention(nn.Module):
    """``keras.layers.Attention``: context = Σₛ softmaxₛ(score(query, keyₛ)) valueₛ.

    score is scale · qᵀk ("dot") or concat_score_weight · Σ tanh(scale · (q + k)) ("concat"); both weights are numbers, and
    ``scale`` is there with ``use_scale`` only.

    Shapes: inputs [query [B, T, D], value [B, S, E]] or [query, value, key [B, S, D]] (without a key, the values are the
    keys) → [B, T, E]; with ``return_attention_scores`` also the weights [B, T, S], after dropout as in Keras.
    """

    scale: nn.Parameter | None
    concat_score_weight: nn.Parameter | None

    def __init__(
        self,
        *,
        use_scale: bool = False,
        score_mode: ScoreMode = "dot",
        dropout: float = 0.0,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        if score_mode not in get_args(ScoreMode):
            raise SaccadeError(f"score_mode must be 'dot' or 'concat': got {score_mode!r}")
        check_flag(use_scale=use_scale)
        check_dropout(dropout)
        self.register_parameter("scale", nn.Parameter(torch.ones(())) if use_scale else None)
        concat = score_mode == "concat"
        self.register_parameter("concat_score_weight", nn.Parameter(torch.ones(())) if concat else None)
        self.dropout = SeededDropout(dropout, seed)

    def forward(
        self,
        inputs: Sequence[Float[Tensor, "B _ _"]],
        mask: Sequence[Tensor | None] | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
        *,
        lens: Lens | None = None,
        site: str | Site = "attention",
    ) -> Float[Tensor, "B T E"] | tuple[Float[Tensor, "B T E"], Float[Tensor, "B T S"]]:
        """``mask`` is [query_mask [B, T], value_mask [B, S]], either of them None: the output of a hidden query is 0,
        a hidden value is not visible. ``use_causal_mask`` lets query t see the keys 0 … t, whatever T and S are."""
        query, value, key = _unpacked(inputs)
        query_mask, value_mask = _masks(mask)
        window = _padding(value_mask, "value_mask") & (causal("top-left") if use_causal_mask else everywhere)
        query, key, score = self._matched(query, key)
        weights = weigh(query, key, score=score, window=window, lens=lens, site=site)
        weights = self.dropout(weights, self.training if training is None else training)
        context = read(weights, value)  # [B, T, E]
        if query_mask is not None:
            context = context.masked_fill(~query_mask.bool().unsqueeze(-1), 0.0)
        if lens is not None and lens.wants("context"):
            lens.signal(f"{Site.of(site).name}.context", Site.of(site).query, context)
        return (context, weights) if return_attention_scores else context

    def _matched(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        """Query and key as the score takes them, and the score."""
        if self.scale is not None:
            query = query * self.scale
        if self.concat_score_weight is None:
            return query, key, dot
        if self.scale is not None:
            key = key * self.scale
        return query, key, additive(self.concat_score_weight * query.new_ones(query.shape[-1]))


class KerasAdditiveAttention(KerasAttention):
    """``keras.layers.AdditiveAttention``: score = Σ scale · tanh(q + k), with ``scale`` [width] the v of Bahdanau et al. 2015.

    Query and key are not projected: they come in the same width. Without ``use_scale`` v is all ones. Shapes and call as
    :class:`KerasAttention`.
    """

    def __init__(
        self, width: int | None = None, *, use_scale: bool = True, dropout: float = 0.0, seed: int | None = None
    ) -> None:
        super().__init__(dropout=dropout, seed=seed)
        if use_scale:
            if width is None:
                raise SaccadeError("KerasAdditiveAttention with use_scale needs width=, the width of queries and keys")
            bound = (3 / width) ** 0.5  # Keras's glorot_uniform of a vector
            self.scale = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def _matched(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Score]:
        return query, key, additive(query.new_ones(query.shape[-1]) if self.scale is None else self.scale)


class KerasMultiHeadAttention(nn.Module):
    """``keras.layers.MultiHeadAttention``: concat(head₁ … head_H) W_O, headᵢ = attend(q W_Qⁱ, k W_Kⁱ, v W_Vⁱ).

    The heads' widths are free: ``key_dim`` (K) for queries and keys, ``value_dim`` (K unless given) for values. ``width`` is
    that of the queries, ``value_width`` and ``key_width`` those of the inputs they name (``width`` unless given; a key is a
    value unless given), ``output_width`` that of the result. The parameters have the names of
    :class:`saccade.nn.MultiHead`: where the heads together are as wide as the model, its ``load_state_dict`` takes them.

    Shapes: query [B, T, width], value [B, S, value_width], key [B, S, key_width] → [B, T, output_width]; with
    ``return_attention_scores`` also the weights [B, H, T, S], before dropout as in Keras.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *,
        width: int,
        value_width: int | None = None,
        key_width: int | None = None,
        output_width: int | None = None,
        value_dim: int | None = None,
        use_bias: bool = True,
        dropout: float = 0.0,
        sliding_window: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        value_width, value_dim = value_width or width, value_dim or key_dim
        self.heads = num_heads
        self.query = nn.Linear(width, num_heads * key_dim, bias=use_bias)
        self.key = nn.Linear(key_width or value_width, num_heads * key_dim, bias=use_bias)
        self.value = nn.Linear(value_width, num_heads * value_dim, bias=use_bias)
        self.output = nn.Linear(num_heads * value_dim, output_width or width, bias=use_bias)
        self.window = everywhere if sliding_window is None else band(sliding_window - 1)
        self.dropout = SeededDropout(dropout, seed)
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        value: Float[Tensor, "B S Dv"],
        key: Float[Tensor, "B S Dk"] | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        *,
        lens: Lens | None = None,
        site: str | Site = "attention",
    ) -> Float[Tensor, "B T E"] | tuple[Float[Tensor, "B T E"], Float[Tensor, "B H T S"]]:
        """Masks: ``query_mask`` [B, T], ``value_mask`` and ``key_mask`` [B, S], ``attention_mask`` [T, S], [B, T, S] or
        [B, H, T, S]; a key is visible if all of them say so."""
        window = self.window & (causal("top-left") if use_causal_mask else everywhere)
        window &= _padding(value_mask, "value_mask") & _padding(key_mask, "key_mask")
        if query_mask is not None:
            window &= mask(query_mask.bool().unsqueeze(-1))
        if attention_mask is not None:
            window &= mask(attention_mask.bool())
        queries, keys = self._split(self.query(query)), self._split(self.key(value if key is None else key))
        weights = weigh(queries, keys, score=scaled_dot, window=window, lens=lens, site=site)  # [B, H, T, S]
        dropped = self.dropout(weights, self.training if training is None else training)
        context = read(dropped, self._split(self.value(value)))  # [B, H, T, value_dim]
        joined: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return (joined, weights) if return_attention_scores else joined

    def _split(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N d"]:
        B, N, D = x.shape
        return x.view(B, N, self.heads, D // self.heads).transpose(1, 2)


class SeededDropout(nn.Module):
    """Dropout of weights. With a seed it has its own random numbers, the same in every run."""

    def __init__(self, rate: float, seed: int | None = None) -> None:
        super().__init__()
        if not 0 <= rate <= 1:
            raise SaccadeError(f"dropout must be between 0 and 1: got {rate}")
        self.rate, self.seed, self.draws = rate, seed, 0

    def forward(self, weights: Float[Tensor, "*batch T S"], training: bool) -> Float[Tensor, "*batch T S"]:
        if not training or not self.rate:
            return weights
        if self.seed is None or self.rate == 1:
            return functional.dropout(weights, self.rate)
        generator = torch.Generator(weights.device).manual_seed(self.seed + self.draws)
        self.draws += 1
        keep = torch.empty_like(weights).bernoulli_(1 - self.rate, generator=generator)
        return weights * keep / (1 - self.rate)


def _padding(mask: Tensor | None, name: str) -> Window:
    if mask is None:
        return everywhere
    if mask.dim() != 2:
        raise SaccadeError(f"{name}: expected [B, S], True at visible keys, found {list(mask.shape)}")
    return padding(mask.bool())


def _unpacked(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    if not isinstance(inputs, (list, tuple)) or len(inputs) not in (2, 3):
        found = f"{len(inputs)} tensors" if isinstance(inputs, (list, tuple)) else type(inputs).__name__
        raise SaccadeError(f"inputs: expected [query, value] or [query, value, key], found {found}")
    query, value, key = inputs[0], inputs[1], inputs[-1]
    return query, value, key


def _masks(mask: Sequence[Tensor | None] | None) -> tuple[Tensor | None, Tensor | None]:
    if mask is None:
        return None, None
    if not isinstance(mask, (list, tuple)) or len(mask) not in (2, 3):
        found = f"{len(mask)} of them" if isinstance(mask, (list, tuple)) else type(mask).__name__
        raise SaccadeError(f"mask: expected [query_mask, value_mask], found {found}")
    return mask[0], mask[1]  # Keras accepts a third, the key's, and ignores it


# Conversion of Keras layers -----------------------------------------------------------------------------------------------


def from_keras(layer: Any, weights: Sequence[Any] | None = None) -> KerasAttention | KerasMultiHeadAttention:
    """A layer of this module built like a Keras ``Attention``, ``AdditiveAttention`` or
    ``MultiHeadAttention``, whichever backend Keras runs on. It comes in evaluation mode, as Keras calls a layer outside
    ``fit``: no dropout until ``.train()``.

    Args:
        layer: the Keras layer, built (called once); or, without Keras,
            ``{"class_name": "Attention", "config": layer.get_config()}``, as Keras itself saves it.
        weights: the arrays of ``layer.get_weights()``, in their order; by default the layer's own.

    >>> saved = {"class_name": "Attention", "config": {"use_scale": True}}
    >>> attention = from_keras(saved, [np.float32(0.5)])
    >>> attention([torch.randn(2, 3, 4), torch.randn(2, 5, 4)]).shape
    torch.Size([2, 3, 4])
    """
    kind, config, arrays = _described(layer, weights)
    tensors = [_tensor(array) for array in arrays]
    module, state = _multi_head(config, tensors) if kind == "MultiHeadAttention" else _single(kind, config, tensors)
    if tensors:
        module = module.to(tensors[0].dtype)
    return _filled(kind, module, state)


def _described(layer: Any, weights: Sequence[Any] | None) -> tuple[str, Mapping[str, Any], Sequence[Any]]:
    """The class, the config and the arrays of a Keras layer."""
    if isinstance(layer, Mapping):
        if not {"class_name", "config"} <= layer.keys():
            raise SaccadeError(f"from_keras: expected the fields class_name and config, found {sorted(layer)}")
        kind, config, own = layer["class_name"], layer["config"], []
    else:
        # Custom layers may be called "Attention" too, and compute something else.
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
    module = KerasMultiHeadAttention(
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
    return module, state


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


def _filled(kind: str, module: Layer, state: Mapping[str, Tensor]) -> Layer:
    for name, parameter in module.named_parameters():
        if parameter.shape != state[name].shape:
            raise SaccadeError(f"{kind}: {name}: expected {list(parameter.shape)}, found {list(state[name].shape)}")
    module.load_state_dict(state)
    return module.eval()


def _tensor(array: Any) -> Tensor:
    if isinstance(array, Tensor):
        return array.detach().clone()
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":  # a numpy extension type that torch does not accept
        return torch.tensor(array.astype("float32")).bfloat16()
    if array.dtype.kind != "f":
        raise SaccadeError(f"weights: expected arrays of real numbers, found {array.dtype} {list(array.shape)}")
    return torch.tensor(array)
