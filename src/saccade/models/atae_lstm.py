"""ATAE-LSTM: the polarity of a sentence towards one of its aspects (Wang, Huang, Zhu & Zhao 2016).

    aspect      v_a = mean of the aspect's word vectors
    input       xₜ = [wₜ; v_a]  (``ae``, ``atae``)   or  wₜ  (``at``, ``lstm``);        h₁ … h_N = LSTM(x₁ … x_N)
    printed     αₜ = softmaxₜ(wᵀ tanh [W_h hₜ; W_v v_a])              as in the paper
    summed      αₜ = softmaxₜ(wᵀ tanh (W_h hₜ + W_v v_a))            the aspect inside the tanh, beside each word
    look        r = Σₜ αₜ hₜ,   h* = tanh(W_p r + W_x h_N)          (``at``, ``atae``);  else h* = h_N
    output      p(label) = softmax(W_s h* + b_s)

The aspect cancels in the printed scorer: wᵀ tanh [W_h hₜ; W_v v_a] = w₁ᵀ tanh(W_h hₜ) + w₂ᵀ tanh(W_v v_a), whose second term is
the same for every t, so the softmax takes it out, and its gradient is 0. ``at`` as printed cannot see the aspect at all, and in
``atae`` it acts through the LSTM's input alone. In ``summed`` the aspect affects the weights.

A record is a pair in one row, ``sentence <eos> aspect``: the LSTM and the attention cover the sentence only.

Legend: B batch, S positions of a row, m embedding, n states, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import attend
from saccade.attention.scores import Additive, additive
from saccade.attention.windows import padding
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.recurrent import Recurrent, at_end, mask_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

SUMMED = Flow(
    query=("v_{a}",),
    score="w^{⊤} tanh(W_{h} h[j] + W_{v} v_{a})",
    output=("c[t]", "h_{N}"),
    recorded={"h": "encoder.state"},
)
PRINTED = replace(SUMMED, score="w^{⊤} tanh [W_{h} h[j]; W_{v} v_{a}]")
SITE = Site("pool", query="label", key="text", flow=PRINTED)


@dataclass(frozen=True)
class Config:
    """The defaults are the paper's."""

    variant: Literal["atae", "ae", "at", "lstm"] = "atae"  # aspect at the input and attention, one of the two, neither
    scorer: Literal["printed", "summed"] = "printed"  # at, atae
    embedding: int = 300  # of a word, and so of an aspect
    hidden: int = 300
    dropout: float = 0.0  # of word vectors, of the aspect's, and before the output
    whole: bool = False  # read single texts without an aspect: for pre-training

    def __post_init__(self) -> None:
        check(self, "embedding", "hidden")

    @property
    def looks(self) -> bool:
        return self.variant in ("at", "atae")

    @property
    def reads_aspect(self) -> bool:
        """Whether the aspect is part of the LSTM's inputs."""
        return self.variant in ("ae", "atae")


class AtaeLstm(Classifier):
    """p(label | sentence, aspect): tokens [B, S] → logits [B, C]."""

    config_class = Config

    def __init__(self, config: Config, vocabulary: int, classes: int) -> None:
        super().__init__()
        m, n = config.embedding, config.hidden
        self.config = config
        self.needs_second = None if config.variant == "lstm" or config.whole else "aspect"
        # Initialised from N(0, 1): with small vectors, aspects are slow to separate.
        self.embedding = nn.Embedding(vocabulary, m)
        self.encoder = Recurrent("lstm", 2 * m if config.reads_aspect else m, n)
        if config.looks:
            self.sites = (SITE,)
            inner = n + m if config.scorer == "printed" else n
            self.w = nn.Parameter(torch.empty(inner))
            self.state_weight = nn.Parameter(torch.empty(n, n))  # W_h
            self.aspect_weight = nn.Parameter(torch.empty(m if config.scorer == "printed" else n, m))  # W_v
            self.from_look = nn.Linear(n, n, bias=False)  # W_p
            self.from_last = nn.Linear(n, n, bias=False)  # W_x
            nn.init.uniform_(self.w, -(inner**-0.5), inner**-0.5)
            for weight in (self.state_weight, self.aspect_weight, self.from_look.weight, self.from_last.weight):
                nn.init.xavier_uniform_(weight)
        self.output = nn.Linear(n, classes)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        words, aspect, lengths = self.parted(tokens, lengths, segments)
        words, aspect = self._drop(words), self._drop(aspect)
        if self.config.reads_aspect:
            words = torch.cat([words, aspect.unsqueeze(1).expand(-1, tokens.shape[1], -1)], dim=-1)
        states, _ = self.encoder(words, lengths)  # [B, S, n]
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        found = at_end(states, lengths)
        if self.config.looks:
            look = self.look(states, aspect, lengths, lens=lens)
            found = torch.tanh(self.from_look(look) + self.from_last(found))
        logits: Tensor = self.output(self._drop(found))
        return logits

    def parted(
        self, tokens: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], segments: Int[Tensor, "B S"] | None
    ) -> tuple[Float[Tensor, "B S m"], Float[Tensor, "B m"], Int[Tensor, " B"]]:
        """Word vectors of the rows, the mean vector of each aspect, and the lengths of the sentences, which come first.

        A row without an aspect is all sentence, and its aspect is 0.
        """
        words = self.embedding(tokens)  # [B, S, m]
        if segments is None:
            return words, words.new_zeros(words.shape[0], words.shape[2]), lengths
        second = (segments > 0) & mask_of(lengths, tokens.shape[1])  # [B, S]
        count = second.sum(-1)
        total = (words * second.unsqueeze(-1)).sum(1)
        # One mark precedes an aspect.
        return words, total / count.clamp(min=1).unsqueeze(-1), lengths - count - (count > 0).long()

    @property
    def score(self) -> Additive:
        """The scorer of the look, with the aspect as its query."""
        if self.config.scorer == "summed":
            return additive(self.w, self.aspect_weight, self.state_weight)
        # tanh [W_h h; W_v v_a] is tanh of the sum of two vectors, each of which is 0 where the other is not.
        n, m = self.config.hidden, self.config.embedding
        query_weight = functional.pad(self.aspect_weight, (0, 0, n, 0))  # [n + m, m]
        return additive(self.w, query_weight, functional.pad(self.state_weight, (0, 0, 0, m)))

    def look(
        self,
        states: Float[Tensor, "B S n"],
        aspect: Float[Tensor, "B m"],
        lengths: Int[Tensor, " B"],
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B n"]:
        """r = Σₜ αₜ hₜ over the words of the sentence."""
        query, window = aspect.unsqueeze(1), padding(lengths)
        site = replace(SITE, flow=SUMMED) if self.config.scorer == "summed" else SITE
        return attend(query, states, states, score=self.score, window=window, lens=lens, site=site).squeeze(1)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)
