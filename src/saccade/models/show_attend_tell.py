"""Show, Attend and Tell: captions with visual attention, soft or hard (Xu et al. 2015).

    annotations a₁ … a_L                                    the cells of a small CNN, or given features
    start       c₀ = f_c(ā),  h₀ = f_h(ā),  ā = (1/L) Σᵢ aᵢ                tanh layers, perhaps behind a common ReLU layer
    attention   eₜᵢ = vᵀ tanh(f(aᵢ) + W_d hₜ₋₁),  αₜᵢ = softmaxᵢ eₜᵢ        f linear, or tanh(linear(linear))
    soft        ẑₜ = βₜ Σᵢ αₜᵢ aᵢ                           βₜ = σ(w_βᵀ hₜ₋₁ + b) a number: the selector
    hard        sₜ ~ Categorical(αₜ),  ẑₜ = βₜ a_{sₜ}       sₜ = argmaxᵢ αₜᵢ at prediction
    state       hₜ, cₜ = LSTM([E yₜ₋₁; ẑₜ], hₜ₋₁, cₜ₋₁)     E y₀ = 0
    output      p(yₜ) ∝ exp(L_o tanh(E yₜ₋₁ + L_h hₜ + L_z ẑₜ))

Training minimises, per caption,

    −log p(y | a) + λ Σᵢ (1 − Σₜ αₜᵢ)²                                               soft, and hard too
    −log p(y | s̃, a) − λ_r (R − b) log p(s̃ | a) − λ_e Σₜ H[αₜ]                        hard: R = log p(y | s̃, a), no gradient
    bₖ = 0.9 bₖ₋₁ + 0.1 R̄ₖ                                                           the mean of a batch's rewards

For a share of the pictures (half) the drawn cell is replaced by its mean Σᵢ αₜᵢ aᵢ, and the terms with s̃ and R are left out.

The tanh and the dropout of the output are those of the authors' program. Their penalty is the mean over cells and the sum over
the batch, ``penalty_scale: released``, B / L of the paper's.

Legend: B batch, T target, L cells, D width of an annotation, n state, m embedding, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.choice import hard
from saccade.attention.core import look, read, weigh
from saccade.attention.fast import Steps, steps_over
from saccade.attention.normalise import softmax
from saccade.attention.scores import Additive, Prepared, additive
from saccade.attention.windows import everywhere
from saccade.errors import SaccadeError
from saccade.nn.backbones import TunedBackbone
from saccade.nn.captioner import Captioner, Looks, PictureCnn, Seen
from saccade.nn.config import check
from saccade.nn.recurrent import Recurrent
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(
    query=("h[t-1]",),
    key="a[j]",
    output=("h[t]", "y[t-1]", "c[t]"),
    state=("h[t]", "h[t-1]", "y[t-1]", "c[t]"),
    recorded={"h": "decoder.state"},
)
SITE = Site("decoder.attention", query="target", key="image", flow=FLOW)
Scale = Literal["paper", "released", "mean"]
PAST = 0.9  # the share of the baseline that a batch leaves


@dataclass(frozen=True)
class Config:
    """The paper's COCO model has hidden=1800, embedding=512 and two layers of attention and of init."""

    channels: tuple[int, ...] = (32, 64, 128)  # of the CNN, halving the picture each; not used with data.features
    hidden: int = 512
    embedding: int = 256
    alignment: int | None = None  # width of f and W_d; that of the annotations unless given
    attention: Literal["soft", "hard", "mean"] = "soft"  # mean: every word gets ā, to compare with
    attention_layers: Literal[1, 2] = 2
    init_layers: Literal[1, 2] = 2
    selector: bool = True  # β; 1 without
    prev2out: bool = True  # E yₜ₋₁ in the output
    ctx2out: bool = True  # L_z ẑₜ in the output
    dropout: float = 0.5  # of hₜ before the output, and before L_o
    penalty: float = 1.0  # λ
    penalty_scale: Scale = "paper"
    reinforce: float = 0.1  # λ_r
    entropy: float = 0.002  # λ_e
    expected: float = 0.5  # the share of pictures that get the mean in place of a drawn cell
    reward: Literal["mean", "sum"] = (
        "mean"  # over the words of a caption; the paper's is the sum, its program's the mean
    )

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "alignment")
        if not 1 <= len(self.channels) <= 8 or min(self.channels) < 1 or max(self.channels) > 4096:
            raise ValueError(f"channels must be 1 to 8 numbers from 1 to 4,096: got {list(self.channels)}")
        for name in ("penalty", "reinforce", "entropy"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"{name} must not be negative: got {getattr(self, name)}")
        if not 0 <= self.expected <= 1:
            raise ValueError(f"expected must be from 0 to 1: got {self.expected}")


