"""A linear-chain conditional random field (Lafferty, McCallum & Pereira 2001) over the tags of a row.

    score       s(y) = Σₜ Pₜ(yₜ) + Σₜ A(yₜ, yₜ₊₁),  y₀ = start, y_{S+1} = stop
    loss        −log p(y) = log Z − s(y),  Z = Σ_y' exp s(y')
    forward     αₜ(j) = exp Pₜ(j) Σᵢ αₜ₋₁(i) exp A(i, j)              Z = Σᵢ α_S(i) exp A(i, stop)
    marginals   p(yₜ = j) = αₜ(j) βₜ(j) / Z,                          β: the same recursion from the end, over Aᵀ
    best path   the forward recursion on logarithms, with max for Σ, and the way back (Viterbi)

P are the emissions [B, S, K]. A [K + 1, K + 1] is written [from, to]: its last row is the start, its last column the stop. Rows
are padded on the right; an empty row has one path, of score 0.

The sums are products of small matrices in float64, each step scaled to sum to 1, and the logarithms of the scales are added
up: the same as log Σ exp at a fraction of its cost, as long as a step's logarithms lie within 700 of each other.

Legend: B batch, S steps, K tags.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from saccade.nn.recurrent import at_end, mask_of, reverse_within

FORBIDDEN = -1e4
"""The score of a forbidden transition: its exp is exactly 0, and sums of several are still finite."""
TINY = 1e-300  # lower bound of a scale: a row without an allowed path gives finite numbers too


class CRF(nn.Module):
    """Learned transitions A [K + 1, K + 1]; they start at 0, where the tags of a row are independent.

    ``moves`` is True where a tag may follow another (indexed like A); the others are set to :data:`FORBIDDEN` and not
    learned.
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.transitions = nn.Parameter(torch.zeros(tags + 1, tags + 1))

    def allowed(self, moves: Bool[Tensor, "K1 K1"] | None = None) -> Float[Tensor, "K1 K1"]:
        """A with forbidden transitions masked."""
        return self.transitions if moves is None else self.transitions.masked_fill(~moves, FORBIDDEN)

    def loss(
        self,
        emissions: Float[Tensor, "B S K"],
        tags: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        *,
        moves: Bool[Tensor, "K1 K1"] | None = None,
    ) -> Float[Tensor, " B"]:
        """−log p(tags) of each row."""
        exact, transitions, tags, lengths = _exact(emissions, self.allowed(moves), tags, lengths)
        losses = log_partition(exact, lengths, transitions) - path_score(exact, tags, lengths, transitions)
        return _rounded(losses, emissions)

    @torch.no_grad()
    def decode(
        self,
        emissions: Float[Tensor, "B S K"],
        lengths: Int[Tensor, " B"],
        *,
        moves: Bool[Tensor, "K1 K1"] | None = None,
    ) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S K"]]:
        """The best path, and the probability of every tag at every step over all paths; 0 in padding."""
        exact, transitions, lengths = _exact(emissions, self.allowed(moves), lengths)
        best, shares = viterbi(exact, lengths, transitions), marginals(exact, lengths, transitions)
        return best.to(emissions.device), _rounded(shares, emissions)


