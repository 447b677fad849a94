"""Keras's attention layers over saccade's core, called as Keras calls them: for models that move.

| layer | Keras | score(q, k) |
|---|---|---|
| ``KerasAttention`` | ``Attention`` | "dot": scale · qᵀk; "concat": c · Σ tanh(scale · (q + k)) |
| ``KerasAdditiveAttention`` | ``AdditiveAttention`` | scaleᵀ tanh(q + k): Bahdanau et al. 2015 without the projections |
| ``KerasMultiHeadAttention`` | ``MultiHeadAttention`` | qᵀk / √K in each head: Vaswani et al. 2017 |

Inputs come as query, value, key; masks are True where one may look; ``training`` is the module's mode unless it is given.
``from_keras`` (:mod:`saccade.nn.compat.weights`) makes them of Keras's own layers, weights and all.

What differs: Keras hides keys by a large negative number, so that a query that sees nothing looks everywhere; here it gets
zeros. A ``seed`` makes this layer's dropout repeatable; it does not drop the same weights as Keras.

Legend: B batch, H heads, T queries, S keys, D width of queries and keys, E width of values, K width of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import read, weigh
from saccade.attention.scores import Score, additive, dot, scaled_dot
from saccade.attention.windows import Window, band, causal, everywhere, mask, padding
from saccade.errors import SaccadeError
from saccade.trace.lens import Lens, Site

ScoreMode = Literal["dot", "concat"]


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
        """``mask`` is [query_mask [B, T], value_mask [B, S]], either of them None: where a query is hidden the output is 0,
        where a value is hidden nobody looks. ``use_causal_mask`` lets query t see the keys 0 … t, whatever T and S are."""
        query, value, key = _unpacked(inputs)
        query_mask, value_mask = _masks(mask)
        window = _seen(value_mask, "value_mask") & (causal("top-left") if use_causal_mask else everywhere)
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
        [B, H, T, S]; what one of them hides is hidden."""
        window = self.window & (causal("top-left") if use_causal_mask else everywhere)
        window &= _seen(value_mask, "value_mask") & _seen(key_mask, "key_mask")
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
    """Dropout of weights. With a seed its draws are its own: the same from run to run, whatever else is drawn."""

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
        kept = torch.empty_like(weights).bernoulli_(1 - self.rate, generator=generator)
        return weights * kept / (1 - self.rate)


def _seen(mask: Tensor | None, name: str) -> Window:
    if mask is None:
        return everywhere
    if mask.dim() != 2:
        raise SaccadeError(f"{name}: expected [B, S], True at the keys that may be looked at, found {list(mask.shape)}")
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
    return mask[0], mask[1]  # Keras takes a third, the key's, and does not look at it
