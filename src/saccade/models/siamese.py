"""A siamese network for questions and candidate answers: one encoder for both, attention over their words, and an MLP that
compares them.

    states     h = encoder(E x)                         of question and candidate, the same parameters

``compare: pooled``
    question   αₛ = softmaxₛ(uᵀ tanh(W hₛ + b)),  q = Σₛ αₛ hₛ                         (Yang et al. 2016)
    candidate  αₜ = softmaxₜ(vᵀ tanh(W₁ q + W₂ hₜ)),  c = Σₜ αₜ hₜ                     the question is the query
    score      s = MLP([q; c; |q − c|; q ⊙ c])

``compare: alignment`` (after Parikh et al. 2016)
    align      βₜₛ = softmaxₛ(f(hₜ)ᵀ f(hₛ) / √n),  h̃ₜ = Σₛ βₜₛ hₛ                  each candidate word attends to the question
    compare    mₜ = relu(W [hₜ; h̃ₜ; |hₜ − h̃ₜ|; hₜ ⊙ h̃ₜ])
    aggregate  αₜ = softmaxₜ(uᵀ tanh(W mₜ + b)),  m = [Σₜ αₜ mₜ; maxₜ mₜ]
    score      s = MLP(m)

With ``overlap`` the MLP also gets counts of the words that both texts share.

Legend: B pairs, S tokens of the question, T of the candidate, m embedding, n states, F features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import attend
from saccade.attention.layers import Attention, AttentionPool
from saccade.attention.own import NormaliserName, normaliser
from saccade.attention.scores import scaled_dot
from saccade.attention.windows import padding
from saccade.nn.config import check
from saccade.nn.convolution import Convolution
from saccade.nn.ranker import Ranker
from saccade.nn.recurrent import Recurrent, max_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

POOL = Flow(query=("u",), score="u^{⊤} tanh(W h[j] + b)")
ASKS = "the question’s vector q, which asks at “candidate” and is compared with what is found there"
QUESTION = Site(
    "question", query="score", key="question", flow=replace(POOL, into=ASKS, recorded={"h": "question.state"})
)
CANDIDATE = Site(
    "candidate",
    query="score",
    key="candidate",
    flow=Flow(query=("q",), output=("q", "c[t]"), recorded={"h": "candidate.state"}),
)
COMPARED = replace(
    CANDIDATE,
    flow=replace(POOL, key="m[j]", score="u^{⊤} tanh(W m[j] + b)", output=("c[t]", "max_{j} m_{j}")),
)
OVERLAP = "o"  # the features of word overlap
BESIDE = "the comparison m of this word of the candidate, which “candidate” weighs"
ALIGNMENT = Site(
    "alignment", query="candidate", key="question", flow=Flow(query=("f(h[t])",), key="f(h[j])", into=BESIDE)
)


@dataclass(frozen=True)
class Config:
    """By default one bidirectional layer, attentive pooling of both texts and no word-overlap features."""

    embedding: int = 128
    encoder: Literal["lstm", "gru", "cnn", "none"] = "lstm"
    hidden: int = 64  # of the encoder, each way
    layers: int = 1
    width: int = 3  # cnn: positions that a layer sees at once, an odd number
    compare: Literal["pooled", "alignment"] = "pooled"
    mlp: int = 64  # width of the comparison's hidden layer
    normalise: NormaliserName = "softmax"  # of every look
    overlap: bool = False  # also use the number and rarity of shared words
    dropout: float = 0.0  # of embeddings, between layers, of what is compared

    def __post_init__(self) -> None:
        check(self, "embedding", "hidden", "layers", "width", "mlp")
        if self.width % 2 == 0:
            raise ValueError(f"width must be odd: got {self.width}")


class Siamese(Ranker):
    """s(question, candidate): tokens [B, S], [B, T] → scores [B]."""

    config_class = Config

    def __init__(self, config: Config, vocabulary: int, features: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.encoder, states = self._encoder(config)
        look: dict[str, Any] = {"normalise": normaliser(config.normalise)}
        if config.compare == "pooled":
            self.question_pool = AttentionPool(states, **look)
            self.candidate_pool = Attention(states, states, score="additive", **look)
            self.sites, compared = (QUESTION, CANDIDATE), 4 * states
        else:
            self.project = nn.Linear(states, states)
            self.pair = nn.Linear(4 * states, config.mlp)
            self.aggregate = AttentionPool(config.mlp, **look)
            self.sites, compared = (ALIGNMENT, COMPARED), 2 * config.mlp
        if config.overlap:
            first, last = self.sites
            flow = last.flow or Flow()
            self.sites = (first, replace(last, flow=replace(flow, output=(*flow.output, OVERLAP))))
        self.judge = nn.Linear(compared + (features if config.overlap else 0), config.mlp)
        self.output = nn.Linear(config.mlp, 1)

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
                deep: dict[str, Any] = {"layers": config.layers, "dropout": config.dropout}
                return Recurrent(config.encoder, m, n, bidirectional=True, **deep), 2 * n

    def forward(
        self,
        question: Int[Tensor, "B S"],
        question_lengths: Int[Tensor, " B"],
        candidate: Int[Tensor, "B T"],
        candidate_lengths: Int[Tensor, " B"],
        features: Float[Tensor, "B F"],
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, " B"]:
        question_states, candidate_states = (
            self.states(question, question_lengths),
            self.states(candidate, candidate_lengths),
        )
        if lens is not None and lens.wants("state"):
            lens.signal("question.state", "question", question_states)
            lens.signal("candidate.state", "candidate", candidate_states)
        compare = self.pooled if self.config.compare == "pooled" else self.aligned
        compared = self._drop(
            compare(question_states, question_lengths, candidate_states, candidate_lengths, lens=lens)
        )
        if self.config.overlap:
            compared = torch.cat([compared, features.to(compared.dtype)], dim=-1)
        score: Tensor = self.output(self._drop(torch.relu(self.judge(compared))))
        return score.squeeze(-1)

    def states(self, tokens: Int[Tensor, "B N"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B N n"]:
        """States of the words of a text, by the shared encoder."""
        embedded = self._drop(self.embedding(tokens))
        if self.encoder is None:
            return embedded
        found = self.encoder(embedded, lengths)
        states: Tensor = found[0] if isinstance(self.encoder, Recurrent) else found
        return states

    def pooled(
        self, question_states: Float[Tensor, "B S n"], question_lengths: Int[Tensor, " B"], candidate_states: Float[Tensor,
        "B T n"], candidate_lengths: Int[Tensor, " B"], *, lens: Lens | None = None,
    ) -> Float[Tensor, "B w"]:  # fmt: skip
        """[q; c; |q − c|; q ⊙ c] of the pooled question and candidate."""
        q = self.question_pool(question_states, window=padding(question_lengths), lens=lens, site=QUESTION)  # [B, n]
        window = padding(candidate_lengths)
        c = self.candidate_pool(q.unsqueeze(1), candidate_states, window=window, lens=lens, site=self.sites[1]).squeeze(
            1
        )
        return _beside(q, c)

    def aligned(
        self, question_states: Float[Tensor, "B S n"], question_lengths: Int[Tensor, " B"], candidate_states: Float[Tensor,
        "B T n"], candidate_lengths: Int[Tensor, " B"], *, lens: Lens | None = None,
    ) -> Float[Tensor, "B w"]:  # fmt: skip
        """Each candidate word compared with its aligned question words, then aggregated: [Σₜ αₜ mₜ; maxₜ mₜ]."""
        look: dict[str, Any] = {"score": scaled_dot, "normalise": normaliser(self.config.normalise), "lens": lens}
        query, key = torch.relu(self.project(candidate_states)), torch.relu(self.project(question_states))
        found = attend(
            query, key, question_states, window=padding(question_lengths), site=ALIGNMENT, **look
        )  # [B, T, n]
        compared = torch.relu(self.pair(self._drop(_beside(candidate_states, found))))  # [B, T, mlp]
        whole = self.aggregate(compared, window=padding(candidate_lengths), lens=lens, site=self.sites[1])
        return torch.cat([whole, max_of(compared, candidate_lengths)], dim=-1)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


def _beside(x: Float[Tensor, "*batch n"], y: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch w"]:
    return torch.cat([x, y, (x - y).abs(), x * y], dim=-1)
