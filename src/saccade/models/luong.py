"""Effective approaches to attention-based translation (Luong, Pham & Manning 2015): attention *after* the step.

    state       hₜ = LSTM([E yₜ₋₁; h̃ₜ₋₁])                         input feeding: the last attentional vector goes back in
    weights     aₜ(s) = softmaxₛ score(hₜ, h̄ₛ)                     dot, general, concat; location: softmax(W_a hₜ)
    context     cₜ = Σₛ aₜ(s) h̄ₛ,  h̃ₜ = tanh(W_c [cₜ; hₜ]),  p(yₜ) = softmax(W_s h̃ₜ + b_s)
    local-m     the window [t − D, t + D]
    local-p     pₜ = S σ(v_pᵀ tanh(W_p hₜ)),  aₜ(s) · exp(−(s − pₜ)² / 2σ²) in [⌊pₜ⌋ − D, ⌊pₜ⌋ + D], σ = D/2, not renormalised

The source may be read reversed; annotations are reversed back, so windows and pictures refer to the original order.

Legend: B batch, S source, T target, n hidden, V vocabulary, L layers, D radius.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.fast import Steps, steps_over
from saccade.attention.layers import Attention
from saccade.attention.own import (
    Choices,
    NormaliserName,
    OwnWindow,
    normaliser,
    own_score,
    own_window,
    shipped_parameters,
)
from saccade.attention.scores import Prepared
from saccade.attention.windows import Window, band, gaussian, padding
from saccade.kernels.dtypes import without_autocast, working_dtype
from saccade.nn.config import FORMER_INIT, check
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import Recurrent, State, bound_for, init_uniform, mask_of, reverse_within
from saccade.plugins import is_own
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(
    query=("h[t]",),
    key="h̄[j]",
    output=("c[t]", "h[t]"),
    state=("h[t]", "h[t-1]", "y[t-1]", "h̃[t-1]"),
    recorded={"h": "decoder.state", "h̄": "encoder.state"},
)
SITE = Site("decoder.attention", query="target", key="source", flow=FLOW)
UNFED = replace(SITE, flow=replace(FLOW, state=FLOW.state[:-1]))


@dataclass(frozen=True)
class Config:
    """The paper's: layers=4, hidden=1000, reverse=True, bidirectional=False, dropout=0.2, init="paper", radius=10."""

    hidden: int = 256
    embedding: int = 256
    layers: int = 1
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    score: Annotated[str, Choices(("dot", "general", "concat", "location"), own_score)] = "general"
    window: Annotated[str, Choices(("global", "local-m", "local-p"), own_window)] = "global"
    normalise: NormaliserName = "softmax"
    radius: int = 10  # D, with local-m and local-p
    places: int = 256  # S_max, with score="location"
    input_feeding: bool = True
    bidirectional: bool = False
    reverse: bool = False  # read the source last word first
    dropout: float = 0.0
    init: Literal["uniform", "torch", "paper"] = "uniform"  # uniform: bound_for(hidden); paper: U(−0.1, 0.1)
    bias: bool = True
    former: ClassVar = FORMER_INIT

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "layers", "radius", "places")
        if self.bidirectional and self.hidden % 2:
            raise ValueError(f"hidden must be even when bidirectional (half each way): got {self.hidden}")
        if self.bidirectional and self.reverse:
            raise ValueError("reverse has no meaning when the encoder is bidirectional: set one of them")


class Memory(NamedTuple):
    annotations: Float[Tensor, "B S n"]
    keys: Float[Tensor, "B S a"]  # prepared for the score, once per sentence
    real: Bool[Tensor, "B S"]
    lengths: Int[Tensor, " B"]  # the same as `real`, for kernels that skip padding
    start: State


class Step(NamedTuple):
    state: State
    fed: Float[Tensor, "B n"]  # h̃ of the step before


