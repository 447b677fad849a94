"""BERT: an encoder pre-trained to fill in masked words, then fine-tuned (Devlin, Chang, Lee & Toutanova 2019).

    input       x = Drop(LN(E[token] + P[place] + S[segment]))                                 row: [CLS] A [SEP] B [SEP]
    layers      N times:  y = LN(x + Drop(MultiHead(x))),  x ← LN(y + Drop(W₂ gelu(W₁ y)))
    pooled      tanh(W_p h_[CLS] + b_p)
    masked word p(w) = softmax(E · LN(gelu(W h + b)) + c), at the chosen positions; E is that of the input
    next text   p(B follows A) = softmax(W_n pooled + b_n), class 0; class 1: B is from another place
    label       softmax(W_l Drop(pooled) + b_l); of each token: softmax(W_t Drop(h) + b_t)

All weights are initialised from a normal of σ = 0.02 (``init``), truncated at 2σ. :class:`Trunk` is shared by pre-training and
fine-tuning.

Legend: B batch, S positions, K chosen positions, D width, V vocabulary, C labels, L characters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.recurrent import mask_of
from saccade.nn.tagger import Tagger
from saccade.nn.transformer import Activation, Encoder, Layout, activated
from saccade.trace.lens import Lens, Site


@dataclass(frozen=True)
class Config:
    """BERT base. Large is layers=24, width=1024, heads=16, feed_forward=4096."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    feed_forward: int = 3072
    positions: int = 512
    segments: int = 2
    dropout: float = 0.1  # of embeddings, of each sublayer, of what a label is read from
    attention_dropout: float | None = None  # of the weights; as dropout unless given
    gelu: Literal["erf", "tanh"] = "erf"
    eps: float = 1e-12  # of LN
    init: float = 0.02  # σ of the weights; 0.02 · √(768 / width) gives narrower networks the same start

    def __post_init__(self) -> None:
        check(self, "layers", "width", "heads", "feed_forward", "positions", "segments")
        if self.width % self.heads:
            raise ValueError(f"heads must divide width={self.width}: got {self.heads}")
        if self.attention_dropout is not None and not 0 <= self.attention_dropout < 1:
            raise ValueError(f"attention_dropout must be at least 0 and below 1: got {self.attention_dropout}")
        for name in ("eps", "init"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive: got {getattr(self, name)}")

    @property
    def activation(self) -> Activation:
        return "gelu_tanh" if self.gelu == "tanh" else "gelu"

    @property
    def layout(self) -> Layout:
        attention = self.dropout if self.attention_dropout is None else self.attention_dropout
        return Layout(
            self.width,
            self.heads,
            self.feed_forward,
            "post",
            self.activation,
            self.dropout,
            attention,
            epsilon=self.eps,
        )


BASE = Config()
LARGE = Config(layers=24, width=1024, heads=16, feed_forward=4096)


class Trunk(nn.Module):
    """Tokens to states, and a row to one vector: tokens [B, S] → states [B, S, D], pooled [B, D]."""

    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__()
        self.dropout = config.dropout
        self.words = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.segments = nn.Embedding(config.segments, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.eps)
        self.encoder = Encoder(config.layers, config.layout, axis="text")
        self.pooler = nn.Linear(config.width, config.width)
        start(self, config.init)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B S D"]:
        """The states. Rows are padded on the right; positions beyond ``lengths`` have no effect."""
        S = tokens.shape[1]
        # A single text has segment 0 everywhere: no lookup needed.
        segment = self.segments.weight[0] if segments is None else self.segments(segments)
        embedded = self.words(tokens) + self.positions.weight[:S] + segment
        states: Tensor = self.encoder(self.drop(self.norm(embedded)), lengths, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        return states

    def pool(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B D"]:
        """tanh(W_p h_[CLS] + b_p)."""
        if not states.shape[1]:
            raise SaccadeError("expected at least the position of [CLS] in each row, found none: rows of 0 positions")
        return torch.tanh(self.pooler(states[:, 0]))

    def drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


def start(network: nn.Module, sigma: float) -> None:
    """Initialise weights from a normal of σ truncated at 2σ, biases with 0; LN stays at 1 and 0."""
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.trunc_normal_(module.weight, std=sigma, a=-2 * sigma, b=2 * sigma)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


class Bert(nn.Module):
    """The network for pre-training (task ``pretrain``): masked words, and whether the second text follows."""

    config_class = Config
    layout: ClassVar[Literal["plain", "marked"]] = "marked"
    sites: tuple[Site, ...] = ()  # of a network: encoder.{l}.self

    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__()
        self.config, self.longest = config, config.positions
        self.trunk = Trunk(config, vocabulary)
        self.transform = nn.Linear(config.width, config.width)
        self.transform_norm = nn.LayerNorm(config.width, eps=config.eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        self.next = nn.Linear(config.width, 2)
        for head in (self.transform, self.next):
            start(head, config.init)
        self.sites = self.trunk.encoder.sites

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None,
        chosen: Int[Tensor, "B K"],
        *,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B K V"], Float[Tensor, "B 2"]]:
        """Logits of the words at the chosen positions, and of (follows, from elsewhere)."""
        states = self.trunk(tokens, lengths, segments, lens=lens)
        D = states.shape[-1]
        there = states.gather(1, chosen.unsqueeze(-1).expand(-1, -1, D))  # [B, K, D]
        return self.words(there), self.next(self.trunk.pool(states))

    def words(self, states: Float[Tensor, "B K D"]) -> Float[Tensor, "B K V"]:
        """E · LN(gelu(W h + b)) + c."""
        transformed = self.transform_norm(activated(self.transform(states), self.config.activation))
        return functional.linear(transformed, self.trunk.words.weight, self.bias)


class _Finetuned(nn.Module):
    """A trunk with its own output layer."""

    config_class = Config
    longest: int | None
    sites: tuple[Site, ...]

    def __init__(self, config: Config, vocabulary: int, classes: int) -> None:
        super().__init__()
        self.config, self.longest = config, config.positions
        self.trunk = Trunk(config, vocabulary)
        self.output = nn.Linear(config.width, classes)
        start(self.output, config.init)
        self.sites = self.trunk.encoder.sites

    def begin_with(self, pretrained: Mapping[str, Tensor], untrained: Sequence[str] = ()) -> tuple[str, ...]:
        """Copy the trunk of a pre-trained network's state; returns a note on what was copied, what of it was never trained
        (parts of that network in ``untrained``) and what is newly initialised."""
        trunk = {name.removeprefix("trunk."): part for name, part in pretrained.items() if name.startswith("trunk.")}
        self.trunk.load_state_dict(trunk)
        taken, new = (sum(part.numel() for part in each.parameters()) for each in (self.trunk, self.output))
        left = sorted({name.partition(".")[0] for name in pretrained if not name.startswith("trunk.")})
        behind = f"left behind: {', '.join(left) or 'nothing'}"
        drawn = {part: self.get_submodule(part).parameters() for part in untrained if part.startswith("trunk.")}
        sizes = {part: sum(each.numel() for each in parameters) for part, parameters in drawn.items()}
        unused = {part for part in sizes if f"{part}.weight" in getattr(self, "idle", ())}
        never = "".join(
            f"; never trained: {part}, {size:,}{' (not used here)' if part in unused else ''}"
            for part, size in sizes.items()
        )
        taken -= sum(sizes.values())
        return (f"copied: trunk, {taken:,} parameters{never}; initialised at random: output, {new:,}; {behind}",)


class BertClassifier(_Finetuned, Classifier):
    """p(label | text or two texts), for the task ``classify``: tokens [B, S] → logits [B, C]."""

    layout = "marked"

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        pooled = self.trunk.pool(self.trunk(tokens, lengths, segments, lens=lens))
        logits: Tensor = self.output(self.trunk.drop(pooled))
        return logits


class BertTagger(_Finetuned, Tagger):
    """p(label | token, its text), for the task ``label``: tokens [B, S] → logits [B, S, C], 0 beyond a row's end.

    Each tag has its own softmax. The pooler is not used; the inputs are pieces of words, not characters.
    """

    layout = "marked"
    idle = ("trunk.pooler.weight", "trunk.pooler.bias")

    def __init__(self, config: Config, vocabulary: int, labels: int, characters: int = 0) -> None:
        super().__init__(config, vocabulary, labels)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        characters: Int[Tensor, "B S L"] | None = None,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B S C"]:
        states = self.trunk(tokens, lengths, segments, lens=lens)
        logits: Tensor = self.output(self.trunk.drop(states))
        real = mask_of(lengths, tokens.shape[1]).unsqueeze(-1)
        return logits.masked_fill(~real, 0.0)
