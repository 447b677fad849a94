"""RNNsearch: neural machine translation by jointly learning to align and translate (Bahdanau, Cho & Bengio 2015).

    encoder     hⱼ = [→hⱼ; ←hⱼ]                                   two gated RNNs, one each way
    start       s₀ = tanh(W_s ←h₁)
    alignment   eᵢⱼ = vᵀ tanh(W sᵢ₋₁ + U hⱼ),  αᵢⱼ = softmaxⱼ eᵢⱼ,  cᵢ = Σⱼ αᵢⱼ hⱼ     *before* the state is updated
    state       sᵢ = GRU([E yᵢ₋₁; cᵢ], sᵢ₋₁)
    output      tᵢ = maxout(U_o sᵢ₋₁ + V_o E yᵢ₋₁ + C_o cᵢ),  p(yᵢ) = softmax(W_o tᵢ)       sᵢ₋₁, as in appendix A.2.2

    copy        p(y) = g · softmax(logits)(y) + (1 − g) · Σ_{j: xⱼ = y} αᵢⱼ,  g = σ(wᵀ[sᵢ₋₁; E yᵢ₋₁; cᵢ] + b)   ``copy: true``

Copying source words is not part of the paper (See, Liu & Manning 2017). Source and target share one vocabulary; with a
vocabulary of sub-words every word can be copied, whether it occurred in training or not.

Legend: B batch, S source, T target, n hidden, m embedding, l maxout, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import look
from saccade.attention.fast import Steps, steps_over
from saccade.attention.own import Choices, NormaliserName, OwnScore, OwnWindow, normaliser, own_score, own_window
from saccade.attention.scores import Prepared, Score, additive
from saccade.attention.windows import Window, padding
from saccade.errors import SaccadeError
from saccade.nn.config import FORMER_INIT, check
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import Recurrent, bound_for, init_groundhog, init_uniform, mask_of, maxout
from saccade.plugins import is_own
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(
    query=("s[t-1]",),
    output=("s[t-1]", "y[t-1]", "c[t]"),
    state=("s[t]", "s[t-1]", "y[t-1]", "c[t]"),
    recorded={"s": "decoder.state", "s[0]": "decoder.start", "h": "encoder.state"},
)
SITE = Site("decoder.attention", query="target", key="source", flow=FLOW)
COPYING = replace(SITE, flow=replace(FLOW, output=(*FLOW.output, "α[t]")))


@dataclass(frozen=True)
class Config:
    """The paper's sizes are hidden=1000, embedding=620, maxout=500, cell="paper", init="paper"."""

    hidden: int = 256
    embedding: int = 128
    maxout: int = 128
    alignment: int | None = None  # n': width of the alignment's hidden layer; hidden unless given
    score: Annotated[str, Choices(("additive",), own_score)] = "additive"
    window: Annotated[str, Choices(("global",), own_window)] = "global"
    normalise: NormaliserName = "softmax"
    cell: Literal["gru", "paper"] = "gru"
    copy: bool = False  # words of the source may be copied; needs one vocabulary for both sides
    dropout: float = 0.0
    init: Literal["uniform", "torch", "paper"] = "uniform"  # uniform: bound_for(hidden)
    bias: bool = True
    former: ClassVar = FORMER_INIT

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "maxout", "alignment")


class Memory(NamedTuple):
    annotations: Float[Tensor, "B S 2*n"]
    keys: Float[Tensor, "B S a"]  # U h, once a sentence
    real: Bool[Tensor, "B S"]
    start: Float[Tensor, "B n"]
    source: Int[Tensor, "B S"]


