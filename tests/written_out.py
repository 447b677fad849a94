"""The equations of the papers over one row, one step at a time, without padding: what tests compare networks with.

Parameters come by name, as a network's ``state_dict`` has them. Legend: T steps, n width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from saccade.trace import Lens

Weights = Mapping[str, Tensor]
Cell = Callable[[Weights, Tensor, Any], Any]


def drawn(network: Any, scale: float = 0.6) -> Any:
    """The network in float64, all its parameters drawn again, so that no bias is 0 and no factor is 1."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(std=scale)
    return network.double().eval()


def steady_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    """In training, dropout multiplies by the share that it keeps, 1 − p, so that equations can say where it acts."""
    monkeypatch.setattr(
        functional, "dropout", lambda x, p=0.5, training=True, inplace=False: x * (1 - p) if training else x
    )


def below(weights: Weights, *names: str) -> dict[str, Tensor]:
    """The parameters of a part: ``below(weights, "encoder", "forwards.0")``."""
    prefix = ".".join(names) + "."
    found = {name.removeprefix(prefix): part for name, part in weights.items() if name.startswith(prefix)}
    assert found, prefix
    return found


def linear(weights: Weights, x: Tensor) -> Tensor:
    return weights["weight"] @ x + weights["bias"]


# Recurrent units ----------------------------------------------------------------------------------------------------


