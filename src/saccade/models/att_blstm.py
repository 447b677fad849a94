"""Att-BLSTM: the relation between two marked nouns (Zhou et al. 2016).

    states    hₜ = h→ₜ + h←ₜ                         both directions of an LSTM, summed; or ``concat``: [h→ₜ; h←ₜ]
    look      αₜ = softmaxₜ(wᵀ tanh(hₜ)),  r = Σₜ αₜ hₜ     one vector w, no matrix; r is of the states as they are
    output    p(label) = softmax(W tanh(r) + b)

``pool: last`` and ``max`` are the same network without attention, for comparison. Dropout acts in three places: on the word
vectors, on the states before the look, before the output.

The marks of the two nouns are words of the sentence, which ``data.tokens.whole`` keeps.

Legend: B batch, S positions, m embedding, n states, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import attend
from saccade.attention.scores import additive
from saccade.attention.windows import padding
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.recurrent import Recurrent, ends_of, max_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(query=("w",), score="w^{⊤} tanh(h[j])", output=("c[t]",), recorded={"h": "encoder.state"})
SITE = Site("pool", query="label", key="text", flow=FLOW)


@dataclass(frozen=True)
class Config:
    """The defaults are the paper's."""

    embedding: int = 100
    hidden: int = 100  # of each direction
    directions: Literal["sum", "concat"] = "sum"
    pool: Literal["attention", "last", "max"] = "attention"
    dropout: float = 0.3  # of word vectors
    dropout_states: float = 0.3
    dropout_output: float = 0.5

    def __post_init__(self) -> None:
        check(self, "embedding", "hidden")
        for name in ("dropout_states", "dropout_output"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and below 1: got {getattr(self, name)}")


class AttBlstm(Classifier):
    """p(label | text): tokens [B, S] → logits [B, C]."""

    config_class = Config

    def __init__(self, config: Config, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.config = config
        states = config.hidden if config.directions == "sum" else 2 * config.hidden
        # Initialised from N(0, 1), the scale of pre-trained vectors, which lack the marks.
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        self.second = nn.Parameter(torch.zeros(config.embedding))  # added to the embeddings of a second text
        self.encoder = Recurrent("lstm", config.embedding, config.hidden, bidirectional=True)
        if config.pool == "attention":
            self.sites = (SITE,)
            self.w = nn.Parameter(torch.empty(states))
            nn.init.uniform_(self.w, -(states**-0.5), states**-0.5)
        self.output = nn.Linear(states, classes)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        config, embedded = self.config, self.embedding(tokens)  # [B, S, m]
        if segments is not None:
            embedded = embedded + segments.unsqueeze(-1) * self.second
        both, _ = self.encoder(self._drop(embedded, config.dropout), lengths)  # [B, S, 2n]
        found = torch.tanh(self.pooled(both, lengths, lens=lens))
        logits: Tensor = self.output(self._drop(found, config.dropout_output))
        return logits

    def pooled(
        self, both: Float[Tensor, "B S both"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B n"]:
        """r, one vector for the whole sentence, from the states of both directions."""
        if self.config.pool == "last":
            return self._joined(ends_of(both, lengths))
        states = self._joined(both)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        if self.config.pool == "attention":
            return self.look(states, lengths, lens=lens)
        return max_of(states, lengths)

    def _joined(self, both: Float[Tensor, "*rows both"]) -> Float[Tensor, "*rows n"]:
        """h→ + h←, or the two side by side; and the dropout of the states."""
        summed = self.config.directions == "sum"
        states = both.unflatten(-1, (2, self.config.hidden)).sum(-2) if summed else both
        return self._drop(states, self.config.dropout_states)

    def look(
        self, states: Float[Tensor, "B S n"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B n"]:
        """r = Σₜ αₜ hₜ, αₜ = softmaxₜ(wᵀ tanh(hₜ)): an additive score whose query is 0."""
        query = states.new_zeros(states.shape[0], 1, states.shape[2])
        return attend(
            query, states, states, score=additive(self.w), window=padding(lengths), lens=lens, site=SITE
        ).squeeze(1)

    def _drop(self, x: Tensor, share: float) -> Tensor:
        return functional.dropout(x, share, self.training)
