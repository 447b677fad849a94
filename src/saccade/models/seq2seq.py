"""Sequence to sequence through one vector: the RNN encoder-decoder (Cho et al. 2014) and the deep LSTM (Sutskever et al. 2014).

    context="every_step" (Cho)       c = tanh(V h_S),  h'₀ = tanh(V' c),  h'ₜ = RNN([E yₜ₋₁; c], h'ₜ₋₁)
                                     p(yₜ) = softmax(W_o maxout(O_h h'ₜ + O_y E yₜ₋₁ + O_c c))
    context="start" (Sutskever)      h'₀ = the encoder's final states, layer by layer,  h'ₜ = RNN(E yₜ₋₁, h'ₜ₋₁)
                                     p(yₜ) = softmax(W_o h'ₜ)

The decoder gets a vector of fixed size whatever the source's length: the bottleneck that attention removes.

Legend: B batch, S source, T target, n hidden, m embedding, V vocabulary, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.nn.config import FORMER_INIT, check
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import Recurrent, State, bound_for, init_groundhog, init_uniform, maxout, reverse_within
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens


@dataclass(frozen=True)
class Config:
    """Cho: cell="paper", hidden=1000, embedding=100, maxout=500. Sutskever: cell="lstm", layers=4, hidden=1000,
    embedding=1000, context="start", reverse=True. Both: init="paper"."""

    hidden: int = 256
    embedding: int = 128
    layers: int = 1
    cell: Literal["rnn", "gru", "lstm", "paper"] = "gru"
    context: Literal["every_step", "start"] = "every_step"
    reverse: bool = False  # read the source last word first
    maxout: int = 128  # with context="every_step"
    dropout: float = 0.0
    init: Literal["uniform", "torch", "paper"] = "uniform"  # uniform: bound_for(hidden)
    bias: bool = True
    former: ClassVar = FORMER_INIT

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "layers", "maxout")


class Memory(NamedTuple):
    """The one vector. ``start`` holds the decoder's first state, ``context`` Cho's c (with Sutskever: nothing, width 0)."""

    context: Float[Tensor, "B n"]
    start: State


class Seq2Seq(EncoderDecoder):
    """p(yₜ | y₍<ₜ₎, c): source [B, S] and target [B, T] → logits [B, T, V]."""

    config_class = Config
    sites = ()

    def __init__(self, config: Config, source_size: int, target_size: int) -> None:
        super().__init__()
        n, m, L = config.hidden, config.embedding, config.layers
        self.config = config
        self.source_embedding = nn.Embedding(source_size, m)
        self.target_embedding = nn.Embedding(target_size, m)
        options: dict[str, Any] = {"layers": L, "dropout": config.dropout, "bias": config.bias}
        self.encoder = Recurrent(config.cell, m, n, **options)
        if config.context == "every_step":
            self.summary = nn.Linear(n, n, bias=config.bias)  # V
            parts = 2 if config.cell == "lstm" else 1
            self.start_layer = nn.Linear(n, parts * L * n, bias=config.bias)  # V'
            self.decoder = Recurrent(config.cell, m + n, n, **options)
            self.readout = nn.Linear(n + m + n, 2 * config.maxout, bias=config.bias)
            self.output = nn.Linear(config.maxout, target_size, bias=config.bias)
        else:
            self.decoder = Recurrent(config.cell, m, n, **options)
            self.output = nn.Linear(n, target_size, bias=config.bias)
        if config.init == "uniform":
            init_uniform(self.parameters(), bound_for(n))
        elif config.init == "paper" and config.context == "every_step":
            init_groundhog(self)
        elif config.init == "paper":
            init_uniform(self.parameters(), 0.08)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        if self.config.reverse:
            # EOS stays last: c b a EOS.
            source = reverse_within(source, lengths - 1)
        states, final = self.encoder(self._drop(self.source_embedding(source)), lengths)
        if lens is not None and lens.wants("state"):
            lens.signal(
                "encoder.state", "source", reverse_within(states, lengths - 1) if self.config.reverse else states
            )
        if self.config.context == "start":
            return Memory(final[0].new_zeros(len(lengths), 0), final)
        context = torch.tanh(self.summary(final[0][:, -1]))  # the top layer's last state
        parts = torch.tanh(self.start_layer(context)).unflatten(-1, (-1, self.config.layers, self.config.hidden))
        return Memory(context, tuple(part.contiguous() for part in parts.unbind(dim=1)))

    def start(self, memory: Memory) -> State:
        return memory.start

    @property
    def flow(self) -> Flow:
        """A step: the state moves, and the output is read off it; Cho's also reads the one vector c again."""
        config, recorded = self.config, {"s": "decoder.state", "h": "encoder.state"}
        state = ("s[t]", "s[t-1]", "y[t-1]")
        if config.context == "every_step":
            output = ("s[t]", "y[t-1]", "c")
            return Flow(output=output, state=(*state, "c"), recorded=recorded, passed=config.hidden)
        parts = 2 if config.cell == "lstm" else 1  # an LSTM's cells too
        return Flow(output=("s[t]",), state=state, recorded=recorded, passed=parts * config.layers * config.hidden)

    def step(
        self, token: Int[Tensor, " B"], state: State, memory: Memory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], State]:
        embedded = self._drop(self.target_embedding(token))
        hidden, state = self.decoder.step(torch.cat([embedded, memory.context], dim=-1), state)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", hidden.unsqueeze(1), offset=offset, flow=self.flow)
        return self._read_out(hidden, embedded, memory.context), state

    def teach(self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        embedded = self._drop(self.target_embedding(target))  # [B, T, m]
        context = memory.context.unsqueeze(1).expand(-1, target.shape[1], -1)
        states, _ = self.decoder(torch.cat([embedded, context], dim=-1), initial=memory.start)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", states, flow=self.flow)
        return self._read_out(states, embedded, context)

    def _read_out(self, hidden: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        if self.config.context == "every_step":
            hidden = maxout(self.readout(torch.cat([hidden, embedded, context], dim=-1)))
        logits: Tensor = self.output(self._drop(hidden))
        return logits

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)