class Memory(NamedTuple):
    annotations: Float[Tensor, "B L D"]
    keys: Float[Tensor, "B L a"]  # f(a), once per picture
    hidden: Float[Tensor, "B n"]
    cell: Float[Tensor, "B n"]


class State(NamedTuple):
    hidden: Float[Tensor, "B n"]
    cell: Float[Tensor, "B n"]


class ShowAttendTell(Captioner):
    """p(yₜ | y₍<ₜ₎, picture): values from −1 to 1 [B, 3, S, S] or features [B, L, D], and target [B, T] → logits [B, T, V]."""

    config_class = Config
    sites: tuple[Site, ...] = (SITE,)

    def __init__(self, config: Config, size: int, seen: Seen, start: int) -> None:
        super().__init__()
        self.config = config
        if seen.features is None:
            cnn = PictureCnn(config.channels, seen.pixels)
            self.cnn: PictureCnn | TunedBackbone | None = cnn
            self.grid, D = cnn.grid, cnn.width
        else:
            self.cnn = seen.backbone  # None where it is frozen
            self.grid, D = seen.features[:2], seen.features[2]
        if config.attention == "mean":
            self.sites = ()
        n, m, width = config.hidden, config.embedding, config.alignment or D
        self.embedding = nn.Embedding(size, m, padding_idx=start)  # a zero vector before the first word
        self.start_layers = nn.ModuleList(nn.Linear(D, D) for _ in range(config.init_layers - 1))
        self.start_hidden, self.start_cell = nn.Linear(D, n), nn.Linear(D, n)
        if config.attention != "mean":
            self.key_layers = nn.ModuleList(
                nn.Linear(width if number else D, width) for number in range(config.attention_layers)
            )
            self.query_weight = nn.Parameter(torch.empty(width, n))
            self.v = nn.Parameter(torch.empty(width))
            nn.init.xavier_uniform_(self.query_weight)
            nn.init.uniform_(self.v, -(width**-0.5), width**-0.5)
        if config.selector:
            self.gate = nn.Linear(n, 1)
        self.cell = Recurrent("lstm", m + D, n)
        self.from_state = nn.Linear(n, m)
        if config.ctx2out:
            self.from_context = nn.Linear(D, m, bias=False)
        self.output = nn.Linear(m, size)
        with torch.no_grad():  # so that a fresh model finds all words about as likely
            self.embedding.weight.mul_(m**-0.5)

    @property
    def score(self) -> Additive:
        """vᵀ tanh(f(aᵢ) + W_d h), of keys that are f(a) already."""
        return additive(self.v, self.query_weight)

    def encode(
        self,
        source: Float[Tensor, "B 3 S S"] | Float[Tensor, "B L D"],
        lengths: Int[Tensor, " B"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Memory:
        annotations = source.to(self.output.weight.dtype) if self.cnn is None else self.cnn(source)
        mean = annotations.mean(1)
        for layer in self.start_layers:
            mean = torch.relu(layer(mean))
        hidden, cell = torch.tanh(self.start_hidden(mean)), torch.tanh(self.start_cell(mean))
        keys = annotations
        if self.config.attention != "mean":
            keys = self.key_layers[0](annotations)
            for layer in self.key_layers[1:]:
                keys = torch.tanh(layer(keys))
        return Memory(annotations, keys, hidden, cell)

    def start(self, memory: Memory) -> State:
        return State(memory.hidden, memory.cell)

    def step(
        self, token: Int[Tensor, " B"], state: State, memory: Memory, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], State]:
        embedded = self.embedding(token)
        context = self._context(state.hidden, memory, offset, lens, None)
        state = self._move(embedded, context, state, offset, lens)
        return self._read_out(embedded, state.hidden, context), state

    def teach(
        self, memory: Memory, target: Int[Tensor, "B T"], *, lens: Lens | None = None, looks: Looks | None = None
    ) -> Float[Tensor, "B T V"]:
        if not target.shape[1]:
            return super().teach(memory, target, lens=lens)
        embedded = self.embedding(target)  # [B, T, m]
        state, states, contexts = self.start(memory), [], []
        looks = self._looks(len(target), target.device) if looks is None else looks
        steps = None if lens is not None else self._steps(memory, target.shape[1])
        for offset, word in enumerate(embedded.unbind(1)):
            context = self._context(state.hidden, memory, offset, lens, looks, steps)
            state = self._move(word, context, state, offset, lens)
            states.append(state.hidden)
            contexts.append(context)
        return self._read_out(embedded, torch.stack(states, dim=1), torch.stack(contexts, dim=1))

    def forward(
        self,
        source: Float[Tensor, "B 3 S S"] | Float[Tensor, "B L D"],
        lengths: Int[Tensor, " B"] | None,
        target: Int[Tensor, "B T"],
        *,
        sampling: float = 0.0,
        lens: Lens | None = None,
        looks: Looks | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of the target's next words. ``looks`` is filled with what was looked at, for :meth:`regulariser`."""
        if sampling:
            raise SaccadeError(f"sampling: expected 0, captions are taught by their true words, found {sampling}")
        memory = self.encode(source, lengths, lens=lens)
        if looks is not None:
            looks.drawn = self._looks(len(target), target.device).drawn
        return self.teach(memory, target, lens=lens, looks=looks)

    # One step ---------------------------------------------------------------------------------------------------------

    def _steps(self, memory: Memory, count: int) -> Steps | None:
        """Attention for all steps together, where kernels support it."""
        if self.config.attention == "mean":
            return None
        keys = Prepared(memory.keys)
        return steps_over(keys, memory.annotations, score=self.score, normalise=softmax, window=everywhere, steps=count)

    def _looks(self, rows: int, device: torch.device) -> Looks:
        """In training of hard attention, a coin for every picture: whether its cells are drawn."""
        if self.config.attention != "hard" or not self.training:
            return Looks()
        return Looks(drawn=torch.rand(rows, device=device) >= self.config.expected)

    def _context(
        self,
        hidden: Float[Tensor, "B n"],
        memory: Memory,
        offset: int,
        lens: Lens | None,
        looks: Looks | None,
        steps: Steps | None = None,
    ) -> Float[Tensor, "B D"]:
        """ẑₜ."""
        config = self.config
        if config.attention == "mean":
            context = memory.annotations.mean(1)
        elif config.attention == "soft":
            weights, context = (
                steps.look(hidden.unsqueeze(1))
                if steps is not None
                else look(
                    hidden.unsqueeze(1), Prepared(memory.keys), memory.annotations,
                    score=self.score, offset=offset, lens=lens, site=SITE,
                )
            )  # fmt: skip
            context = context.squeeze(1)
            if looks is not None:
                looks.weights.append(weights.squeeze(1))
        else:
            context = self._hard(hidden, memory, offset, lens, looks, steps)
        if not config.selector:
            return context
        beta = torch.sigmoid(self.gate(hidden))  # [B, 1]
        if lens is not None:
            lens.signal("decoder.gate", "target", beta.unsqueeze(1), offset=offset)
        return beta * context

    def _hard(
        self,
        hidden: Float[Tensor, "B n"],
        memory: Memory,
        offset: int,
        lens: Lens | None,
        looks: Looks | None,
        steps: Steps | None,
    ) -> Float[Tensor, "B D"]:
        """The annotation of one cell: the likeliest, or in training a drawn one or, by the picture's coin, the mean."""
        query, keys, mean = hidden.unsqueeze(1), Prepared(memory.keys), None
        if steps is not None:
            weights, mean = steps.look(query)
        else:
            weights = weigh(query, keys, score=self.score, offset=offset, lens=lens, site=SITE)  # [B, 1, L]
        drawn = None if looks is None else looks.drawn
        choice = hard(weights, sample=drawn is not None)
        if lens is not None:
            lens.signal("decoder.chosen", "target", choice.index.unsqueeze(-1).to(weights.dtype), offset=offset)
        context = read(choice, memory.annotations).squeeze(1)
        if looks is None:
            return context
        looks.weights.append(weights.squeeze(1))
        if drawn is None:
            return context
        looks.log_probs.append(choice.log_prob.squeeze(1))
        mean = read(weights, memory.annotations) if mean is None else mean
        return torch.where(drawn.unsqueeze(1), context, mean.squeeze(1))

    def _move(
        self,
        embedded: Float[Tensor, "B m"],
        context: Float[Tensor, "B D"],
        state: State,
        offset: int,
        lens: Lens | None,
    ) -> State:
        inputs = torch.cat([embedded, context], dim=-1)
        _, (hidden, cell) = self.cell.step(inputs, (state.hidden.unsqueeze(1), state.cell.unsqueeze(1)))
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", "target", hidden, offset=offset)
        return State(hidden.squeeze(1), cell.squeeze(1))

    def _read_out(
        self, embedded: Float[Tensor, "*rows m"], hidden: Float[Tensor, "*rows n"], context: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows V"]:
        known = self.from_state(self._drop(hidden))
        if self.config.prev2out:
            known = known + embedded
        if self.config.ctx2out:
            known = known + self.from_context(context)
        logits: Tensor = self.output(self._drop(torch.tanh(known)))
        return logits

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)

    # Training ---------------------------------------------------------------------------------------------------------

    def state_of_training(self) -> dict[str, Tensor]:
        return {"baseline": torch.zeros(())} if self.config.attention == "hard" else {}

    def regulariser(
        self,
        looks: Looks,
        log_likelihood: Float[Tensor, "B T"],
        real: Bool[Tensor, "B T"],
        state: dict[str, Tensor],
    ) -> Float[Tensor, ""]:
        """λ · penalty and, of drawn cells, −λ_r (R − b) log p(s̃ | a) − λ_e Σₜ H[αₜ], summed over captions."""
        config, extra = self.config, log_likelihood.new_zeros(())
        if not looks.weights:
            return extra
        weights = torch.stack(looks.weights, dim=1).float()  # [B, T, L]
        if config.penalty:
            extra = extra + config.penalty * coverage_penalty(weights, real, config.penalty_scale)
        if looks.drawn is not None:
            entropy = torch.special.entr(weights).sum(-1).masked_fill(~real, 0.0).sum()
            log_prob = torch.stack(looks.log_probs, dim=1).float().masked_fill(~real, 0.0).sum(1)  # log p(s̃ | a)
            rewards = log_likelihood.masked_fill(~real, 0.0).sum(1)
            if config.reward == "mean":
                rewards = rewards / real.sum(1).clamp(min=1)
            drawn = looks.drawn & real.any(1)
            extra = extra + config.reinforce * reinforce_loss(log_prob, rewards, state["baseline"], drawn)
            extra = extra - config.entropy * entropy
            follow(state["baseline"], rewards, drawn)
        return extra


def coverage_penalty(
    weights: Float[Tensor, "B T L"], real: Bool[Tensor, "B T"], scale: Scale = "paper"
) -> Float[Tensor, ""]:
    """The doubly stochastic penalty Σᵢ (1 − Σₜ αₜᵢ)², summed over captions; steps that are not ``real`` add nothing.

    With T steps on L cells it is at least L (1 − T/L)². ``released`` is B / L of it, with B the captions of the batch, as the
    authors' program has it; ``mean`` the mean over cells, 1 / L of it.

    >>> all_seen = torch.ones(1, 2, dtype=torch.bool)
    >>> float(coverage_penalty(torch.tensor([[[0.75, 0.25], [0.25, 0.75]]]), all_seen))
    0.0
    >>> float(coverage_penalty(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), all_seen))
    2.0
    """
    attended = weights.masked_fill(~real.unsqueeze(-1), 0.0).sum(1)  # [B, L]
    captions = real.any(1)
    total = (1 - attended).square().sum(-1).masked_fill(~captions, 0.0).sum()
    if scale == "paper":
        return total
    return total * captions.sum() / weights.shape[-1] if scale == "released" else total / weights.shape[-1]


def reinforce_loss(
    log_prob: Float[Tensor, " B"], rewards: Float[Tensor, " B"], baseline: Float[Tensor, ""], drawn: Bool[Tensor, " B"]
) -> Float[Tensor, ""]:
    """−Σ (R − b) log p(s̃) over the drawn rows; its gradient is REINFORCE's, as R and b have none."""
    advantage = (rewards - baseline).detach()
    return -(advantage * log_prob).masked_fill(~drawn, 0.0).sum()


@torch.no_grad()
def follow(baseline: Float[Tensor, ""], rewards: Float[Tensor, " B"], drawn: Bool[Tensor, " B"]) -> None:
    """bₖ = 0.9 bₖ₋₁ + 0.1 R̄ₖ, in place, over the drawn rows; unchanged where there are none."""
    count = drawn.sum()
    mean = rewards.masked_fill(~drawn, 0.0).sum() / count.clamp(min=1)
    # clone: copy_ may not read what it writes
    baseline.copy_(torch.where(count > 0, PAST * baseline + (1 - PAST) * mean, baseline.clone()))
