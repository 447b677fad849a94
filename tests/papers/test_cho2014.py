"""Cho et al. 2014, "Learning Phrase Representations using RNN Encoder-Decoder": a gated unit, one vector at every step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from saccade.models.seq2seq import Config, Seq2Seq
from saccade.nn.recurrent import GatedUnit, maxout
from tests.written_out import below, check_decoder, drawn, gated, gru, linear, run, unit_of

SOURCE = torch.tensor([[4, 5, 6, 3, 2]])
TARGET = torch.tensor([[1, 3, 4, 7]])


@pytest.mark.parametrize(("cell", "layers"), [("paper", 1), ("gru", 2)])
@torch.no_grad()
def test_the_equations_written_out(cell: str, layers: int) -> None:
    network = drawn(Seq2Seq(Config(6, 5, layers, cell=cell, maxout=4), 9, 11))  # type: ignore[arg-type]
    unit, weights = gru if cell == "gru" else gated("keep"), network.state_dict()
    source, lengths = torch.tensor([[4, 5, 6, 3, 2], [7, 3, 2, 0, 0]]), torch.tensor([5, 3])
    target = torch.tensor([[1, 3, 4, 7], [1, 5, 6, 2]])

    def expected(row: int) -> tuple[torch.Tensor, torch.Tensor]:
        states = list(weights["source_embedding.weight"][source[row, : lengths[row]]])
        for layer in range(layers):
            states, _ = run(unit, unit_of(below(weights, "encoder"), layer), states)
        c = torch.tanh(linear(below(weights, "summary"), states[-1]))
        starts = torch.tanh(linear(below(weights, "start_layer"), c)).view(layers, 6)
        words = list(weights["target_embedding.weight"][target[row]])
        states = [torch.cat([word, c]) for word in words]
        for layer in range(layers):
            states, _ = run(unit, unit_of(below(weights, "decoder"), layer), states, (starts[layer],))
        logits = []
        for h, word in zip(states, words, strict=True):
            s = linear(below(weights, "readout"), torch.cat([h, word, c]))
            maxima = torch.stack([max(s[2 * i], s[2 * i + 1]) for i in range(4)])
            logits.append(linear(below(weights, "output"), maxima))
        return torch.stack(logits), torch.empty(0)

    check_decoder(network, source, lengths, target, expected)


def scalar_unit(update: str) -> GatedUnit:
    """One unit: W_r = 1, W_z = −1, W = 2; U_r = 1, U_z = 0.5, U = −1."""
    unit = GatedUnit(1, 1, update=update, bias=False)  # type: ignore[arg-type]
    with torch.no_grad():
        unit.from_input.weight[:, 0] = torch.tensor([1.0, -1.0, 2.0])
        unit.from_state.weight[:, 0] = torch.tensor([1.0, 0.5])
        unit.candidate.weight.fill_(-1.0)
    return unit


@pytest.mark.parametrize(("update", "expected"), [("keep", 0.785483), ("write", 0.634852)])
def test_one_step_of_the_gated_unit_worked_by_hand(update: str, expected: float) -> None:
    """r = 0.817574, z = 0.320821, h̃ = 0.920335; "keep" is this paper's polarity, "write" that of RNNsearch."""
    moved = scalar_unit(update)(torch.tensor([[1.0]]), torch.tensor([[0.5]]))
    assert moved.item() == pytest.approx(expected, abs=1e-6)


def test_the_reset_gate_acts_before_the_matrix() -> None:
    """h = [1, −1], r = [.2, .9], U = [[.5, 1], [−1, .5]]: U(r ⊙ h) = [−.8, −.65], and not r ⊙ (U h) = [−.1, −1.35]."""
    hidden, reset, recurrent = (
        torch.tensor([1.0, -1.0]),
        torch.tensor([0.2, 0.9]),
        torch.tensor([[0.5, 1.0], [-1.0, 0.5]]),
    )
    unit = GatedUnit(1, 2, bias=False)
    with torch.no_grad():
        unit.from_state.weight.zero_()
        unit.candidate.weight.copy_(recurrent)
        unit.from_input.weight[:, 0] = torch.tensor(
            [*torch.logit(reset), -100.0, -100.0, 0.0, 0.0]
        )  # z = 0: nothing is kept
    inside = torch.atanh(unit(torch.ones(1, 1), hidden.unsqueeze(0)))
    torch.testing.assert_close(inside, torch.tensor([[-0.8, -0.65]]))


