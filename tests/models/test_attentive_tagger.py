"""The attentive tagger, part by part against its formulas."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.models.attentive_tagger import UNKNOWN, AttentiveTagger, Config, Spelling
from saccade.trace import Lens

TOKENS, LENGTHS = torch.tensor([[4, 5, 6, 7, 4], [9, 4, 3, 0, 0]]), torch.tensor([5, 3])
SMALL = Config(5, character_embedding=3, character_hidden=4, hidden=3, dropout=0.0)
BARE = replace(SMALL, characters="none")
V, K, C = 11, 4, 13


def built(config: Config) -> AttentiveTagger:
    return AttentiveTagger(config, vocabulary=V, labels=K, characters=C).eval()


@pytest.mark.parametrize("kind", ["cnn", "lstm"])
@torch.no_grad()
def test_a_word_is_spelt_alike_wherever_it_stands_and_however_wide_the_table(kind) -> None:
    spelling = Spelling(replace(SMALL, characters=kind), C).eval()
    word, longer = [3, 7, 2], [5, 1, 8, 9, 4, 6]
    table = torch.zeros(2, 3, 8, dtype=torch.int64)
    table[0, 0, :3] = table[1, 2, :3] = torch.tensor(word)
    table[0, 1, :6] = torch.tensor(longer)
    found, alone = spelling(table), spelling(torch.tensor([[word]]))
    torch.testing.assert_close(found[0, 0], alone[0, 0])
    torch.testing.assert_close(found[1, 2], alone[0, 0])
    assert not torch.allclose(found[0, 1], alone[0, 0])
    assert not found[0, 2].any() and not found[1, 0].any(), "a word of no characters is zeros"


@torch.no_grad()
def test_the_characters_pooled_are_the_largest_of_three_at_a_time() -> None:
    spelling = Spelling(SMALL, C).eval()
    word = torch.tensor([3, 7, 2, 5])
    embedded = torch.cat([torch.zeros(1, 3), spelling.embedding(word), torch.zeros(1, 3)])
    (layer,) = spelling.encoder.layers
    seen = [(layer.weight * embedded[s : s + 3].T).sum((1, 2)) + layer.bias for s in range(4)]
    torch.testing.assert_close(spelling(word.view(1, 1, 4))[0, 0], torch.stack(seen).relu().amax(0))


@torch.no_grad()
def test_the_characters_read_are_the_states_in_which_both_ways_end() -> None:
    spelling = Spelling(replace(SMALL, characters="lstm"), C).eval()
    word = torch.tensor([[3, 7, 2, 5]])
    states, _ = spelling.encoder(spelling.embedding(word))
    expected = torch.cat([states[0, -1, :2], states[0, 0, 2:]])
    torch.testing.assert_close(spelling(word.unsqueeze(0))[0, 0], expected)


@torch.no_grad()
def test_words_that_are_compared_look_alike_at_every_repeat() -> None:
    network, lens = built(replace(BARE, compare="words")), Lens()
    network(TOKENS, LENGTHS, lens=lens)
    weights = lens.traces[0].map("attention").weights
    torch.testing.assert_close(weights[0], weights[4])  # the same word, far apart
    torch.testing.assert_close(weights[:, 0], weights[:, 4])
    words = network.embedding(TOKENS[0])
    torch.testing.assert_close(weights, torch.softmax(words @ words.T / 5**0.5, dim=-1))


@pytest.mark.parametrize("attention", ["general", "additive", "cosine"])
@torch.no_grad()
def test_each_score_is_its_formula(attention) -> None:
    network, lens = built(replace(BARE, attention=attention)), Lens()
    network(TOKENS, LENGTHS, lens=lens)
    h = network.encoder(network.embedding(TOKENS), LENGTHS)[0][1, :3]
    look = network.attention
    if attention == "general":
        scores = h @ look.weight @ h.T
    elif attention == "cosine":
        scores = torch.nn.functional.softplus(look.raw_beta) * torch.cosine_similarity(h[:, None], h[None], dim=-1)
    else:
        hidden = (h @ look.query_weight.T)[:, None] + (h @ look.key_weight.T)[None]
        scores = torch.tanh(hidden) @ look.v
    found = lens.traces[1].map("attention").weights
    torch.testing.assert_close(found[:3, :3], torch.softmax(scores, dim=-1))
    assert not found[:3, 3:].any()


def test_without_attention_the_states_speak_and_nothing_is_looked_at() -> None:
    network = built(replace(BARE, attention="none"))
    states = network.encoder(network.embedding(TOKENS), LENGTHS)[0]
    torch.testing.assert_close(network(TOKENS, LENGTHS)[0], network.output(states)[0])
    assert network.sites == () and network.join is None


def test_a_far_word_reaches_a_tag_by_the_attention() -> None:
    """With the recurrent layer's memory cut off, only the attention carries what stands far away."""
    for attention, reaches in (("scaled_dot", True), ("none", False)):
        network = built(replace(BARE, attention=attention))
        with torch.no_grad():
            for layer in (*network.encoder.forwards, *network.encoder.backwards):
                layer.unit.weight_hh_l0.zero_()
                layer.unit.bias_ih_l0[3:6] = -1e4  # the forget gate
        moved = TOKENS.clone()
        moved[0, 0] = 8
        changed = (network(moved, LENGTHS) - network(TOKENS, LENGTHS))[0, 4].abs().max()
        assert bool(changed > 0) == reaches, attention


