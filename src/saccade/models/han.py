"""The hierarchical attention network (Yang et al. 2016): words are pooled to sentences, sentences to a document, both by
attention.

    words      hᵢₜ = BiGRU(E xᵢₜ)          αᵢₜ = softmaxₜ(u_wᵀ tanh(W_w hᵢₜ + b_w))      sᵢ = Σₜ αᵢₜ hᵢₜ
    sentences  hᵢ  = BiGRU(s₁ … s_S)ᵢ      αᵢ  = softmaxᵢ(u_sᵀ tanh(W_s hᵢ + b_s))       v  = Σᵢ αᵢ hᵢ
    output     p(label) = softmax(W_c v + b_c)

``pool: mean`` and ``max`` are its HN-AVE and HN-MAX: the same network without attention. A padding sentence is exactly
0 and never visible, wherever it is.

Legend: B batch, S sentences, W words of a sentence, N words of a document, R sentences of a batch, m embedding, n states,
C labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import attend
from saccade.attention.layers import AttentionPool
from saccade.attention.scores import Prepared, Score, name_of
from saccade.attention.windows import mask, padding
from saccade.kernels.choose import Choice
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.recurrent import Recurrent, mask_of, max_of, mean_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

POOL = Flow(query=("u",), score="u^{⊤} tanh(W h[j] + b)", output=("c[t]",), recorded={"h": "sentences.state"})
SENTENCES = Site("sentences", query="label", key="sentences", flow=POOL)
SENTENCE = "the vector of its sentence; how much that sentence counts is weighed at “sentences”"
WORDS = Site(
    "words",
    query="sentences",
    key="text",
    flow=replace(POOL, output=(), into=SENTENCE, recorded={"h": "words.state"}),
)


@dataclass(frozen=True)
class Config:
    """The sizes of the paper."""

    embedding: int = 200
    encoder: Literal["gru", "lstm"] = "gru"
    hidden: int = 50  # of each encoder, each way
    pool: Literal["attention", "mean", "max"] = "attention"
    attention: int | None = None  # width of u_w and u_s; that of the states unless given
    dropout: float = 0.0  # of embeddings, of sentences, of the document

    def __post_init__(self) -> None:
        check(self, "embedding", "hidden", "attention")
        if self.attention is not None and self.pool != "attention":
            raise ValueError(f"attention must be left out unless pool is attention: got {self.attention}")


class Han(Classifier):
    """p(label | document): tokens [B, S, W] → logits [B, C]."""

    config_class = Config
    layout: ClassVar[Literal["plain", "marked", "sentences"]] = "sentences"

    def __init__(self, config: Config, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.config = config
        states = 2 * config.hidden
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.word_encoder = Recurrent(config.encoder, config.embedding, config.hidden, bidirectional=True)
        self.sentence_encoder = Recurrent(config.encoder, states, config.hidden, bidirectional=True)
        self.word_pool = self.sentence_pool = None
        if config.pool == "attention":
            self.word_pool = AttentionPool(states, hidden=config.attention)
            self.sentence_pool = AttentionPool(states, hidden=config.attention)
            self.sites = (WORDS, SENTENCES)
        self.output = nn.Linear(states, classes)

    def forward(
        self,
        tokens: Int[Tensor, "B S W"],
        lengths: Int[Tensor, "B S"],
        segments: Tensor | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        tokens, lengths = real_first(tokens, lengths)
        vectors = self.sentence_vectors(tokens, lengths, lens=lens)  # [B, S, 2n]
        counts = (lengths > 0).sum(1)
        states, _ = self.sentence_encoder(self._drop(vectors), counts)
        if lens is not None and lens.wants("state"):
            lens.signal("sentences.state", "sentences", states)
        document = self._pooled(self.sentence_pool, states, counts, lens)
        logits: Tensor = self.output(self._drop(document))
        return logits

    def sentence_vectors(
        self, tokens: Int[Tensor, "B S W"], lengths: Int[Tensor, "B S"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B S n"]:
        """A vector for each sentence; 0 for padding."""
        B, S, _ = tokens.shape
        flat, sizes = tokens.flatten(0, 1), lengths.flatten()  # [R, W], [R]
        if lens is not None:
            states = self.word_states(flat, sizes).view(*tokens.shape, 2 * self.config.hidden)
            return self._vectors_under(states, lengths, lens)
        if tokens.device.type != "cpu" or torch.compiler.is_compiling():
            # Selecting the real sentences would synchronise with the device and make shapes dynamic.
            return self._pooled(self.word_pool, self.word_states(flat, sizes), sizes).view(B, S, 2 * self.config.hidden)
        real = sizes.nonzero().squeeze(1)
        found = self._pooled(self.word_pool, self.word_states(flat[real], sizes[real]), sizes[real])
        return found.new_zeros(B * S, found.shape[1]).index_copy(0, real, found).view(B, S, found.shape[1])

    def word_states(self, tokens: Int[Tensor, "R W"], lengths: Int[Tensor, " R"]) -> Float[Tensor, "R W n"]:
        """States of the words within their sentences."""
        states: Tensor = self.word_encoder(self._drop(self.embedding(tokens)), lengths)[0]
        return states

    def _vectors_under(
        self, states: Float[Tensor, "B S W n"], lengths: Int[Tensor, "B S"], lens: Lens
    ) -> Float[Tensor, "B S n"]:
        """The same vectors under a lens: each sentence attends to the words of the whole text, of which its own are visible."""
        B, S, W, n = states.shape
        real = mask_of(lengths.flatten(), W).view(B, S * W)
        longest = int(real.sum(1).max()) if B else 0
        order = (~real).long().argsort(dim=1, stable=True)[:, :longest]  # [B, N]
        words = states.flatten(1, 2).gather(1, order.unsqueeze(-1).expand(-1, -1, n))  # [B, N, n]
        if lens.wants("state"):
            lens.signal("words.state", "text", words)
        if self.word_pool is None:
            return self._pooled(None, states.flatten(0, 1), lengths.flatten()).view(B, S, n)
        own = (order // W).unsqueeze(1) == torch.arange(S, device=order.device).unsqueeze(-1)  # [B, S, N]
        window = mask(own & real.gather(1, order).unsqueeze(1))
        query, score = self.word_pool.bias.expand(B, S, -1), _Alike(self.word_pool.score)
        return attend(query, words, words, score=score, window=window, lens=lens, site=WORDS)

    def _pooled(
        self,
        pool: AttentionPool | None,
        states: Float[Tensor, "R T n"],
        lengths: Int[Tensor, " R"],
        lens: Lens | None = None,
    ) -> Float[Tensor, "R n"]:
        """One vector per row; 0 for an empty row."""
        if pool is not None:
            found: Tensor = pool(states, window=padding(lengths), lens=lens, site=SENTENCES)
            return found
        return mean_of(states, lengths) if self.config.pool == "mean" else max_of(states, lengths)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


def real_first(
    tokens: Int[Tensor, "B S W"], lengths: Int[Tensor, "B S"]
) -> tuple[Int[Tensor, "B S W"], Int[Tensor, "B S"]]:
    """Documents with their padding sentences moved to the end.

    >>> real_first(torch.tensor([[[0], [5], [0], [6]]]), torch.tensor([[0, 1, 0, 1]]))[0].tolist()
    [[[5], [6], [0], [0]]]
    """
    real = lengths > 0
    behind = real.sum(1, keepdim=True) + (~real).cumsum(1) - 1
    places = torch.where(real, real.cumsum(1) - 1, behind)  # [B, S]
    moved = torch.zeros_like(tokens).scatter(1, places.unsqueeze(-1).expand_as(tokens), tokens)
    return moved, torch.zeros_like(lengths).scatter(1, places, lengths)


@dataclass(frozen=True, eq=False)
class _Alike:
    """A score for identical queries: computed once, for the first."""

    score: Score

    @property
    def name(self) -> str:
        return name_of(self.score)

    def prepare(self, key: Tensor) -> Prepared:
        return self.score.prepare(key)

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        scores = self.score(query[..., :1, :], key)
        return scores.expand(*query.shape[:-1], scores.shape[-1])

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        return self.score.choice(query[..., :1, :], key)
