"""Cheng, Dong & Lapata 2016, "Long Short-Term Memory-Networks for Machine Reading"."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from saccade.models.lstmn import ClassifierConfig, Config, Lstmn, LstmnLM, Stack
from saccade.trace import Lens, Set, Site
from tests.written_out import Weights, below, check_language_model, close, drawn, linear, look, lstm

B, T, M, N = 3, 7, 5, 4
SITE = Site("self", "text", "text")


def stack(query: str = "paper", layers: int = 1) -> Stack:
    sites = tuple(Site(f"{number}", "text", "text") for number in range(layers))
    return Stack(M, N, query, 0.0, (SITE,) if layers == 1 else sites).eval()


@torch.no_grad()
def test_a_look_at_the_last_state_alone_is_an_lstm_bit_for_bit() -> None:
    network, x = stack(), torch.randn(B, T, M)
    one_hot = [Set([float(s == t - 1) for s in range(t + 1)], step=t) for t in range(1, T)]
    found, _ = network(x, None, network.blank(B, x), lens=Lens(edits=one_hot))
    cell: nn.LSTMCell = network.layers[0].cell
    state = torch.zeros(B, N), torch.zeros(B, N)
    for t in range(T):
        state = cell(x[:, t], state)
        assert torch.equal(found[:, t], state[0]), t


@torch.no_grad()
def test_two_entries_alike_get_half_each_and_the_summary_is_either() -> None:
    network, x = stack(), torch.randn(1, 3, M)
    cell = network.layers[0].cell
    for parameter in cell.parameters():
        parameter.zero_()
    cell.bias_ih[:] = torch.tensor([30.0, -30.0, 30.0, 0.5]).repeat_interleave(
        N
    )  # i, f, g, o: nothing of the past or the word
    lens = Lens(detail=["context"])
    states, after = network(x, None, network.blank(1, x), lens=lens)
    assert torch.equal(states[:, 0], states[:, 1])
    torch.testing.assert_close(lens.trace.map("self").weights[2], torch.tensor([0.5, 0.5, 0.0]))
    torch.testing.assert_close(after.summaries[0], states[:, 0])


@pytest.mark.parametrize("query", ["paper", "code"])
@torch.no_grad()
def test_the_equations_written_out(query: str) -> None:
    network, x = stack(query).double(), torch.randn(1, T, M, dtype=torch.float64)
    layer = network.layers[0]
    lens = Lens()
    found, _ = network(x, None, network.blank(1, x), lens=lens)
    plain, _ = network(x, None, network.blank(1, x))
    torch.testing.assert_close(plain, found)
    hidden, memory, summary = [], [], torch.zeros(N, dtype=torch.float64)
    for t in range(T):
        asked = layer.query.weight @ x[0, t]
        if query == "paper":
            asked = asked + layer.summary.weight @ summary
        scores = (
            torch.stack([layer.v @ torch.tanh(layer.key.weight @ h + asked) for h in hidden]) if t else torch.zeros(0)
        )
        weights = torch.softmax(scores, dim=0)
        torch.testing.assert_close(lens.trace.map("self").weights[t, :t], weights, check_dtype=False)
        assert not lens.trace.map("self").weights[t, t:].any(), "only what came before is seen"
        nothing = torch.zeros(N, dtype=torch.float64)
        summary = sum((w * h for w, h in zip(weights, hidden, strict=True)), start=nothing)
        kept = sum((w * c for w, c in zip(weights, memory, strict=True)), start=nothing)
        cell = layer.cell
        gates = cell.weight_ih @ x[0, t] + cell.bias_ih + cell.weight_hh @ summary + cell.bias_hh
        i, f, candidate, o = gates.chunk(4)
        # The forget gate acts on what was attended to, not on the cell before.
        memory.append(torch.sigmoid(f) * kept + torch.sigmoid(i) * torch.tanh(candidate))
        hidden.append(torch.sigmoid(o) * torch.tanh(memory[-1]))
        torch.testing.assert_close(found[0, t], hidden[-1])


def tape_of(weights: Weights, query: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The states of one layer."""
    hidden, memory, summary = [], [], torch.zeros(N, dtype=torch.float64)
    for x in inputs:
        asked = weights["query.weight"] @ x
        if query == "paper":
            asked = asked + weights["summary.weight"] @ summary
        scores = [weights["v"] @ torch.tanh(weights["key.weight"] @ h + asked) for h in hidden]
        summary = kept = torch.zeros(N, dtype=torch.float64)
        if scores:
            (_, summary), (_, kept) = look(scores, hidden), look(scores, memory)
        h, c = lstm(below(weights, "cell"), x, (summary, kept))
        hidden.append(h)
        memory.append(c)
    return hidden


