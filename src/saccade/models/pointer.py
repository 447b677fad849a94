"""Pointer networks (Vinyals, Fortunato & Jaitly 2015): the attention distribution *is* the output, a position of the input.

    uᵢⱼ = vᵀ tanh(W₁ eⱼ + W₂ dᵢ),   p(Cᵢ = j) = softmaxⱼ uᵢⱼ,   the next decoder input is the chosen input vector x_{Cᵢ}

There is no context vector. Position 0 is a learned end mark: pointing at it ends the output. Points are numbered from 1.

Legend: B batch, S points, T steps, n hidden, d width of a point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.attention.core import weigh
from saccade.attention.scores import Prepared, additive
from saccade.attention.windows import padding
from saccade.nn.config import FORMER_INIT, check
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import Recurrent, State, init_uniform, mask_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(
    query=("d[t]",),
    output=("α[t]",),
    state=("d[t]", "d[t-1]", "y[t-1]"),
    recorded={"d": "decoder.state", "h": "encoder.state"},
)
SITE = Site("decoder.pointer", query="target", key="source", flow=FLOW)
END = 0


@dataclass(frozen=True)
class Config:
    """The paper's: one LSTM layer of 256 or 512, init="paper" (U(−0.08, 0.08)), points may be chosen again."""

    hidden: int = 256
    cell: Literal["rnn", "gru", "lstm"] = "lstm"
    revisit: bool = True  # False: a chosen point is no longer visible (later work, not the paper)
    init: Literal["torch", "paper"] = "torch"
    former: ClassVar = FORMER_INIT

    def __post_init__(self) -> None:
        check(self, "hidden")


class Memory(NamedTuple):
    inputs: Float[Tensor, "B S1 d"]  # position 0: the learned first input of the decoder
    keys: Float[Tensor, "B S1 n"]
    real: Bool[Tensor, "B S1"]
    start: State


class Step(NamedTuple):
    state: State
    visible: Bool[Tensor, "B S1"]


class Pointer(EncoderDecoder):
    """p(Cᵢ | C₍<ᵢ₎, P): points [B, S, d] and target [B, T] (positions, END = 0) → log-weights [B, T, S + 1]."""

    config_class = Config
    sites = (SITE,)

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        n = config.hidden
        self.config = config
        self.first = nn.Parameter(torch.zeros(width))
        self.end = nn.Parameter(torch.empty(n))
        self.encoder = Recurrent(config.cell, width, n)
        self.decoder = Recurrent(config.cell, width, n)
        self.key_weight = nn.Parameter(torch.empty(n, n))  # W₁
        self.query_weight = nn.Parameter(torch.empty(n, n))  # W₂
        self.v = nn.Parameter(torch.empty(n))
        nn.init.xavier_uniform_(self.key_weight)
        nn.init.xavier_uniform_(self.query_weight)
        for vector in (self.v, self.end):
            nn.init.uniform_(vector, -(n**-0.5), n**-0.5)
        if config.init == "paper":
            init_uniform(self.parameters(), 0.08)

    def encode(self, source: Float[Tensor, "B S d"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        B, S, d = source.shape
        states, final = self.encoder(source, lengths)
        states = torch.cat([self.end.expand(B, 1, -1), states], dim=1)  # [B, S + 1, n]
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "source", states)
        inputs = torch.cat([self.first.expand(B, 1, d), source], dim=1)
        return Memory(inputs, states @ self.key_weight.mT, mask_of(lengths + 1, S + 1), final)

    def start(self, memory: Memory) -> Step:
        return Step(memory.start, memory.real)

    def step(
        self, token: Int[Tensor, " B"], state: Step, memory: Memory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B S1"], Step]:
        rows = torch.arange(len(token), device=token.device)
        visible = state.visible
        if offset and not self.config.revisit:
            visible = visible & ~torch.nn.functional.one_hot(token, visible.shape[1]).bool()
        hidden, moved = self.decoder.step(memory.inputs[rows, token], state.state)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", hidden.unsqueeze(1), offset=offset)
        weights = weigh(
            hidden.unsqueeze(1),
            Prepared(memory.keys),
            score=additive(self.v, query_weight=self.query_weight),
            window=padding(visible),
            offset=offset,
            lens=lens,
            site=SITE,
        ).squeeze(1)  # [B, S + 1]
        # The weights are the output: their logarithm serves as logits (softmax(log w) = w).
        return weights.clamp_min(torch.finfo(weights.dtype).tiny).log(), Step(moved, visible)
