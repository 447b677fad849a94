"""Sequence to sequence through one vector, line by line; what every network keeps is in tests/contracts/test_models.py."""

from __future__ import annotations

import pytest
import torch

from saccade.models.seq2seq import Config, Seq2Seq
from saccade.nn.recurrent import maxout
from saccade.trace import Lens

SOURCE = torch.tensor([[4, 5, 6, 2], [7, 2, 0, 0]])  # EOS is 2
LENGTHS = torch.tensor([4, 2])
TARGET = torch.tensor([[1, 3, 4], [1, 5, 6]])


def network(**options: object) -> Seq2Seq:
    return Seq2Seq(Config(6, 5, maxout=3, **{"init": "torch", **options}), 9, 11).eval()  # type: ignore[arg-type]


def test_the_context_enters_every_step_and_the_readout() -> None:
    """By the formulas, with one vector c and nothing else of the source."""
    model = network(cell="paper")
    memory = model.encode(SOURCE, LENGTHS)
    logits, hidden = model.teach(memory, TARGET), memory.start[0][:, 0]
    for t in range(3):
        embedded = model.target_embedding(TARGET[:, t])
        hidden = model.decoder.forwards[0].unit(torch.cat([embedded, memory.context], -1), hidden)
        read = model.readout(torch.cat([hidden, embedded, memory.context], -1))
        torch.testing.assert_close(logits[:, t], model.output(maxout(read)))
    for t in range(3):  # a later context changes a later step, though the start is the same
        other = memory._replace(context=memory.context + 1)
        assert not torch.allclose(model.teach(other, TARGET)[:, t], logits[:, t])


def test_the_start_is_made_from_the_context() -> None:
    model = network()
    memory = model.encode(SOURCE, LENGTHS)
    _, (final,) = model.encoder(model.source_embedding(SOURCE), LENGTHS)
    torch.testing.assert_close(memory.context, torch.tanh(model.summary(final[:, -1])))
    torch.testing.assert_close(memory.start[0][:, 0], torch.tanh(model.start_layer(memory.context)))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_with_context_at_the_start_every_layer_hands_over_its_whole_state(cell: str) -> None:
    model = network(cell=cell, layers=3, context="start")
    memory = model.encode(SOURCE, LENGTHS)
    _, final = model.encoder(model.source_embedding(SOURCE), LENGTHS)
    assert memory.context.shape == (2, 0)
    assert len(memory.start) == (2 if cell == "lstm" else 1)  # h and, with an LSTM, c
    for part, expected in zip(memory.start, final, strict=True):
        assert part.shape == (2, 3, 6)
        torch.testing.assert_close(part, expected)


def test_with_context_at_the_start_nothing_else_of_the_source_is_used() -> None:
    model = network(cell="lstm", layers=2, context="start")
    memory = model.encode(SOURCE, LENGTHS)
    hidden, _ = model.decoder(model.target_embedding(TARGET), initial=memory.start)
    torch.testing.assert_close(model.teach(memory, TARGET), model.output(hidden))


def test_a_reversed_source_keeps_its_end_mark_last() -> None:
    plain, model = network(), network(reverse=True)
    model.load_state_dict(plain.state_dict())
    by_hand = torch.tensor([[6, 5, 4, 2], [7, 2, 0, 0]])
    torch.testing.assert_close(model(SOURCE, LENGTHS, TARGET), plain(by_hand, LENGTHS, TARGET), rtol=0, atol=0)


def test_states_of_a_reversed_source_are_shown_in_the_order_it_was_written_in() -> None:
    model, lens = network(reverse=True), Lens(detail=["state"])
    model(SOURCE, LENGTHS, TARGET, lens=lens)
    states, _ = model.encoder(model.source_embedding(torch.tensor([[6, 5, 4, 2], [7, 2, 0, 0]])), LENGTHS)
    torch.testing.assert_close(lens.traces[0].signals["encoder.state"].values, states[0, [2, 1, 0, 3]])


def test_settings_that_mean_nothing_are_refused() -> None:
    for options, message in (
        ({"hidden": 0}, "hidden must be at least 1: got 0"),
        ({"dropout": 1.0}, "dropout must be"),
    ):
        with pytest.raises(ValueError, match=message):
            Config(**options)  # type: ignore[arg-type]