@pytest.mark.parametrize(("query", "output"), [("paper", "tied"), ("code", "own")])
@torch.no_grad()
def test_the_language_model_written_out(query: str, output: str) -> None:
    network = drawn(LstmnLM(Config(hidden=N, embedding=M, layers=2, query=query, output=output), 11))  # type: ignore[arg-type]
    weights = network.state_dict()

    def expected(words: list[int]) -> torch.Tensor:
        states = list(weights["embedding.weight"][words])
        for layer in range(2):
            states = tape_of(below(weights, "cells.layers", str(layer)), query, states)
        if output == "tied":
            states = [weights["project.weight"] @ h for h in states]
            return torch.stack([weights["embedding.weight"] @ h + weights["output.bias"] for h in states])
        return torch.stack([linear(below(weights, "output"), h) for h in states])

    check_language_model(network, torch.randint(0, 11, (3, T)), torch.tensor([7, 4, 1]), expected)


@torch.no_grad()
def test_the_classifier_written_out() -> None:
    network = drawn(Lstmn(ClassifierConfig(hidden=N, embedding=M, layers=2, judge=6), 11, 3))
    weights, tokens, lengths = network.state_dict(), torch.randint(0, 11, (3, T)), torch.tensor([7, 4, 5])
    segments = (torch.arange(T) > 2).long().expand(3, T)
    for row, length in enumerate(lengths.tolist()):
        states = list(weights["embedding.weight"][tokens[row, :length]])
        states = [x + weights["second"] if t > 2 else x for t, x in enumerate(states)]
        for layer in range(2):
            states = tape_of(below(weights, "cells.layers", str(layer)), "paper", states)
        mean = torch.stack(states).mean(0)
        label = linear(below(weights, "output"), linear(below(weights, "judge"), mean).clamp(min=0))
        for lens in (None, Lens()):
            close(network(tokens, lengths, segments, lens=lens)[row], label)


@torch.no_grad()
def test_a_later_word_changes_no_earlier_state() -> None:
    network, x = stack(layers=2), torch.randn(B, T, M)
    other = x.clone()
    other[:, 4:] += 1
    found, changed = (network(each, None, network.blank(B, x))[0] for each in (x, other))
    assert torch.equal(found[:, :4], changed[:, :4])
    assert not torch.equal(found[:, 4], changed[:, 4])


@pytest.mark.parametrize(("query", "looks"), [("paper", N * N + N * M + N * N + N), ("code", N * N + N * M + N)])
def test_parameters_by_formula(query: str, looks: int) -> None:
    """W [4n, n + m] with the two biases of a PyTorch cell; W_h, W_x, W_h̃ and v."""
    cell = 4 * N * (N + M) + 2 * 4 * N
    assert sum(each.numel() for each in stack(query).parameters()) == cell + looks
    V, C, judge = 11, 3, 6
    model = LstmnLM(Config(hidden=N, embedding=M, query=query), V)
    assert sum(each.numel() for each in model.parameters()) == V * M + cell + looks + (N + 1) * V
    classifier = Lstmn(ClassifierConfig(hidden=N, embedding=M, query=query, judge=judge), V, C)
    head = (N + 1) * judge + (judge + 1) * C
    assert sum(each.numel() for each in classifier.parameters()) == V * M + M + cell + looks + head


def test_at_the_papers_sizes() -> None:
    """Words of 150, memories of 300: 4 · 300 · 450 + 2 · 1200 in the cell, 2 · 300² + 300 · 150 + 300 in its looks."""
    with torch.device("meta"):
        network = LstmnLM(Config(hidden=300, embedding=150), 10_000)
        assert sum(each.numel() for each in network.cells.parameters()) == 542_400 + 225_300
