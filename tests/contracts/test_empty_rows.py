"""Rows and targets of length 0: every network gives finite numbers and gradients, and the other rows are as without them.

Legend: B batch, S source, T target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.models import (
    atae_lstm,
    att_blstm,
    attentive_classifier,
    attentive_tagger,
    han,
    lstmn,
    luong,
    pointer,
    recurrent_lm,
    retain,
    rnnsearch,
    seq2seq,
    siamese,
    transformer,
    transformer_reader,
    visit_baselines,
)
from saccade.nn.recurrent import Cell, Recurrent, at_end, ends_of, max_of, mean_of
from saccade.nn.tagger import Tagger
from saccade.trace import Lens

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

B, S, T, V = 3, 7, 5, 13
FULL, SOME, NONE = (torch.tensor(lengths) for lengths in ([7, 4, 5], [7, 0, 5], [0, 0, 0]))
OTHERS = [0, 2]


def numbers(*shape: int) -> Tensor:
    return torch.randint(4, V, shape, generator=torch.Generator().manual_seed(3))


def check(network: nn.Module, run: Callable[[Tensor, int], Tensor]) -> None:
    """``run(lengths, size)`` gives outputs [B, …] of rows of these lengths, of ``size`` positions with padding."""
    network.double().eval()
    full, some, none, nowhere = run(FULL, S), run(SOME, S), run(NONE, S), run(NONE, 0)
    for found in (some, none, nowhere):
        assert found.shape[0] == B and bool(found.isfinite().all())
    torch.testing.assert_close(some[OTHERS], full[OTHERS])
    torch.testing.assert_close(some[1], none[1])
    torch.testing.assert_close(none, nowhere)
    gradients = torch.autograd.grad(some.square().sum(), list(network.parameters()), allow_unused=True)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None)


# Layers -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm", "paper"])
def test_an_empty_row_ends_with_the_state_it_started_with(cell: Cell, both: bool) -> None:
    layers = Recurrent(cell, 3, 4, layers=2, bidirectional=both)
    x = torch.randn(B, S, 3, dtype=torch.float64)
    check(layers, lambda lengths, size: torch.cat([part.flatten(1) for part in layers(x[:, :size], lengths)[1]], 1))
    start = tuple(torch.randn(B, 2, 4, dtype=torch.float64) for _ in range(2 if cell == "lstm" else 1))
    for size in (S, 0):
        outputs, final = layers(x[:, :size], NONE, start)
        assert outputs.shape == (B, size, 8 if both else 4)
        for part, before in zip(final, start, strict=True):
            torch.testing.assert_close(part[:, :2], before)
    _, final = layers(x, SOME, start)
    torch.testing.assert_close(final[0][1, :2], start[0][1])


@pytest.mark.parametrize("pool", [at_end, mean_of, max_of, ends_of])
def test_what_is_read_off_an_empty_row_is_0(pool: Callable[[Tensor, Tensor], Tensor]) -> None:
    states = torch.randn(B, S, 4, requires_grad=True)
    found = pool(states, SOME)
    assert not found[1].any() and bool((found[OTHERS] != 0).all())
    (gradient,) = torch.autograd.grad(found.square().sum(), states)
    assert bool(gradient.isfinite().all()) and not gradient[1].any()
    assert pool(states[:, :0], NONE).tolist() == [[0.0] * 4] * B


# Networks that write ----------------------------------------------------------------------------------------------------

WRITERS: dict[str, Callable[[], nn.Module]] = {
    "seq2seq gru": lambda: seq2seq.Seq2Seq(seq2seq.Config(6, 4, layers=2, cell="gru"), V, V),
    "seq2seq lstm reversed": lambda: seq2seq.Seq2Seq(seq2seq.Config(6, 4, cell="lstm", reverse=True), V, V),
    "seq2seq paper": lambda: seq2seq.Seq2Seq(seq2seq.Config(6, 4, cell="paper"), V, V),
    "rnnsearch": lambda: rnnsearch.RNNSearch(rnnsearch.Config(6, 4, 3), V, V),
    "luong": lambda: luong.Luong(luong.Config(6, 4, 2, input_feeding=False), V, V),
    "luong fed": lambda: luong.Luong(luong.Config(6, 4, 2, bidirectional=True), V, V),
    "luong local-p": lambda: luong.Luong(luong.Config(6, 4, 2, window="local-p", radius=1), V, V),
    "transformer": lambda: transformer.Transformer(transformer.Config(8, 2, 12, 2), V, V),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_of_an_empty_source_writes_something_and_of_an_empty_target_nothing(name: str) -> None:
    network, source, target = WRITERS[name](), numbers(B, S), numbers(B, T)
    check(network, lambda lengths, size: network(source[:, :size], lengths, target))
    assert network(source, FULL, target[:, :0]).shape == (B, 0, V)


@pytest.mark.parametrize("cell", ["rnn", "lstm"])
def test_a_pointer_without_points_points_at_the_end(cell: Any) -> None:
    network, points = pointer.Pointer(pointer.Config(6, cell=cell), 2), torch.rand(B, S, 2, dtype=torch.float64)
    check(network, lambda lengths, size: network(points[:, :size], lengths, numbers(B, T) * 0)[..., 0])
    assert network(points, FULL, numbers(B, 0)).shape == (B, 0, S + 1)


@pytest.mark.parametrize("name", ["lstm", "gru", "lstmn", "transformer"])
def test_a_language_model_that_reads_nothing_writes_nothing_and_keeps_its_state(name: str) -> None:
    network = {
        "lstm": lambda: recurrent_lm.RecurrentLM(recurrent_lm.Config(hidden=6, embedding=4), V),
        "gru": lambda: recurrent_lm.RecurrentLM(recurrent_lm.Config(hidden=6, embedding=4, cell="gru", layers=2), V),
        "lstmn": lambda: lstmn.LstmnLM(lstmn.Config(hidden=6, embedding=4), V),
        "transformer": lambda: transformer.TransformerLM(transformer.LanguageConfig(8, 2, 12, 2, dropout=0.0), V),
    }[name]().eval()
    assert network(numbers(B, 0)).shape == (B, 0, V)
    _, state = network.read(numbers(B, T), torch.tensor([5, 0, 2]))
    token = numbers(B)
    _, untouched = network.read(numbers(B, 0))
    rows, fresh = (network.step(token, each, (), offset=5)[0] for each in (state, untouched))
    if name != "transformer":  # its step takes one offset for all rows
        torch.testing.assert_close(rows[1], fresh[1])
    assert bool(rows.isfinite().all())


# Networks that read -----------------------------------------------------------------------------------------------------

CLASSIFIERS: dict[str, Callable[[], nn.Module]] = {
    f"{encoder} {pool}": lambda encoder=encoder, pool=pool: attentive_classifier.AttentiveClassifier(
        attentive_classifier.Config(4, encoder=encoder, hidden=3, pool=pool), V, 3
    )
    for encoder, pool in itertools.product(("lstm", "gru", "cnn", "none"), ("additive", "mean", "max", "last"))
    if (encoder, pool) != ("none", "last")
}
CLASSIFIERS |= {
    f"att_blstm {pool}": lambda pool=pool: att_blstm.AttBlstm(att_blstm.Config(4, 3, pool=pool), V, 3)
    for pool in ("attention", "max", "last")
}
CLASSIFIERS |= {
    f"transformer {pool}": lambda pool=pool: transformer_reader.TransformerClassifier(
        transformer_reader.ClassifierConfig(layers=1, width=6, heads=3, hidden=5, pool=pool), V, 3
    )
    for pool in ("additive", "mean", "max", "first")
}
CLASSIFIERS["lstmn"] = lambda: lstmn.Lstmn(lstmn.ClassifierConfig(6, 4, layers=2), V, 3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_gives_an_empty_text_finite_logits(name: str) -> None:
    network, tokens = CLASSIFIERS[name](), numbers(B, S)
    check(network, lambda lengths, size: network(tokens[:, :size], lengths))


@pytest.mark.parametrize("pool", ["attention", "mean", "max"])
def test_a_document_may_have_no_sentence_and_a_sentence_no_word(pool: Any) -> None:
    network = han.Han(han.Config(4, hidden=3, pool=pool), V, 3)
    tokens = numbers(B, S, 4)
    words = torch.tensor([[4, 1, 2, 3, 0, 0, 0], [3, 2, 1, 4, 1, 0, 0], [4, 2, 3, 1, 2, 3, 4]])
    rows = torch.arange(S)
    check(network, lambda lengths, size: network(tokens[:, :size], (words * (rows < lengths[:, None]))[:, :size]))


def test_an_aspect_without_a_sentence_has_finite_logits() -> None:
    network = atae_lstm.AtaeLstm(atae_lstm.Config(embedding=5, hidden=4), V, 3)
    tokens, segments = numbers(B, S), torch.zeros(B, S, dtype=torch.long)
    check(network, lambda lengths, size: network(tokens[:, :size], lengths, segments[:, :size]))


@pytest.mark.parametrize("output", ["crf", "softmax"])
@pytest.mark.parametrize("characters", ["cnn", "lstm"])
def test_a_tagger_tags_nothing_of_an_empty_row(characters: Any, output: Any) -> None:
    config = attentive_tagger.Config(
        4, character_embedding=3, character_hidden=4, hidden=3, characters=characters, output=output
    )
    network, tokens, spelt, tags = (
        attentive_tagger.AttentiveTagger(config, V, 3, 9), numbers(B, S), numbers(B, S, 4) % 9, numbers(B, S) % 3
    )  # fmt: skip
    assert isinstance(network, Tagger)

    def run(lengths: Tensor, size: int) -> Tensor:
        emissions = network(tokens[:, :size], lengths, characters=spelt[:, :size])
        loss = network.loss(emissions, tags[:, :size], lengths)
        assert bool(loss.isfinite())
        best, shares = network.decode(emissions, lengths)
        assert bool(shares.isfinite().all()) and not shares[lengths == 0].any() and best.shape == (B, size)
        return emissions.sum(1) + loss * 0

    check(network, run)
    emissions = network(tokens, FULL, characters=spelt[:, :, :0])  # words without a character
    assert bool(emissions.isfinite().all())


@pytest.mark.parametrize("compare", ["pooled", "alignment"])
@pytest.mark.parametrize("encoder", ["lstm", "cnn", "none"])
def test_a_ranker_scores_an_empty_question_and_an_empty_candidate(encoder: Any, compare: Any) -> None:
    network = siamese.Siamese(
        siamese.Config(4, encoder=encoder, hidden=3, mlp=13, compare=compare, overlap=False), V, 0
    )
    one, other, extra = numbers(B, S), numbers(B, S) + 0, torch.zeros(B, 0, dtype=torch.float64)
    check(network, lambda lengths, size: network(one[:, :size], lengths, other, FULL, extra))
    check(network, lambda lengths, size: network(one, FULL, other[:, :size], lengths, extra))


VISITS: dict[str, Callable[[], nn.Module]] = {
    "retain": lambda: retain.Retain(retain.Config(4, 3, 3), V, 2),
    "retain with times": lambda: retain.Retain(retain.Config(4, 3, 3, time="log"), V, 2),
    "gru": lambda: visit_baselines.VisitGru(visit_baselines.GruConfig(4, 3), V, 2),
    "logistic": lambda: visit_baselines.VisitLogistic(visit_baselines.LogisticConfig(), V, 2),
}


@pytest.mark.parametrize("name", VISITS)
def test_the_logits_of_a_record_without_visits_are_the_bias_with_a_lens_as_without(name: str) -> None:
    network = VISITS[name]()
    bias = next(part for name, part in network.named_parameters() if name in ("output.bias", "bias"))
    for parameter in network.parameters():
        nn.init.normal_(parameter)
    codes, times = numbers(B, S, 2), torch.rand(B, S, dtype=torch.float64).cumsum(1)
    for lens in (None, Lens):
        check(
            network,
            lambda lengths, size, lens=lens: network(codes[:, :size], times[:, :size], lengths, lens=lens and lens()),
        )
        found = network(codes, times, SOME, lens=lens and lens())
        torch.testing.assert_close(found[1], bias)
        torch.testing.assert_close(found, network(codes, times, SOME))


# Batches of no rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("under", [False, True])
def test_a_batch_of_no_rows_has_no_outputs(under: bool) -> None:
    def lens() -> Lens | None:
        return Lens() if under else None

    none = torch.zeros(0, dtype=torch.long)
    for make in WRITERS.values():
        assert make().double()(numbers(0, S), none, numbers(0, T), lens=lens()).shape == (0, T, V)
    for make in CLASSIFIERS.values():
        assert make().double()(numbers(0, S), none, lens=lens()).shape == (0, 3)
    for make in VISITS.values():
        rows = numbers(0, S, 2), torch.rand(0, S, dtype=torch.float64), none
        assert make().double()(*rows, lens=lens()).shape == (0, 2)
    pools: tuple[Any, ...] = ("attention", "mean", "max")
    for pool in pools:
        network = han.Han(han.Config(4, hidden=3, pool=pool), V, 3)
        assert network(numbers(0, S, 4), torch.zeros(0, S, dtype=torch.long), lens=lens()).shape == (0, 3)
    tagger = attentive_tagger.AttentiveTagger(attentive_tagger.Config(4, characters="none", hidden=3), V, 3)
    emissions = tagger(numbers(0, S), none, lens=lens())
    assert tagger.loss(emissions, numbers(0, S), none).isfinite()
    assert tagger.decode(emissions, none)[0].shape == (0, S)
