"""Wang, Huang, Zhu & Zhao 2016, "Attention-based LSTM for Aspect-level Sentiment Classification"."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from saccade.models.atae_lstm import AtaeLstm, Config
from saccade.trace import Lens
from tests.written_out import below, close, drawn, linear, look, lstm, run, steady_dropout, unit_of

M, N, C, V = 5, 7, 3, 30
MARK = 2
SENTENCE, FOOD, SERVICE = [4, 9, 6, 11, 5], [9], [11, 12, 13]


def network(variant: str = "atae", scorer: str = "printed") -> AtaeLstm:
    torch.manual_seed(3)
    return AtaeLstm(Config(variant, scorer, M, N), V, C).double().eval()


def row(sentence: list[int], aspect: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    tokens = torch.tensor([[*sentence, MARK, *aspect]])
    segments = torch.tensor([[0] * (len(sentence) + 1) + [1] * len(aspect)])
    return tokens, torch.tensor([tokens.shape[1]]), segments


def weights(model: AtaeLstm, aspect: list[int]) -> Tensor:
    lens = Lens()
    model(*row(SENTENCE, aspect), lens=lens)
    return lens.trace.map("pool").weights[0, : len(SENTENCE)]


@pytest.mark.parametrize("scorer", ["printed", "summed"])
@torch.no_grad()
def test_the_equations_written_out(scorer: str) -> None:
    model = network("atae", scorer)
    words, aspect = model.embedding.weight[SENTENCE], model.embedding.weight[SERVICE].mean(0)
    states, _ = model.encoder(torch.cat([words, aspect.expand(len(SENTENCE), -1)], dim=-1)[None])
    H, N_last = states[0], states[0, -1]
    if scorer == "printed":
        inner = torch.cat([H @ model.state_weight.T, (model.aspect_weight @ aspect).expand(len(H), -1)], dim=-1)
    else:
        inner = H @ model.state_weight.T + model.aspect_weight @ aspect
    alpha = (torch.tanh(inner) @ model.w).softmax(0)
    r = alpha @ H
    h = torch.tanh(model.from_look.weight @ r + model.from_last.weight @ N_last)
    torch.testing.assert_close(model(*row(SENTENCE, SERVICE))[0], model.output(h))
    torch.testing.assert_close(weights(model, SERVICE), alpha)


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("scorer", ["printed", "summed"])
@pytest.mark.parametrize("variant", ["atae", "at", "ae", "lstm"])
@torch.no_grad()
def test_rows_of_a_padded_batch_by_the_equations_from_the_words_on(
    variant: str, scorer: str, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence without its mark and its aspect; a row without an aspect is all sentence, and its aspect is 0.

    Dropout acts on the words, on the aspect and before the output."""
    model = drawn(AtaeLstm(Config(variant, scorer, M, N, dropout), V, C))  # type: ignore[arg-type]
    steady_dropout(monkeypatch)
    model.train()
    kept = 1 - dropout
    named, rows = model.state_dict(), [(SENTENCE, SERVICE), (SENTENCE[:2], FOOD), ([8, 7, 6], [])]
    tokens, segments = torch.zeros(3, 9, dtype=torch.int64), torch.zeros(3, 9, dtype=torch.int64)
    lengths = torch.tensor([9, 4, 3])
    for number, (sentence, about) in enumerate(rows):
        whole = [*sentence, MARK, *about] if about else sentence
        tokens[number, : len(whole)] = torch.tensor(whole)
        segments[number, len(sentence) + 1 : len(whole)] = 1
    E = named["embedding.weight"]
    for number, (sentence, about) in enumerate(rows):
        v = kept * E[about].mean(0) if about else torch.zeros(M, dtype=torch.float64)
        inputs = [kept * E[word] for word in sentence]
        inputs = [torch.cat([x, v]) if variant in ("ae", "atae") else x for x in inputs]
        H, _ = run(lstm, unit_of(below(named, "encoder")), inputs)
        h = H[-1]
        if variant in ("at", "atae"):
            W_h, W_v, w = named["state_weight"], named["aspect_weight"], named["w"]
            inside = [torch.cat([W_h @ x, W_v @ v]) if scorer == "printed" else W_h @ x + W_v @ v for x in H]
            alpha, r = look([w @ torch.tanh(each) for each in inside], H)
            h = torch.tanh(named["from_look.weight"] @ r + named["from_last.weight"] @ h)
        lens = Lens()
        for found in (model(tokens, lengths, segments), model(tokens, lengths, segments, lens=lens)):
            close(found[number], linear(below(named, "output"), kept * h))
        if variant in ("at", "atae"):
            seen = lens.traces[number].map("pool").weights[0]
            close(seen[: len(sentence)], alpha, check_dtype=False)
            assert not seen[len(sentence) :].any()


@torch.no_grad()
def test_without_attention_the_last_state_alone_is_judged() -> None:
    for variant, width in (("ae", 2 * M), ("lstm", M)):
        model = network(variant)
        words, aspect = model.embedding.weight[SENTENCE], model.embedding.weight[FOOD].mean(0)
        inputs = torch.cat([words, aspect.expand(len(SENTENCE), -1)], dim=-1)[:, :width]
        states, _ = model.encoder(inputs[None])
        torch.testing.assert_close(model(*row(SENTENCE, FOOD)), model.output(states[:, -1]))
        assert model.sites == ()


def test_the_aspect_cancels_in_the_printed_scorer() -> None:
    model = network("at", "printed")
    torch.testing.assert_close(weights(model, FOOD), weights(model, SERVICE), rtol=0, atol=1e-12)
    torch.testing.assert_close(model(*row(SENTENCE, FOOD)), model(*row(SENTENCE, SERVICE)), rtol=0, atol=1e-12)
    model(*row(SENTENCE, SERVICE)).square().sum().backward()
    assert float(model.state_weight.grad.abs().max()) > 1e-6
    assert float(model.aspect_weight.grad.abs().max()) < 1e-12
    assert float(model.embedding.weight.grad[[12, 13]].abs().max()) < 1e-12  # words that stand in the aspect alone


def test_the_aspect_counts_in_the_summed_scorer() -> None:
    model = network("at", "summed")
    assert float((weights(model, FOOD) - weights(model, SERVICE)).abs().max()) > 1e-4
    model(*row(SENTENCE, SERVICE)).square().sum().backward()
    assert float(model.aspect_weight.grad.abs().max()) > 1e-6
    assert float(model.embedding.weight.grad[[12, 13]].abs().max()) > 1e-6


def test_with_the_aspect_at_the_input_the_printed_scorer_looks_elsewhere_too() -> None:
    model = network("atae", "printed")
    assert float((weights(model, FOOD) - weights(model, SERVICE)).abs().max()) > 1e-4


def test_sizes_are_the_papers() -> None:
    with torch.device("meta"):
        model = AtaeLstm(Config(), 1000, 3)
    counted = {name: sum(each.numel() for each in getattr(model, name).parameters()) for name in ("encoder", "output")}
    assert counted == {"encoder": 4 * (600 * 300 + 300 * 300) + 2 * 1200, "output": 903}
    assert model.w.numel() + model.state_weight.numel() + model.aspect_weight.numel() == 600 + 2 * 300**2
    assert model.from_look.weight.numel() + model.from_last.weight.numel() == 2 * 300**2
    assert list(model.score.prepare(torch.empty(1, 7, 300, device="meta")).key.shape) == [1, 7, 600]  # M
