"""A recurrent language model (Mikolov et al. 2010), by default an LSTM with dropout between its layers (Zaremba et al. 2014).

    hₜ = RNN(E xₜ, hₜ₋₁)        p(xₜ₊₁ | x₍≤ₜ₎) = softmax(W hₜ + b)        tied: W = E P (Press & Wolf 2017)

Its state has a fixed size; it has no attention. A baseline for models that do.

Legend: B batch, T tokens, V vocabulary, m embedding, n hidden, L layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.nn.config import check
from saccade.nn.language import LanguageModel
from saccade.nn.recurrent import Recurrent, State
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens

FLOW = Flow(output=("h[t]",), state=("h[t]", "h[t-1]", "x[t-1]"), recorded={"h": "decoder.state"}, word="x")


@dataclass(frozen=True)
class Config:
    """Zaremba's medium network: hidden=650, embedding=650, layers=2, dropout=0.5."""

    hidden: int = 256
    embedding: int = 128
    layers: int = 1
    cell: Literal["rnn", "gru", "lstm", "paper"] = "lstm"
    output: Literal["own", "tied"] = "own"  # tied: the output layer's matrix is the embedding
    dropout: float = 0.0  # on embeddings, between layers and before the output; never from a state to the next

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "layers")


class RecurrentLM(LanguageModel):
    """p(xₜ₊₁ | x₍≤ₜ₎): tokens [B, T] → logits [B, T, V]."""

    config_class = Config
    sites = ()
    carries = True

    def __init__(self, config: Config, size: int) -> None:
        super().__init__()
        n, m, tied = config.hidden, config.embedding, config.output == "tied"
        self.config = config
        self.embedding = nn.Embedding(size, m)
        self.cells = Recurrent(config.cell, m, n, layers=config.layers, dropout=config.dropout)
        self.project = nn.Linear(n, m, bias=False) if tied and n != m else nn.Identity()  # P
        self.output = nn.Linear(m if tied else n, size)
        nn.init.normal_(self.embedding.weight, std=m**-0.5)  # tied, logits begin near 0
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = self.embedding.weight

    def blank(self, batch: int) -> State:
        return self.cells.zero_state(batch, self.embedding.weight)

    def read(
        self,
        tokens: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        state: State | None = None,
        *,
        offset: int = 0,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B T n"], State]:
        before = self.blank(len(tokens)) if state is None else state
        states, after = self.cells(self._drop(self.embedding(tokens)), lengths, before)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", self.writes_on, states, offset=offset, flow=FLOW)
        return states, after

    def write(self, hidden: Float[Tensor, "... n"]) -> Float[Tensor, "... V"]:
        logits: Tensor = self.output(self.project(self._drop(hidden)))
        return logits

    def step(
        self, token: Int[Tensor, " B"], state: State, memory: object, *, offset: object, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], State]:
        hidden, state = self.cells.step(self._drop(self.embedding(token)), state)
        if lens is not None and lens.wants("state") and isinstance(offset, int):
            lens.signal("decoder.state", self.writes_on, hidden.unsqueeze(1), offset=offset, flow=FLOW)
        return self.write(hidden), state

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)