def test_words_are_left_unread_in_training_alone() -> None:
    network = built(replace(BARE, word_dropout=0.5))
    torch.testing.assert_close(network.words(TOKENS), network.embedding(TOKENS))
    read = network.train().words(TOKENS.repeat(200, 1))
    unread = (read == network.embedding.weight[UNKNOWN]).all(-1).float().mean()
    expected = 0.5 + 0.5 * 0.1  # one word in ten is unknown anyway
    assert abs(float(unread) - expected) < 0.05


def test_the_state_is_shown_when_asked_for() -> None:
    lens = Lens(detail=["state"])
    built(BARE)(TOKENS, LENGTHS, lens=lens)
    assert lens.traces[0].signals["encoder.state"].values.shape == (5, 6)


def test_parameters_are_those_of_the_parts() -> None:
    network = built(replace(SMALL, layers=2))
    spelling = C * 3 + 3 * 3 * 4 + 4
    lstm = 2 * (4 * 3 * (5 + 4 + 3 + 2)) + 2 * (4 * 3 * (6 + 3 + 2))
    join, output, crf = 12 * 6 + 6, 6 * K + K, (K + 1) ** 2
    expected = V * 5 + spelling + lstm + join + output + crf
    assert sum(parameter.numel() for parameter in network.parameters()) == expected


def test_characters_that_are_wanted_and_not_given_are_asked_for() -> None:
    with pytest.raises(SaccadeError, match=r"model\.characters is cnn, but no characters were given"):
        AttentiveTagger(SMALL, V, K)
    with pytest.raises(SaccadeError, match=r"the network reads characters \[2, 5, L\]: got none"):
        built(SMALL)(TOKENS, LENGTHS)
    assert not AttentiveTagger(BARE, V, K).wants_characters


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"width": 4}, "width must be odd: got 4"),
        ({"characters": "lstm", "character_hidden": 5}, "character_hidden must be even"),
        ({"word_dropout": 1.0}, "word_dropout must be at least 0 and below 1"),
        ({"attention": "none", "compare": "words"}, "compare must be left out where attention is none"),
        ({"attention": "dot"}, "attention must be one of scaled_dot, general, additive, cosine, none: got 'dot'"),
        ({"hidden": 0}, "hidden must be at least 1: got 0"),
    ],
)
@pytest.mark.usefixtures("shapes_unchecked")
def test_settings_that_mean_nothing_are_refused(fields, message) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**fields)
