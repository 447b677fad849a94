"""The CRF against all paths written out, against another algorithm, and against finite differences."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from saccade.nn.crf import CRF, FORBIDDEN, log_partition, marginals, path_score, viterbi

B, S, K = 3, 5, 4
LENGTHS = torch.tensor([5, 3, 1])


@pytest.fixture
def parts() -> tuple[Tensor, Tensor]:
    """emissions [B, S, K] and transitions [K + 1, K + 1]."""
    return torch.randn(B, S, K, dtype=torch.float64), torch.randn(K + 1, K + 1, dtype=torch.float64)


def paths(row: Tensor, transitions: Tensor) -> dict[tuple[int, ...], Tensor]:
    """Every path of one row [S, K] and its score, term by term."""
    return {
        path: sum(row[t, tag] for t, tag in enumerate(path))
        + sum(transitions[i, j] for i, j in itertools.pairwise((K, *path, K)))
        for path in itertools.product(range(K), repeat=len(row))
    }


def scanned(emissions: Tensor, transitions: Tensor) -> Tensor:
    """log Z of rows without padding by a product of matrices in log space, halves first: the other order of summation."""
    steps = transitions[:K, :K] + emissions[:, 1:, None, :]  # [B, S - 1, K, K]
    parts = list(steps.unbind(1))
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=False)
        parts = [_product(left, right) for left, right in pairs] + parts[len(parts) // 2 * 2 :]
    ends = (transitions[K, :K] + emissions[:, 0])[:, :, None] + parts[0] + transitions[:K, K]
    return ends.logsumexp((1, 2))


def _product(left: Tensor, right: Tensor) -> Tensor:
    return (left.unsqueeze(-1) + right.unsqueeze(-3)).logsumexp(-2)


def test_the_partition_is_the_sum_over_all_paths(parts) -> None:
    emissions, transitions = parts
    for row, length in enumerate(LENGTHS.tolist()):
        scores = torch.stack(list(paths(emissions[row, :length], transitions).values()))
        found = log_partition(emissions, LENGTHS, transitions)[row]
        torch.testing.assert_close(found, scores.logsumexp(0))


def test_a_path_scores_its_emissions_and_moves_from_start_to_stop(parts) -> None:
    emissions, transitions = parts
    tags = torch.tensor([[0, 3, 1, 1, 2], [2, 2, 0, 9, 9], [3, -100, -100, 0, 0]])  # what stands in padding is nothing
    found = path_score(emissions, tags, LENGTHS, transitions)
    for row, length in enumerate(LENGTHS.tolist()):
        scores = paths(emissions[row, :length], transitions)
        torch.testing.assert_close(found[row], scores[tuple(tags[row, :length].tolist())])


def test_marginals_are_sums_over_the_paths_that_pass(parts) -> None:
    emissions, transitions = parts
    found = marginals(emissions, LENGTHS, transitions)
    for row, length in enumerate(LENGTHS.tolist()):
        scores = paths(emissions[row, :length], transitions)
        total = torch.stack(list(scores.values())).logsumexp(0)
        for t, tag in itertools.product(range(length), range(K)):
            passing = torch.stack([score for path, score in scores.items() if path[t] == tag])
            torch.testing.assert_close(found[row, t, tag], (passing.logsumexp(0) - total).exp())
    assert not found[1, 3:].any() and not found[2, 1:].any()


def test_viterbi_finds_the_best_of_all_paths(parts) -> None:
    emissions, transitions = parts
    found = viterbi(emissions, LENGTHS, transitions)
    for row, length in enumerate(LENGTHS.tolist()):
        scores = paths(emissions[row, :length], transitions)
        assert tuple(found[row, :length].tolist()) == max(scores, key=scores.__getitem__)
    assert not found[1, 3:].any() and not found[2, 1:].any()


def test_gradients_are_those_of_finite_differences(parts) -> None:
    emissions, transitions = (part.requires_grad_() for part in parts)
    tags = torch.randint(0, K, (B, S))

    def loss(emissions: Tensor, transitions: Tensor) -> Tensor:
        return log_partition(emissions, LENGTHS, transitions) - path_score(emissions, tags, LENGTHS, transitions)

    assert torch.autograd.gradcheck(loss, (emissions, transitions))


def test_a_product_of_matrices_in_another_order_gives_the_same_outputs_and_gradients() -> None:
    whole = torch.full((B,), 7)
    emissions = torch.randn(B, 7, K, dtype=torch.float64, requires_grad=True)
    transitions = torch.randn(K + 1, K + 1, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    found, other = log_partition(emissions, whole, transitions), scanned(emissions, transitions)
    torch.testing.assert_close(found, other)
    gradients = [torch.autograd.grad((each * weights).sum(), (emissions, transitions)) for each in (found, other)]
    torch.testing.assert_close(*gradients)


def test_without_transitions_every_tag_is_chosen_by_its_own_softmax(parts) -> None:
    emissions, tags = parts[0], torch.randint(0, K, (B, S))
    crf = CRF(K).double()
    logs = emissions.log_softmax(-1)
    for row, length in enumerate(LENGTHS.tolist()):
        expected = -logs[row, torch.arange(length), tags[row, :length]].sum()
        torch.testing.assert_close(crf.loss(emissions, tags, LENGTHS)[row], expected)
        best, shares = crf.decode(emissions, LENGTHS)
        torch.testing.assert_close(shares[row, :length], logs[row, :length].exp())
        assert torch.equal(best[row, :length], emissions[row, :length].argmax(-1))


def test_a_row_of_no_steps_costs_nothing_and_learns_nothing() -> None:
    emissions = torch.randn(2, S, K, requires_grad=True)
    crf, lengths = CRF(K), torch.tensor([0, 0])
    losses = crf.loss(emissions, torch.full((2, S), -100), lengths)
    losses.sum().backward()
    assert losses.tolist() == [0, 0] and not emissions.grad.any() and not crf.transitions.grad.any()
    best, shares = crf.decode(emissions, lengths)
    assert not best.any() and not shares.any()


def test_an_empty_row_beside_a_full_one_changes_nothing(parts) -> None:
    emissions, transitions = parts
    alone = log_partition(emissions[:1], LENGTHS[:1], transitions)
    both = log_partition(emissions[:2], torch.tensor([5, 0]), transitions)
    torch.testing.assert_close(both, torch.cat([alone, alone.new_zeros(1)]))


def legal() -> Tensor:
    """Tags O, B, I, E of spans of two or more: I and E only within, a row ends outside or at an end."""
    follows = {0: (0, 1), 1: (2, 3), 2: (2, 3), 3: (0, 1), K: (0, 1)}
    moves = torch.zeros(K + 1, K + 1, dtype=torch.bool)
    for before, after in follows.items():
        moves[before, list(after)] = True
    moves[[0, 3], K] = True
    return moves


def test_forbidden_moves_are_never_said_whatever_speaks_for_them(parts) -> None:
    crf, moves = CRF(K).double(), legal()
    best, shares = crf.decode(parts[0] * 50, LENGTHS, moves=moves)
    for row, length in enumerate(LENGTHS.tolist()):
        walked = (K, *best[row, :length].tolist(), K)
        assert all(moves[i, j] for i, j in itertools.pairwise(walked)), walked
    assert not shares[:, 0, 2:].any(), "a row may begin with O or B alone"
    torch.testing.assert_close(shares[2, 0], torch.tensor([1.0, 0, 0, 0], dtype=torch.float64))  # one step: O


def test_forbidden_moves_share_no_probability_and_are_not_learned(parts) -> None:
    crf, moves = CRF(K).double(), legal()
    tags = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 0], [0, 0, 0, 0, 0]])
    losses = crf.loss(parts[0], tags, LENGTHS, moves=moves)
    for row, length in enumerate(LENGTHS.tolist()):
        scores = paths(parts[0][row, :length], torch.zeros(K + 1, K + 1, dtype=torch.float64))
        may = [p for p in scores if all(moves[i, j] for i, j in itertools.pairwise((K, *p, K)))]
        total = torch.stack([scores[path] for path in may]).logsumexp(0)
        torch.testing.assert_close(losses[row], total - scores[tuple(tags[row, :length].tolist())])
    losses.sum().backward()
    assert not crf.transitions.grad[~moves].any() and crf.transitions.grad[moves].abs().sum() > 0


def test_a_row_of_which_no_path_may_be_still_gives_numbers() -> None:
    crf, moves = CRF(K), torch.zeros(K + 1, K + 1, dtype=torch.bool)
    emissions = torch.randn(B, S, K, requires_grad=True)
    loss = crf.loss(emissions, torch.zeros(B, S, dtype=torch.int64), LENGTHS, moves=moves).sum()
    loss.backward()
    assert loss.isfinite() and emissions.grad.isfinite().all() and FORBIDDEN < -1000


@pytest.mark.parametrize("spread", [700.0, 1e4])
@pytest.mark.parametrize("restricted", [False, True])
def test_scores_far_apart_give_exact_losses_marginals_and_gradients(spread: float, restricted: bool) -> None:
    """The best first tag leads nowhere good: the sum is made of paths that begin e^-spread below it."""
    emissions = torch.randn(B, S, K, dtype=torch.float64)
    emissions[:, 0, 3] += spread
    emissions[:, 2, 1] -= 2 * spread
    transitions = torch.randn(K + 1, K + 1, dtype=torch.float64)
    transitions[3, :3] -= 2 * spread
    transitions[3, K] -= 3 * spread
    if restricted:
        transitions = transitions.masked_fill(~legal(), FORBIDDEN)
    emissions.requires_grad_(), transitions.requires_grad_()
    lengths = torch.tensor([5, 4, 2])
    found = log_partition(emissions, lengths, transitions)
    totals = []
    for row, length in enumerate(lengths.tolist()):
        scores = torch.stack(list(paths(emissions[row, :length], transitions).values()))
        totals.append(scores.logsumexp(0))
    torch.testing.assert_close(found, torch.stack(totals), rtol=1e-12, atol=1e-9)
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    ours, theirs = (
        torch.autograd.grad((total * weights).sum(), (emissions, transitions)) for total in (found, torch.stack(totals))
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-7)
    assert ours[0].abs().sum() > 1
    shares = marginals(emissions, lengths, transitions)
    torch.testing.assert_close(shares * weights[:, None, None], theirs[0], rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("size", [1e3, 1e5, 1e9, 1e20])
def test_no_score_makes_up_for_a_forbidden_move(size: float) -> None:
    crf, moves = CRF(K), legal()
    emissions = torch.randn(B, S, K) * size
    emissions[:, :, 2] += 10 * size  # I, which may neither begin nor end a row
    best, _ = crf.decode(emissions, torch.tensor([5, 4, 2]), moves=moves)
    for row, length in enumerate([5, 4, 2]):
        assert all(moves[i, j] for i, j in itertools.pairwise((K, *best[row, :length].tolist(), K)))


@pytest.mark.parametrize("size", [1e3, 1e9, 1e12, 1e20, 1e30])
def test_the_loss_and_the_marginals_leave_forbidden_moves_out_too(size: float) -> None:
    """They are those of the sum over the allowed paths alone, however much speaks for the others."""
    crf, moves = CRF(K), legal()
    torch.nn.init.normal_(crf.transitions)
    emissions = torch.randn(B, S, K) * size
    emissions[:, :, 2] += 10 * size
    lengths, tags = torch.tensor([5, 4, 2]), torch.zeros(B, S, dtype=torch.long)
    losses, (best, shares) = (
        crf.loss(emissions, tags, lengths, moves=moves),
        crf.decode(emissions, lengths, moves=moves),
    )
    for row, length in enumerate(lengths.tolist()):
        scores = {
            path: score
            for path, score in paths(emissions[row, :length].double(), crf.transitions.double()).items()
            if all(moves[i, j] for i, j in itertools.pairwise((K, *path, K)))
        }
        total = torch.stack(list(scores.values())).logsumexp(0)
        torch.testing.assert_close(losses[row].double(), total - scores[(0,) * length], rtol=1e-6, atol=1e-2)
        assert tuple(best[row, :length].tolist()) == max(scores, key=lambda path: scores[path].item())
        expected = torch.zeros(length, K, dtype=torch.float64)
        for path, score in scores.items():
            expected[range(length), path] += (score - total).exp()
        torch.testing.assert_close(shares[row, :length].double(), expected, rtol=1e-5, atol=1e-6)


def test_half_precision_is_summed_in_float32() -> None:
    crf, emissions = CRF(K), (torch.randn(B, 40, K) * 10)
    lengths, tags = torch.full((B,), 40), torch.randint(0, K, (B, 40))
    halved = emissions.bfloat16()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = crf.loss(halved, tags, lengths)
        _, shares = crf.decode(halved, lengths)
    assert found.dtype == shares.dtype == torch.float32
    torch.testing.assert_close(found, crf.loss(halved.float(), tags, lengths))


def test_steps_that_are_certain_of_what_may_not_be_still_add_up() -> None:
    """Numbers 400 apart: as exponents of float32 they would be 0 and infinite."""
    emissions, lengths = torch.randn(B, S, K) * 100, torch.tensor([5, 3, 2])
    moves, tags = legal(), torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 0], [1, 3, 0, 0, 0]])
    crf = CRF(K)
    found = crf.loss(emissions, tags, lengths, moves=moves)
    for row, length in enumerate(lengths.tolist()):
        scores = paths(emissions[row, :length].double(), torch.zeros(K + 1, K + 1))
        may = [p for p in scores if all(moves[i, j] for i, j in itertools.pairwise((K, *p, K)))]
        expected = torch.stack([scores[path] for path in may]).logsumexp(0) - scores[tuple(tags[row, :length].tolist())]
        torch.testing.assert_close(found[row], expected.float())


def test_long_rows_in_float32_keep_their_probabilities() -> None:
    emissions, lengths, crf = torch.randn(2, 400, 9) * 10, torch.tensor([400, 399]), CRF(9)
    torch.nn.init.normal_(crf.transitions)
    _, shares = crf.decode(emissions, lengths)
    exact = marginals(emissions.double(), lengths, crf.transitions.detach().double())
    torch.testing.assert_close(shares.double(), exact, rtol=0, atol=5e-6)
