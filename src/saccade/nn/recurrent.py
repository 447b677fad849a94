"""Recurrent layers over padded batches, without packing, so that they can be exported: padding is masked.
What outputs hold at padding is not defined.

- The final state of a row is that of its last real input, however long the batch is.
- The state of an empty row is the one it started with; all else that is read off it, such as a mean, is 0.
- The backward direction runs over each row reversed within its own length.
- ``cell="paper"`` is the gated unit as published (Cho et al. 2014): U(r ⊙ h); ``cell="gru"`` is PyTorch's, r ⊙ (U h).

Legend: B batch, T time, m input width, n hidden width, L layers.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, Literal, cast, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from saccade.attention.checks import (
    check_dropout,
    check_flag,
    check_lengths,
    check_one_of,
    check_rows,
    check_size,
    check_states,
)
from saccade.errors import SaccadeError

# The LSTM's weights get one more column at each call (see _lstm), so a GPU copies them, as this warning says.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")

Cell = Literal["rnn", "gru", "lstm", "paper"]
State = tuple[Tensor, ...]  # (hidden,) or (hidden, memory cell), each [B, L, n]


def mask_of(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B T"]:
    """True at real positions."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def reverse_within(x: Tensor, lengths: Int[Tensor, " B"]) -> Tensor:
    """Each row [T, …] reversed within its own length; padding stays where it is."""
    B, T = x.shape[:2]
    positions = torch.arange(T, device=x.device)
    mirrored = lengths.unsqueeze(-1) - 1 - positions
    index = torch.where(mirrored >= 0, mirrored, positions)  # [B, T]
    first = T * torch.arange(B, device=x.device).unsqueeze(1)
    # Whole rows are copied at once; a gather takes ten times as long on a CPU.
    reversed_rows: Tensor = x.flatten(0, 1).index_select(0, (first + index).flatten()).unflatten(0, (B, T))
    return reversed_rows


