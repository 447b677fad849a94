"""A linear-chain conditional random field (Lafferty, McCallum & Pereira 2001) over the tags of a row.

    score       s(y) = Σₜ Pₜ(yₜ) + Σₜ A(yₜ, yₜ₊₁),  y₀ = start, y_{S+1} = stop
    loss        −log p(y) = log Z − s(y),  Z = Σ_y' exp s(y')
    forward     αₜ(j) = exp Pₜ(j) Σᵢ αₜ₋₁(i) exp A(i, j)              Z = Σᵢ α_S(i) exp A(i, stop)
    marginals   p(yₜ = j) = αₜ(j) βₜ(j) / Z,                          β: the same recursion from the end, over Aᵀ
    best path   the forward recursion on logarithms, with max for Σ, and the way back (Viterbi)

P are the emissions [B, S, K]. A [K + 1, K + 1] is written [from, to]: its last row is the start, its last column the stop. Rows
are padded on the right; an empty row has one path, of score 0.

The recursions run on logarithms in float64, as log Σ exp, so scores may lie any distance apart.

Legend: B batch, S steps, K tags.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.attention.checks import check_lengths, check_rows, check_size
from saccade.errors import SaccadeError
from saccade.kernels.second_order import gradients_through
from saccade.nn.recurrent import at_end, mask_of, reverse_within

FORBIDDEN = -(2.0**40)  # a power of two, which every dtype holds exactly
"""The score of a forbidden transition, or less where emissions are larger (see :func:`_far_below`): far below the score of any
path, and sums of several are still finite, so a row without an allowed path gives finite numbers too."""
LEAST = 1e-250  # of a sum of exponents relative to the largest: what underflows beside it is beyond float64's precision


class CRF(nn.Module):
    """Learned transitions A [K + 1, K + 1]; they start at 0, where the tags of a row are independent.

    ``moves`` is True where a tag may follow another (indexed like A); the others are set to :data:`FORBIDDEN` and not
    learned.
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        check_size(tags=tags)
        self.transitions = nn.Parameter(torch.zeros(tags + 1, tags + 1))

    def allowed(self, moves: Bool[Tensor, "K1 K1"] | None = None) -> Float[Tensor, "K1 K1"]:
        """A with forbidden transitions masked."""
        if moves is not None and not (
            isinstance(moves, Tensor) and moves.dtype == torch.bool and moves.shape == self.transitions.shape
        ):
            found = f"{list(moves.shape)} of {moves.dtype}" if isinstance(moves, Tensor) else type(moves).__name__
            raise SaccadeError(f"moves: expected booleans {list(self.transitions.shape)}, found {found}")
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
        self._check(emissions, lengths)
        self._check_tags(tags, emissions, lengths)
        exact, transitions, tags, lengths = _exact(emissions, self.allowed(moves), tags, lengths)
        transitions = _far_below(transitions, exact, lengths)
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
        self._check(emissions, lengths)
        exact, transitions, lengths = _exact(emissions, self.allowed(moves), lengths)
        transitions = _far_below(transitions, exact, lengths)
        best, shares = viterbi(exact, lengths, transitions), marginals(exact, lengths, transitions)
        return best.to(emissions.device), _rounded(shares, emissions)

    def _check(self, emissions: Any, lengths: Any) -> None:
        check_rows(len(self.transitions) - 1, emissions=emissions)
        check_lengths(lengths, *emissions.shape[:2])

    def _check_tags(self, tags: Any, emissions: Tensor, lengths: Tensor) -> None:
        if torch.compiler.is_compiling():
            return
        B, S, K = emissions.shape
        whole = isinstance(tags, Tensor) and tags.dtype == torch.int64
        if not whole or tags.shape != (B, S):
            found = f"{list(tags.shape)} of {tags.dtype}" if isinstance(tags, Tensor) else type(tags).__name__
            raise SaccadeError(f"tags: expected int64 numbers [{B}, {S}], found {found}")
        if tags.device.type == "cpu":  # a GPU is not waited for
            real = tags[mask_of(lengths, S)]
            if len(real) and not 0 <= int(real.min()) <= int(real.max()) < K:
                raise SaccadeError(
                    f"tags: expected numbers from 0 to {K - 1}, found {int(real.min())} to {int(real.max())}"
                )


