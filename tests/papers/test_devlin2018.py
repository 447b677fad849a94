"""Devlin et al. (2019): the numbers that can be worked out before anything is trained."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from saccade.data.texts.masking import FOLLOWS, Documents, Marks, Visit, collate, stretches_of
from saccade.models.bert import BASE, LARGE, Bert, BertClassifier, BertTagger, Config, Trunk
from saccade.nn.transformer import activated
from saccade.trace import Lens
from tests.written_out import below, close, drawn, linear, multi_head, normed, steady_dropout

VOCABULARY = 30_522


def gelu(x, kind):
    """x Φ(x), or its approximation by tanh, number by number."""
    phi = [
        0.5 * (1 + math.erf(a / math.sqrt(2)))
        if kind == "erf"
        else 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
        for a in x.tolist()
    ]
    return x * torch.tensor(phi, dtype=x.dtype)


@pytest.mark.parametrize(("kind", "dropout"), [("erf", 0.0), ("tanh", 0.0), ("erf", 0.1)])
@torch.no_grad()
def test_the_equations_written_out(kind, dropout, monkeypatch):
    """Embeddings, post-norm layers, the pooled vector, and all three kinds of output.

    Dropout acts on the embeddings after LN, on the output of each sublayer, and on what a label is read from."""
    sizes = {"layers": 2, "width": 6, "heads": 3, "feed_forward": 7, "positions": 9}
    config = Config(**sizes, dropout=dropout, attention_dropout=0.0, gelu=kind, eps=0.01)
    steady_dropout(monkeypatch)
    kept = 1 - dropout
    tokens, lengths = torch.randint(0, 11, (2, 7)), torch.tensor([7, 4])
    segments, chosen = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 0]]), torch.tensor([[5, 2], [1, 3]])

    def states_of(trunk, row, parts):
        words, places, kinds = (trunk[f"{name}.weight"] for name in ("words", "positions", "segments"))
        n = int(lengths[row])
        summed = [words[tokens[row, t]] + places[t] + kinds[parts[row][t]] for t in range(n)]
        states = [kept * normed(below(trunk, "norm"), x, 0.01) for x in summed]
        for layer in range(2):
            own, after = below(trunk, f"encoder.layers.{layer}"), []
            for x in states:
                moved = x + kept * multi_head(below(own, "attention"), 3, x, states)[1]
                y = normed(below(own, "attention_residual.norm"), moved, 0.01)
                inside = gelu(linear(below(own, "feed_forward.inner"), y), kind)
                moved = y + kept * linear(below(own, "feed_forward.outer"), inside)
                after.append(normed(below(own, "feed_forward_residual.norm"), moved, 0.01))
            states = after
        return states, torch.tanh(linear(below(trunk, "pooler"), states[0]))

    pretraining, classifier = drawn(Bert(config, 11)).train(), drawn(BertClassifier(config, 11, 4)).train()
    tagger = drawn(BertTagger(config, 11, 4)).train()
    for row, parts in ((0, segments.tolist()), (1, segments.tolist()), (1, [[0] * 7] * 2)):
        given = segments if parts == segments.tolist() else None
        for lens in (None, Lens()):
            weights = pretraining.state_dict()
            states, pooled = states_of(below(weights, "trunk"), row, parts)
            found, follows = pretraining(tokens, lengths, given, chosen, lens=lens)
            for place, logits in zip(chosen[row].tolist(), found[row], strict=True):
                inside = normed(
                    below(weights, "transform_norm"),
                    gelu(linear(below(weights, "transform"), states[place]), kind),
                    0.01,
                )
                close(logits, weights["trunk.words.weight"] @ inside + weights["bias"])
            close(follows[row], linear(below(weights, "next"), pooled))
        weights = classifier.state_dict()
        _, pooled = states_of(below(weights, "trunk"), row, parts)
        close(classifier(tokens, lengths, given)[row], linear(below(weights, "output"), kept * pooled))
        weights = tagger.state_dict()
        states, _ = states_of(below(weights, "trunk"), row, parts)
        tags = torch.stack([linear(below(weights, "output"), kept * x) for x in states])
        close(tagger(tokens, lengths, given)[row, : len(tags)], tags)


@pytest.mark.parametrize(("config", "count"), [(BASE, 109_482_240), (LARGE, 335_141_888)])
def test_parameters_of_the_published_networks(config, count):
    with torch.device("meta"):
        trunk = Trunk(config, VOCABULARY)
    assert sum(parameter.numel() for parameter in trunk.parameters()) == count


@torch.no_grad()
def test_the_losses_of_an_untrained_network():
    network = Bert(Config(layers=2, width=64, heads=4, feed_forward=128, dropout=0.0), VOCABULARY).eval()
    tokens = torch.randint(1000, VOCABULARY, (7, 33))
    chosen = torch.randint(1, 32, (7, 5))
    words, follows = network(tokens, torch.full((7,), 33), torch.zeros_like(tokens), chosen)
    target = torch.randint(0, VOCABULARY, (7 * 5,))
    loss = float(functional.cross_entropy(words.flatten(0, 1), target))
    assert loss == pytest.approx(math.log(VOCABULARY), abs=0.1)  # 10.326
    assert float(functional.cross_entropy(follows, torch.full((7,), FOLLOWS))) == pytest.approx(math.log(2), abs=0.05)


def test_gelu_by_tanh_is_as_printed():
    x = torch.linspace(-4, 4, 17)
    printed = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    assert torch.allclose(activated(x, "gelu_tanh"), printed, atol=1e-6)
    assert (activated(x, "gelu") - printed).abs().max() < 1e-3


def rows_of_numbered_words():
    """Rows from documents whose words are numbered as they stand, so that each word tells where it stood."""
    numbers = iter(range(100, 10**6))
    documents = Documents.of([[[next(numbers) for _ in range(5)] for _ in range(8)] for _ in range(30)])
    marks = Marks(padding=0, first=1, last=2, mask=4, ordinary=np.arange(5, 99))
    stretches = stretches_of(documents, 20, 0.1)
    batch = collate(documents, stretches, Visit(range(len(stretches)), 3), marks, masked=0.15, pairs=True)
    original = batch.text.clone()
    there = batch.words >= 0
    original[there.nonzero()[:, 0], batch.chosen[there]] = batch.words[there]
    return batch, original, there


def test_a_row_that_follows_is_class_0():
    """[CLS] A [SEP] B [SEP]: B continues A where the class is 0, and stands in another document where it is 1."""
    batch, original, _ = rows_of_numbered_words()
    for row, length, follows in zip(original, batch.lengths.tolist(), batch.follows.tolist(), strict=True):
        words = row[:length].tolist()
        end = words.index(2)
        assert (words[0], words[-1]) == (1, 2)
        first, second = words[1:end], words[end + 1 : -1]
        assert (second[0] == first[-1] + 1) == (follows == 0)
        assert (follows == 1) == ((first[0] - 100) // 40 != (second[0] - 100) // 40)
    share = float(batch.follows.double().mean())
    assert FOLLOWS == 0 and 0.3 < share < 0.7


def test_of_15_percent_chosen_words_8_in_10_are_masked_1_is_another_and_1_stays():
    batch, original, there = rows_of_numbered_words()
    assert there.sum(1).tolist() == (0.15 * batch.lengths).round().long().tolist()
    shown = batch.text.gather(1, batch.chosen)[there]
    stood = original.gather(1, batch.chosen)[there]
    assert (stood > 2).all()  # marks are never chosen
    shares = [float(kind.double().mean()) for kind in (shown == 4, (shown != 4) & (shown != stood), shown == stood)]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.06)
    untouched = torch.ones_like(original, dtype=torch.bool)
    untouched[there.nonzero()[:, 0], batch.chosen[there]] = False
    assert torch.equal(batch.text[untouched], original[untouched])


def test_weights_start_with_sigma_002_cut_at_two():
    table = Trunk(Config(layers=1, width=96, heads=3, feed_forward=96), 2000).words.weight.detach()
    assert float(table.std()) == pytest.approx(0.02 * 0.88, rel=0.03)  # the deviation of a normal cut at 2σ is 0.88 σ
    assert float(table.abs().max()) <= 0.04 + 1e-6
