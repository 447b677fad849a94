"""A tag for every word of a sentence: characters and words → BiLSTM → attention over the sentence → CRF.

    word       xₜ = [E wₜ; chars(wₜ)]                      chars: a CNN with max pooling (Ma & Hovy 2016), or a BiLSTM (Lample
                                                           et al. 2016), over the characters of the word
    states     h = BiLSTM(x)                               hₜ [2n], both ways
    attention  αₜⱼ = softmaxⱼ score(hₜ, hⱼ), gₜ = Σⱼ αₜⱼ hⱼ, zₜ = tanh(W_g [gₜ; hₜ] + b_g)  (after Luo et al. 2018)
    emissions  Pₜ = W_p zₜ + b_p                           of ``attention: none``: W_p hₜ + b_p
    tags       a CRF over P (:mod:`saccade.nn.crf`), or each tag by its own softmax

Attention connects distant words: mentions of one name get one tag. ``compare: words`` scores the xₜ instead of the states: a
word then attends to its repetitions anywhere.

Legend: B batch, S words, L characters, m embedding, c of characters, n states each way, K tags.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.layers import Attention
from saccade.attention.own import NormaliserName, normaliser
from saccade.attention.windows import padding
from saccade.errors import SaccadeError
from saccade.nn.config import check
from saccade.nn.convolution import Convolution
from saccade.nn.crf import CRF
from saccade.nn.recurrent import Recurrent, mask_of
from saccade.nn.tagger import Tagger
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(query=("h[t]",), output=("c[t]", "h[t]"), recorded={"h": "encoder.state"})
SITE = Site("attention", query="text", key="text", flow=FLOW)
BY_WORD = replace(SITE, flow=replace(FLOW, query=("x[t]",), key="x[j]"))
UNKNOWN = 3  # the id of <unk> in every vocabulary of words


@dataclass(frozen=True)
class Config:
    """Sizes of NCRF++ (Yang & Zhang 2018), with attention."""

    embedding: int = 100
    characters: Literal["cnn", "lstm", "none"] = "cnn"
    character_embedding: int = 30
    character_hidden: int = 50  # c: width of what is read off a word's characters
    width: int = 3  # cnn: characters that it sees at once, an odd number
    hidden: int = 100  # n: of the BiLSTM, each way
    layers: int = 1
    attention: Literal["scaled_dot", "general", "additive", "cosine", "none"] = "scaled_dot"
    compare: Literal["states", "words"] = "states"  # what the score is of
    normalise: NormaliserName = "softmax"
    output: Literal["crf", "softmax"] = "crf"
    dropout: float = 0.5  # of words and characters, between layers, of states
    word_dropout: float = 0.0  # share of words that are read as <unk>, in training

    def __post_init__(self) -> None:
        sizes = ("embedding", "character_embedding", "character_hidden", "width", "hidden", "layers")
        check(self, *sizes)
        if self.width % 2 == 0:
            raise ValueError(f"width must be odd: got {self.width}")
        if self.characters == "lstm" and self.character_hidden % 2:
            raise ValueError(f"character_hidden must be even, half of it each way: got {self.character_hidden}")
        if not 0 <= self.word_dropout < 1:
            raise ValueError(f"word_dropout must be at least 0 and below 1: got {self.word_dropout}")
        if self.attention == "none" and self.compare != "states":
            raise ValueError(f"compare must be left out where attention is none: got {self.compare}")


class AttentiveTagger(Tagger):
    """p(tags | words): tokens [B, S], characters [B, S, L] → emissions [B, S, K]."""

    config_class = Config

    def __init__(self, config: Config, vocabulary: int, labels: int, characters: int = 0) -> None:
        super().__init__()
        self.config, self.wants_characters = config, config.characters != "none"
        if self.wants_characters and not characters:
            raise SaccadeError(f"model.characters is {config.characters}, but no characters were given: set it to none")
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.spelling = Spelling(config, characters) if self.wants_characters else None
        inputs, states = config.embedding + (config.character_hidden if self.wants_characters else 0), 2 * config.hidden
        self.encoder = Recurrent(
            "lstm", inputs, config.hidden, layers=config.layers, bidirectional=True, dropout=config.dropout
        )
        self.attention, self.join = None, None
        if config.attention != "none":
            compared = states if config.compare == "states" else inputs
            self.attention = Attention(
                compared, compared, score=config.attention, normalise=normaliser(config.normalise)
            )
            self.join = nn.Linear(2 * states, states)
            self.sites = (SITE if config.compare == "states" else BY_WORD,)
        self.output = nn.Linear(states, labels)
        self.crf = CRF(labels) if config.output == "crf" else None

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        *,
        characters: Int[Tensor, "B S L"] | None = None,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B S K"]:
        words = self._drop(self.words(tokens, characters))  # [B, S, m + c]
        states = self._drop(self.encoder(words, lengths)[0])  # [B, S, 2n]
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        if self.attention is not None and self.join is not None:
            compared = states if self.config.compare == "states" else words
            read = self.attention(compared, compared, states, window=padding(lengths), lens=lens, site=self.sites[0])
            states = torch.tanh(self.join(torch.cat([read, states], dim=-1)))
        emissions: Tensor = self.output(states)
        return emissions.masked_fill(~mask_of(lengths, tokens.shape[1]).unsqueeze(-1), 0.0)

    def words(
        self, tokens: Int[Tensor, "B S"], characters: Int[Tensor, "B S L"] | None = None
    ) -> Float[Tensor, "B S mc"]:
        """xₜ: the word's vector and the vector of its characters."""
        if self.training and self.config.word_dropout:
            unread = torch.rand(tokens.shape, device=tokens.device) < self.config.word_dropout
            tokens = tokens.masked_fill(unread, UNKNOWN)
        embedded: Tensor = self.embedding(tokens)
        if self.spelling is None:
            return embedded
        if characters is None:
            raise SaccadeError(f"the network reads characters [{', '.join(map(str, tokens.shape))}, L]: got none")
        return torch.cat([embedded, self.spelling(characters)], dim=-1)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class Spelling(nn.Module):
    """A word's characters as one vector: characters [B, S, L], 0 in padding → [B, S, c]; zeros where there are none.

    ``cnn``: maxₗ relu(W [eₗ₋₁; eₗ; eₗ₊₁] + b); ``lstm``: the states in which both directions end.
    """

    def __init__(self, config: Config, characters: int) -> None:
        super().__init__()
        wide, c = config.character_embedding, config.character_hidden
        self.embedding = nn.Embedding(characters, wide)
        nn.init.uniform_(self.embedding.weight, -((3 / wide) ** 0.5), (3 / wide) ** 0.5)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder: Convolution | Recurrent = (
            Convolution(wide, c, width=config.width)
            if config.characters == "cnn"
            else Recurrent("lstm", wide, c // 2, bidirectional=True)
        )

    def forward(self, characters: Int[Tensor, "B S L"]) -> Float[Tensor, "B S c"]:
        B, S, L = characters.shape
        flat = characters.reshape(B * S, L) if L else characters.new_zeros(B * S, 1)  # words without a character
        lengths = (flat != 0).sum(1)
        embedded = self.dropout(self.embedding(flat))  # [BS, L, wide]
        if isinstance(self.encoder, Convolution):
            # Padding is 0, which never exceeds a relu.
            spelt: Tensor = self.encoder(embedded, lengths).amax(1)
        else:
            _, (hidden, _) = self.encoder(embedded, lengths)
            spelt = hidden.flatten(1)
        return spelt.view(B, S, spelt.shape[-1])