def path_score(
    emissions: Float[Tensor, "B S K"],
    tags: Int[Tensor, "B S"],
    lengths: Int[Tensor, " B"],
    transitions: Float[Tensor, "K1 K1"],
) -> Float[Tensor, " B"]:
    """s(y) = Σₜ Pₜ(yₜ) + Σₜ A(yₜ, yₜ₊₁). ``tags`` beyond a row's length are ignored."""
    B, S, K = emissions.shape
    real = mask_of(lengths, S)  # [B, S]
    tags = tags.masked_fill(~real, 0)
    before = torch.cat([tags.new_full((B, 1), K), tags[:, :-1]], dim=1)
    steps = emissions.gather(2, tags.unsqueeze(-1)).squeeze(-1) + transitions[before, tags]  # [B, S]
    last = tags.gather(1, (lengths - 1).clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return steps.masked_fill(~real, 0.0).sum(1) + transitions[last, K].masked_fill(lengths == 0, 0.0)


def log_partition(
    emissions: Float[Tensor, "B S K"], lengths: Int[Tensor, " B"], transitions: Float[Tensor, "K1 K1"]
) -> Float[Tensor, " B"]:
    """log Z of each row: the log of the summed exp s(y) over all its paths."""
    total: Tensor = _LogPartition.apply(emissions, lengths, transitions)
    return total


@torch.no_grad()
def marginals(
    emissions: Float[Tensor, "B S K"], lengths: Int[Tensor, " B"], transitions: Float[Tensor, "K1 K1"]
) -> Float[Tensor, "B S K"]:
    """p(yₜ = j), summed over all paths; 0 in padding."""
    return _shares(_both_ways(emissions, lengths, transitions), lengths).to(emissions.dtype)


@torch.no_grad()
def viterbi(
    emissions: Float[Tensor, "B S K"], lengths: Int[Tensor, " B"], transitions: Float[Tensor, "K1 K1"]
) -> Int[Tensor, "B S"]:
    """The path of the highest score; 0 in padding."""
    B, S, K = emissions.shape
    moves, real = transitions[:K, :K], mask_of(lengths, S)
    stay = torch.arange(K, device=emissions.device).expand(B, K)
    best, taken = transitions[K, :K] + emissions[:, 0], list[Tensor]()
    for step in range(1, S):
        reached, source = (best.unsqueeze(-1) + moves).max(dim=1)  # [B, K]
        here = real[:, step, None]
        best = torch.where(here, reached + emissions[:, step], best)
        taken.append(torch.where(here, source, stay))  # padding keeps its tag
    path = [(best + transitions[:K, K]).argmax(-1)]
    for source in reversed(taken):
        path.append(source.gather(1, path[-1].unsqueeze(-1)).squeeze(-1))
    return torch.stack(path[::-1], dim=1).masked_fill(~real, 0)


class _LogPartition(torch.autograd.Function):
    """log Z, whose gradients are the marginals: of Pₜ(j) p(yₜ = j), of A(i, j) the expected number of moves from i to j.

    Both directions run as one recursion, so a step is four operations forward and none backward.
    """

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
        ways = _both_ways(emissions, lengths, transitions)
        ctx.save_for_backward(lengths, transitions, *ways)
        ctx.kept = emissions.dtype
        real, last = mask_of(lengths, emissions.shape[1]), at_end(ways.ahead, lengths.clamp_min(1))
        ended = (last * transitions[:-1, -1].double().exp()).sum(-1).clamp_min(TINY).log()
        total = ended + ways.scales.log().masked_fill(~real, 0.0).sum(1) + ways.lifts.masked_fill(~real, 0.0).sum(1)
        return total.masked_fill(lengths == 0, 0.0).to(emissions.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor]:
        lengths, transitions, *parts = ctx.saved_tensors
        ways, gradient = _Ways(*parts), gradient.double()
        _, S, K = ways.ahead.shape
        tags = _shares(ways, lengths) * gradient[:, None, None]
        moves = transitions[:K, :K].double().exp()
        before, after = ways.ahead[:, :-1], ways.behind[:, 1:]  # [B, S - 1, K]
        both = (before @ moves * after).sum(-1).clamp_min(TINY)  # Z with the scales of the step
        share = (mask_of(lengths - 1, S - 1) * gradient.unsqueeze(-1) / both).unsqueeze(-1)
        counts = torch.zeros_like(transitions)
        counts[:K, :K] = moves * ((before * share).flatten(0, 1).T @ after.flatten(0, 1))
        counts[K, :K] = tags[:, 0].sum(0)
        counts[:K, K] = at_end(tags, lengths.clamp_min(1)).sum(0)  # 0 for an empty row
        return tags.to(ctx.kept), None, counts


class _Ways(NamedTuple):
    """Scaled α and β of every step; undefined in padding."""

    ahead: Tensor  # [B, S, K]: α / (a scale of the step)
    behind: Tensor  # [B, S, K]: exp P β / (a scale of the step)
    later: Tensor  # [B, S, K]: β / (another)
    scales: Tensor  # [B, S]: what α of each step was divided by
    lifts: Tensor  # [B, S]: what was taken off the emissions of each step before exp


def _both_ways(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> _Ways:
    K, exact = emissions.shape[2], transitions.double().exp()
    lifts = emissions.double().amax(-1)
    factors = (emissions.double() - lifts.unsqueeze(-1)).exp()
    rows = torch.stack([factors, reverse_within(factors, lengths)])  # [2, B, S, K]
    moves = torch.stack([exact[:K, :K], exact[:K, :K].T])  # [2, K, K]
    edges = torch.stack([exact[K, :K], exact[:K, K]]).unsqueeze(1)  # [2, 1, K]: start, stop
    reached, states, scales = list[Tensor](), list[Tensor](), list[Tensor]()
    for step in rows.unbind(2):
        reached.append(states[-1] @ moves if states else edges.expand_as(step))
        state = reached[-1] * step
        scales.append(state.sum(-1, keepdim=True).clamp_min(TINY))
        states.append(state / scales[-1])
    ahead, behind = torch.stack(states, dim=2).unbind(0)
    later = reverse_within(torch.stack([part[1] for part in reached], dim=1), lengths)
    scale = torch.stack([part[0] for part in scales], dim=1).squeeze(-1)
    return _Ways(ahead, reverse_within(behind, lengths), later, scale, lifts)


def _shares(ways: _Ways, lengths: Tensor) -> Tensor:
    """p(yₜ = j) = αₜ(j) βₜ(j) / Z, whose scales cancel within a step."""
    both = ways.ahead * ways.later
    shares = both / both.sum(-1, keepdim=True).clamp_min(TINY)
    return shares.masked_fill(~mask_of(lengths, shares.shape[1]).unsqueeze(-1), 0.0)


def _exact(*parts: Tensor) -> tuple[Tensor, ...]:
    """Tensors in float64, on the CPU where the device has no float64."""
    there = [part.cpu() if part.device.type == "mps" else part for part in parts]
    return tuple(part.double() if part.is_floating_point() else part for part in there)


def _rounded(exact: Tensor, like: Tensor) -> Tensor:
    return exact.to(like.device, torch.promote_types(like.dtype, torch.float32))
