"""The Transformer: attention is all you need (Vaswani, Shazeer, Parmar, Uszkoreit, Jones, Gomez, Kaiser & Polosukhin 2017).

    input       x = Drop(√D E[token] + PE(place))
    encoder     N layers: self-attention, feed-forward              x ← LN(x + Drop(F(x)))
    decoder     N layers: self-attention, cross-attention, feed-forward
    attention   MultiHead(Q, K, V) = [head₁; …; head_H] W_O,  headᵢ = softmax(Q W_Qⁱ (K W_Kⁱ)ᵀ / √d) V W_Vⁱ
    output      p(yₜ) = softmax(E x)                               E tied to the embeddings, as ``tied`` says

:class:`TransformerLM` is the decoder alone, as a language model. Layers are in :mod:`saccade.nn.transformer`, positions in
:mod:`saccade.nn.positions`, the cache between steps in :mod:`saccade.nn.cache`.

Legend: B batch, S source, T target, D width, H heads, d = D / H, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn import cache as caches
from saccade.nn.cache import Cache, Room, places_of
from saccade.nn.config import check
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.language import LanguageModel
from saccade.nn.positions import positions_of
from saccade.nn.transformer import Crossed, Decoder, Encoder, Sizes, scaled_embedding
from saccade.trace.lens import Lens, Site


@dataclass(frozen=True)
class Config(Sizes):
    """The paper's base is Config(tied="all"); its big is width=1024, heads=16, hidden=4096, dropout=0.3, tied="all"."""

    decoder_layers: int | None = None  # as many as the encoder's unless given
    tied: Literal["all", "target", "none"] = "target"  # which embeddings the output layer shares

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, "decoder_layers")

    @property
    def one_vocabulary(self) -> bool:
        """Whether source and target must share a vocabulary."""
        return self.tied == "all"


@dataclass(frozen=True)
class LanguageConfig(Sizes):
    """The decoder alone. GPT-2's small is width=768, heads=12, hidden=3072, layers=12, norm="pre", positions="learned",
    places=1024, activation="gelu_tanh"."""

    tied: bool = True  # the output layer is the embedding


BASE = Config(tied="all")
BIG = Config(width=1024, heads=16, hidden=4096, dropout=0.3, tied="all")


class Transformer(EncoderDecoder):
    """p(yₜ | y₍<ₜ₎, x): source [B, S] and target [B, T] → logits [B, T, V].

    Its state is the cache of the output's keys and values (:class:`saccade.nn.cache.Cache`), its memory those of the source.
    """

    config_class = Config
    shares_memory = True
    sites: tuple[Site, ...] = ()  # of a network: encoder.{l}.self, decoder.{l}.self, decoder.{l}.cross

    def __init__(self, config: Config, source_size: int, target_size: int) -> None:
        super().__init__()
        if config.one_vocabulary and source_size != target_size:
            raise SaccadeError(
                "model.tied: all: expected one vocabulary for source and target (data.shared: true; or set tied: target), "
                f"found {source_size:,} source and {target_size:,} target tokens"
            )
        self.config = config
        self.target_embedding = scaled_embedding(target_size, config.width)
        self.source_embedding = None if config.tied == "all" else scaled_embedding(source_size, config.width)
        self.source_positions, self.target_positions = _positions(config), _positions(config)
        self.encoder = Encoder(config.layers, config.layout)
        self.decoder = Decoder(config.decoder_layers or config.layers, config.layout)
        self.output = _output(target_size, config) if config.tied == "none" else None
        self.sites = self.encoder.sites + self.decoder.sites
        self.longest = self.target_positions.longest

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Crossed:
        """The source's keys and values for the decoder's layers, computed once per sentence."""
        places = places_of(None, source.shape[1], source.device)
        embedding = self.target_embedding if self.source_embedding is None else self.source_embedding
        states = self._drop(self.source_positions.add(embedding(source) * self.config.width**0.5, places))
        rotation = self.source_positions.rotation(places, states.dtype)
        states = self.encoder(states, lengths, rotation=rotation, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "source", states)
        return self.decoder.cross(states, lengths)

    def start(self, memory: Crossed) -> Cache:
        B, H, _, d = memory.keys[0].shape
        return caches.empty(B, len(memory.keys), H, d, memory.keys[0])

    def make_room(self, state: Cache | Room, step: int) -> Room:
        return caches.make_room(state, step)

    def step(
        self,
        token: Int[Tensor, " B"],
        state: Cache | Room,
        memory: Crossed,
        *,
        offset: int,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B V"], Cache | Room]:
        states, state = self._decode(token.unsqueeze(1), state, memory, offset, lens)
        return self._write(states).squeeze(1), state

    def teach(self, memory: Crossed, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        states, _ = self._decode(target, None, memory, 0, lens)
        return self._write(states)

    def _decode(
        self, tokens: Int[Tensor, "B T"], cache: Cache | Room | None, memory: Crossed, offset: int, lens: Lens | None
    ) -> tuple[Float[Tensor, "B T D"], Cache | Room]:
        places = places_of(cache, tokens.shape[1], tokens.device)
        embedded = self.target_embedding(tokens) * self.config.width**0.5
        states = self._drop(self.target_positions.add(embedded, places))
        rotation = self.target_positions.rotation(places, states.dtype)
        states, cache = self.decoder(states, cache, crossed=memory, rotation=rotation, offset=offset, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", states, offset=offset)
        return states, cache

    def _write(self, states: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        weight = self.target_embedding.weight if self.output is None else self.output.weight
        return functional.linear(states, weight)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class TransformerLM(LanguageModel):
    """p(xₜ | x₍<ₜ₎): tokens [B, T] → logits [B, T, V], by the decoder alone."""

    config_class = LanguageConfig
    sites: tuple[Site, ...] = ()  # of a network: decoder.{l}.self

    def __init__(self, config: LanguageConfig, size: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = scaled_embedding(size, config.width)
        self.positions = _positions(config)
        self.decoder = Decoder(config.layers, config.layout, axes=("output", "input", None))
        self.output = None if config.tied else _output(size, config)
        self.sites = self.decoder.sites
        self.longest = self.positions.longest

    def blank(self, batch: int) -> Cache:
        config = self.config
        return caches.empty(batch, config.layers, config.heads, config.width // config.heads, self.embedding.weight)

    def make_room(self, state: Cache | Room, step: int) -> Room:
        return caches.make_room(state, step)

    def read(
        self,
        tokens: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        state: Cache | Room | None = None,
        *,
        offset: int = 0,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B T D"], Cache | Room]:
        places = places_of(state, tokens.shape[1], tokens.device)
        states = self.positions.add(self.embedding(tokens) * self.config.width**0.5, places)
        states = functional.dropout(states, self.config.dropout, self.training)
        rotation = self.positions.rotation(places, states.dtype)
        states, state = self.decoder(states, state, lengths=lengths, rotation=rotation, offset=offset, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "output", states, offset=offset)
        return states, state

    def write(self, hidden: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        return functional.linear(hidden, self.embedding.weight if self.output is None else self.output.weight)


def _output(size: int, config: Sizes) -> nn.Linear:
    output = nn.Linear(config.width, size, bias=False)
    nn.init.xavier_uniform_(output.weight)
    return output


def _positions(config: Sizes) -> Any:
    return positions_of(config.positions, width=config.width, heads=config.heads, places=config.places)
