"""Skip-gram with negative sampling by hand: Mikolov, Sutskever, Chen, Corrado & Dean 2013, equation 4 and the two draws."""

import math

import numpy as np
import pytest
import torch

from saccade.data.texts.records import CommonWords, WordData
from saccade.data.texts.skipgrams import Batch, Frequencies
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.models.skipgram import Config, Skipgram
from saccade.tasks.vectors import WordVectors


def test_the_loss_of_one_pair_is_minus_equation_4():
    """v = (1, 2), u_o = (0.5, 0.25), u_1 = (−1, 0), u_2 = (0, 1): log σ(1) + log σ(1) + log σ(−2) = −2.7535."""
    network = Skipgram(Config(2), vocabulary=8)
    with torch.no_grad():
        network.embedding.weight[4] = torch.tensor([1.0, 2.0])
        network.context.weight[[5, 6, 7]] = torch.tensor([[0.5, 0.25], [-1.0, 0.0], [0.0, 1.0]])
    tokenizer = Tokenizer.train(["a b c d"], CommonWords(min_count=1))
    task = WordVectors(WordData(train="-"), tokenizer, [1] * 8)
    pair = Batch(torch.tensor([4]), torch.tensor([5]), torch.tensor([[6, 7]]), torch.ones(1), [0], 1)
    expected = -(2 * math.log(1 / (1 + math.exp(-1))) + math.log(1 / (1 + math.exp(2))))
    assert expected == pytest.approx(2.7535, abs=1e-4)
    assert float(task.loss(network, pair).total.detach()) == pytest.approx(expected, rel=1e-6)


def test_noise_is_the_unigram_to_the_three_quarters_and_frequent_words_are_passed_over():
    """Counts 10,000 and 625 to the ¾: 1000 and 125, so 8 : 1. Of a share f = 16/17 a share √(t/f) stays."""
    frequencies = Frequencies.of([0, 0, 0, 0, 10_000, 625], subsample=1e-3)
    drawn = np.bincount(frequencies.table) / len(frequencies.table)
    np.testing.assert_allclose(drawn[4:], [8 / 9, 1 / 9], atol=1e-5)
    np.testing.assert_allclose(frequencies.kept[4:], [math.sqrt(1e-3 * 17 / 16), math.sqrt(1e-3 * 17)])


def test_a_drawn_word_that_is_the_context_word_does_not_count_and_u_starts_at_0():
    network = Skipgram(Config(40), vocabulary=50)
    assert not network.context.weight.any()
    v = network.embedding.weight.detach()
    assert float(v.abs().max()) <= 0.5 / 40 and float(v.std()) == pytest.approx(1 / 40 / math.sqrt(12), rel=0.1)
    torch.nn.init.normal_(network.context.weight)
    centres, contexts, drawn = torch.tensor([4, 9]), torch.tensor([5, 7]), torch.tensor([[6, 5, 8], [7, 4, 3]])
    there, against = (scores.detach() for scores in network(centres, contexts, drawn))
    u = network.context.weight.detach()
    for pair in range(2):
        assert float(there[pair]) == pytest.approx(float(u[contexts[pair]] @ v[centres[pair]]), abs=1e-6)
        for k, word in enumerate(drawn[pair].tolist()):
            same = word == int(contexts[pair])
            expected = -math.inf if same else float(u[word] @ v[centres[pair]])
            assert float(against[pair, k]) == pytest.approx(expected, abs=1e-6)