def lstm(weights: Weights, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """PyTorch's order of the gates: input, forget, candidate, output; two biases."""
    hidden, memory = state
    gates = weights["weight_ih"] @ x + weights["bias_ih"] + weights["weight_hh"] @ hidden + weights["bias_hh"]
    i, f, candidate, o = gates.view(4, -1)
    memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(candidate)
    return torch.sigmoid(o) * torch.tanh(memory), memory


def gru(weights: Weights, x: Tensor, state: tuple[Tensor]) -> tuple[Tensor]:
    """PyTorch's: reset after the matrix, z keeps."""
    (hidden,) = state
    r_x, z_x, n_x = (weights["weight_ih"] @ x + weights["bias_ih"]).view(3, -1)
    r_h, z_h, n_h = (weights["weight_hh"] @ hidden + weights["bias_hh"]).view(3, -1)
    r, z = torch.sigmoid(r_x + r_h), torch.sigmoid(z_x + z_h)
    return ((1 - z) * torch.tanh(n_x + r * n_h) + z * hidden,)


def gated(update: str) -> Cell:
    """The unit as published: U (r ⊙ h); z keeps (2014) or writes (2015)."""

    def unit(weights: Weights, x: Tensor, state: tuple[Tensor]) -> tuple[Tensor]:
        (hidden,), n = state, len(state[0])
        W, b = weights["from_input.weight"], weights["from_input.bias"]
        r = torch.sigmoid(W[:n] @ x + b[:n] + weights["from_state.weight"][:n] @ hidden)
        z = torch.sigmoid(W[n : 2 * n] @ x + b[n : 2 * n] + weights["from_state.weight"][n:] @ hidden)
        candidate = torch.tanh(W[2 * n :] @ x + b[2 * n :] + weights["candidate.weight"] @ (r * hidden))
        return (z * hidden + (1 - z) * candidate if update == "keep" else (1 - z) * hidden + z * candidate,)

    return unit


def unit_of(weights: Weights, layer: int = 0, way: str = "forwards") -> dict[str, Tensor]:
    """The parameters of one layer of a ``Recurrent``, without PyTorch's ending ``_l0``."""
    return {name.removesuffix("_l0"): part for name, part in below(weights, f"{way}.{layer}.unit").items()}


def width_of(cell: Cell, weights: Weights) -> int:
    name = "weight_hh" if "weight_hh" in weights else "candidate.weight"
    return weights[name].shape[1]


def zeros(cell: Cell, weights: Weights) -> tuple[Tensor, ...]:
    nothing = torch.zeros(width_of(cell, weights), dtype=torch.float64)
    return (nothing, nothing) if cell is lstm else (nothing,)


def run(cell: Cell, weights: Weights, inputs: Sequence[Tensor], state: Any = None) -> tuple[list[Tensor], Any]:
    """The states after each input, and the last one with its memory."""
    state, states = zeros(cell, weights) if state is None else state, []
    for x in inputs:
        state = cell(weights, x, state)
        states.append(state[0])
    return states, state


def both_ways(cell: Cell, weights: Weights, inputs: Sequence[Tensor], layer: int = 0) -> list[Tensor]:
    """[h→; h←] of each input."""
    ahead, _ = run(cell, unit_of(weights, layer), inputs)
    behind, _ = run(cell, unit_of(weights, layer, "backwards"), inputs[::-1])
    return [torch.cat(pair) for pair in zip(ahead, behind[::-1], strict=True)]


# Attention ----------------------------------------------------------------------------------------------------------


def look(scores: Sequence[Tensor], values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The weights softmax(scores), and the sum of the values so weighted."""
    exponents = [score.exp() for score in scores]
    weights = [exponent / sum(exponents) for exponent in exponents]
    return torch.stack(weights), sum(weight * value for weight, value in zip(weights, values, strict=True))  # type: ignore[return-value]


def pool(weights: Weights, states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """α = softmax(uᵀ tanh(W h + b)), Σ α h, of an additive ``AttentionPool``."""
    scores = [weights["v"] @ torch.tanh(weights["key_weight"] @ h + weights["bias"]) for h in states]
    return look(scores, states)


def multi_head(weights: Weights, heads: int, x: Tensor, keys: Sequence[Tensor]) -> tuple[list[Tensor], Tensor]:
    """The weights of each head, and [head₁; …; head_H] W_O."""
    d, contexts, maps = len(x) // heads, [], []
    query = linear(below(weights, "query"), x)
    for head in range(heads):
        own = slice(head * d, (head + 1) * d)
        scores = [query[own] @ linear(below(weights, "key"), key)[own] / d**0.5 for key in keys]
        alpha, context = look(scores, [linear(below(weights, "value"), key)[own] for key in keys])
        maps.append(alpha)
        contexts.append(context)
    return maps, linear(below(weights, "output"), torch.cat(contexts))


def normed(weights: Weights, x: Tensor, epsilon: float = 1e-5) -> Tensor:
    """LN(x): mean 0, variance 1, then a factor and a bias."""
    centred = x - x.mean()
    return weights["weight"] * centred / (centred.square().mean() + epsilon).sqrt() + weights["bias"]


# Comparisons --------------------------------------------------------------------------------------------------------

close = torch.testing.assert_close


@torch.no_grad()
def check_decoder(
    network: Any, source: Tensor, lengths: Tensor, target: Tensor, expected: Callable[[int], tuple[Tensor, Tensor]]
) -> None:
    """An encoder-decoder over a padded batch: taught, under a lens and step by step. ``expected(row)``: logits [T, V] and
    the weights of each step [T, S]."""
    lens = Lens()
    taught, seen = network(source, lengths, target), network(source, lengths, target, lens=lens)
    memory, steps = network.encode(source, lengths), []
    state = network.start(memory)
    for offset in range(target.shape[1]):
        logits, state = network.step(target[:, offset], state, memory, offset=offset)
        steps.append(logits)
    for row in range(len(lengths)):
        logits, weights = expected(row)
        for found in (taught[row], seen[row], torch.stack(steps, dim=1)[row]):
            close(found, logits, check_dtype=False)
        if weights.numel():
            own = lens.traces[row].map().weights
            close(own[:, : weights.shape[1]], weights, check_dtype=False)
            assert not own[:, weights.shape[1] :].any(), "padding"


@torch.no_grad()
def check_language_model(
    network: Any, tokens: Tensor, lengths: Tensor, expected: Callable[[list[int]], Tensor]
) -> None:
    """A language model over a padded batch, under a lens, and in three parts, each row from its own state."""
    whole, seen = network(tokens, lengths), network(tokens, lengths, lens=Lens())
    hidden, state = [], None
    for part, count in ((tokens[:, :1], None), (tokens[:, 1:3], (lengths - 1).clamp(0, 2)), (tokens[:, 3:], None)):
        states, state = network.read(part, count, state)
        hidden.append(states)
    parts = network.write(torch.cat(hidden, dim=1))
    for row, length in enumerate(lengths.tolist()):
        logits = expected(tokens[row, :length].tolist())
        close(whole[row, :length], logits)
        close(seen[row, :length], logits)
        if length != 1:  # an empty middle keeps its state, and the last part then follows the first
            close(parts[row, : min(length, 3)], logits[:3])
        if length > 3:
            close(parts[row, 3:length], logits[3:])
        if length == 1:
            close(parts[row, 3:], expected(tokens[row, [0, *range(3, tokens.shape[1])]].tolist())[1:])
