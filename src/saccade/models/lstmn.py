"""The long short-term memory-network: an LSTM that attends to all of its past states (Cheng, Dong & Lapata 2016).

    score     aᵗᵢ = vᵀ tanh(W_h hᵢ + W_x xₜ + W_h̃ h̃ₜ₋₁)      over the tape of earlier states, i < t
    look      sᵗ = softmaxᵢ(aᵗ),   [h̃ₜ; c̃ₜ] = Σᵢ sᵗᵢ [hᵢ; cᵢ]  one set of weights for both tapes
    gates     i, f, o = σ(W [h̃ₜ; xₜ]),   ĉ = tanh(W [h̃ₜ; xₜ])
    state     cₜ = f ⊙ c̃ₜ + i ⊙ ĉ,   hₜ = o ⊙ tanh(cₜ)          written behind the others

It is an LSTM cell whose previous state is the result of the attention. The tape is empty at first, and a sum over nothing is 0,
so the first step is that of an LSTM from zeros (the authors' code starts with a slot of zeros, which stays visible). The
authors' encoder has no W_h̃ term: ``query: code``.

The tape (:class:`Tape`) keeps past states in one tensor, which is written once per position and read again at every step:

    write(t): tape[t] ← eₜ        read(t): tape[0 … t−1]        ∂L/∂eₜ = Σ over the reads after t of their gradient at t

Stacking the states again at every step would copy them. For autograd, writes and reads are linked by a mark, a tensor that
stands for the positions written so far and takes no memory; autograd sums the gradients of the reads in that of the mark,
and a write hands on what belongs to earlier positions.

Legend: B batch, T tokens, L positions of a tape, K entries written at once, N positions read, m embedding, n hidden, V
vocabulary, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import look, read, weigh
from saccade.attention.scores import Prepared, additive
from saccade.attention.windows import padding
from saccade.nn.cache import ROOM, SAME
from saccade.nn.classifier import Classifier
from saccade.nn.config import check
from saccade.nn.language import LanguageModel
from saccade.nn.recurrent import at_end, mean_of
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

Query = Literal["paper", "code"]


@dataclass(frozen=True)
class Config:
    """Of the language model. In the paper embedding=150, with 1 or 3 layers."""

    hidden: int = 256
    embedding: int = 128
    layers: int = 1
    query: Query = "paper"  # what looks: the word and the last summary; code: the word alone
    output: Literal["own", "tied"] = "own"  # tied: the output layer's matrix is the embedding
    dropout: float = 0.0  # of embeddings, between layers and before the output; never on a tape

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "layers")


@dataclass(frozen=True)
class ClassifierConfig:
    """Of the classifier."""

    hidden: int = 128
    embedding: int = 128
    layers: int = 1
    query: Query = "paper"
    judge: int | None = None  # width of the ReLU layer before the labels; hidden unless given
    dropout: float = 0.0  # of embeddings, between layers, before the ReLU layer and after it

    def __post_init__(self) -> None:
        check(self, "hidden", "embedding", "layers", "judge")


class State(NamedTuple):
    """The number of tokens each row has read; per layer its tapes, W_h h [B, L, n] and [h; c] [B, L, 2n], and its last
    summary h̃ [B, n]. Positions beyond ``read`` are never attended to.

    ``used_before`` is None where a read copies the tapes to longer ones. Otherwise a read writes into their spare room,
    and at step t of a search at most ``used_before`` + t positions are used.
    """

    read: Int[Tensor, " B"]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    summaries: tuple[Tensor, ...]
    used_before: int | None = None

    @property
    def places(self) -> int:
        return self.keys[0].shape[1]


class Layer(nn.Module):
    """One LSTMN: inputs [B, T, m] → states [B, T, n], by attention over its earlier states."""

    def __init__(self, inputs: int, hidden: int, query: Query) -> None:
        super().__init__()
        self.hidden = hidden
        self.key = nn.Linear(hidden, hidden, bias=False)  # W_h
        self.query = nn.Linear(inputs, hidden, bias=False)  # W_x
        self.summary = nn.Linear(hidden, hidden, bias=False) if query == "paper" else None  # W_h̃
        self.v = nn.Parameter(torch.empty(hidden))
        self.cell = nn.LSTMCell(inputs, hidden)  # W
        for layer in (self.key, self.query, self.summary):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
        nn.init.uniform_(self.v, -(hidden**-0.5), hidden**-0.5)

    def forward(
        self, x: Float[Tensor, "B T m"], state: State, number: int, *, offset: int, lens: Lens | None, site: Site
    ) -> tuple[Float[Tensor, "B T n"], Float[Tensor, "B T n"], tuple[Tensor, ...]]:
        """States after each input, their summaries h̃, and the tapes. ``number`` is the layer's index in the state."""
        queries, inputs = self.query(x).unbind(1), x.unbind(1)
        tape = self._tape(state, number, queries[0], len(inputs))
        summary, states, summaries = state.summaries[number], [], []
        for step, given in enumerate(inputs):
            query = queries[step] if self.summary is None else queries[step] + self.summary(summary)
            summary, memory = self._look(tape, query, state, step, offset=offset, lens=lens, site=site)
            hidden, memory = self.cell(given, (summary, memory))
            place = step if state.used_before is None and not state.places else state.read + step
            entry = torch.cat([hidden, memory], dim=-1)
            tape.write(self.key(hidden).unsqueeze(1), entry.unsqueeze(1), place=place)
            states.append(hidden)
            summaries.append(summary)
        places = state.places + (len(inputs) if state.used_before is None else 0)
        return torch.stack(states, dim=1), torch.stack(summaries, dim=1), tape.read(places)

    def _tape(self, state: State, number: int, like: Float[Tensor, "B n"], steps: int) -> Tape:
        before = state.keys[number], state.values[number]
        if state.used_before is not None:
            return Tape(*before)
        tape = Tape.empty(len(like), state.places + steps, (self.hidden, 2 * self.hidden), like)
        if state.places:
            tape.write(*before, place=0)
        return tape

    def _look(
        self,
        tape: Tape,
        query: Float[Tensor, "B n"],
        state: State,
        step: int,
        *,
        offset: int,
        lens: Lens | None,
        site: Site,
    ) -> tuple[Float[Tensor, "B n"], Float[Tensor, "B n"]]:
        """[h̃ₜ; c̃ₜ] over the entries before each row's own position."""
        queries, score = query.unsqueeze(1), additive(self.v)
        if lens is None and state.used_before is None and not state.places:
            # All rows are at the same position, so no window is needed. The fused kernel is not used here: its program
            # would be recompiled as the tape grows.
            if not step:
                return torch.zeros_like(query), torch.zeros_like(query)
            keys, values = tape.read(step)
            found = read(weigh(queries, Prepared(keys), score=score), values)
        else:
            keys, values = tape.read(state.places + (step + 1 if state.used_before is None else 0))
            where: dict[str, Any] = {"window": padding(state.read + step), "offset": offset + step}
            _, found = look(queries, Prepared(keys), values, score=score, **where, lens=lens, site=site)
        summary, memory = found.squeeze(1).to(query.dtype).chunk(2, dim=-1)
        return summary, memory


