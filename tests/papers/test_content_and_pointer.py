"""Content addressing (Graves, Wayne & Danihelka 2014) and Pointer Networks (Vinyals, Fortunato & Jaitly 2015)."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.attention.core import attend, weigh
from saccade.attention.layers import Attention
from saccade.attention.scores import cosine, location
from saccade.models.pointer import END, SITE, Config, Pointer
from saccade.trace import Lens
from tests.written_out import below, check_decoder, drawn, lstm, run, unit_of

MEMORY = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
KEY = torch.tensor([[[1.0, 0.0]]])


def test_content_addressing_by_hand() -> None:
    """M = [[1, 0], [0, 1], [1, 1]], k = [1, 0], β = 5."""
    torch.testing.assert_close(cosine(1.0)(KEY, MEMORY)[0, 0], torch.tensor([1, 0, math.sqrt(0.5)]))
    weights = weigh(KEY, MEMORY, score=cosine(5.0))[0, 0]
    torch.testing.assert_close(weights, torch.tensor([0.8078, 0.0054, 0.1868]), rtol=0, atol=5e-5)
    read = attend(KEY, MEMORY, MEMORY, score=cosine(5.0))[0, 0]
    torch.testing.assert_close(read, weights @ MEMORY[0])


def test_a_learned_beta_cannot_turn_negative() -> None:
    """A free sign would let the head address the row that is least alike."""
    layer = Attention(2, 2, score="cosine")
    for raw in (-8.0, 0.0, 3.0):
        with torch.no_grad():
            layer.raw_beta.fill_(raw)
        weights = weigh(KEY, MEMORY, score=layer.score)[0, 0]
        assert weights[0] > weights[2] > weights[1]


def test_a_row_of_zeros_is_addressed_without_nan() -> None:
    memory = torch.cat([MEMORY, torch.zeros(1, 1, 2)], dim=1).requires_grad_()
    attend(KEY, memory, memory, score=cosine(5.0)).sum().backward()
    assert memory.grad.isfinite().all()


def test_a_pointer_by_hand() -> None:
    """u = [0, ln 2, ln 4]: 1/7, 2/7, 4/7."""
    scores = torch.tensor([[0.0], [math.log(2)], [math.log(4)]])  # one place a row
    weights = weigh(torch.ones(1, 1, 1), torch.zeros(1, 3, 1), score=location(scores))
    torch.testing.assert_close(weights, torch.tensor([[[1 / 7, 2 / 7, 4 / 7]]]))


def pointer(**options: object) -> Pointer:
    return Pointer(Config(5, **options), 2).eval()  # type: ignore[arg-type]


def test_the_distribution_over_inputs_is_the_output() -> None:
    model, lens = pointer(), Lens()
    points, target = torch.rand(1, 6, 2), torch.tensor([[END, 3, 6]])
    logits = model(points, torch.tensor([6]), target, lens=lens)
    torch.testing.assert_close(torch.softmax(logits[0], -1), lens.trace.map(SITE.name).weights)
    # Its logarithms are the network's log-probabilities as they stand.
    torch.testing.assert_close(torch.log_softmax(logits, -1), logits)


def test_the_next_input_is_the_chosen_input_vector_itself() -> None:
    """Not the encoder's state of it: moving a point changes what is fed when it is chosen."""
    model = pointer()
    points = torch.rand(1, 6, 2)
    memory = model.encode(points, torch.tensor([6]))
    torch.testing.assert_close(memory.inputs[0, 1:], points[0], rtol=0, atol=0)
    _, state = model.step(torch.tensor([END]), model.start(memory), memory, offset=0)
    _, moved = model.step(torch.tensor([4]), state, memory, offset=1)
    expected, _ = model.decoder.step(points[:, 3], state.state)
    torch.testing.assert_close(moved.state[0][:, -1], expected)


def test_there_is_no_context_vector() -> None:
    """The decoder reads points alone: its input is as wide as one."""
    assert pointer().decoder.forwards[0].unit.input_size == 2


def test_in_the_paper_a_point_may_be_chosen_again() -> None:
    """It keeps its weight, and the others theirs; with ``revisit: false`` a chosen one is hidden from then on."""
    points, target = torch.rand(1, 6, 2), torch.tensor([[END, 3, 5, 3]])
    again, once, lens, hidden = pointer(), pointer(revisit=False), Lens(), Lens()
    once.load_state_dict(again.state_dict())
    again(points, torch.tensor([6]), target, lens=lens)
    once(points, torch.tensor([6]), target, lens=hidden)
    seen, left = (each.trace.map(SITE.name).weights for each in (lens, hidden))
    assert (seen > 0).all()
    chosen = torch.zeros(4, 7, dtype=torch.bool)
    chosen[1:, 3], chosen[2:, 5] = True, True
    assert torch.equal(left == 0, chosen)
    others = seen.masked_fill(chosen, 0.0)
    torch.testing.assert_close(left, others / others.sum(1, keepdim=True))


@torch.no_grad()
def test_the_equations_of_the_pointer_written_out() -> None:
    network, points = drawn(pointer()), torch.randn(2, 6, 2, dtype=torch.float64)
    lengths, target = torch.tensor([6, 3]), torch.tensor([[END, 3, 6, 3], [END, 2, 1, 2]])
    weights = network.state_dict()

    def expected(row: int) -> tuple[torch.Tensor, torch.Tensor]:
        own = list(points[row, : lengths[row]])
        e, state = run(lstm, unit_of(below(weights, "encoder")), own)
        e, inputs, rows = [weights["end"], *e], [weights["first"], *own], []
        for place in target[row].tolist():
            state = lstm(unit_of(below(weights, "decoder")), inputs[place], state)
            W_1, W_2, d = weights["key_weight"], weights["query_weight"], state[0]
            rows.append(torch.softmax(torch.stack([weights["v"] @ torch.tanh(W_1 @ each + W_2 @ d) for each in e]), 0))
        alphas = torch.stack(rows)
        logits = torch.full((4, 7), torch.finfo(torch.float64).tiny, dtype=torch.float64)
        logits[:, : len(e)] = alphas
        return logits.log(), alphas

    check_decoder(network, points, lengths, target, expected)


def test_everything_starts_evenly_between_minus_and_plus_008() -> None:
    for name, parameter in Pointer(Config(40, init="paper"), 2).named_parameters():
        assert float(parameter.detach().abs().max()) <= 0.08, name
        if parameter.numel() > 500:
            assert float(parameter.detach().std()) == pytest.approx(0.08 / 3**0.5, rel=0.1), name
