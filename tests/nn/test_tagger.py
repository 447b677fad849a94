"""How tags are learned and chosen over emissions: each by itself or together, where they are judged, by moves that may be."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn.crf import CRF
from saccade.nn.tagger import IGNORED, Tagger

B, S, K = 3, 5, 4
LENGTHS = torch.tensor([5, 3, 1])
TAGS = torch.tensor([[0, IGNORED, 3, 1, IGNORED], [2, 1, 0, IGNORED, IGNORED], [IGNORED] * 5])


def tagger(*, chained: bool) -> Tagger:
    network = Tagger()
    network.anchor = torch.nn.Parameter(torch.zeros(1))
    network.crf = CRF(K) if chained else None
    if chained:
        torch.nn.init.normal_(network.crf.transitions)
    return network


@pytest.fixture
def emissions() -> torch.Tensor:
    return torch.randn(B, S, K)


def test_a_softmax_loss_is_the_sum_over_what_is_judged(emissions) -> None:
    logs = emissions.log_softmax(-1)
    judged = [(0, 0, 0), (0, 2, 3), (0, 3, 1), (1, 0, 2), (1, 1, 1), (1, 2, 0)]
    expected = -sum(logs[row, t, tag] for row, t, tag in judged)
    torch.testing.assert_close(tagger(chained=False).loss(emissions, TAGS, LENGTHS), expected)


def test_tags_beyond_a_rows_end_are_not_judged(emissions) -> None:
    beyond = TAGS.clone()
    beyond[1, 3:], beyond[2, 1:] = 2, 3
    for chained in (False, True):
        network = tagger(chained=chained)
        expected = network.loss(emissions, TAGS, LENGTHS)
        torch.testing.assert_close(network.loss(emissions, beyond, LENGTHS), expected)


def test_the_tag_before_a_tag_is_that_of_the_judged_position_before_it(emissions) -> None:
    network = tagger(chained=True)
    closed = network.crf.loss(emissions[:1, [0, 2, 3]], TAGS[:1, [0, 2, 3]], torch.tensor([3]))
    torch.testing.assert_close(network.loss(emissions[:1], TAGS[:1], LENGTHS[:1]), closed.sum())
    best, shares = network.decode(emissions, LENGTHS, TAGS != IGNORED)
    wanted = network.crf.decode(emissions[:1, [0, 2, 3]], torch.tensor([3]))
    assert torch.equal(best[0, [0, 2, 3]], wanted[0][0]) and best[0, [1, 4]].tolist() == [0, 0]
    torch.testing.assert_close(shares[0, [0, 2, 3]], wanted[1][0])
    assert not shares[0, [1, 4]].any() and not best[2].any() and not shares[2].any()


def test_without_tagged_positions_the_loss_is_0_and_gradients_are_finite(emissions) -> None:
    for chained in (False, True):
        network, rows = tagger(chained=chained), emissions.clone().requires_grad_()
        loss = network.loss(rows, torch.full((B, S), IGNORED), LENGTHS)
        loss.backward()
        assert loss.item() == 0 and not rows.grad.any()


def no_second_after_first() -> torch.Tensor:
    """Any move but from tag 0 to tag 1, and none may begin with 2."""
    moves = torch.ones(K + 1, K + 1, dtype=torch.bool)
    moves[0, 1] = moves[K, 2] = False
    return moves


def test_a_softmax_keeps_to_the_moves_that_may_be() -> None:
    wanted = torch.tensor([[2, 0, 1, 3, 0], [0, 1, 1, 0, 0], [1, 0, 0, 0, 0]])
    emissions = 5.0 * functional.one_hot(wanted, K).float()
    emissions[0, 0, 3] = emissions[0, 1, 1] = emissions[1, 0, 3] = 4.0  # the next best
    network = tagger(chained=False)
    assert torch.equal(network.decode(emissions, LENGTHS)[0], wanted)
    kept, shares = network.decode(emissions, LENGTHS, moves=no_second_after_first())
    assert kept.tolist() == [[3, 1, 1, 3, 0], [3, 1, 1, 0, 0], [1, 0, 0, 0, 0]]
    network.allow(no_second_after_first())
    assert torch.equal(network.decode(emissions, LENGTHS)[0], kept)
    torch.testing.assert_close(shares[0, 0], emissions[0, 0].softmax(-1))


def test_what_is_allowed_holds_in_training_and_is_not_saved(emissions) -> None:
    network = tagger(chained=True)
    row = emissions[:1], TAGS[:1], LENGTHS[:1]  # its tags are among those that may be
    free = network.loss(*row).item()
    network.allow(no_second_after_first())
    assert network.loss(*row).item() < free, "fewer paths share what there is"
    assert "moves" not in network.state_dict()
    network.allow(None)
    assert network.loss(*row).item() == free


def test_moves_of_another_size_are_refused(emissions) -> None:
    with pytest.raises(SaccadeError, match=r"moves must be \[5, 5\] \(tags and start, tags and stop\): got \[4, 4\]"):
        tagger(chained=True).decode(emissions, LENGTHS, moves=torch.ones(4, 4, dtype=torch.bool))


def test_smoothing_is_for_the_softmax_alone(emissions) -> None:
    network = tagger(chained=False)
    assert network.loss(emissions, TAGS, LENGTHS, smoothing=0.1) != network.loss(emissions, TAGS, LENGTHS)
    with pytest.raises(SaccadeError, match=r"train\.label_smoothing must be 0 with a CRF"):
        tagger(chained=True).loss(emissions, TAGS, LENGTHS, smoothing=0.1)


def test_a_loss_reads_nothing_back() -> None:
    """A recorded update may not wait for the device: nothing depends on what the numbers are."""
    network = tagger(chained=True)
    network.allow(no_second_after_first())
    with torch.device("meta"):
        network = network.to("meta")
        rows, tags = torch.empty(B, S, K, requires_grad=True), torch.empty(B, S, dtype=torch.int64)
        network.loss(rows, tags, torch.empty(B, dtype=torch.int64)).backward()
    assert rows.grad.shape == (B, S, K)
