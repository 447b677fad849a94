"""BERT's networks: padding, segments, places, heads, and what a lens sees."""

from dataclasses import replace

import pytest
import torch

from saccade.models.bert import Bert, BertClassifier, BertTagger, Config
from saccade.testing import check_classifier
from saccade.trace import Lens

CONFIG = Config(layers=2, width=12, heads=3, feed_forward=20, positions=16, dropout=0.1, init=0.3)
V, S = 23, 11
LENGTHS = torch.tensor([11, 5, 7])


@pytest.fixture
def rows() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(4, V, (3, S))
    segments = (torch.arange(S) >= 4).long().expand(3, S).clone()
    return tokens, segments


def built(kind: type = Bert, *more: int, **changes):
    torch.manual_seed(3)
    return kind(replace(CONFIG, **changes), V, *more).eval()


def test_the_classifier_keeps_every_promise():
    check_classifier(BertClassifier, CONFIG)


def test_what_stands_beyond_the_end_changes_nothing(rows):
    tokens, segments = rows
    network, chosen = built(), torch.tensor([[1, 2], [3, 4], [5, 6]])
    words, follows = network(tokens, LENGTHS, segments, chosen)
    other = torch.where(torch.arange(S) < LENGTHS[:, None], tokens, 9)
    again = network(other, LENGTHS, segments, chosen)
    alone = network(tokens[1:2, :5], LENGTHS[1:2], segments[1:2, :5], chosen[1:2])
    assert torch.allclose(words, again[0], atol=1e-6) and torch.allclose(follows, again[1], atol=1e-6)
    assert torch.allclose(words[1:2], alone[0], atol=1e-5) and torch.allclose(follows[1:2], alone[1], atol=1e-5)


def test_words_places_and_segments_all_matter(rows):
    tokens, segments = rows
    network, chosen = built(), torch.tensor([[1], [1], [1]])
    words = network(tokens, LENGTHS, segments, chosen)[0]
    assert not torch.allclose(words, network(tokens, LENGTHS, None, chosen)[0], atol=1e-4)
    swapped = tokens[:, [0, 1, 3, 2, *range(4, S)]]  # the same words at other places
    assert not torch.allclose(words, network(swapped, LENGTHS, segments, chosen)[0], atol=1e-4)
    zeros = torch.zeros_like(segments)
    one = network(tokens, LENGTHS, zeros, chosen)[0]
    assert torch.allclose(one, network(tokens, LENGTHS, None, chosen)[0], atol=1e-6)


def test_logits_are_those_of_the_chosen_places_and_of_the_tied_table(rows):
    tokens, segments = rows
    network = built()
    all_places = torch.arange(5).expand(3, 5)
    words = network(tokens, LENGTHS, segments, all_places)[0]
    some = network(tokens, LENGTHS, segments, torch.tensor([[3, 1], [3, 1], [3, 1]]))[0]
    assert words.shape == (3, 5, V) and torch.allclose(some, words[:, [3, 1]], atol=1e-6)
    network.trunk.words.weight.data[7] += 1.0
    network.bias.data[8] += 2.5
    changed = network.words(network.trunk(tokens, LENGTHS, segments)[:, :1])
    assert changed.shape == (3, 1, V)
    assert sum(1 for name, _ in network.named_parameters() if name.endswith("words.weight")) == 1


def test_the_tagger_labels_every_token_and_gives_zeros_beyond_the_end(rows):
    tokens, segments = rows
    tagger = built(BertTagger, 5)
    logits = tagger(tokens, LENGTHS, segments)
    assert logits.shape == (3, S, 5)
    assert not logits[1, 5:].any() and logits[1, :5].abs().min() > 0
    logits.sum().backward()
    missing = [name for name, parameter in tagger.named_parameters() if parameter.grad is None]
    assert missing == ["trunk.pooler.weight", "trunk.pooler.bias"]


@pytest.mark.parametrize("keep", ["all", "top", "statistics"])
def test_a_lens_sees_every_layer_and_head_and_changes_nothing(rows, keep):
    tokens, segments = rows
    network, chosen = built(), torch.tensor([[1], [1], [1]])
    lens = Lens(keep=keep, k=3)
    under = network(tokens, LENGTHS, segments, chosen, lens=lens)[0]
    assert torch.allclose(under, network(tokens, LENGTHS, segments, chosen)[0], atol=1e-5)
    maps = lens.traces[1].maps
    assert {(map.site, map.head) for map in maps} == {(f"encoder.{l}.self", h) for l in range(2) for h in range(3)}
    assert {(map.query, map.key) for map in maps} == {("text", "text")}
    if keep == "all":
        weights = maps[0].weights
        assert torch.allclose(weights[:5].sum(-1), torch.ones(5), atol=1e-5)
        assert not weights[:5, 5:].any() and not weights[5:].any()


def test_the_two_gelus_are_close_and_not_the_same(rows):
    tokens, _ = rows
    exact, tanh = built(), built(gelu="tanh")
    states = [network.trunk(tokens, LENGTHS) for network in (exact, tanh)]
    assert 0 < (states[0] - states[1]).abs().max() < 1e-2


def test_a_fine_tuned_network_takes_over_the_trunk_and_says_so(rows):
    tokens, segments = rows
    pretrained, classifier = built(), built(BertClassifier, 3)
    before = classifier.output.weight.clone()
    (told,) = classifier.begin_with(pretrained.state_dict())
    states = [network.trunk(tokens, LENGTHS, segments) for network in (pretrained, classifier)]
    assert torch.equal(*states) and torch.equal(before, classifier.output.weight)
    assert "copied: trunk" in told and "initialised at random: output, 39" in told and "left behind: bias, next" in told


def test_what_of_the_trunk_was_never_trained_is_not_counted_as_taken_over(rows):
    state = built().state_dict()
    pooler = CONFIG.width * CONFIG.width + CONFIG.width
    for kind, unasked in ((BertClassifier, ""), (BertTagger, " (not used here)")):
        whole = sum(parameter.numel() for parameter in built(kind, 3).trunk.parameters())
        (told,) = built(kind, 3).begin_with(state, ("next", "trunk.pooler"))
        taken = f"copied: trunk, {whole - pooler:,} parameters; never trained: trunk.pooler, {pooler:,}{unasked}; "
        assert told.startswith(f"{taken}initialised at random: output")


def test_dropout_acts_in_training_alone(rows):
    tokens, _ = rows
    network = built().train()
    assert not torch.equal(network.trunk(tokens, LENGTHS), network.trunk(tokens, LENGTHS))
    network.eval()
    assert torch.equal(network.trunk(tokens, LENGTHS), network.trunk(tokens, LENGTHS))


@pytest.mark.parametrize(
    ("fields", "word"), [({"heads": 5}, "heads must divide"), ({"eps": 0.0}, "eps"), ({"init": -1.0}, "init")]
)
def test_what_cannot_be_is_refused(fields, word):
    with pytest.raises(ValueError, match=word):
        replace(CONFIG, **fields)
