"""Transformer layers (Vaswani et al. 2017): attention, then a position-wise feed-forward layer, each with a residual
connection.

    post-norm, as published   x ← LN(x + Drop(F(x)))
    pre-norm                  x ← x + Drop(F(LN(x))), and one more LN after the last layer
    F = MultiHead(x, y, y)  or  FFN(x) = W₂ φ(W₁ x + b₁) + b₂

An encoder layer attends to its own sequence; a decoder layer to the output so far and then, if there is a source, to the
encoder's states. Sites: ``encoder.{l}.self``, ``decoder.{l}.self``, ``decoder.{l}.cross``, l from 0.

Legend: B batch, T queries, S source, H heads, D width, d = D / H, L cached positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.layers import MultiHead
from saccade.attention.windows import Window, mask, padding
from saccade.kernels.beam_kv.attention import is_fused
from saccade.kernels.beam_kv.reference import in_line
from saccade.nn.cache import Cache, Room, after, places_of, window_of, written
from saccade.nn.config import check
from saccade.nn.positions import PositionsName, Rotation
from saccade.nn.recurrent import mask_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

Activation = Literal["relu", "gelu", "gelu_tanh"]  # gelu_tanh: an approximation of gelu
Norm = Literal["post", "pre"]


@dataclass(frozen=True)
class Layout:
    """Settings that all layers of a stack share.

    Attributes:
        width: D, a multiple of ``heads``. ``hidden`` is the width inside the FFN.
        norm: position of the layer norm.
        dropout: of each sublayer's output, before the residual is added.
        attention_dropout: of the weights. ``hidden_dropout``: inside the FFN, after φ.
        epsilon: of the layer norm.
    """

    width: int
    heads: int
    hidden: int
    norm: Norm = "post"
    activation: Activation = "relu"
    dropout: float = 0.0
    attention_dropout: float = 0.0
    hidden_dropout: float = 0.0
    epsilon: float = 1e-5

    def attention(self) -> MultiHead:
        return MultiHead(self.width, self.heads, dropout=self.attention_dropout)

    def final_norm(self) -> nn.Module:
        """The layer norm after the last layer, if any."""
        return nn.LayerNorm(self.width, eps=self.epsilon) if self.norm == "pre" else nn.Identity()


@dataclass(frozen=True)
class Sizes:
    """Settings of networks made of these layers; the defaults are the paper's."""

    width: int = 512  # D
    heads: int = 8  # H
    hidden: int = 2048  # inside the feed-forward layers
    layers: int = 6  # N, on each side
    norm: Norm = "post"
    positions: PositionsName = "sinusoidal"
    places: int = 512  # with positions="learned": the longest text
    activation: Activation = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.0  # of the weights
    hidden_dropout: float = 0.0  # inside the feed-forward layers

    def __post_init__(self) -> None:
        check(self, "width", "heads", "hidden", "layers", "places")
        if self.width % self.heads:
            raise ValueError(f"heads must divide width={self.width}: got {self.heads}")
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(f"width / heads must be even with rotary positions: got {self.width} / {self.heads}")
        for name in ("attention_dropout", "hidden_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1: got {getattr(self, name)}")

    @property
    def layout(self) -> Layout:
        return Layout(
            self.width, self.heads, self.hidden, self.norm, self.activation, self.dropout, self.attention_dropout,
            self.hidden_dropout,
        )  # fmt: skip


def scaled_embedding(size: int, width: int) -> nn.Embedding:
    """An embedding [size, D] to be multiplied by √D, which gives a variance of 1."""
    embedding = nn.Embedding(size, width)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    return embedding


def activated(x: Tensor, activation: Activation) -> Tensor:
    """φ(x): relu(x) = max(0, x), gelu(x) = x Φ(x), or 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))), which is close to it."""
    if activation == "relu":
        return functional.relu(x)
    return functional.gelu(x, approximate="tanh" if activation == "gelu_tanh" else "none")


