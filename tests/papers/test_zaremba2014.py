"""Zaremba, Sutskever & Vinyals 2014, "Recurrent Neural Network Regularization": the LSTM as a language model, and where its
dropout acts; its output may be the embedding (Press & Wolf 2017)."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from saccade.models.recurrent_lm import Config, RecurrentLM
from tests.written_out import below, check_language_model, drawn, gru, linear, lstm, run, unit_of

N, M, V = 4, 5, 11


@pytest.mark.parametrize(("cell", "output"), [("lstm", "own"), ("lstm", "tied"), ("gru", "tied")])
@torch.no_grad()
def test_the_equations_written_out(cell: str, output: str) -> None:
    network = drawn(RecurrentLM(Config(N, M, 2, cell, output), V))  # type: ignore[arg-type]
    weights = network.state_dict()

    def expected(words: list[int]) -> torch.Tensor:
        states = list(weights["embedding.weight"][words])
        for layer in range(2):
            states, _ = run(lstm if cell == "lstm" else gru, unit_of(below(weights, "cells"), layer), states)
        if output == "own":
            return torch.stack([linear(below(weights, "output"), h) for h in states])
        E, P = weights["embedding.weight"], weights["project.weight"]
        return torch.stack([E @ (P @ h) + weights["output.bias"] for h in states])

    check_language_model(network, torch.randint(0, V, (3, 7)), torch.tensor([7, 4, 1]), expected)


def test_dropout_acts_on_words_between_layers_and_before_the_output_and_never_from_state_to_state(monkeypatch) -> None:
    widths = []
    monkeypatch.setattr(functional, "dropout", lambda x, share, training: widths.append((x.shape[-1], share)) or x)
    network = RecurrentLM(Config(N, M, 2, dropout=0.4), V).train()
    tokens = torch.randint(0, V, (2, 7))
    network(tokens)
    assert widths == [(M, 0.4), (N, 0.4), (N, 0.4)]
    widths.clear()
    network.step(tokens[:, 0], network.blank(2), None, offset=0)
    assert widths == [(M, 0.4), (N, 0.4), (N, 0.4)]
