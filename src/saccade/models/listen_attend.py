"""Attention-based speech recognition, with attention that knows where it looked last (Chorowski et al. 2015).

    annotations h₁ … h_L                                    the states of a bidirectional GRU over frames of sound
    content     eᵢⱼ = wᵀ tanh(W sᵢ₋₁ + V hⱼ + b)
    hybrid      eᵢⱼ = wᵀ tanh(W sᵢ₋₁ + V hⱼ + U fᵢⱼ + b),  fᵢ = F ∗ αᵢ₋₁        location: without V hⱼ
    weights     αᵢⱼ = exp eᵢⱼ / Σⱼ exp eᵢⱼ                  softmax,  or  σ(eᵢⱼ + r) / Σⱼ σ(eᵢⱼ + r)  smoothed
    context     gᵢ = Σⱼ αᵢⱼ hⱼ
    output      p(yᵢ) = softmax(W_o maxout(U_o sᵢ₋₁ + C_o gᵢ))
    state       sᵢ = GRU([E yᵢ; gᵢ], sᵢ₋₁)                  s₀ is learned;  α₀ is 1 at the first annotation

With ``window`` only annotations within w of the median (or the mean) of αᵢ₋₁ are seen; the centre has no gradient. At
prediction ``search.focus`` may sharpen the weights, keep the largest, or set a window.

Training minimises, per recording, with λ = ``ctc`` and μ = ``monotonic``

    −(1 − λ) log p(y | frames) − λ log p_CTC(y | h) + μ Σᵢ max(0, Σⱼ j αᵢ₋₁ⱼ − Σⱼ j αᵢⱼ)

The CTC loss (Graves et al. 2006; Kim et al. 2017) is not part of the paper; the penalty on going back is of the group's earlier
one (2014).

Legend: B batch, N frames, L annotations, T target, n state, m embedding, a width of the scorer, C filters, V vocabulary.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import look
from saccade.attention.fast import Steps, steps_over
from saccade.attention.normalise import Normaliser, Smoothed, sharpened, top
from saccade.attention.recent import Centre, around
from saccade.attention.scores import Additive, LocationAware, Prepared
from saccade.attention.windows import Window, padding
from saccade.errors import SaccadeError
from saccade.kernels.location.reference import convolved
from saccade.nn.config import check
from saccade.nn.ctc import certain_blanks, ctc_loss
from saccade.nn.listener import Encoder, Focus, Heard, Listener, monotonic_penalty
from saccade.nn.recurrent import Recurrent, init_groundhog, mask_of, maxout
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(  # s[t] is the state that attention gets in step t, the paper's s of t - 1
    query=("s[t]",),
    score="w^{⊤} tanh(W s[t] + V h[j] + b)",
    output=("s[t]", "c[t]"),
    state=("s[t]", "s[t-1]", "y[t-1]", "c[t-1]"),
    recorded={"s": "decoder.state", "h": "encoder.state"},
)
SITE = Site("decoder.attention", query="target", key="sound", flow=FLOW)
LOOKING_BACK = replace(FLOW, query=("s[t]", "α[t-1]"), score="w^{⊤} tanh(W s[t] + V h[j] + U (F ∗ α[t-1])[j] + b)")
SITES = {
    "content": SITE,
    "hybrid": replace(SITE, flow=LOOKING_BACK),
    "location": replace(SITE, flow=replace(LOOKING_BACK, score="w^{⊤} tanh(W s[t] + U (F ∗ α[t-1])[j] + b)")),
}


@dataclass(frozen=True)
class Config:
    """The paper's sizes, for TIMIT. Its initialisation is init="paper"."""

    hidden: int = 256  # of the encoder, per direction
    layers: int = 3
    pooling: tuple[int, ...] = ()  # after each layer only every so-many-th state is kept; all where not given
    state: int = 256  # n, of the decoder
    embedding: int = 64
    alignment: int = 512  # a, the width of the scorer
    attention: Literal["content", "location", "hybrid"] = "hybrid"
    filters: int = 10
    reach: int = 100  # annotations to each side that a filter covers: 2 · reach + 1 taps
    normalise: Literal["softmax", "smoothed"] = "softmax"
    window: int | None = None  # w
    centre: Centre = "median"
    maxout: int = 64
    monotonic: float = 0.0  # μ
    ctc: float = 0.0  # λ
    dropout: float = 0.0  # between the layers of the encoder, and of the output's hidden layer
    init: Literal["torch", "paper"] = "torch"

    def __post_init__(self) -> None:
        check(self, "hidden", "layers", "state", "embedding", "alignment", "filters", "window", "maxout")
        if not 0 <= self.reach <= 10_000:
            raise ValueError(f"reach must be from 0 to 10,000: got {self.reach}")
        if len(self.pooling) > self.layers or any(not 1 <= step <= 100 for step in self.pooling):
            raise ValueError(f"pooling must be at most {self.layers} numbers from 1 to 100: got {list(self.pooling)}")
        if not 0 <= self.monotonic < float("inf"):
            raise ValueError(f"monotonic must not be negative: got {self.monotonic}")
        if not 0 <= self.ctc < 1:
            raise ValueError(f"ctc must be at least 0 and below 1: got {self.ctc}")


