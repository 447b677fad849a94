"""Recurrent layers over padded batches, against PyTorch's over packed ones."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from saccade.errors import SaccadeError
from saccade.nn.recurrent import GatedUnit, Recurrent, at_end, mask_of, maxout, reverse_within

CELLS = ["rnn", "gru", "lstm", "paper"]
LENGTHS = torch.tensor([7, 1, 4])
every_cell = pytest.mark.parametrize("cell", CELLS)


def stacks() -> list[tuple[str, int, bool, bool]]:
    return list(itertools.product(CELLS, (1, 2), (False, True), (True, False)))


every_stack = pytest.mark.parametrize(("cell", "layers", "bidirectional", "bias"), stacks())


def build(cell: str, layers: int = 1, bidirectional: bool = False, bias: bool = True) -> Recurrent:
    return Recurrent(cell, 3, 5, layers=layers, bidirectional=bidirectional, bias=bias)  # type: ignore[arg-type]


# The parts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [False, True])
def test_without_gradients_the_real_outputs_and_the_states_are_the_same(bidirectional: bool) -> None:
    layers, x, lengths = build("gru", 2, bidirectional), torch.randn(4, 7, 3), torch.tensor([3, 7, 0, 5])
    expected, (state,) = layers(x, lengths)
    with torch.no_grad():
        found, (ended,) = layers(x, lengths)
    real = mask_of(lengths, 7)
    torch.testing.assert_close(found[real], expected[real])
    torch.testing.assert_close(ended, state)


def test_the_mask_is_true_at_real_positions() -> None:
    assert mask_of(torch.tensor([2, 0, 3]), 3).int().tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]


def test_rows_are_reversed_within_their_own_lengths_and_padding_stays() -> None:
    rows = torch.tensor([[1, 2, 3, 4], [1, 2, 0, 0], [9, 0, 0, 0]])
    assert reverse_within(rows, torch.tensor([4, 2, 1])).tolist() == [[4, 3, 2, 1], [2, 1, 0, 0], [9, 0, 0, 0]]
    assert reverse_within(rows, torch.tensor([3, 0, 0])).tolist() == [[3, 2, 1, 4], [1, 2, 0, 0], [9, 0, 0, 0]]


def test_reversing_twice_changes_nothing() -> None:
    states = torch.randn(3, 7, 5)
    once = reverse_within(states, LENGTHS)
    torch.testing.assert_close(once[2, 0], states[2, 3], rtol=0, atol=0)
    torch.testing.assert_close(reverse_within(once, LENGTHS), states, rtol=0, atol=0)


def test_the_end_is_the_last_real_position() -> None:
    states = torch.randn(3, 7, 5)
    torch.testing.assert_close(
        at_end(states, LENGTHS), torch.stack([states[0, 6], states[1, 0], states[2, 3]]), rtol=0, atol=0
    )


def test_maxout_pools_adjacent_units() -> None:
    assert maxout(torch.tensor([[1.0, 5.0, -3.0, -2.0, 4.0, 4.0]])).tolist() == [[5.0, -2.0, 4.0]]


# The gated unit as published --------------------------------------------------------------------------------------------


def test_the_gated_unit_resets_the_state_before_its_matrix() -> None:
    """U(r ⊙ h) = [−0.8, −0.65] where r ⊙ (U h) would be [−0.1, −1.35]."""
    unit = GatedUnit(1, 2, bias=False)
    reset, hidden = torch.tensor([0.2, 0.9]), torch.tensor([[1.0, -1.0]])
    with torch.no_grad():
        unit.from_state.weight.zero_()
        unit.from_input.weight[:, 0] = torch.cat([torch.logit(reset), torch.full((2,), -1e4), torch.zeros(2)])
        unit.candidate.weight.copy_(torch.tensor([[0.5, 1.0], [-1.0, 0.5]]))
    # The update gate is 0: with "keep" the new state is the candidate alone.
    torch.testing.assert_close(unit(torch.ones(1, 1), hidden), torch.tanh(torch.tensor([[-0.8, -0.65]])))


def test_the_two_polarities_of_the_update_gate_mirror_each_other() -> None:
    keep, write = GatedUnit(3, 5, update="keep"), GatedUnit(3, 5, update="write")
    write.load_state_dict(keep.state_dict())
    with torch.no_grad():  # σ(−a) = 1 − σ(a)
        write.from_input.weight[5:10] *= -1
        write.from_input.bias[5:10] *= -1
        write.from_state.weight[5:] *= -1
    x, hidden = torch.randn(2, 3), torch.randn(2, 5)
    torch.testing.assert_close(write(x, hidden), keep(x, hidden))


def test_only_without_recurrence_is_the_published_unit_pytorchs() -> None:
    """PyTorch's is r ⊙ (U h): another function, equal where U = 0 or r = 1."""
    ours, theirs = GatedUnit(3, 5), nn.GRUCell(3, 5)
    with torch.no_grad():
        theirs.weight_ih.copy_(ours.from_input.weight)
        theirs.bias_ih.copy_(ours.from_input.bias)
        theirs.bias_hh.zero_()
        theirs.weight_hh.copy_(torch.cat([ours.from_state.weight, ours.candidate.weight]))
    x, hidden = torch.randn(2, 3), torch.randn(2, 5)
    assert not torch.allclose(ours(x, hidden), theirs(x, hidden), atol=1e-3)
    with torch.no_grad():
        ours.from_input.bias[:5] = theirs.bias_ih[:5] = 1e4  # the reset gate is open: r = 1
    torch.testing.assert_close(ours(x, hidden), theirs(x, hidden))