class Luong(EncoderDecoder):
    """p(yₜ | y₍<ₜ₎, x): source [B, S] and target [B, T] → logits [B, T, V]."""

    config_class = Config
    sites = (SITE,)

    def __init__(self, config: Config, source_size: int, target_size: int) -> None:
        super().__init__()
        n, m, L = config.hidden, config.embedding, config.layers
        self.config = config
        self.source_embedding = nn.Embedding(source_size, m)
        self.target_embedding = nn.Embedding(target_size, m)
        options: dict[str, Any] = {"layers": L, "dropout": config.dropout, "bias": config.bias}
        ways = 2 if config.bidirectional else 1
        self.encoder = Recurrent(config.cell, m, n // ways, bidirectional=config.bidirectional, **options)
        self.decoder = Recurrent(config.cell, m + n if config.input_feeding else m, n, **options)
        if config.bidirectional:
            # Each layer has two half-size final states; a bridge turns them into the decoder's first state.
            parts = 2 if config.cell == "lstm" else 1
            self.bridge = nn.ModuleList(nn.Linear(n, n, bias=config.bias) for _ in range(parts))
        normalise = normaliser(config.normalise)
        self.attention = Attention(n, n, score=config.score, places=config.places, normalise=normalise)
        if is_own(config.window):
            self.own_window = OwnWindow(config.window, n)
        if config.window == "local-p":
            self.position = nn.Linear(n, n, bias=False)  # W_p
            self.position_vector = nn.Parameter(torch.empty(n))  # v_p
            nn.init.uniform_(self.position_vector, -(n**-0.5), n**-0.5)
        self.combine = nn.Linear(2 * n, n, bias=False)  # W_c: the authors' code has no bias
        self.output = nn.Linear(n, target_size, bias=config.bias)
        if config.init != "torch":
            init_uniform(shipped_parameters(self), 0.1 if config.init == "paper" else bound_for(n))
        elif config.score == "general":
            # W_a = I is the dot score: a good starting point.
            nn.init.eye_(self.attention.weight)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        if self.config.reverse:
            source = reverse_within(source, lengths - 1)  # EOS stays last
        annotations, final = self.encoder(self._drop(self.source_embedding(source)), lengths)
        if self.config.reverse:
            annotations = reverse_within(annotations, lengths - 1)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "source", annotations)
        if self.config.bidirectional:
            final = tuple(self._cross(layer, part) for layer, part in zip(self.bridge, final, strict=True))
        keys = self.attention.prepare(annotations).key
        return Memory(annotations, keys, mask_of(lengths, source.shape[1]), lengths, final)

    def _cross(self, layer: nn.Module, part: Float[Tensor, "B ends half"]) -> Float[Tensor, "B L n"]:
        ahead, behind = part.chunk(2, dim=1)
        crossed: Tensor = torch.tanh(layer(torch.cat([ahead, behind], dim=-1)))
        return crossed

    def start(self, memory: Memory) -> Step:
        return Step(memory.start, memory.annotations.new_zeros(len(memory.real), self.config.hidden))

    def step(
        self, token: Int[Tensor, " B"], state: Step, memory: Memory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], Step]:
        attentional, moved = self._move(self._drop(self.target_embedding(token)), state, memory, offset, lens)
        return self.output(self._drop(attentional)), moved

    def teach(self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        if not target.shape[1]:
            return super().teach(memory, target, lens=lens)
        embedded = self._drop(self.target_embedding(target))  # [B, T, m]
        if not self.config.input_feeding:
            # Without input feeding, all states and all attention are computed in one call each.
            hidden, _ = self.decoder(embedded, initial=memory.start)
            attentional = self._look(hidden, memory, 0, lens)
            if lens is not None and lens.wants("state"):
                lens.signal("decoder.state", "target", hidden)
        else:
            state, rows = self.start(memory), []
            steps = self._steps(memory, target.shape[1]) if lens is None else None
            for offset in range(target.shape[1]):
                row, state = self._move(embedded[:, offset], state, memory, offset, lens, steps)
                rows.append(row)
            attentional = torch.stack(rows, dim=1)
        logits: Tensor = self.output(self._drop(attentional))
        return logits

    def _steps(self, memory: Memory, count: int) -> Steps | None:
        """Attention for all steps together, where kernels support the score, normaliser and window."""
        if self.config.window != "global" or self.attention.dropout:
            return None
        look, keys, window = self.attention, Prepared(memory.keys), padding(memory.real)
        return steps_over(
            keys, memory.annotations, score=look.score, normalise=look.normalise, window=window, steps=count
        )

    def _move(
        self,
        embedded: Tensor,
        state: Step,
        memory: Memory,
        offset: int,
        lens: Lens | None,
        steps: Steps | None = None,
    ) -> tuple[Float[Tensor, "B n"], Step]:
        inputs = torch.cat([embedded, state.fed], dim=-1) if self.config.input_feeding else embedded
        hidden, moved = self.decoder.step(inputs, state.state)
        attentional = self._look(hidden.unsqueeze(1), memory, offset, lens, steps).squeeze(1)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", hidden.unsqueeze(1), offset=offset)
        return attentional, Step(moved, attentional)

    def _look(
        self,
        hidden: Float[Tensor, "B T n"],
        memory: Memory,
        offset: int,
        lens: Lens | None,
        steps: Steps | None = None,
    ) -> Float[Tensor, "B T n"]:
        if steps is not None:
            _, context = steps.look(hidden)
        else:
            keys, window = Prepared(memory.keys), self._window(hidden, memory)
            site = SITE if self.config.input_feeding else UNFED
            context = self.attention(
                hidden, keys, memory.annotations, window=window, offset=offset, lens=lens, site=site
            )
        return torch.tanh(self.combine(torch.cat([context, hidden], dim=-1)))

    def _window(self, hidden: Float[Tensor, "B T n"], memory: Memory) -> Window:
        kind, radius, real, within = self.config.window, self.config.radius, memory.real, memory.lengths
        if is_own(kind):
            shown: Window = self.own_window(hidden, within)
            return shown & padding(real)
        if kind == "local-m":
            return band(radius) & padding(within)
        if kind == "local-p":
            return gaussian(self.centre(hidden, within), radius) & padding(within)
        # Kernels for many queries skip padding by lengths; for a single query the existing mask is as good.
        return padding(real if hidden.shape[1] == 1 else within)

    def centre(self, hidden: Float[Tensor, "B T n"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B T"]:
        """pₜ = S σ(v_pᵀ tanh(W_p hₜ)) counts words from 1; positions here count from 0, hence − 1."""
        # In float32 at least: half precision has no odd positions from 256 (bfloat16) or 2048 (float16) on.
        wide = working_dtype(hidden.dtype)
        with without_autocast(hidden):
            inner = torch.tanh(functional.linear(hidden.to(wide), self.position.weight.to(wide)))
            where = torch.sigmoid(inner @ self.position_vector.to(wide))  # [B, T]
        return lengths.unsqueeze(-1) * where - 1

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)