class Memory(NamedTuple):
    annotations: Float[Tensor, "B L E"]
    keys: Float[Tensor, "B L a"]  # V h + b, once per recording
    real: Bool[Tensor, "B L"]


class State(NamedTuple):
    """sᵢ₋₁ before yᵢ₋₁ is known, and what was looked at for it: the step that gets yᵢ₋₁ moves on to the next state first."""

    hidden: Float[Tensor, "B n"]
    context: Float[Tensor, "B E"]
    weights: Float[Tensor, "B L"]


class ListenAttend(Listener):
    """p(yᵢ | y₍<ᵢ₎, frames): frames [B, N, D] and target [B, T] → logits [B, T, V]."""

    config_class = Config
    sites = (SITE,)

    def __init__(self, config: Config, size: int, width: int, start: int) -> None:
        super().__init__()
        self.config, self.first_token, self.focus, self.ctc = config, start, Focus(), config.ctc
        n, m, a = config.state, config.embedding, config.alignment
        self.encoder = Encoder(width, config.hidden, config.layers, config.pooling, dropout=config.dropout)
        self.pooling, E = self.encoder.pooling, self.encoder.width
        self.embedding = nn.Embedding(size, m)
        self.initial = nn.Parameter(torch.zeros(n))
        self.query_weight = nn.Parameter(torch.empty(a, n))
        self.bias = nn.Parameter(torch.zeros(a))
        self.v = nn.Parameter(torch.empty(a))
        if config.normalise == "smoothed":
            self.shift = nn.Parameter(torch.zeros(1))  # r
        if config.attention != "location":
            self.key_weight = nn.Parameter(torch.empty(a, E))
        if config.attention != "content":
            self.filters = nn.Parameter(torch.empty(config.filters, 2 * config.reach + 1))
            self.location_weight = nn.Parameter(torch.empty(a, config.filters))
        self.cell = Recurrent("gru", m + E, n)
        self.readout = nn.Linear(n + E, 2 * config.maxout)  # U_o and C_o side by side
        self.output = nn.Linear(config.maxout, size)
        if config.ctc:
            self.labels = nn.Linear(E, size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.config.init == "paper":
            init_groundhog(self)
            nn.init.normal_(self.v, std=0.01)  # a vector here, a matrix of weights in the authors' program
            return
        for name in ("query_weight", "key_weight", "location_weight"):
            if hasattr(self, name):
                nn.init.xavier_uniform_(getattr(self, name))
        nn.init.uniform_(self.v, -(self.v.numel() ** -0.5), self.v.numel() ** -0.5)
        if self.config.attention != "content":
            nn.init.uniform_(self.filters, -1, 1)  # weights sum to 1, so features are no larger than the taps

    def focused(self, focus: Focus) -> ListenAttend:
        if focus.sharpen != 1.0 and self.config.normalise == "smoothed":
            raise SaccadeError(
                f"search.focus.sharpen: expected 1 with model.normalise smoothed, found {focus.sharpen:g}"
            )
        focused = copy.copy(self)
        focused.focus = focus
        return focused

    @property
    def score(self) -> Additive | LocationAware:
        """eᵢⱼ over this network's parameters, of keys V h + b."""
        if self.config.attention == "content":
            return Additive(self.v, self.query_weight)
        return LocationAware(self.v, self.query_weight, None, self.filters, self.location_weight)

    @property
    def normalise(self) -> Normaliser:
        usual = Smoothed(self.shift) if self.config.normalise == "smoothed" else sharpened(self.focus.sharpen)
        return usual if self.focus.top is None else top(self.focus.top, usual)

    def window(self, weights: Float[Tensor, "B L"], real: Bool[Tensor, "B L"]) -> Window:
        """The annotations that are seen after these weights."""
        radius = self.config.window if self.focus.window is None else self.focus.window
        if radius is None:
            return padding(real)
        return padding(real) & around(weights.unsqueeze(1), radius, self.config.centre)

    def encode(self, source: Float[Tensor, "B N D"], lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> Memory:
        frames = source.to(self.v.dtype)
        annotations, counts = self.encoder(frames, lengths)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "sound", annotations)
        if self.config.attention == "location":
            keys = self.bias.expand(*annotations.shape[:2], -1).contiguous()
        else:
            keys = functional.linear(annotations, self.key_weight, self.bias)
        return Memory(annotations, keys, mask_of(counts, annotations.shape[1]))

    def ctc_log_probs(self, memory: Memory) -> Float[Tensor, "B L V"]:
        if not self.ctc:
            return super().ctc_log_probs(memory)
        return certain_blanks(torch.log_softmax(self.labels(memory.annotations).float(), dim=-1), memory.real)

    def start(self, memory: Memory) -> State:
        B, L, E = memory.annotations.shape
        first = torch.zeros(B, L, dtype=memory.keys.dtype, device=memory.keys.device)
        first[:, :1] = 1
        return State(self.initial.expand(B, -1), memory.annotations.new_zeros(B, E), first)

    def step(
        self, token: Int[Tensor, " B"], state: State, memory: Memory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], State]:
        state = self._look(self._move(token, self.embedding(token), state), state.weights, memory, offset, lens)
        return self._read_out(state.hidden, state.context), state

    def teach(
        self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None, heard: Heard | None = None
    ) -> Float[Tensor, "B T V"]:
        if not target.shape[1]:
            return super().teach(memory, target, lens=lens)
        embedded, state, states = self.embedding(target), self.start(memory), list[State]()  # [B, T, m]
        steps = None if lens is not None else self._steps(memory, target.shape[1])
        for offset, token in enumerate(target.unbind(1)):
            hidden = self._move(token, embedded[:, offset], state)
            state = self._look(hidden, state.weights, memory, offset, lens, steps)
            states.append(state)
        if heard is not None:
            heard.weights += [state.weights for state in states]
        # Outputs do not feed back into the states: all steps are read out at once.
        contexts = torch.stack([state.context for state in states], dim=1)
        return self._read_out(torch.stack([state.hidden for state in states], dim=1), contexts)

    def forward(
        self,
        source: Float[Tensor, "B N D"],
        lengths: Int[Tensor, " B"],
        target: Int[Tensor, "B T"],
        *,
        sampling: float = 0.0,
        lens: Lens | None = None,
        heard: Heard | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the target's next tokens. ``heard`` is filled for :meth:`regulariser`."""
        memory = self.encode(source, lengths, lens=lens)
        if heard is not None:
            heard.annotations, heard.lengths = memory.annotations, memory.real.sum(1)
        if sampling:
            return self.sample(memory, target, sampling, lens=lens)
        return self.teach(memory, target, lens=lens, heard=heard)

    def _move(self, token: Int[Tensor, " B"], embedded: Float[Tensor, "B m"], state: State) -> Float[Tensor, "B n"]:
        """sᵢ₋₁ = GRU([E yᵢ₋₁; gᵢ₋₁], sᵢ₋₂); the learned s₀ where no token was written yet."""
        _, (moved,) = self.cell.step(torch.cat([embedded, state.context], dim=-1), (state.hidden.unsqueeze(1),))
        return torch.where((token == self.first_token).unsqueeze(1), state.hidden, moved.squeeze(1))

    def _look(
        self,
        hidden: Float[Tensor, "B n"],
        previous: Float[Tensor, "B L"],
        memory: Memory,
        offset: int,
        lens: Lens | None,
        steps: Steps | None = None,
    ) -> State:
        """αᵢ and gᵢ, from sᵢ₋₁ and αᵢ₋₁."""
        query, score = hidden.unsqueeze(1), self.score
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", query, offset=offset)
        if isinstance(score, LocationAware):
            if lens is not None and lens.wants("features"):
                features = convolved(previous, self.filters).mT.unsqueeze(2)  # [B, C, 1, L]
                lens.signal("decoder.features", "target", features, offset=offset)
            score = score.after(previous.unsqueeze(1))
        weights, context = (
            steps.look(query)
            if steps is not None
            else look(
                query, Prepared(memory.keys), memory.annotations, score=score, normalise=self.normalise,
                window=self.window(previous, memory.real), offset=offset, lens=lens,
                site=SITES[self.config.attention],
            )
        )  # fmt: skip
        return State(hidden, context.squeeze(1), weights.squeeze(1))

    def _steps(self, memory: Memory, count: int) -> Steps | None:
        """Attention for all steps together, where it does not depend on where it looked last."""
        window = padding(memory.real)
        if self.config.attention != "content" or (self.config.window or self.focus.window) is not None:
            return None
        return steps_over(
            Prepared(memory.keys), memory.annotations, score=self.score, normalise=self.normalise, window=window,
            steps=count,
        )  # fmt: skip

    def _read_out(
        self, hidden: Float[Tensor, "*rows n"], context: Float[Tensor, "*rows E"]
    ) -> Float[Tensor, "*rows V"]:
        known = maxout(self.readout(torch.cat([hidden, context], dim=-1)))
        logits: Tensor = self.output(functional.dropout(known, self.config.dropout, self.training))
        return logits

    # Training ---------------------------------------------------------------------------------------------------------

    def regulariser(
        self, heard: Heard, target: Int[Tensor, "B T"], lengths: Int[Tensor, " B"], real: Bool[Tensor, " B"]
    ) -> Float[Tensor, ""]:
        """λ · CTC + μ · penalty, summed over recordings."""
        config, extra = self.config, torch.zeros((), device=target.device)
        if config.ctc and heard.annotations is not None and heard.lengths is not None:
            log_probs = torch.log_softmax(self.labels(heard.annotations).float(), dim=-1)
            nll = ctc_loss(log_probs, heard.lengths, target, lengths - 1)  # without the end
            extra = extra + config.ctc * nll.masked_fill(~real, 0.0).sum()
        if config.monotonic and heard.weights:
            steps = mask_of(lengths, target.shape[1]) & real.unsqueeze(1)
            extra = extra + config.monotonic * monotonic_penalty(torch.stack(heard.weights, dim=1).float(), steps)
        return extra