@torch.no_grad()
def test_pytorchs_gru_keeps_with_z_too_but_resets_after_the_matrix() -> None:
    """With one unit r ⊙ (U h) and U (r ⊙ h) are the same product; with two they are not, unless U is diagonal."""
    ours, theirs = drawn(GatedUnit(3, 2, bias=False)), nn.GRUCell(3, 2, bias=False).double()
    x, hidden = torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)

    def outputs() -> tuple[torch.Tensor, torch.Tensor]:
        theirs.weight_ih.copy_(ours.from_input.weight)
        theirs.weight_hh.copy_(torch.cat([ours.from_state.weight, ours.candidate.weight]))
        return ours(x, hidden), theirs(x, hidden)

    found, torchs = outputs()
    assert float((found - torchs).abs().max()) > 1e-3
    ours.candidate.weight.copy_(torch.diag(torch.tensor([0.7, -1.3])))
    torch.testing.assert_close(*outputs())


def test_maxout_pools_adjacent_units() -> None:
    assert maxout(torch.tensor([1.0, 2.0, 5.0, 3.0])).tolist() == [2.0, 5.0]  # not (1, 5) and (2, 3)


def phrases(**options: object) -> Seq2Seq:
    return Seq2Seq(Config(6, 5, cell="paper", maxout=4, **{"init": "torch", **options}), 9, 11).eval()  # type: ignore[arg-type]


def test_the_context_enters_every_decoder_step() -> None:
    """Not as its start alone: with the start as it is and a readout that does not look at it, each step still moves."""
    model = phrases()
    with torch.no_grad():
        model.readout.weight[:, 6 + 5 :] = 0
    memory = model.encode(SOURCE, torch.tensor([5]))
    other = memory._replace(context=memory.context + 0.5)
    assert (model.teach(other, TARGET) != model.teach(memory, TARGET)).any(-1).all()
    assert model.decoder.forwards[0].unit.from_input.in_features == 5 + 6  # [E y; c]


def test_the_readout_uses_the_state_the_previous_word_and_the_context() -> None:
    model = phrases()
    memory = model.encode(SOURCE, torch.tensor([5]))
    hidden, embedded = torch.randn(1, 6), torch.randn(1, 5)
    logits = model._read_out(hidden, embedded, memory.context)
    for changed in (
        (hidden + 1, embedded, memory.context),
        (hidden, embedded + 1, memory.context),
        (hidden, embedded, memory.context + 1),
    ):
        assert not torch.allclose(model._read_out(*changed), logits)


def test_padding_leaves_the_probability_of_a_phrase_unchanged() -> None:
    model = phrases().double()
    padded = torch.cat([SOURCE, torch.zeros(1, 20, dtype=torch.int64)], dim=1)
    alone, longer = model(SOURCE, torch.tensor([5]), TARGET), model(padded, torch.tensor([5]), TARGET)
    torch.testing.assert_close(longer, alone, rtol=0, atol=1e-6)


def test_the_papers_sizes() -> None:
    with torch.device("meta"):
        model = Seq2Seq(Config(hidden=1000, embedding=100, maxout=500, cell="paper", bias=False), 15_000, 15_000)
    assert model.source_embedding.weight.shape == (15_000, 100)
    assert model.readout.weight.shape == (1000, 1000 + 100 + 1000)  # 500 maxout units of two pieces
    assert model.output.weight.shape == (15_000, 500)


def test_weights_start_small_recurrent_ones_orthogonal_and_biases_at_zero() -> None:
    model = Seq2Seq(Config(40, 30, maxout=20, cell="paper", init="paper"), 300, 300)
    assert float(model.source_embedding.weight.detach().std()) == pytest.approx(0.01, rel=0.05)
    assert not model.readout.bias.any()
    unit = model.encoder.forwards[0].unit
    for block in (*unit.from_state.weight.split(40), unit.candidate.weight):
        torch.testing.assert_close(block @ block.mT, torch.eye(40), rtol=0, atol=1e-5)