def at_end(states: Float[Tensor, "B T n"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B n"]:
    """The state at each row's true last position; 0 for an empty row."""
    if not states.shape[1]:
        return states.sum(1)
    last = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
    return _of_some(states.gather(1, last).squeeze(1), lengths)


def ends_of(both: Float[Tensor, "B T wide"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B wide"]:
    """The states with which both directions end, side by side: backwards at the first position; 0 for an empty row."""
    ahead, behind = both.chunk(2, dim=-1)
    first = behind[:, 0] if behind.shape[1] else behind.sum(1)
    return torch.cat([at_end(ahead, lengths), _of_some(first, lengths)], dim=-1)


def mean_of(states: Float[Tensor, "B T n"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B n"]:
    """The mean of each row's states, without padding; 0 for an empty row."""
    real = mask_of(lengths, states.shape[1]).unsqueeze(-1)  # [B, T, 1]
    return states.masked_fill(~real, 0.0).sum(1) / lengths.clamp(min=1).unsqueeze(-1)


def max_of(states: Float[Tensor, "B T n"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B n"]:
    """The element-wise maximum of each row's states, without padding; 0 for an empty row."""
    if not states.shape[1]:
        return states.sum(1)
    real = mask_of(lengths, states.shape[1]).unsqueeze(-1)  # [B, T, 1]
    return _of_some(states.masked_fill(~real, -torch.inf).amax(1), lengths)


def _of_some(found: Float[Tensor, "B n"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B n"]:
    return found.masked_fill((lengths == 0).unsqueeze(-1), 0.0)


def maxout(x: Float[Tensor, "... wide"]) -> Float[Tensor, "... half"]:
    """max over adjacent pairs: out[i] = max(x[2i], x[2i+1])."""
    pairs: Tensor = x.unflatten(-1, (-1, 2))
    return pairs.amax(dim=-1)


def init_groundhog(network: nn.Module) -> None:
    """Initialise as Cho et al. and Bahdanau et al.: recurrent matrices orthogonal, biases 0, the rest N(0, 0.01²)."""
    for name, parameter in network.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif "weight_hh" in name or "from_state" in name or "candidate" in name:
            for block in parameter.split(parameter.shape[1]):
                nn.init.orthogonal_(block)
        else:
            nn.init.normal_(parameter, std=0.01)


def init_uniform(parameters: Iterable[nn.Parameter], bound: float) -> None:
    """Initialise all uniformly in ±bound, embeddings and biases too: as Luong et al. with 0.1, Sutskever et al. with 0.08."""
    for parameter in parameters:
        nn.init.uniform_(parameter, -bound, bound)


def bound_for(hidden: int) -> float:
    """The bound of ``init: uniform``: √(5.12 / hidden), which is Luong's 0.1 at 512 units, and keeps the size of their sums."""
    return math.sqrt(5.12 / hidden)


class GatedUnit(nn.Module):
    """The gated unit as published, before it was called GRU.

        r = σ(W_r x + U_r h + b_r),  z = σ(W_z x + U_z h + b_z),  h̃ = tanh(W x + U (r ⊙ h) + b)
        h' = z ⊙ h + (1 − z) ⊙ h̃      ``update="keep"``  (Cho et al. 2014)
        h' = (1 − z) ⊙ h + z ⊙ h̃      ``update="write"`` (Bahdanau et al. 2015)

    Shapes: x [B, m], h [B, n] → [B, n].
    """

    def __init__(
        self, inputs: int, hidden: int, *, update: Literal["keep", "write"] = "keep", bias: bool = True
    ) -> None:
        super().__init__()
        check_size(inputs=inputs, hidden=hidden)
        check_one_of(("keep", "write"), update=update)
        check_flag(bias=bias)
        self.update = update
        self.from_input = nn.Linear(inputs, 3 * hidden, bias=bias)  # reset, update, candidate
        self.from_state = nn.Linear(hidden, 2 * hidden, bias=False)
        self.candidate = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Float[Tensor, "B m"], hidden: Float[Tensor, "B n"]) -> Float[Tensor, "B n"]:
        check_states(self.from_input.in_features, x=x)
        if not isinstance(hidden, Tensor) or hidden.shape != (*x.shape[:-1], self.candidate.in_features):
            found = list(hidden.shape) if isinstance(hidden, Tensor) else type(hidden).__name__
            raise SaccadeError(f"hidden: expected {[*x.shape[:-1], self.candidate.in_features]}, found {found}")
        reset_x, update_x, candidate_x = self.from_input(x).chunk(3, dim=-1)
        reset_h, update_h = self.from_state(hidden).chunk(2, dim=-1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        candidate = torch.tanh(candidate_x + self.candidate(reset * hidden))
        keep = update if self.update == "keep" else 1 - update
        return keep * hidden + (1 - keep) * candidate


def _only_predicts() -> bool:
    """Whether there are no gradients: a packed batch, whose padding is not computed, is then faster on a CPU."""
    return not (torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.compiler.is_exporting())


class _Layer(nn.Module):
    """One layer in one direction: a whole sequence by PyTorch's fast kernels, or one step."""

    def __init__(self, cell: Cell, inputs: int, hidden: int, bias: bool, update: Literal["keep", "write"]) -> None:
        super().__init__()
        self.cell, self.hidden = cell, hidden
        if cell == "paper":
            self.unit = GatedUnit(inputs, hidden, bias=bias, update=update)
        else:
            kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
            self.unit = kind(inputs, hidden, batch_first=True, bias=bias)

    def forward(self, x: Tensor, lengths: Tensor | None, initial: State | None) -> tuple[Tensor, State]:
        """x [B, T, m], initial states [B, n] → outputs [B, T, n], the states [B, n] after each row's last input."""
        if not x.shape[1]:
            empty = x.new_zeros(x.shape[0], self.hidden)
            return empty.unsqueeze(1)[:, :0], initial or ((empty, empty) if self.cell == "lstm" else (empty,))
        if self.cell == "paper":
            outputs = self._loop(x, initial)
        elif self.cell == "lstm":
            outputs, memory = self._lstm(x, lengths, initial)
        else:
            start = None if initial is None else initial[0].unsqueeze(0).contiguous()
            if lengths is not None and len(x) > 1 and x.device.type == "cpu" and _only_predicts():
                packed = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
                outputs, _ = pad_packed_sequence(self.unit(packed, start)[0], batch_first=True, total_length=x.shape[1])
            else:
                outputs, _ = self.unit(x, start)
        hidden = outputs[:, -1] if lengths is None else at_end(outputs, lengths)
        if lengths is not None and initial is not None:
            hidden = torch.where((lengths > 0).unsqueeze(-1), hidden, initial[0])
        return outputs, (hidden, memory) if self.cell == "lstm" else (hidden,)

    def _loop(self, x: Tensor, initial: State | None) -> Tensor:
        hidden = x.new_zeros(x.shape[0], self.hidden) if initial is None else initial[0]
        outputs = []
        for step in range(x.shape[1]):
            hidden = self.unit(x[:, step], hidden)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)

    def _lstm(self, x: Tensor, lengths: Tensor | None, initial: State | None) -> tuple[Tensor, Tensor]:
        B, T, _ = x.shape
        weights: dict[str, Tensor] = dict(self.unit.named_parameters())
        input_weight = weights.pop("weight_ih_l0")
        if lengths is not None:
            # The fast kernel returns the memory cell of the last step only. One more input, 1 on padding, closes the input
            # gate and opens the forget gate for good (σ(±1e4) is exactly 0 or 1): what leaves at the end is the cell
            # of the true last input, bit for bit.
            # They are created on the device: copying from the host would prevent capturing a CUDA graph.
            gates = [(1, -1e4), (1, 1e4), (2, 0.0)]  # input; forget; candidate and output
            column = torch.cat([input_weight.new_full((count * self.hidden, 1), value) for count, value in gates])
            x = torch.cat([x, (~mask_of(lengths, T)).to(x.dtype).unsqueeze(-1)], dim=-1)
            input_weight = torch.cat([input_weight, column], dim=-1)
        if initial is None:
            initial = (x.new_zeros(B, self.hidden), x.new_zeros(B, self.hidden))
        start = [state.unsqueeze(0).contiguous() for state in initial]
        flat = [input_weight, *weights.values()]
        options = (bool(self.unit.bias), 1, 0.0, self.training, False, True)
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # Many CPUs have no LSTM in half precision, and PyTorch raises: under autocast it runs in float32.
            with torch.autocast("cpu", enabled=False):
                start, flat = [part.float() for part in start], [part.float() for part in flat]
                outputs, _, memory = torch.lstm(x.float(), start, flat, *options)
        else:
            outputs, _, memory = torch.lstm(x, start, flat, *options)
        return outputs, memory[0]

    def step(self, x: Tensor, state: State) -> State:
        """x [B, m], states [B, n] → states [B, n]."""
        if self.cell == "paper":
            return (self.unit(x, state[0]),)
        weights = cast(nn.RNNBase, self.unit).all_weights[0]
        if self.cell == "lstm":
            return torch.lstm_cell(x, list(state), *weights)
        step = torch.gru_cell if self.cell == "gru" else torch.rnn_tanh_cell
        return (step(x, state[0], *weights),)


class Recurrent(nn.Module):
    """A stack of recurrent layers, over whole sequences or step by step with the same parameters.

    Args:
        cell: ``rnn`` (tanh), ``gru``, ``lstm``, or ``paper`` (:class:`GatedUnit`).
        inputs, hidden, layers: widths and depth. ``bidirectional`` doubles the width of the outputs.
        dropout: between layers, in training.
        update: the polarity of the paper's update gate.
    """

    def __init__(
        self,
        cell: Cell,
        inputs: int,
        hidden: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        update: Literal["keep", "write"] = "keep",
    ) -> None:
        super().__init__()
        check_one_of(get_args(Cell), cell=cell)
        check_size(inputs=inputs, hidden=hidden, layers=layers)
        check_dropout(dropout)
        check_flag(bidirectional=bidirectional, bias=bias)
        check_one_of(("keep", "write"), update=update)
        self.cell, self.hidden, self.dropout, self.bidirectional = cell, hidden, dropout, bidirectional
        self.inputs = inputs
        ways = 2 if bidirectional else 1
        widths = [inputs] + [ways * hidden] * (layers - 1)
        self.forwards = nn.ModuleList(_Layer(cell, width, hidden, bias, update) for width in widths)
        self.backwards = nn.ModuleList(_Layer(cell, width, hidden, bias, update) for width in widths if bidirectional)

    def forward(
        self, x: Float[Tensor, "B T m"], lengths: Int[Tensor, " B"] | None = None, initial: State | None = None
    ) -> tuple[Float[Tensor, "B T n"], State]:
        """Outputs of the top layer [B, T, n] (both ways: [B, T, 2n], forward first) and the state each row ends with.

        The state is (hidden,) or (hidden, memory), each [B, L, n]; both ways, the layers' backward states (at each row's
        *first* input) follow the forward ones: [B, 2L, n].
        """
        # PyTorch's LSTM reads beyond its weights on a CPU where the width is another one.
        check_rows(self.inputs, x=x)
        if lengths is not None:
            check_lengths(lengths, *x.shape[:2])
        if initial is not None:
            self._check_state(initial, x)
        finals: list[State] = []
        behind: list[State] = []
        for number, layer in enumerate(self.forwards):
            if number:
                x = functional.dropout(x, self.dropout, self.training)
            start = None if initial is None else tuple(state[:, number] for state in initial)
            outputs, final = layer(x, lengths, start)
            finals.append(final)
            if self.bidirectional:
                outputs, final = self._both_ways(number, x, outputs, lengths)
                behind.append(final)
            x = outputs
        return x, _stack([*finals, *behind])

    def _both_ways(self, number: int, x: Tensor, ahead: Tensor, lengths: Tensor | None) -> tuple[Tensor, State]:
        whole = torch.full((x.shape[0],), x.shape[1], device=x.device) if lengths is None else lengths
        mirrored, final = self.backwards[number](reverse_within(x, whole), lengths, None)
        return torch.cat([ahead, reverse_within(mirrored, whole)], dim=-1), final

    def step(self, x: Float[Tensor, "B m"], state: State) -> tuple[Float[Tensor, "B n"], State]:
        """One input: the top layer's new output [B, n] and the new state."""
        check_states(self.inputs, x=x)
        if x.dim() != 2:
            raise SaccadeError(f"x: expected one input per row [batch, {self.inputs}], found {list(x.shape)}")
        self._check_state(state, x)
        finals: list[State] = []
        for number, (layer, own) in enumerate(zip(self.forwards, _unstack(state), strict=True)):
            if number:
                x = functional.dropout(x, self.dropout, self.training)
            final = cast(_Layer, layer).step(x, own)
            finals.append(final)
            x = final[0]
        return x, _stack(finals)

    def _check_state(self, state: Any, x: Tensor) -> None:
        parts, shape = 2 if self.cell == "lstm" else 1, (x.shape[0], len(self.forwards), self.hidden)
        tensors = isinstance(state, tuple) and all(isinstance(part, Tensor) for part in state)
        if not tensors or len(state) != parts:
            raise SaccadeError(
                f"state: expected a tuple of {parts} tensors {list(shape)}, found {type(state).__name__}"
            )
        for part in state:
            if part.shape != shape:
                raise SaccadeError(f"state: expected tensors {list(shape)}, found {list(part.shape)}")

    def zero_state(self, batch: int, like: Tensor) -> State:
        parts = 2 if self.cell == "lstm" else 1
        return tuple(like.new_zeros(batch, len(self.forwards), self.hidden) for _ in range(parts))


def _stack(states: list[State]) -> State:
    """States [B, n] of each layer → one state [B, L, n]; a single layer is not copied."""
    if len(states) == 1:
        return tuple(part.unsqueeze(1) for part in states[0])
    return tuple(torch.stack(parts, dim=1) for parts in zip(*states, strict=True))


def _unstack(state: State) -> list[State]:
    """One state [B, L, n] → the states [B, n] of each layer; the gradient of a single layer is not copied."""
    if state[0].shape[1] == 1:
        return [tuple(part.squeeze(1) for part in state)]
    return list(zip(*(part.unbind(1) for part in state), strict=True))
