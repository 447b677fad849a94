"""The hierarchical attention network: padding is nothing wherever it stands, and both levels can be seen and edited."""

from __future__ import annotations

import pytest
import torch

from saccade.models.han import Config, Han, real_first
from saccade.nn.recurrent import mask_of
from saccade.trace import Boost, Lens, Mask, Set

B, S, W, V, C = 3, 4, 5, 17, 3
LENGTHS = torch.tensor([[5, 2, 3, 1], [4, 0, 0, 0], [1, 5, 0, 0]])
TOKENS = torch.randint(3, V, (B, S, W), generator=torch.Generator().manual_seed(1))
SMALL = Config(4, hidden=3, attention=7)
EVERY = [
    Config(4, hidden=3, encoder=encoder, pool=pool)
    for encoder in ("gru", "lstm")
    for pool in ("attention", "mean", "max")
]


def network(config: Config = SMALL) -> Han:
    torch.manual_seed(2)
    made = Han(config, V, C).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(2)
    return made


def name(config: Config) -> str:
    return f"{config.encoder}-{config.pool}"


@pytest.mark.parametrize("config", EVERY, ids=name)
def test_padding_sentences_may_stand_anywhere(config: Config) -> None:
    made = network(config)
    moved, lengths = torch.zeros(B, S + 2, W, dtype=torch.int64), torch.zeros(B, S + 2, dtype=torch.int64)
    places = [[0, 2, 3, 5], [4, 0, 1, 2], [1, 5, 0, 2]]
    for row, where in enumerate(places):
        moved[row, where], lengths[row, where] = TOKENS[row], LENGTHS[row]
    torch.testing.assert_close(made(moved, lengths), made(TOKENS, LENGTHS))


@pytest.mark.parametrize("config", EVERY, ids=name)
def test_a_document_without_words_is_not_nan_and_neither_is_its_gradient(config: Config) -> None:
    made = network(config)
    lengths = LENGTHS.clone()
    lengths[1] = 0
    logits = made(TOKENS, lengths)
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in made.parameters() if parameter.grad is not None)
    if config.pool == "attention":
        torch.testing.assert_close(logits[1], made.output.bias)  # it is pooled to 0


@pytest.mark.parametrize("config", EVERY, ids=name)
def test_what_a_gpu_does_with_empty_sentences_is_what_a_cpu_leaves_out(config: Config, monkeypatch) -> None:
    made = network(config)
    left_out = made.sentence_vectors(TOKENS, LENGTHS)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(made.sentence_vectors(TOKENS, LENGTHS), left_out)
    assert (left_out[1, 1:] == 0).all() and (left_out[0] != 0).any(-1).all()


def test_each_sentence_looks_at_its_own_words_and_the_document_at_its_sentences() -> None:
    made, lens = network(), Lens(detail=["state", "context"])
    plain = made(TOKENS, LENGTHS)
    torch.testing.assert_close(made(TOKENS, LENGTHS, lens=lens), plain)
    for item, trace in enumerate(lens.traces):
        words, sentences = trace.map("words").weights, trace.map("sentences").weights
        count, size = int((LENGTHS[item] > 0).sum()), int(LENGTHS[item].sum())
        within = torch.repeat_interleave(torch.arange(S), LENGTHS[item])
        assert sentences.shape == (1, S) and words.shape == (S, 11)
        assert ((words > 0)[:, :size] == (torch.arange(S)[:, None] == within)).all() and not words[:, size:].any()
        torch.testing.assert_close(words.sum(1)[:count], torch.ones(count, dtype=words.dtype))
        torch.testing.assert_close(sentences.sum(), torch.ones((), dtype=words.dtype))
        assert not sentences[:, count:].any()
        assert trace.signals["words.state"].values.shape == (11, 6)
        assert trace.signals["words.context"].values.shape == trace.signals["sentences.state"].values.shape == (S, 6)


def test_a_word_level_weight_is_the_one_that_pools_the_sentence() -> None:
    made, lens = network(), Lens(detail=["state"])
    made(TOKENS[:1], LENGTHS[:1], lens=lens)
    vectors = lens.trace.map("words").weights @ lens.trace.signals["words.state"].values
    torch.testing.assert_close(vectors, made.sentence_vectors(TOKENS[:1], LENGTHS[:1])[0].detach())


@pytest.mark.parametrize("keep", ["top", "statistics"])
def test_a_lens_that_keeps_less_changes_nothing(keep) -> None:
    made, lens = network(), Lens(keep, k=2)
    torch.testing.assert_close(made(TOKENS, LENGTHS, lens=lens), made(TOKENS, LENGTHS))
    assert [map.site for map in lens.traces[0].maps] == ["words", "sentences"]
    assert lens.traces[0].about["scores"] == {"words": "additive", "sentences": "additive"}


def test_edits_act_at_both_levels() -> None:
    made = network()
    plain = made(TOKENS[:1], LENGTHS[:1])

    def under(*edits):
        lens = Lens(edits=edits)
        logits = made(TOKENS[:1], LENGTHS[:1], lens=lens)
        lens.check()
        return logits, lens.trace

    logits, trace = under(Mask(site="words", keys=(5,)))
    assert trace.map("words").weights[1, 5:7].tolist() == [0, 1] and (logits != plain).any()
    logits, trace = under(Boost(site="words", keys=(7, 8), factor=1e9, step=2))
    assert trace.map("words").weights[2, 9] < 1e-6 and (logits != plain).any()
    logits, trace = under(Set(site="sentences", row=(0, 0, 1, 0)))
    assert trace.map("sentences").weights.tolist() == [[0, 0, 1, 0]]
    # What a sentence that is hidden from the document's look holds still reaches the others through the encoder.
    logits, trace = under(Mask(site="sentences", keys=(0, 1, 3)))
    assert trace.map("sentences").weights.tolist() == [[0, 0, 1, 0]]


def test_other_pools_look_nowhere_and_still_show_their_states() -> None:
    made, lens = network(Config(4, hidden=3, pool="max")), Lens(detail=["state"])
    made(TOKENS, LENGTHS, lens=lens)
    assert (
        made.sites == ()
        and not lens.traces[0].maps
        and set(lens.traces[0].signals) == {"words.state", "sentences.state"}
    )


def test_real_sentences_keep_their_order() -> None:
    lengths = torch.tensor([[0, 2, 0, 3, 1]])
    tokens, moved = real_first(torch.arange(10).view(1, 5, 2), lengths)
    assert moved.tolist() == [[2, 3, 1, 0, 0]] and tokens[0, :3].tolist() == [[2, 3], [6, 7], [8, 9]]
    assert mask_of(moved[0], 3).sum() == 6


def test_dropout_acts_in_training_alone() -> None:
    made = network(Config(4, hidden=3, dropout=0.5))
    assert torch.equal(made(TOKENS, LENGTHS), made(TOKENS, LENGTHS))
    made.train()
    assert not torch.equal(made(TOKENS, LENGTHS), made(TOKENS, LENGTHS))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"hidden": 0}, "hidden must be at least 1: got 0"),
        ({"dropout": 1.0}, "dropout"),
        ({"pool": "max", "attention": 5}, "attention must be left out unless pool is attention: got 5"),
    ],
)
def test_fields_that_cannot_be_are_refused(fields, told) -> None:
    with pytest.raises(ValueError, match=told):
        Config(**fields)
