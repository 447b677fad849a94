"""Bahdanau, Cho & Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and Translate"."""

from __future__ import annotations

import math

import pytest
import torch

from saccade.attention.normalise import softmax
from saccade.models.rnnsearch import Config, RNNSearch
from saccade.trace import Lens
from tests.written_out import below, both_ways, check_decoder, drawn, gated, gru, linear, look, unit_of

SOURCE = torch.tensor([[4, 5, 6, 7, 8, 3, 2], [7, 5, 2, 0, 0, 0, 0]])
LENGTHS = torch.tensor([7, 3])
TARGET = torch.tensor([[1, 3, 4, 5], [1, 5, 6, 7]])


def parameters(*modules: torch.nn.Module | torch.nn.Parameter) -> int:
    return sum(
        module.numel() if isinstance(module, torch.Tensor) else sum(part.numel() for part in module.parameters())
        for module in modules
    )


def small(**options: object) -> RNNSearch:
    return RNNSearch(Config(6, 4, 3, **{"cell": "paper", "init": "torch", **options}), 9, 11).eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("cell", ["gru", "paper"])
@torch.no_grad()
def test_the_equations_written_out(cell: str, copy: bool) -> None:
    network = drawn(RNNSearch(Config(6, 4, 3, 5, cell=cell, copy=copy), 11, 11))  # type: ignore[arg-type]
    unit, weights = gru if cell == "gru" else gated("write"), network.state_dict()

    def expected(row: int) -> tuple[torch.Tensor, torch.Tensor]:
        source = SOURCE[row, : LENGTHS[row]]
        h = both_ways(unit, below(weights, "encoder"), list(weights["source_embedding.weight"][source]))
        s = torch.tanh(linear(below(weights, "start_layer"), h[0][6:]))
        W, U, v = weights["query_weight"], weights["key_weight"], weights["v"]
        logits, alphas = [], []
        for word in weights["target_embedding.weight"][TARGET[row]]:
            alpha, c = look([v @ torch.tanh(W @ s + U @ each) for each in h], h)
            known = torch.cat([s, word, c])
            t = linear(below(weights, "readout"), known)
            maxima = torch.stack([max(t[2 * i], t[2 * i + 1]) for i in range(3)])
            output = linear(below(weights, "output"), maxima)
            if copy:
                g = torch.sigmoid(linear(below(weights, "copying.gate"), known))
                mixed = g * torch.softmax(output, 0)
                for weight, token in zip(alpha, source, strict=True):
                    mixed[token] += (1 - g[0]) * weight
                output = mixed.log()
            logits.append(output)
            alphas.append(alpha)
            (s,) = unit(unit_of(below(weights, "cell")), torch.cat([word, c]), (s,))
        return torch.stack(logits), torch.stack(alphas)

    check_decoder(network, SOURCE, LENGTHS, TARGET, expected)


def test_an_alignment_by_hand() -> None:
    scores = torch.tensor([[[1.0, 2.0, 3.0], [1.0, 2.0, -math.inf]]])
    expected = torch.tensor([[[0.0900, 0.2447, 0.6652], [0.2689, 0.7311, 0.0]]])
    torch.testing.assert_close(softmax(scores), expected, rtol=0, atol=5e-5)
    assert softmax(scores)[0, 1, 2] == 0


@pytest.mark.parametrize("cell", ["gru", "paper"])
def test_the_first_alignments_are_exactly_even(cell: str) -> None:
    """v_a starts at 0, so every row is 1/T_x."""
    model, lens = small(cell=cell, init="paper"), Lens()
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    for trace, length in zip(lens.traces, LENGTHS.tolist(), strict=True):
        even = torch.zeros(4, 7)
        even[:, :length] = 1 / length
        torch.testing.assert_close(trace.map().weights, even, rtol=1e-6, atol=0)


