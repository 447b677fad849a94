"""A text classifier with attention: states of the words, pooled to one vector by attention, and a linear layer.

    states    h = encoder(E x)                       an LSTM or GRU (both ways), convolutions, or the embeddings themselves
    pooling   αₛ = softmaxₛ(uᵀ tanh(W hₛ + b))      ``additive`` (Yang et al. 2016); or ``dot``: αₛ = softmaxₛ(uᵀ hₛ)
              d = Σₛ αₛ hₛ                           or the ``mean``, ``max`` or ``last`` state, without attention
    output    p(label) = softmax(W_o d + b_o)

A pair of texts is one row, ``first <eos> second``; a learned vector is added to the embeddings of the second text.

Legend: B batch, S positions, m embedding, n states, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.layers import AttentionPool
from saccade.attention.own import NormaliserName, normaliser
from saccade.attention.windows import padding
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.convolution import Convolution
from saccade.nn.recurrent import Recurrent, at_end, ends_of, max_of, mean_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(query=("u",), score="u^{⊤} tanh(W h[j] + b)", output=("c[t]",), recorded={"h": "encoder.state"})
SITE = Site("pool", query="label", key="text", flow=FLOW)
BY_DOT = replace(SITE, flow=replace(FLOW, score="u^{⊤} h[j]"))


@dataclass(frozen=True)
class Config:
    """By default one bidirectional layer and additive pooling."""

    embedding: int = 128
    encoder: Literal["lstm", "gru", "cnn", "none"] = "lstm"
    hidden: int = 128  # of the encoder, each way
    layers: int = 1
    bidirectional: bool = True  # lstm, gru
    width: int = 3  # cnn: positions that a layer sees at once, an odd number
    pool: Literal["additive", "dot", "mean", "max", "last"] = "additive"
    attention: int | None = None  # additive: width of its hidden layer; that of the states unless given
    normalise: NormaliserName = "softmax"  # additive, dot
    dropout: float = 0.0  # of embeddings, between layers, before the output

    def __post_init__(self) -> None:
        check(self, "embedding", "hidden", "layers", "width", "attention")
        if self.width % 2 == 0:
            raise ValueError(f"width must be odd: got {self.width}")
        if self.encoder == "none" and self.pool == "last":
            raise ValueError("pool must not be last without an encoder, where only one word would count: got last")
        if self.attention is not None and self.pool != "additive":
            raise ValueError(f"attention must be left out unless pool is additive: got {self.attention}")


class AttentiveClassifier(Classifier):
    """p(label | text): tokens [B, S] → logits [B, C]."""

    config_class = Config

    def __init__(self, config: Config, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.second = nn.Parameter(torch.zeros(config.embedding))  # added to the embeddings of the second text
        self.encoder, states = self._encoder(config)
        self.pool = None
        if config.pool in ("additive", "dot"):
            score: Literal["additive", "dot"] = "additive" if config.pool == "additive" else "dot"
            self.pool = AttentionPool(
                states, score=score, hidden=config.attention, normalise=normaliser(config.normalise)
            )
            self.sites = (SITE if score == "additive" else BY_DOT,)
        self.output = nn.Linear(states, classes)

    @staticmethod
    def _encoder(config: Config) -> tuple[nn.Module | None, int]:
        """The encoder, and how wide its states are."""
        m, n = config.embedding, config.hidden
        match config.encoder:
            case "none":
                return None, m
            case "cnn":
                return Convolution(m, n, width=config.width, layers=config.layers, dropout=config.dropout), n
            case "lstm" | "gru":
                both = config.bidirectional
                deep: dict[str, Any] = {"layers": config.layers, "dropout": config.dropout}
                return Recurrent(config.encoder, m, n, bidirectional=both, **deep), 2 * n if both else n

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        embedded = self.embedding(tokens)  # [B, S, m]
        if segments is not None:
            embedded = embedded + segments.unsqueeze(-1) * self.second
        states = self.states(self._drop(embedded), lengths)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        logits: Tensor = self.output(self._drop(self.pooled(states, lengths, lens=lens)))
        return logits

    def states(self, embedded: Float[Tensor, "B S m"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S n"]:
        """A state for each position."""
        if self.encoder is None:
            return embedded
        found = self.encoder(embedded, lengths)
        states: Tensor = found[0] if isinstance(self.encoder, Recurrent) else found
        return states

    def pooled(
        self, states: Float[Tensor, "B S n"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B n"]:
        """One vector for the whole text."""
        if self.pool is not None:
            found: Tensor = self.pool(states, window=padding(lengths), lens=lens, site=self.sites[0])
            return found
        match self.config.pool:
            case "mean":
                return mean_of(states, lengths)
            case "max":
                return max_of(states, lengths)
            case _:
                return self._last(states, lengths)

    def _last(self, states: Float[Tensor, "B S n"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B n"]:
        """The final state; the backward direction ends at the first word."""
        if not (isinstance(self.encoder, Recurrent) and self.encoder.bidirectional):
            return at_end(states, lengths)
        return ends_of(states, lengths)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)