class RNNSearch(EncoderDecoder):
    """p(yᵢ | y₍<ᵢ₎, x): source [B, S] and target [B, T] → logits [B, T, V]."""

    config_class = Config
    sites = (SITE,)

    def __init__(self, config: Config, source_size: int, target_size: int) -> None:
        super().__init__()
        n, m, width = config.hidden, config.embedding, config.alignment or config.hidden
        self.config = config
        self.source_embedding = nn.Embedding(source_size, m)
        self.target_embedding = nn.Embedding(target_size, m)
        self.encoder = Recurrent(config.cell, m, n, bidirectional=True, bias=config.bias, update="write")
        self.start_layer = nn.Linear(n, n, bias=config.bias)
        if config.score == "additive":
            self.query_weight = nn.Parameter(torch.empty(width, n))
            self.key_weight = nn.Parameter(torch.empty(width, 2 * n))
            self.v = nn.Parameter(torch.empty(width))
        self.cell = Recurrent(config.cell, m + 2 * n, n, bias=config.bias, update="write")
        self.readout = nn.Linear(n + m + 2 * n, 2 * config.maxout, bias=config.bias)  # U_o, V_o, C_o side by side
        self.output = nn.Linear(config.maxout, target_size, bias=config.bias)
        self.copying = Copying(n + m + 2 * n, source_size, target_size) if config.copy else None
        self.reset_parameters()
        # A user's parts come last, since they initialise themselves.
        self.normalise = normaliser(config.normalise)
        if is_own(config.score):
            self.own_score = OwnScore(config.score, n, 2 * n)
        if is_own(config.window):
            self.own_window = OwnWindow(config.window, n)

    def reset_parameters(self) -> None:
        paper, aligning = self.config.init == "paper", self.config.score == "additive"
        if aligning:
            nn.init.xavier_uniform_(self.query_weight)
            nn.init.xavier_uniform_(self.key_weight)
            nn.init.uniform_(self.v, -(self.v.numel() ** -0.5), self.v.numel() ** -0.5)
        if self.config.init == "uniform":
            init_uniform(self.parameters(), bound_for(self.config.hidden))
        if paper:  # appendix B.1; v_a = 0, so the first alignments are uniform
            init_groundhog(self)
        if paper and aligning:
            nn.init.normal_(self.query_weight, std=0.001)
            nn.init.normal_(self.key_weight, std=0.001)

    @property
    def score(self) -> Score:
        """The alignment model eᵢⱼ over this network's parameters; ``prepare`` is U hⱼ, once a sentence."""
        if is_own(self.config.score):
            return self.own_score
        return additive(self.v, self.query_weight, self.key_weight)

    def window(self, state: Float[Tensor, "B 1 n"], real: Bool[Tensor, "B S"]) -> Window:
        """The words visible to a state: all, or those of a user's window."""
        if not is_own(self.config.window):
            return padding(real)
        shown: Window = self.own_window(state, real.sum(-1))
        return shown & padding(real)

    def encode(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        embedded = self._drop(self.source_embedding(source))
        annotations, (final,) = self.encoder(embedded, lengths)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "source", annotations)
        # final[:, 1] is the backward state at the first word, the last one that direction reads.
        start = torch.tanh(self.start_layer(final[:, 1]))
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.start", "target", start.unsqueeze(1))
        keys = self.score.prepare(annotations).key
        return Memory(annotations, keys, mask_of(lengths, source.shape[1]), start, source)

    def start(self, memory: Memory) -> Float[Tensor, "B n"]:
        return memory.start

    def step(
        self, token: Int[Tensor, " B"], state: Tensor, memory: Memory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], Float[Tensor, "B n"]]:
        embedded = self._drop(self.target_embedding(token))
        weights, context, moved = self._look_and_move(embedded, state, memory, offset, lens)
        known = torch.cat([state, embedded, context], dim=-1).unsqueeze(1)
        return self._read_out(known, weights, memory).squeeze(1), moved

    def teach(self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        if not target.shape[1]:
            return super().teach(memory, target, lens=lens)
        embedded = self._drop(self.target_embedding(target))  # [B, T, m]
        state, states, contexts, looks = memory.start, [], [], []
        steps = self._steps(memory, target.shape[1]) if lens is None else None
        for offset in range(target.shape[1]):
            states.append(state)
            weights, context, state = self._look_and_move(embedded[:, offset], state, memory, offset, lens, steps)
            contexts.append(context)
            looks.append(weights)
        # Outputs do not feed back into the states: all steps are read out at once.
        known = torch.cat([torch.stack(states, dim=1), embedded, torch.stack(contexts, dim=1)], dim=-1)
        return self._read_out(known, torch.cat(looks, dim=1), memory)

    def _steps(self, memory: Memory, count: int) -> Steps | None:
        """Attention for all steps together, where kernels support the score, normaliser and window."""
        if is_own(self.config.window) or type(self).window is not RNNSearch.window:
            return None  # the window may differ per step
        keys, window = Prepared(memory.keys), padding(memory.real)
        return steps_over(
            keys, memory.annotations, score=self.score, normalise=self.normalise, window=window, steps=count
        )

    def _look_and_move(
        self,
        embedded: Tensor,
        state: Tensor,
        memory: Memory,
        offset: int,
        lens: Lens | None,
        steps: Steps | None = None,
    ) -> tuple[Float[Tensor, "B 1 S"], Float[Tensor, "B width"], Float[Tensor, "B n"]]:
        weights, context = (
            steps.look(state.unsqueeze(1))
            if steps is not None
            else look(
                state.unsqueeze(1),
                Prepared(memory.keys),
                memory.annotations,
                score=self.score,
                normalise=self.normalise,
                window=self.window(state.unsqueeze(1), memory.real),
                offset=offset,
                lens=lens,
                site=SITE if self.copying is None else COPYING,
            )
        )
        context = context.squeeze(1)
        _, (moved,) = self.cell.step(torch.cat([embedded, context], dim=-1), (state.unsqueeze(1),))
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", moved, offset=offset)
        return weights, context, moved.squeeze(1)

    def _read_out(
        self, known: Float[Tensor, "B T width"], weights: Float[Tensor, "B T S"], memory: Memory
    ) -> Float[Tensor, "B T V"]:
        """Logits from [sᵢ₋₁; E yᵢ₋₁; cᵢ] of each step."""
        logits: Tensor = self.output(self._drop(maxout(self.readout(known))))
        return logits if self.copying is None else self.copying(logits, weights, memory.source, known)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class Copying(nn.Module):
    """Mixes a network's output distribution with its attention weights; returns log-probabilities, which serve as logits."""

    def __init__(self, width: int, source_size: int, target_size: int) -> None:
        super().__init__()
        if source_size != target_size:
            raise SaccadeError(
                "model.copy: expected one vocabulary for source and target (data.shared: true), "
                f"found {source_size:,} source and {target_size:,} target tokens"
            )
        self.gate = nn.Linear(width, 1)

    def forward(
        self,
        logits: Float[Tensor, "B T V"],
        weights: Float[Tensor, "B T S"],
        source: Int[Tensor, "B S"],
        known: Float[Tensor, "B T w"],
    ) -> Float[Tensor, "B T V"]:
        written = torch.sigmoid(self.gate(known)).float()  # g: [B, T, 1]
        copied = (1 - written) * weights.float()
        mixed = written * torch.softmax(logits.float(), dim=-1)
        mixed = mixed.scatter_add(-1, source.unsqueeze(1).expand_as(copied), copied)
        return mixed.clamp_min(torch.finfo(mixed.dtype).tiny).log()
