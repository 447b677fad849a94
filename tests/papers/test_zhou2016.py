"""Zhou et al. 2016, "Attention-Based Bidirectional Long Short-Term Memory Networks for Relation Classification"."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from saccade.models.att_blstm import AttBlstm, Config
from saccade.trace import Lens
from tests.written_out import below, both_ways, close, drawn, linear, look, lstm

V, C = 30, 19


def network(**settings) -> AttBlstm:
    torch.manual_seed(4)
    return AttBlstm(Config(**{"embedding": 5, "hidden": 3, **settings}), V, C).double().eval()


@torch.no_grad()
def test_the_look_of_the_sheet() -> None:
    model, lens = AttBlstm(Config(4, 2), V, C).eval(), Lens()
    model.w[:] = torch.tensor([1.0, 0.0])
    states = torch.tensor([[[0.5, 1.0], [-1.0, 2.0]]])
    found = model.look(states, torch.tensor([2]), lens=lens)
    torch.testing.assert_close(lens.trace.map("pool").weights[0], torch.tensor([0.7727, 0.2273]), rtol=0, atol=5e-5)
    torch.testing.assert_close(found[0], torch.tensor([0.1591, 1.2273]), rtol=0, atol=5e-5)
    torch.testing.assert_close(found.tanh()[0], torch.tensor([0.1577, 0.8418]), rtol=0, atol=1e-4)


@torch.no_grad()
def test_with_a_zero_vector_it_is_the_mean() -> None:
    model = network()
    model.w.zero_()
    states = torch.randn(2, 7, 3, dtype=torch.float64)
    found = model.look(states, torch.tensor([7, 5]))
    torch.testing.assert_close(found, torch.stack([states[0].mean(0), states[1, :5].mean(0)]))


@torch.no_grad()
def test_the_equations_written_out() -> None:
    model, tokens = network(), torch.tensor([[4, 9, 6, 11, 5]])
    both, _ = model.encoder(model.embedding(tokens))
    H = both[0, :, :3] + both[0, :, 3:]
    r = (torch.tanh(H) @ model.w).softmax(0) @ H
    torch.testing.assert_close(model(tokens, torch.tensor([5]))[0], model.output(torch.tanh(r)))


@pytest.mark.parametrize("pool", ["attention", "last", "max"])
@pytest.mark.parametrize("directions", ["sum", "concat"])
@torch.no_grad()
def test_the_equations_from_the_words_on(directions: str, pool: str) -> None:
    model = drawn(AttBlstm(Config(5, 3, directions, pool), V, C))  # type: ignore[arg-type]
    weights, tokens, lengths = model.state_dict(), torch.randint(1, V, (3, 7)), torch.tensor([7, 3, 5])
    segments = (torch.arange(7) > 2).long().expand(3, 7)
    for row, length in enumerate(lengths.tolist()):
        words = [
            weights["embedding.weight"][token] + int(part) * weights["second"]
            for token, part in zip(tokens[row, :length], segments[row], strict=False)
        ]
        both = both_ways(lstm, below(weights, "encoder"), words)
        H = [h[:3] + h[3:] if directions == "sum" else h for h in both]
        if pool == "attention":
            r = look([weights["w"] @ torch.tanh(h) for h in H], H)[1]
        elif pool == "max":
            r = torch.stack(H).max(0).values
        else:
            ahead, behind = both[-1][:3], both[0][3:]
            r = ahead + behind if directions == "sum" else torch.cat([ahead, behind])
        for lens in (None, Lens()):
            close(model(tokens, lengths, segments, lens=lens)[row], linear(below(weights, "output"), torch.tanh(r)))


def test_dropout_acts_on_the_words_the_states_and_the_vector_before_the_output(monkeypatch) -> None:
    shares = []
    monkeypatch.setattr(functional, "dropout", lambda x, share, training: shares.append((x.shape[-1], share)) or x)
    model = AttBlstm(Config(5, 3), V, C).train()
    model(torch.randint(1, V, (2, 7)), torch.tensor([7, 4]))
    assert shares == [(5, 0.3), (3, 0.3), (3, 0.5)]


@torch.no_grad()
def test_fifty_tokens_of_padding_leave_the_logits_as_they_are() -> None:
    model, tokens = network(), torch.tensor([[4, 9, 6, 11, 5]])
    padded = functional.pad(tokens, (0, 50))
    torch.testing.assert_close(model(padded, torch.tensor([5])), model(tokens, torch.tensor([5])))


def test_sizes_are_the_papers_and_concatenation_doubles_w_and_the_output() -> None:
    summed, joined = AttBlstm(Config(), V, C), AttBlstm(Config(directions="concat"), V, C)
    assert (Config().directions, Config().pool) == ("sum", "attention")
    assert (summed.w.numel(), summed.output.weight.numel()) == (100, 19 * 100)
    assert (joined.w.numel(), joined.output.weight.numel()) == (200, 19 * 200)
    assert sum(each.numel() for each in summed.encoder.parameters()) == 2 * (4 * (100 * 100 + 100 * 100) + 800)
