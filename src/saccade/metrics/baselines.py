"""Predicts without a network, as a baseline: a network that does not beat these has learnt little.

Labels of texts: the most frequent label, and tf-idf with logistic regression, fitted to its optimum by L-BFGS.

    x_d(w) = tf(w, d) · idf(w),  idf(w) = ln((1 + N) / (1 + n_w)) + 1,  x_d scaled to length 1
    W, b = argmin Σ_d −log softmax(W x_d + b)[y_d] + ½ ‖W‖²

Tags of words: the most frequent tag of each word; for a word that training lacks, the most frequent tag of all.

Legend: N training texts, n_w of them with the word w, V words, C labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

MOST_TEXTS = 50_000  # training texts that the linear classifier is fitted to, evenly spread; its words are bounded too
MOST_WEIGHTS = 5_000_000

Words = Sequence[str]


def most_frequent(labels: Iterable[str]) -> str:
    """The most frequent label; of several the first in alphabetical order."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def linear(train: Sequence[Words], labels: Sequence[str], texts: Sequence[Words]) -> list[str]:
    """The label of each text by tf-idf and logistic regression.

    >>> linear([["good", "day"], ["bad", "day"]], ["pos", "neg"], [["a", "bad", "one"], ["good"]])
    ['neg', 'pos']
    """
    step = math.ceil(len(train) / MOST_TEXTS)
    train, labels = train[::step], labels[::step]
    names = sorted(set(labels))
    holding = Counter(word for text in train for word in set(text))
    known = [word for word, _ in holding.most_common(max(1, MOST_WEIGHTS // len(names)))]
    number = {word: place for place, word in enumerate(known)}
    idf = {word: math.log((1 + len(train)) / (1 + holding[word])) + 1 for word in known}
    truth = torch.tensor([names.index(label) for label in labels])
    weight, bias = _fitted(_rows(train, number, idf), truth, len(known), len(names))
    logits = _product(_rows(texts, number, idf), weight) + bias  # [B, C]
    return [names[best] for best in logits.argmax(-1).tolist()]


def _rows(texts: Sequence[Words], number: Mapping[str, int], idf: Mapping[str, float]) -> tuple[Tensor, Tensor, Tensor]:
    """Sparse rows x_d: the numbers of the words of all texts, their weights, and where each text begins."""
    places, weights, starts = list[int](), list[float](), list[int]()
    for text in texts:
        counts = Counter(word for word in text if word in number)
        row = [count * idf[word] for word, count in counts.items()]
        length = math.sqrt(sum(weight**2 for weight in row))
        starts.append(len(places))
        places += (number[word] for word in counts)
        weights += (weight / length for weight in row)
    return torch.tensor(places, dtype=torch.long), torch.tensor(weights), torch.tensor(starts)


def _product(rows: tuple[Tensor, Tensor, Tensor], weight: Tensor) -> Tensor:
    """X W of rows [B, V] and weights [V, C]."""
    places, values, starts = rows
    return functional.embedding_bag(places, weight, starts, per_sample_weights=values.to(weight), mode="sum")


def _fitted(rows: tuple[Tensor, Tensor, Tensor], labels: Tensor, words: int, classes: int) -> tuple[Tensor, Tensor]:
    """The weights [V, C] and the bias [C] of the least cost."""
    weight, bias = (torch.zeros(size, requires_grad=True) for size in ((words, classes), (classes,)))
    optimiser = torch.optim.LBFGS([weight, bias], max_iter=100, tolerance_grad=1e-3, line_search_fn="strong_wolfe")

    def cost() -> Tensor:
        optimiser.zero_grad()
        total = functional.cross_entropy(_product(rows, weight) + bias, labels, reduction="sum")
        total = total + weight.square().sum() / 2
        total.backward()
        return total

    with torch.enable_grad():
        optimiser.step(cost)
    return weight.detach(), bias.detach()


def tags_by_word(train: Iterable[tuple[Words, Words]], texts: Iterable[Words]) -> list[list[str]]:
    """The tags of each text's words: the most frequent tag that the word has in ``train``, its words and their tags.

    >>> tags_by_word([(["a", "dog"], ["DET", "NOUN"]), (["dog"], ["NOUN"])], [["a", "cat"]])
    [['DET', 'NOUN']]
    """
    tags: dict[str, Counter[str]] = {}
    every = Counter[str]()
    for words, given in train:
        every.update(given)
        for word, tag in zip(words, given, strict=True):
            tags.setdefault(word, Counter())[tag] += 1
    usual = most_frequent(every.elements())
    best = {word: most_frequent(counts.elements()) for word, counts in tags.items()}
    return [[best.get(word, usual) for word in words] for words in texts]