def test_parameters_at_the_papers_sizes() -> None:
    """80 401 000 without biases, part by part."""
    with torch.device("meta"):
        config = Config(hidden=1000, embedding=620, maxout=500, alignment=1000, cell="paper", bias=False)
        model = RNNSearch(config, 30_000, 30_000)
    assert parameters(model.encoder) == 9_720_000
    assert parameters(model.cell) == 10_860_000
    assert parameters(model.query_weight, model.key_weight, model.v) == 3_001_000
    assert parameters(model.readout) == 3_620_000
    assert parameters(model.source_embedding, model.target_embedding) == 37_200_000
    assert parameters(model.output) == 15_000_000
    assert parameters(model.start_layer) == 1_000_000
    assert parameters(model) == 80_401_000


def test_the_start_uses_the_backward_state_at_the_first_word_also_under_padding() -> None:
    model = small()
    annotations = model.encode(SOURCE, LENGTHS).annotations
    start = model.start(model.encode(SOURCE, LENGTHS))
    torch.testing.assert_close(start, torch.tanh(model.start_layer(annotations[:, 0, 6:])))
    for wrong in (annotations[:, -1, 6:], annotations[:, -1, :6], annotations.mean(1)[:, :6]):
        assert not torch.allclose(start, torch.tanh(model.start_layer(wrong)), atol=1e-4)


def test_the_query_is_the_state_before_the_step_so_the_word_fed_does_not_move_the_look() -> None:
    model, looks = small(), []
    for token in (3, 9):
        lens, memory = Lens(), model.encode(SOURCE, LENGTHS)
        model.step(torch.tensor([token, token]), model.start(memory), memory, offset=0, lens=lens)
        looks.append(lens.traces[0].map().weights)
    torch.testing.assert_close(looks[0], looks[1], rtol=0, atol=0)


def test_the_readout_uses_the_state_before_the_step() -> None:
    """Another cell moves to another state, and the output of the step is the same."""
    model = small()
    memory = model.encode(SOURCE, LENGTHS)
    before, moved = model.step(TARGET[:, 0], model.start(memory), memory, offset=0)
    with torch.no_grad():
        for parameter in model.cell.parameters():
            parameter.mul_(-3)
    after, moved_otherwise = model.step(TARGET[:, 0], model.start(memory), memory, offset=0)
    assert not torch.allclose(moved, moved_otherwise)
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_the_update_gate_writes_where_the_encoder_decoder_of_2014_keeps() -> None:
    model = small()
    units = [model.encoder.forwards[0].unit, model.encoder.backwards[0].unit, model.cell.forwards[0].unit]
    for unit in units:
        with torch.no_grad():
            hidden = unit.candidate.weight.shape[0]
            unit.from_input.bias[hidden : 2 * hidden] = -1e4  # z = 0
        state = torch.randn(1, hidden)
        torch.testing.assert_close(unit(torch.randn(1, unit.from_input.in_features), state), state)


def test_both_directions_share_the_source_embedding() -> None:
    model = small()
    assert sum("source_embedding" in name for name, _ in model.named_parameters()) == 1
    assert not torch.equal(
        model.encoder.forwards[0].unit.candidate.weight, model.encoder.backwards[0].unit.candidate.weight
    )


def test_the_end_mark_takes_part_in_attention() -> None:
    lens = Lens()
    small()(SOURCE, LENGTHS, TARGET, lens=lens)
    assert (lens.traces[1].map().weights[:, 2] > 0).all()


def test_weights_start_as_in_the_appendix() -> None:
    """Recurrent matrices orthogonal, W_a and U_a from N(0, 0.001²), v_a and biases 0, the rest N(0, 0.01²)."""
    for cell in ("gru", "paper"):
        model = RNNSearch(Config(40, 30, 20, cell=cell, init="paper"), 200, 200)  # type: ignore[arg-type]
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                assert not parameter.any(), name
            elif name in ("query_weight", "key_weight"):
                assert float(parameter.detach().std()) == pytest.approx(0.001, rel=0.1), name
            elif any(part in name for part in ("weight_hh", "from_state", "candidate")):
                for block in parameter.split(40):
                    torch.testing.assert_close(block @ block.mT, torch.eye(40), rtol=0, atol=1e-5)
            else:
                assert float(parameter.detach().std()) == pytest.approx(0.01, rel=0.1), name