# Stacks -----------------------------------------------------------------------------------------------------------------


def pytorchs(ours: Recurrent) -> nn.RNNBase:
    """PyTorch's stack with the same parameters."""
    layers, bias = len(ours.forwards), "bias_ih_l0" in dict(ours.forwards[0].unit.named_parameters())
    kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[ours.cell]
    theirs = kind(3, 5, layers, batch_first=True, bidirectional=ours.bidirectional, bias=bias)
    with torch.no_grad():
        for number in range(layers):
            for direction, suffix in ((ours.forwards, ""), (ours.backwards, "_reverse")):
                for name, parameter in direction[number].unit.named_parameters() if len(direction) else []:
                    getattr(theirs, name.replace("_l0", f"_l{number}{suffix}")).copy_(parameter)
    return theirs


@pytest.mark.parametrize(("cell", "layers", "bidirectional", "bias"), [case for case in stacks() if case[0] != "paper"])
def test_a_padded_batch_gives_what_pytorch_gives_for_a_packed_one(
    cell: str, layers: int, bidirectional: bool, bias: bool
) -> None:
    ours, x = build(cell, layers, bidirectional, bias), torch.randn(3, 7, 3)
    theirs = pytorchs(ours)
    packed, states = theirs(pack_padded_sequence(x, LENGTHS, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    outputs, final = ours(x, LENGTHS)
    real = mask_of(LENGTHS, 7)
    torch.testing.assert_close(outputs[real], expected[real])
    ways = 2 if bidirectional else 1
    for part, their_part in zip(final, states if cell == "lstm" else [states], strict=True):
        # PyTorch interleaves the directions layer by layer; here the forward states of all layers come first.
        by_layer = their_part.view(layers, ways, 3, 5)
        torch.testing.assert_close(part, torch.cat([by_layer[:, way] for way in range(ways)]).transpose(0, 1))


@every_stack
def test_padding_changes_neither_outputs_nor_states_nor_gradients(
    cell: str, layers: int, bidirectional: bool, bias: bool
) -> None:
    network, x = build(cell, layers, bidirectional, bias), torch.randn(3, 7, 3)
    outputs, final = network(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, alone_final = network(x[row : row + 1, :length], LENGTHS[row : row + 1])
        torch.testing.assert_close(outputs[row, :length], alone[0], rtol=1e-5, atol=1e-6)
        for part, alone_part in zip(final, alone_final, strict=True):
            torch.testing.assert_close(part[row], alone_part[0], rtol=1e-5, atol=1e-6)
    other = torch.where(mask_of(LENGTHS, 7).unsqueeze(-1), x, torch.full_like(x, 100.0))
    gradients = []
    for batch in (x, other):
        outputs, final = network(batch, LENGTHS)
        loss = outputs[mask_of(LENGTHS, 7)].square().sum() + sum(part.square().sum() for part in final)
        gradients.append(torch.autograd.grad(loss, list(network.parameters())))
    for one, two in zip(*gradients, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-5, atol=1e-6)


@every_cell
@pytest.mark.parametrize("layers", [1, 2])
def test_step_by_step_equals_the_whole_sequence(cell: str, layers: int) -> None:
    network, x = build(cell, layers), torch.randn(3, 7, 3)
    initial = tuple(torch.randn(3, layers, 5) for _ in network.zero_state(3, x))
    outputs, final = network(x, initial=initial)
    state = initial
    for t in range(7):
        output, state = network.step(x[:, t], state)
        torch.testing.assert_close(output, outputs[:, t], rtol=1e-5, atol=1e-6)
    for part, expected in zip(state, final, strict=True):
        torch.testing.assert_close(part, expected, rtol=1e-5, atol=1e-6)


@every_cell
def test_without_an_initial_state_it_starts_at_zero(cell: str) -> None:
    network, x = build(cell, 2), torch.randn(3, 7, 3)
    zero = network.zero_state(3, x)
    assert len(zero) == (2 if cell == "lstm" else 1)
    assert all(part.shape == (3, 2, 5) and not part.any() for part in zero)
    torch.testing.assert_close(network(x)[0], network(x, initial=zero)[0])


@every_cell
def test_the_backward_state_at_the_end_is_the_one_at_the_first_input(cell: str) -> None:
    network, x = build(cell, 1, bidirectional=True), torch.randn(3, 7, 3)
    outputs, final = network(x, LENGTHS)
    torch.testing.assert_close(final[0][:, 1], outputs[:, 0, 5:])
    torch.testing.assert_close(final[0][:, 0], at_end(outputs[..., :5].contiguous(), LENGTHS))


def test_the_memory_cell_passes_over_padding_bit_for_bit() -> None:
    network, x = build("lstm"), torch.randn(3, 7, 3) * 4
    _, (_, memory) = network(x, LENGTHS)
    beyond = torch.cat([x, torch.full((3, 30, 3), 9.0)], dim=1)
    _, (_, longer) = network(beyond, LENGTHS)
    assert torch.equal(memory, longer)


@every_cell
def test_dropout_is_between_the_layers_and_in_training_alone(cell: str) -> None:
    one = Recurrent(cell, 3, 5, layers=1, dropout=0.9)  # type: ignore[arg-type]
    two = Recurrent(cell, 3, 5, layers=2, dropout=0.9)  # type: ignore[arg-type]
    x = torch.randn(3, 7, 3)
    torch.testing.assert_close(one(x)[0], one(x)[0], rtol=0, atol=0)
    assert not torch.allclose(two(x)[0], two(x)[0])
    two.eval()
    torch.testing.assert_close(two(x)[0], two(x)[0], rtol=0, atol=0)


@pytest.mark.usefixtures("shapes_unchecked")
def test_an_unknown_cell_is_refused() -> None:
    with pytest.raises(SaccadeError, match="cell must be rnn, gru, lstm or paper: got 'sru'"):
        Recurrent("sru", 3, 5)  # type: ignore[arg-type]


@every_cell
def test_gradients_are_those_of_finite_differences(cell: str) -> None:
    network = build(cell, 2, bidirectional=True).double()
    x = torch.randn(3, 7, 3, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor) -> tuple[Tensor, ...]:
        outputs, final = network(x, LENGTHS)
        return (outputs[mask_of(LENGTHS, 7)], *final)

    assert torch.autograd.gradcheck(run, (x,), fast_mode=True)


@every_cell
@pytest.mark.usefixtures("shapes_unchecked")
def test_every_cell_reads_and_steps_in_mixed_precision_on_a_cpu(cell: str) -> None:
    both, ahead, x = build(cell, 2, bidirectional=True), build(cell, 2), torch.randn(3, 7, 3)
    expected, _ = both(x, LENGTHS)
    with torch.autocast("cpu", torch.bfloat16):
        found, _ = both(x, LENGTHS)
        state = ahead.step(x[:, 0], ahead.zero_state(3, x))[1]
        ahead(x.bfloat16(), None, state)  # as what comes from a product
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.03)
    found.float().sum().backward()
    assert all(parameter.grad is not None for parameter in both.parameters())