class FeedForward(nn.Module):
    """FFN(x) = W₂ φ(W₁ x + b₁) + b₂, at every position. Shapes: [B, T, D] → [B, T, D]."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.activation, self.dropout = layout.activation, layout.hidden_dropout
        self.inner = nn.Linear(layout.width, layout.hidden)
        self.outer = nn.Linear(layout.hidden, layout.width)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        inside = self.inner(states)
        inside = activated(inside, self.activation)
        output: Tensor = self.outer(functional.dropout(inside, self.dropout, self.training))
        return output


class Residual(nn.Module):
    """Layer norm, dropout and residual connection around a sublayer F: ``leave(x, F(enter(x)))``."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.first, self.dropout = layout.norm == "pre", layout.dropout
        self.norm = nn.LayerNorm(layout.width, eps=layout.epsilon)

    def enter(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        normed: Tensor = self.norm(states) if self.first else states
        return normed

    def leave(self, states: Float[Tensor, "B T D"], change: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        moved = states + functional.dropout(change, self.dropout, self.training)
        normed: Tensor = moved if self.first else self.norm(moved)
        return normed


class EncoderLayer(nn.Module):
    """Self-attention, then the FFN. Shapes: [B, S, D] → [B, S, D]."""

    def __init__(self, layout: Layout) -> None:
        super().__init__()
        self.attention, self.attention_residual = layout.attention(), Residual(layout)
        self.feed_forward, self.feed_forward_residual = FeedForward(layout), Residual(layout)

    def forward(
        self,
        states: Float[Tensor, "B S D"],
        *,
        window: Window,
        rotation: Rotation | None = None,
        lens: Lens | None = None,
        site: str | Site = "encoder.self",
    ) -> Float[Tensor, "B S D"]:
        entering = self.attention_residual.enter(states)
        queries = self.attention.queries(entering)
        keys, values = self.attention.keys_and_values(entering)
        if rotation is not None:
            queries, keys = rotation.turn(queries), rotation.turn(keys)
        change = self.attention.look(queries, keys, values, window=window, lens=lens, site=site)
        states = self.attention_residual.leave(states, change)
        residual = self.feed_forward_residual
        output: Tensor = residual.leave(states, self.feed_forward(residual.enter(states)))
        return output


def _flow(
    number: int, layers: int, place: str, output: tuple[str, ...] = (), recorded: Mapping[str, str] | None = None
) -> Flow:
    """A head's step: its context is added to the vector of its position, which goes on through the layers above."""
    above = layers - number - 1
    rest = "" if not above else f" and {above} more layer{'s' if above > 1 else ''}"
    into = f"the vector of this {place}, which goes on through the feed-forward layer{rest}"
    return Flow(query=("q[t]",), key="k[j]", output=output, into=into, recorded=recorded or {})


class Encoder(nn.Module):
    """A stack of encoder layers; ``axis`` is the name of its input axis. Shapes: states [B, S, D], lengths [B] → [B, S, D]."""

    def __init__(self, layers: int, layout: Layout, *, axis: str = "source") -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(layout) for _ in range(layers))
        self.norm = layout.final_norm()
        self.sites = tuple(
            Site(f"encoder.{number}.self", axis, axis, flow=_flow(number, layers, "position"))
            for number in range(layers)
        )

    def forward(
        self,
        states: Float[Tensor, "B S D"],
        lengths: Int[Tensor, " B"],
        *,
        rotation: Rotation | None = None,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B S D"]:
        window: Window = padding(lengths)
        if lens is not None:  # queries in padding would count in the mass that real positions receive
            window = window & mask(mask_of(lengths, states.shape[1]).unsqueeze(-1))
        for layer, site in zip(self.layers, self.sites, strict=True):
            states = layer(states, window=window, rotation=rotation, lens=lens, site=site)
        normed: Tensor = self.norm(states)
        return normed


class Crossed(NamedTuple):
    """The source for cross-attention: keys and values [B, H, S, d] per layer, computed once, and the lengths."""

    lengths: Int[Tensor, " B"]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


@dataclass(frozen=True)
class DecoderCall:
    """What all layers of a decoder share in one call."""

    cache: Cache | Room | None
    places: Int[Tensor, "b T"]
    window: Window
    rotation: Rotation | None
    offset: int
    lens: Lens | None

    @property
    def is_step(self) -> bool:
        """Whether there is one token per row, and neither a lens nor a gradient needs the weights."""
        return self.places.shape[1] == 1 and self.lens is None and not torch.is_grad_enabled()


class DecoderLayer(nn.Module):
    """Self-attention over the output so far, cross-attention where there is a source, then the FFN. Shapes: [B, T, D]."""

    def __init__(self, layout: Layout, *, cross: bool = True) -> None:
        super().__init__()
        self.attention, self.attention_residual = layout.attention(), Residual(layout)
        if cross:
            self.cross, self.cross_residual = layout.attention(), Residual(layout)
        self.feed_forward, self.feed_forward_residual = FeedForward(layout), Residual(layout)

    def look_back(
        self, states: Float[Tensor, "B T D"], call: DecoderCall, number: int, site: Site
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B H L d"], Float[Tensor, "B H L d"]]:
        """Self-attention over the output so far; also this layer's keys and values of all of it."""
        entering = self.attention_residual.enter(states)
        queries = self.attention.queries(entering)
        keys, values = self.attention.keys_and_values(entering)
        if call.rotation is not None:
            queries, keys = call.rotation.turn(queries), call.rotation.turn(keys)
        keys, values = written(call.cache, number, keys, values, call.places)
        change = self._attend_cached(queries, keys, values, call, site)
        return self.attention_residual.leave(states, change), keys, values

    def _attend_cached(self, queries: Tensor, keys: Tensor, values: Tensor, call: DecoderCall, site: Site) -> Tensor:
        cache = call.cache
        if isinstance(cache, Room):
            if call.is_step and self.attention.looks_once:
                return self.attention.look_once(queries, keys, values, cache.read + 1, cache.line)
            keys, values = in_line(keys, cache.line), in_line(values, cache.line)
        return self.attention.look(
            queries, keys, values, window=call.window, offset=call.offset, lens=call.lens, site=site
        )

    def look_across(
        self, states: Float[Tensor, "B T D"], crossed: Crossed, call: DecoderCall, number: int, site: Site
    ) -> Float[Tensor, "B T D"]:
        """Cross-attention; consecutive rows may share one source."""
        queries = self.cross.queries(self.cross_residual.enter(states))
        keys, values, lengths = crossed.keys[number], crossed.values[number], crossed.lengths
        shared = len(queries) // max(1, len(keys))
        if call.is_step and self.cross.looks_once and (shared > 1 or is_fused(queries)):
            change = self.cross.look_once(queries, keys, values, lengths)
        else:
            if shared > 1:
                keys, values, lengths = (part.repeat_interleave(shared, 0) for part in (keys, values, lengths))
            options: dict[str, Any] = {"window": padding(lengths), "offset": call.offset, "lens": call.lens}
            change = self.cross.look(queries, keys, values, **options, site=site)
        moved: Tensor = self.cross_residual.leave(states, change)
        return moved

    def transform(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """The feed-forward layer."""
        residual = self.feed_forward_residual
        output: Tensor = residual.leave(states, self.feed_forward(residual.enter(states)))
        return output


class Decoder(nn.Module):
    """A stack of decoder layers. ``axes`` name its queries (the next tokens), its keys (the tokens so far), and the source,
    None for a decoder-only model."""

    def __init__(
        self, layers: int, layout: Layout, *, axes: tuple[str, str, str | None] = ("target", "prefix", "source")
    ) -> None:
        super().__init__()
        query, key, source = axes
        self.layout = layout
        self.layers = nn.ModuleList(DecoderLayer(layout, cross=source is not None) for _ in range(layers))
        self.norm = layout.final_norm()
        flows = [_flow(number, layers, "step", ("s[t]",), {"s": "decoder.state"}) for number in range(layers)]
        self.self_sites = tuple(Site(f"decoder.{n}.self", query, key, flow=flow) for n, flow in enumerate(flows))
        self.cross_sites = tuple(
            Site(f"decoder.{n}.cross", query, source, flow=flow) for n, flow in enumerate(flows) if source is not None
        )

    @property
    def sites(self) -> tuple[Site, ...]:
        """In order of use."""
        if not self.cross_sites:
            return self.self_sites
        return tuple(site for pair in zip(self.self_sites, self.cross_sites, strict=True) for site in pair)

    def cross(self, states: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> Crossed:
        """The source's keys and values for every layer."""
        keys, values = zip(*(layer.cross.keys_and_values(states) for layer in self._layers()), strict=True)
        return Crossed(lengths, keys, values)

    def _layers(self) -> list[DecoderLayer]:
        return [cast(DecoderLayer, layer) for layer in self.layers]

    def forward(
        self,
        states: Float[Tensor, "B T D"],
        cache: Cache | Room | None = None,
        *,
        lengths: Int[Tensor, " B"] | None = None,
        crossed: Crossed | None = None,
        rotation: Rotation | None = None,
        offset: int = 0,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B T D"], Cache | Room]:
        """States of T new tokens, and the cache after them.

        Args:
            cache: the tokens so far; each row continues at its own position.
            lengths: the number of real tokens per row, by default all. Rows are padded on the right.
            offset: position of the first of them, for a lens.
        """
        places = places_of(cache, states.shape[1], states.device)
        call = DecoderCall(cache, places, window_of(cache, places), rotation, offset, lens)
        all_keys, all_values = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(self._layers()):
            states, keys, values = layer.look_back(states, call, number, self.self_sites[number])
            if crossed is not None:
                states = layer.look_across(states, crossed, call, number, self.cross_sites[number])
            states = layer.transform(states)
            all_keys.append(keys)
            all_values.append(values)
        count = states.shape[1] if lengths is None else lengths
        return self.norm(states), after(cache, tuple(all_keys), tuple(all_values), count)