class Stack(nn.Module):
    """A stack of LSTMNs: the states of one are the inputs of the next.

    Args:
        sites: where each layer attends, one per layer.
    """

    def __init__(self, inputs: int, hidden: int, query: Query, dropout: float, sites: tuple[Site, ...]) -> None:
        super().__init__()
        self.hidden, self.dropout, self.sites = hidden, dropout, sites
        self.layers = nn.ModuleList(Layer(hidden if number else inputs, hidden, query) for number in range(len(sites)))

    def blank(self, batch: int, like: Tensor) -> State:
        """The state before the first input, on the device and in the dtype of ``like``."""
        nothing = tuple(like.new_zeros(batch, 0, width) for width in (self.hidden, 2 * self.hidden))
        read = torch.zeros(batch, dtype=torch.int64, device=like.device)
        layers = len(self.layers)
        return State(read, nothing[:1] * layers, nothing[1:] * layers, (like.new_zeros(batch, self.hidden),) * layers)

    def forward(
        self,
        x: Float[Tensor, "B T m"],
        lengths: Int[Tensor, " B"] | None,
        state: State,
        *,
        offset: int = 0,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B T n"], State]:
        """The top layer's states, and the state after each row's last real input.

        Padding follows a row's last input, and entries are visible to later ones only, so real inputs never see padding, and
        the next read overwrites it.
        """
        if not x.shape[1]:
            return x.new_zeros(len(x), 0, self.hidden), state
        keys, values, last = [], [], []
        for number, layer in enumerate(self.layers):
            if number:
                x = functional.dropout(x, self.dropout, self.training)
            x, summaries, tapes = cast(Layer, layer)(
                x, state, number, offset=offset, lens=lens, site=self.sites[number]
            )
            keys.append(tapes[0])
            values.append(tapes[1])
            last.append(_last(summaries, lengths, state.summaries[number]))
        read = state.read + (x.shape[1] if lengths is None else lengths)
        return x, State(read, tuple(keys), tuple(values), tuple(last), state.used_before)


def _last(
    summaries: Float[Tensor, "B T n"], lengths: Int[Tensor, " B"] | None, before: Float[Tensor, "B n"]
) -> Float[Tensor, "B n"]:
    """The summary at each row's last real input; for an empty row the previous one."""
    if lengths is None:
        return summaries[:, -1]
    return torch.where(lengths.unsqueeze(-1) > 0, at_end(summaries, lengths.clamp(min=1)), before)


BELOW = "the new state of this position, which the next layer reads"
MEAN = "the new state of this position; the label is decided from the mean of all states"


def _flow(config: Config | ClassifierConfig, layer: int, read: str, *, writes: bool) -> Flow:
    """A step of a layer: the word (or the state z below) and the last summary ask, and what they find makes the new state."""
    given, top = "z[t]" if layer else read, layer == config.layers - 1
    asks = (given, "h̃[t-1]") if config.query == "paper" else (given,)
    terms = [f"W_{{{part.partition('[')[0]}}} {part}" for part in ("h[j]", *asks)]
    return Flow(
        query=asks,
        score=f"v^{{⊤}} tanh({' + '.join(terms)})",
        output=("h[t]",) if top and writes else (),
        state=("h[t]", "c[t]", given),
        into=BELOW if not top else "" if writes else MEAN,
        recorded={"h": "decoder.state" if writes else "encoder.state"} if top else {},
        word="x",
    )


class LstmnLM(LanguageModel):
    """p(xₜ₊₁ | x₍≤ₜ₎): tokens [B, T] → logits [B, T, V]."""

    config_class = Config
    sites: tuple[Site, ...] = ()  # of a network: decoder.{l}.self

    def __init__(self, config: Config, size: int) -> None:
        super().__init__()
        n, m, tied = config.hidden, config.embedding, config.output == "tied"
        self.config = config
        self.sites = tuple(
            Site(f"decoder.{layer}.self", "output", "input", flow=_flow(config, layer, "x[t-1]", writes=True))
            for layer in range(config.layers)
        )
        self.embedding = nn.Embedding(size, m)
        self.cells = Stack(m, n, config.query, config.dropout, self.sites)
        self.project = nn.Linear(n, m, bias=False) if tied and n != m else nn.Identity()
        self.output = nn.Linear(m if tied else n, size)
        nn.init.normal_(self.embedding.weight, std=m**-0.5)  # tied, logits begin near 0
        nn.init.zeros_(self.output.bias)
        if tied:
            self.output.weight = self.embedding.weight

    def blank(self, batch: int) -> State:
        return self.cells.blank(batch, self.embedding.weight)

    def make_room(self, state: State, step: int) -> State:
        taken = state.places
        # Rounded up, so that prompts of many lengths share few captured graphs.
        used_before = -(-(taken - step) // SAME) * SAME if state.used_before is None else state.used_before
        if state.used_before is not None and used_before + step < taken:
            return state
        size = ROOM
        while size <= used_before + step:
            size *= 2
        keys, values = (
            tuple(functional.pad(part, (0, 0, 0, size - taken)) for part in parts)
            for parts in (state.keys, state.values)
        )
        return state._replace(keys=keys, values=values, used_before=used_before)

    def read(
        self,
        tokens: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"] | None = None,
        state: State | None = None,
        *,
        offset: int = 0,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B T n"], State]:
        before = self.blank(len(tokens)) if state is None else state
        states, after = self.cells(self._drop(self.embedding(tokens)), lengths, before, offset=offset, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("decoder.state", self.writes_on, states, offset=offset)
        return states, after

    def write(self, hidden: Float[Tensor, "... n"]) -> Float[Tensor, "... V"]:
        logits: Tensor = self.output(self.project(self._drop(hidden)))
        return logits

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class Lstmn(Classifier):
    """p(label | text): tokens [B, T] → logits [B, C], W₂ max(0, W₁ h̄ + b₁) + b₂ of the mean h̄ of the top tape.

    A pair of texts is one row; a learned vector is added to the embeddings of the second text.
    """

    config_class = ClassifierConfig

    def __init__(self, config: ClassifierConfig, vocabulary: int, classes: int) -> None:
        super().__init__()
        n, judge = config.hidden, config.judge or config.hidden
        self.config = config
        self.sites = tuple(
            Site(f"encoder.{layer}.self", "text", "text", flow=_flow(config, layer, "x[t]", writes=False))
            for layer in range(config.layers)
        )
        self.embedding = nn.Embedding(vocabulary, config.embedding)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.second = nn.Parameter(torch.zeros(config.embedding))  # added to the embeddings of the second text
        self.cells = Stack(config.embedding, n, config.query, config.dropout, self.sites)
        self.judge = nn.Linear(n, judge)
        self.output = nn.Linear(judge, classes)

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B T"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        embedded = self.embedding(tokens)  # [B, T, m]
        if segments is not None:
            embedded = embedded + segments.unsqueeze(-1) * self.second
        before = self.cells.blank(len(tokens), self.embedding.weight)
        states, _ = self.cells(self._drop(embedded), lengths, before, lens=lens)
        if lens is not None and lens.wants("state"):
            lens.signal("encoder.state", "text", states)
        mean = mean_of(states, lengths)
        logits: Tensor = self.output(self._drop(functional.relu(self.judge(self._drop(mean)))))
        return logits

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


class Tape:
    """Positions for entries of several parts, initially 0.

    Args:
        contents: a tensor [B, L, w] per part, which the tape writes to. It must not require gradients.
    """

    def __init__(self, *contents: Float[Tensor, "B L _"]) -> None:
        self._contents = contents
        self._marks = tuple(_mark(content, 0) for content in contents)

    @classmethod
    def empty(cls, batch: int, places: int, widths: Sequence[int], like: Tensor) -> Tape:
        """A tape of ``places`` positions, on the device and in the dtype of ``like``."""
        return cls(*(like.new_zeros(batch, places, width) for width in widths))

    def write(self, *entries: Float[Tensor, "B K _"], place: int | Int[Tensor, " B"]) -> None:
        """Write entries of each part behind the last ones, at position ``place``, or, if it is a tensor, one entry per row at
        its own position (K = 1)."""
        if not torch.is_grad_enabled():
            for content, entry in zip(self._contents, entries, strict=True):
                _put(content, place, entry)
            return
        parts = zip(self._marks, self._contents, entries, strict=True)
        self._marks = tuple(_Write.apply(mark, content, place, entry) for mark, content, entry in parts)

    def read(self, count: int) -> tuple[Float[Tensor, "B N _"], ...]:
        """The first ``count`` positions of each part."""
        if not torch.is_grad_enabled():
            return tuple(_first(content, count) for content in self._contents)
        parts = zip(self._marks, self._contents, strict=True)
        return tuple(_Read.apply(mark, content, count) for mark, content in parts)


def _mark(content: Tensor, places: int) -> Float[Tensor, "B N _"]:
    """Stands for the first ``places`` positions, without storing them. Its gradient is at least float32: many small terms are
    summed."""
    number = content.new_empty((), dtype=torch.promote_types(content.dtype, torch.float32))
    return number.expand(len(content), places, content.shape[2])


def _put(content: Tensor, place: int | Tensor, entry: Tensor) -> None:
    entry = entry.detach().to(content.dtype)
    if isinstance(place, int):
        content[:, place : place + entry.shape[1]] = entry
    else:
        content.scatter_(1, place[:, None, None].expand_as(entry), entry)


def _first(content: Tensor, count: int) -> Tensor:
    # .data has its own version counter: later writes do not touch these positions, but autograd, which counts changes per
    # tensor, would refuse to backpropagate through the read.
    return content.data[:, :count]


class _Write(torch.autograd.Function):
    """The mark before and the entries → the mark after, whose gradient is that of all positions written so far.

    The backward pass is made of differentiable operations and keeps nothing, so gradients can be taken again and
    differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, mark: Tensor, content: Tensor, place: int | Tensor, entry: Tensor) -> Tensor:
        _put(content, place, entry)
        ctx.set_materialize_grads(False)
        ctx.place, ctx.before, ctx.shape, ctx.dtype = place, mark.shape[1], entry.shape, entry.dtype
        return _mark(content, place + entry.shape[1] if isinstance(place, int) else content.shape[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (gradient,), place = grads, ctx.place
        if gradient is None:
            return None, None, None, None
        if isinstance(place, int):  # views: nothing is copied
            return gradient[:, : ctx.before], None, None, gradient[:, place:].to(ctx.dtype)
        index = place[:, None, None].expand(ctx.shape)
        earlier = gradient.scatter(1, index, 0.0)  # what stood there before has been overwritten
        return earlier[:, : ctx.before], None, None, gradient.gather(1, index).to(ctx.dtype)


class _Read(torch.autograd.Function):
    """The mark → the first positions, whose gradient is passed on to the mark."""

    @staticmethod
    def forward(ctx: Any, mark: Tensor, content: Tensor, count: int) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.written, ctx.count, ctx.dtype = mark.shape[1], count, mark.dtype
        return _first(content, count)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (gradient,) = grads
        if gradient is None:
            return None, None, None
        unread = ctx.written - ctx.count
        gradient = gradient.to(ctx.dtype)
        if unread > 0:
            return functional.pad(gradient, (0, 0, 0, unread)), None, None
        return gradient[:, : ctx.written], None, None  # positions that nobody has written are constants