def path_score(
    emissions: Float[Tensor, "B S K"],
    tags: Int[Tensor, "B S"],
    lengths: Int[Tensor, " B"],
    transitions: Float[Tensor, "K1 K1"],
) -> Float[Tensor, " B"]:
    """s(y) = Σₜ Pₜ(yₜ) + Σₜ A(yₜ, yₜ₊₁). ``tags`` beyond a row's length are ignored."""
    B, S, K = emissions.shape
    if not S:
        return emissions.sum((1, 2))
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
    if not emissions.shape[1]:
        return emissions.sum((1, 2))
    total: Tensor = _LogPartition.apply(emissions, lengths, transitions)
    return total


@torch.no_grad()
def marginals(
    emissions: Float[Tensor, "B S K"], lengths: Int[Tensor, " B"], transitions: Float[Tensor, "K1 K1"]
) -> Float[Tensor, "B S K"]:
    """p(yₜ = j), summed over all paths; 0 in padding."""
    if not emissions.shape[1]:
        return emissions
    return _shares(emissions, *_both_ways(emissions, lengths, transitions), lengths).to(emissions.dtype)


@torch.no_grad()
def viterbi(
    emissions: Float[Tensor, "B S K"], lengths: Int[Tensor, " B"], transitions: Float[Tensor, "K1 K1"]
) -> Int[Tensor, "B S"]:
    """The path of the highest score; 0 in padding."""
    B, S, K = emissions.shape
    if not S:
        return lengths.new_zeros(B, 0)
    transitions = transitions.masked_fill(transitions <= FORBIDDEN, -torch.inf)  # no emission makes up for it
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

    Both directions run as one recursion, so the backward pass has none.
    """

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
        ahead, behind = _both_ways(emissions, lengths, transitions)
        total = _total(ahead, lengths, transitions)
        ctx.save_for_backward(emissions, lengths, transitions, ahead, behind, total)
        return total.masked_fill(lengths == 0, 0.0).to(emissions.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        emissions, lengths, transitions, ahead, behind, total = ctx.saved_tensors
        if torch.is_grad_enabled():  # gradients that are differentiated again are those of the recursion itself

            def formula(emissions: Tensor, transitions: Tensor) -> Tensor:
                ahead, _ = _both_ways(emissions, lengths, transitions)
                ended = _total(ahead, lengths, transitions).masked_fill(lengths == 0, 0.0)
                return ended.to(emissions.dtype)

            needed = ctx.needs_input_grad[0], ctx.needs_input_grad[2]
            of_emissions, of_transitions = gradients_through(formula, (emissions, transitions), grads, needed)
            return of_emissions, None, of_transitions
        gradient = grads[0].double()
        tags = _shares(emissions, ahead, behind, lengths) * gradient[:, None, None]
        counts = torch.zeros_like(transitions, dtype=torch.float64)
        counts[:-1, :-1] = _moves_expected(ahead - total[:, None, None], behind, lengths, transitions, gradient)
        counts[-1, :-1] = tags[:, 0].sum(0)
        counts[:-1, -1] = at_end(tags, lengths.clamp_min(1)).sum(0)  # 0 for an empty row
        return tags.to(emissions.dtype), None, counts.to(transitions.dtype)


def _both_ways(emissions: Tensor, lengths: Tensor, transitions: Tensor) -> tuple[Tensor, Tensor]:
    """log α and log (exp P · β) of every step, [B, S, K] each; undefined in padding."""
    K, emissions, transitions = emissions.shape[2], emissions.double(), transitions.double()
    rows = torch.stack([emissions, reverse_within(emissions, lengths)])  # [2, B, S, K]
    moves = torch.stack([transitions[:K, :K], transitions[:K, :K].T])  # [2, K, K]
    edges = torch.stack([transitions[K, :K], transitions[:K, K]]).unsqueeze(
        1
    )  # [2, 1, K]: from the start, from the stop
    best = moves.detach().amax()
    factors = (moves - best).exp()
    states = [edges + rows[:, :, 0]]
    for step in rows[:, :, 1:].unbind(2):
        states.append(_moved(states[-1], moves, factors, best) + step)
    ahead, behind = torch.stack(states, dim=2).unbind(0)
    return ahead, reverse_within(behind, lengths)


def _moved(state: Tensor, moves: Tensor, factors: Tensor, best: Tensor) -> Tensor:
    """log Σᵢ exp(state(i) + moves(i, j)) [2, B, K], with ``factors`` = exp(moves − best).

    A product of matrices is many times faster on a CPU, and exact where every sum is a normal number.
    """
    if state.device.type == "cpu":
        top = state.detach().amax(-1, keepdim=True)
        sums = (state - top).exp() @ factors
        if not sums.numel() or sums.detach().amin() > LEAST:
            return sums.log() + (top + best)
    return (state.unsqueeze(-2) + moves.mT.unsqueeze(1)).logsumexp(-1)


def _moves_expected(before: Tensor, after: Tensor, lengths: Tensor, transitions: Tensor, gradient: Tensor) -> Tensor:
    """The expected number of moves from i to j [K, K], summed over rows with these weights: at each step
    exp(before(i) + A(i, j) + after(j)), where ``before`` is log α − log Z."""
    before, after, moves = before[:, :-1], after[:, 1:], transitions[:-1, :-1].double()
    real = mask_of(lengths - 1, before.shape[1])
    share = real * gradient.unsqueeze(-1)  # [B, S - 1]
    if moves.device.type == "cpu":
        top, top_after, best = before.amax(-1, keepdim=True), after.amax(-1, keepdim=True), moves.amax()
        scale = (top + top_after + best).squeeze(-1).masked_fill(~real, 0.0)
        if scale.numel() and scale.amax() < -math.log(LEAST):  # what underflows has no share of any size
            weighted = (before - top).exp() * (share * scale.exp()).unsqueeze(-1)
            return (moves - best).exp() * (weighted.flatten(0, 1).T @ (after - top_after).exp().flatten(0, 1))
    counts = torch.zeros_like(moves)
    for step in range(before.shape[1]):
        paths = before[:, step, :, None] + moves + after[:, step, None, :]  # [B, K, K]: at most log 1 at real steps
        counts += torch.einsum("b,bij->ij", share[:, step], paths.clamp(max=0.0).exp())
    return counts


def _total(ahead: Tensor, lengths: Tensor, transitions: Tensor) -> Tensor:
    """log Z = log Σᵢ α_S(i) exp A(i, stop)."""
    return (at_end(ahead, lengths.clamp_min(1)) + transitions[:-1, -1].double()).logsumexp(-1)


def _shares(emissions: Tensor, ahead: Tensor, behind: Tensor, lengths: Tensor) -> Tensor:
    """p(yₜ = j) = αₜ(j) βₜ(j) / Z; Z is the sum of the products at any step."""
    shares = (ahead + behind - emissions.double()).softmax(-1)
    return shares.masked_fill(~mask_of(lengths, shares.shape[1]).unsqueeze(-1), 0.0)


def _far_below(
    transitions: Float[Tensor, "K1 K1"], emissions: Float[Tensor, "B S K"], lengths: Int[Tensor, " B"]
) -> Float[Tensor, "K1 K1"]:
    """The transitions, with those that are forbidden below any path of allowed ones whatever the emissions are."""
    if not emissions.numel():
        return transitions
    forbidden, S = transitions <= FORBIDDEN, emissions.shape[1]
    real = mask_of(lengths, S).unsqueeze(-1)
    largest = emissions.detach().masked_fill(~real, 0.0).abs().amax()
    largest = largest + transitions.detach().masked_fill(forbidden, 0.0).abs().amax()
    return torch.where(forbidden, -(4.0 * (S + 1) * largest).clamp_min(-FORBIDDEN), transitions)


def _exact(*parts: Tensor) -> tuple[Tensor, ...]:
    """Tensors in float64, on the CPU where the device has no float64."""
    there = [part.cpu() if part.device.type == "mps" else part for part in parts]
    return tuple(part.double() if part.is_floating_point() else part for part in there)


def _rounded(exact: Tensor, like: Tensor) -> Tensor:
    return exact.to(like.device, torch.promote_types(like.dtype, torch.float32))
