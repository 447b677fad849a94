"""The Transformer's encoder (Vaswani et al. 2017) as a classifier of texts and pairs, or as a tagger of words.

    input       x = Drop(√D E[token] + PE(place))           W_e E[token] where ``embedding`` gives words a width of their own
    states      h = encoder(x)                              N encoder layers (:mod:`saccade.nn.transformer`)
    pooling     αₛ = softmaxₛ(uᵀ tanh(W hₛ + b))           ``additive`` (Yang et al. 2016); or ``dot``: αₛ = softmaxₛ(uᵀ hₛ)
                d = Σₛ αₛ hₛ                                or the ``mean``, the ``max``, the ``first`` word's state
    label       p(label) = softmax(W_o Drop(d) + b_o)
    tags        Pₜ = W_o Drop(hₜ) + b_o, each by its own softmax, or a CRF over them (:mod:`saccade.nn.crf`)

A pair of texts is one row, ``first <eos> second``; a learned vector is added to the embeddings of the second text. With one
label, whose logit is the score, the classifier ranks candidates.

Legend: B batch, S positions, m embedding, D width, C labels, L characters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.layers import AttentionPool
from saccade.attention.windows import padding
from saccade.nn.cache import places_of
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.crf import CRF
from saccade.nn.positions import positions_of
from saccade.nn.recurrent import at_end, mask_of, max_of, mean_of
from saccade.nn.tagger import Tagger
from saccade.nn.transformer import Encoder, Norm, Sizes, scaled_embedding
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(query=("u",), score="u^{⊤} tanh(W h[j] + b)", output=("c[t]",), recorded={"h": "encoder.state"})
SITE = Site("pool", query="label", key="text", flow=FLOW)
BY_DOT = replace(SITE, flow=replace(FLOW, score="u^{⊤} h[j]"))


@dataclass(frozen=True)
class Config(Sizes):
    """Settings of both. Small, and with pre-norm, which needs no long warm-up; ``norm: post`` is as published."""

    width: int = 128
    heads: int = 4
    hidden: int = 256
    layers: int = 2
    norm: Norm = "pre"
    embedding: int | None = None  # m: of the words, as wide as vectors from elsewhere; width unless given

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, "embedding")


@dataclass(frozen=True)
class ClassifierConfig(Config):
    """One label per text, with additive pooling by default."""

    pool: Literal["additive", "dot", "mean", "max", "first"] = "additive"


@dataclass(frozen=True)
class TaggerConfig(Config):
    """One tag per word, independent by default."""

    output: Literal["softmax", "crf"] = "softmax"


class _Reader(nn.Module):
    """Embeddings, positions and encoder layers: tokens [B, S] → states [B, S, D]."""

    longest: int | None
    sites: tuple[Site, ...]

    def __init__(self, config: Config, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.config = config
        m, D = config.embedding, config.width
        self.embedding = scaled_embedding(vocabulary, D) if m is None else nn.Embedding(vocabulary, m)
        self.widen = None if m is None else nn.Linear(m, D, bias=False)
        self.positions = positions_of(config.positions, width=D, heads=config.heads, places=config.places)
        self.encoder = Encoder(config.layers, config.layout, axis="text")
        self.output = nn.Linear(D, outputs)
        self.sites, self.longest = self.encoder.sites, self.positions.longest

    def words(self, tokens: Int[Tensor, "B S"]) -> Float[Tensor, "B S D"]:
        """Word embeddings, without positions."""
        embedded: Tensor = self.embedding(tokens)  # [B, S, m]
        # Given word vectors have their own scale: √D would make the positions negligible.
        words: Tensor = embedded * self.config.width**0.5 if self.widen is None else self.widen(embedded)
        return words

    def states(
        self, words: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B S D"]:
        """Contextual states of the words."""
        places = places_of(None, words.shape[1], words.device)
        entering = self.drop(self.positions.add(words, places))
        rotation = self.positions.rotation(places, entering.dtype)
        states: Tensor = self.encoder(entering, lengths, rotation=rotation, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        return states

    def drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class TransformerClassifier(_Reader, Classifier):
    """p(label | text or two texts), for the tasks ``classify`` and ``rank``: tokens [B, S] → logits [B, C]."""

    config_class = ClassifierConfig
    config: ClassifierConfig

    def __init__(self, config: ClassifierConfig, vocabulary: int, classes: int) -> None:
        super().__init__(config, vocabulary, classes)
        self.second = nn.Parameter(torch.zeros(config.width))  # added to the embeddings of the second text
        self.pool = None
        if config.pool in ("additive", "dot"):
            self.pool = AttentionPool(config.width, score="additive" if config.pool == "additive" else "dot")
            self.sites = (*self.encoder.sites, SITE if config.pool == "additive" else BY_DOT)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        words = self.words(tokens)
        if segments is not None:
            words = words + segments.unsqueeze(-1) * self.second
        states = self.states(words, lengths, lens=lens)
        logits: Tensor = self.output(self.drop(self.pooled(states, lengths, lens=lens)))
        return logits

    def pooled(
        self, states: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None
    ) -> Float[Tensor, "B D"]:
        """One vector for the whole row."""
        if self.pool is not None:
            found: Tensor = self.pool(states, window=padding(lengths), lens=lens, site=self.sites[-1])
            return found
        match self.config.pool:
            case "mean":
                return mean_of(states, lengths)
            case "max":
                return max_of(states, lengths)
            case _:
                return at_end(states, lengths.clamp(max=1))


class TransformerTagger(_Reader, Tagger):
    """p(tags | words), for the task ``label``: tokens [B, S] → emissions [B, S, C], 0 beyond a row's end.

    It reads words, or pieces of them, of which the first is tagged; no characters.
    """

    config_class = TaggerConfig

    def __init__(self, config: TaggerConfig, vocabulary: int, labels: int, characters: int = 0) -> None:
        super().__init__(config, vocabulary, labels)
        self.crf = CRF(labels) if config.output == "crf" else None

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        *,
        characters: Int[Tensor, "B S L"] | None = None,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B S C"]:
        emissions: Tensor = self.output(self.drop(self.states(self.words(tokens), lengths, lens=lens)))
        return emissions.masked_fill(~mask_of(lengths, tokens.shape[1]).unsqueeze(-1), 0.0)
