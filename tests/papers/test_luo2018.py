"""BiLSTM with attention (after Luo et al. 2018) and a CRF (Lafferty et al. 2001): numbers by hand."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from saccade.models.attentive_tagger import AttentiveTagger, Config
from saccade.nn.crf import CRF, log_partition, marginals, path_score, viterbi
from saccade.trace import Lens

EMISSIONS = torch.tensor([[[1.0, 0], [0, 2], [1, 1]]])
TRANSITIONS = torch.tensor([[0.5, -0.5, 0], [0, 1, 0], [0, 0, 0]])  # from → to; no start, no stop
LENGTH = torch.tensor([3])
SCORES = {"000": 3.0, "001": 2.0, "010": 3.5, "011": 4.5, "100": 1.5, "101": 0.5, "110": 4.0, "111": 5.0}


@pytest.mark.parametrize(("path", "score"), SCORES.items())
def test_the_eight_paths_of_three_steps_score_as_by_hand(path: str, score: float) -> None:
    tags = torch.tensor([[int(tag) for tag in path]])
    assert path_score(EMISSIONS, tags, LENGTH, TRANSITIONS).item() == pytest.approx(score)


def test_the_partition_the_best_path_and_its_loss_are_those_by_hand() -> None:
    assert log_partition(EMISSIONS, LENGTH, TRANSITIONS).item() == pytest.approx(5.885406, abs=1e-6)
    assert viterbi(EMISSIONS, LENGTH, TRANSITIONS).tolist() == [[1, 1, 1]]
    crf = CRF(2)
    with torch.no_grad():
        crf.transitions.copy_(TRANSITIONS)
    assert crf.loss(EMISSIONS, torch.tensor([[1, 1, 1]]), LENGTH).item() == pytest.approx(0.885406, abs=1e-6)


def test_transitions_are_read_from_the_tag_before_to_the_tag_after() -> None:
    """The other way round log Z is another, as libraries that disagree on it find out."""
    assert log_partition(EMISSIONS, LENGTH, TRANSITIONS.T).item() != pytest.approx(5.885406, abs=1e-2)


def test_marginals_are_the_shares_of_the_eight_paths() -> None:
    total = torch.tensor(list(SCORES.values())).logsumexp(0)
    found = marginals(EMISSIONS, LENGTH, TRANSITIONS)[0]
    for step, tag in itertools.product(range(3), range(2)):
        share = sum(torch.tensor(score).sub(total).exp() for path, score in SCORES.items() if path[step] == str(tag))
        torch.testing.assert_close(found[step, tag], share)


@torch.no_grad()
def test_the_equations_written_out() -> None:
    network = AttentiveTagger(Config(5, characters="none", hidden=3, dropout=0.0), 11, 4).eval()
    tokens, lengths, lens = torch.tensor([[4, 7, 4, 9, 5]]), torch.tensor([5]), Lens()
    emissions = network(tokens, lengths, lens=lens)[0]
    lstm = nn.LSTM(5, 3, bidirectional=True, batch_first=True)
    for direction, suffix in ((network.encoder.forwards[0], ""), (network.encoder.backwards[0], "_reverse")):
        for name, parameter in direction.unit.named_parameters():
            getattr(lstm, name + suffix).copy_(parameter)
    h = lstm(network.embedding(tokens))[0][0]  # [S, 2n]
    weights = torch.softmax(h @ h.T / 6**0.5, dim=-1)
    torch.testing.assert_close(lens.trace.map("attention").weights, weights)
    z = torch.tanh(torch.cat([weights @ h, h], dim=-1) @ network.join.weight.T + network.join.bias)
    torch.testing.assert_close(emissions, z @ network.output.weight.T + network.output.bias)
