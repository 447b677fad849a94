"""RNNsearch, line by line; what every network keeps is in tests/contracts/test_models.py."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.attention.windows import Window, padding
from saccade.errors import SaccadeError
from saccade.models.rnnsearch import SITE, Config, RNNSearch
from saccade.nn.recurrent import maxout
from saccade.trace import Lens

SOURCE = torch.tensor([[4, 5, 6, 7, 2], [7, 2, 0, 0, 0]])
LENGTHS = torch.tensor([5, 2])
TARGET = torch.tensor([[1, 3, 4], [1, 5, 6]])
every_cell = pytest.mark.parametrize("cell", ["gru", "paper"])


def network(**options: object) -> RNNSearch:
    return RNNSearch(Config(6, 4, 3, alignment=5, **{"init": "torch", **options}), 9, 11).eval()  # type: ignore[arg-type]


@every_cell
def test_each_step_looks_with_the_state_before_it_moves_and_reads_out_from_that_state(cell: str) -> None:
    model, lens = network(cell=cell), Lens()
    logits = model(SOURCE, LENGTHS, TARGET, lens=lens)
    annotations, (final,) = model.encoder(model.source_embedding(SOURCE), LENGTHS)
    state = torch.tanh(model.start_layer(final[:, 1]))
    real = torch.arange(5) < LENGTHS.unsqueeze(-1)
    for t in range(3):
        embedded = model.target_embedding(TARGET[:, t])
        sums = (state @ model.query_weight.mT).unsqueeze(1) + annotations @ model.key_weight.mT
        weights = torch.softmax((torch.tanh(sums) @ model.v).masked_fill(~real, -torch.inf), -1)
        context = (weights.unsqueeze(-1) * annotations).sum(1)
        torch.testing.assert_close(
            logits[:, t], model.output(maxout(model.readout(torch.cat([state, embedded, context], -1))))
        )
        for item in range(2):
            torch.testing.assert_close(lens.traces[item].map(SITE.name).weights[t], weights[item])
        state, _ = model.cell.step(torch.cat([embedded, context], -1), (state.unsqueeze(1),))


@every_cell
def test_the_start_comes_from_the_backward_state_at_the_first_word(cell: str) -> None:
    model = network(cell=cell)
    annotations, _ = model.encoder(model.source_embedding(SOURCE), LENGTHS)
    expected = torch.tanh(model.start_layer(annotations[:, 0, 6:]))
    torch.testing.assert_close(model.start(model.encode(SOURCE, LENGTHS)), expected)


def test_annotations_hold_both_directions() -> None:
    model = network()
    memory = model.encode(SOURCE, LENGTHS)
    assert memory.annotations.shape == (2, 5, 12)
    changed = SOURCE.clone()
    changed[0, 3] = 8
    other = model.encode(changed, LENGTHS).annotations
    ahead, behind = (other - memory.annotations)[0].split(6, dim=-1)
    assert [bool(row.any()) for row in ahead] == [False, False, False, True, True]
    assert [bool(row.any()) for row in behind] == [True, True, True, True, False]


def test_the_part_of_the_keys_is_done_once_a_sentence() -> None:
    model = network()
    memory = model.encode(SOURCE, LENGTHS)
    torch.testing.assert_close(memory.keys, memory.annotations @ model.key_weight.mT)


def test_the_alignment_is_as_wide_as_the_state_unless_given() -> None:
    assert RNNSearch(Config(6, 4, 3), 9, 11).v.shape == (6,)
    assert network().v.shape == (5,)


def test_the_lens_keeps_states_and_contexts_when_asked_for() -> None:
    model, lens = network(), Lens(detail=["state", "context"])
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    shapes = {name: tuple(signal.values.shape) for name, signal in lens.traces[0].signals.items()}
    states = {"encoder.state": (5, 12), "decoder.start": (1, 6), "decoder.state": (3, 6)}
    assert shapes == {**states, f"{SITE.name}.context": (3, 12)}


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="maxout must be at least 1: got 0"):
        Config(maxout=0)
    with pytest.raises(ValueError, match=r"below 1: got -0\.1"):
        Config(dropout=-0.1)


def test_copying_mixes_the_vocabulary_with_the_words_it_looks_at_into_one_distribution() -> None:
    model, lens = RNNSearch(Config(6, 4, 3, alignment=5, copy=True, init="torch"), 9, 9).eval(), Lens()
    logits = model(SOURCE, LENGTHS, TARGET, lens=lens)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(2, 3))
    with torch.no_grad():
        model.copying.gate.weight.zero_()
        model.copying.gate.bias.fill_(-50.0)  # copy, whatever the vocabulary says
    copied = model(SOURCE, LENGTHS, TARGET, lens=(lens := Lens())).exp()
    for item in range(2):
        expected = torch.zeros(3, 9).index_add_(1, SOURCE[item], lens.traces[item].map(SITE.name).weights)
        torch.testing.assert_close(copied[item], expected, atol=1e-6, rtol=0)


def test_copying_writes_the_same_step_by_step_as_when_it_is_taught() -> None:
    model = RNNSearch(Config(6, 4, 3, copy=True, init="torch"), 9, 9).eval()
    taught = model(SOURCE, LENGTHS, TARGET)
    memory = model.encode(SOURCE, LENGTHS)
    state = model.start(memory)
    for offset in range(3):
        row, state = model.step(TARGET[:, offset], state, memory, offset=offset)
        torch.testing.assert_close(row, taught[:, offset])


def test_copying_needs_one_vocabulary() -> None:
    with pytest.raises(SaccadeError, match=r"data.shared: true\), found 9 source and 11 target tokens"):
        network(copy=True)


class FirstWord(RNNSearch):
    """Looks at the first word alone."""

    def window(self, state: Tensor, real: Tensor) -> Window:
        return padding(torch.ones(len(real), dtype=torch.int64))


def test_a_network_that_looks_elsewhere_does_so_in_training_too() -> None:
    torch.manual_seed(3)
    watched = FirstWord(Config(hidden=5, embedding=3, maxout=4), 11, 13).double()
    batch = torch.randint(0, 11, (2, 7)), torch.tensor([7, 4]), torch.randint(0, 13, (2, 3))
    torch.testing.assert_close(watched(*batch), watched(*batch, lens=Lens()))
