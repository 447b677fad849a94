"""A task written from nothing, as a user would: how many a's are in a word? No decoder, no vocabulary, data of its own."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from saccade.attention.windows import padding
from saccade.data.splits import Splits
from saccade.nn import AttentionPool
from saccade.task import Evaluation, Loss, Prediction, eval_mode
from saccade.trace import Lens, Site, Tokens
from saccade.training.evaluation import corpus_loss

LETTERS = "abc"
SITE = Site("pool", query="answer", key="word")


@dataclass(frozen=True)
class CountData:
    words: int = 60
    longest: int = 5

    def __post_init__(self):
        if self.words < 10:
            raise ValueError(f"words must be at least 10: got {self.words}")


@dataclass(frozen=True)
class Word:
    source: str
    target: int


@dataclass(frozen=True)
class Batch:
    letters: Tensor  # [B, S]
    lengths: Tensor  # [B]
    target: Tensor  # [B]

    def to(self, device):
        return Batch(self.letters.to(device), self.lengths.to(device), self.target.to(device))


@dataclass(frozen=True)
class Corpus:
    words: list[Word]
    note: str = ""

    def __len__(self):
        return len(self.words)


@dataclass(frozen=True)
class Config:
    width: int = 8


class Counter(nn.Module):
    """An attention pool over letters, and a class a count."""

    config_class = Config
    sites = (SITE,)

    def __init__(self, config, classes):
        super().__init__()
        self.letters, self.pool = nn.Embedding(len(LETTERS) + 1, config.width), AttentionPool(config.width)
        self.length = nn.Linear(1, config.width)
        self.output = nn.Linear(config.width, classes)

    def forward(self, letters, lengths, *, lens=None):
        pooled = self.pool(self.letters(letters), window=padding(lengths), lens=lens, site=SITE)
        return self.output(torch.tanh(pooled + self.length(lengths.unsqueeze(-1).float())))


class Count:
    name = "count"
    data_class = CountData
    metrics = ("accuracy",)

    def __init__(self, data, most):
        self.data, self.most = data, most

    @staticmethod
    def load(data, folder, seed):
        draw = random.Random(seed)
        texts = ["".join(draw.choices(LETTERS, k=draw.randint(1, data.longest))) for _ in range(data.words)]
        words = [Word(text, text.count("a")) for text in texts]
        return Splits(words[10:], words[:5], words[5:10])

    @staticmethod
    def read_file(path, data):
        return [Word(line, line.count("a")) for line in path.read_text().split()]

    @staticmethod
    def records(given, data):
        return [Word(text, text.count("a")) for text in given]

    @classmethod
    def learn(cls, data, train):
        return cls(data, max(word.target for word in train))

    @classmethod
    def restore(cls, data, files):
        return cls(data, json.loads(files["count.json"]))

    def files(self):
        return {"count.json": json.dumps(self.most)}

    def examples(self, folder, seed, test=None):
        return ["abba", "c"]

    def network(self, network_class, config):
        return network_class(config, self.data.longest + 1)

    def corpus(self, records, where):
        return Corpus(list(records))

    def plan(self, corpus, *, tokens, records, seed, epoch):
        size = records or 16
        order = random.Random(f"{seed} {epoch}").sample(range(len(corpus)), len(corpus))
        return [order[start : start + size] for start in range(0, len(order), size)]

    def batch(self, corpus, numbers):
        words = [corpus.words[number] for number in numbers]
        widest = max(len(word.source) for word in words)
        letters = [[LETTERS.index(letter) + 1 for letter in word.source.ljust(widest, "a")] for word in words]
        lengths = torch.tensor([len(word.source) for word in words])
        return Batch(torch.tensor(letters), lengths, torch.tensor([word.target for word in words]))

    def loss(self, network, batch, *, smoothing=0.0, sampling=0.0):
        logits = network(batch.letters, batch.lengths)
        return Loss(nn.functional.cross_entropy(logits, batch.target, reduction="sum"), len(batch.target))

    @torch.no_grad()
    def predict(self, network, inputs, *, how, lens=None):
        predictions = []
        with eval_mode(network):
            for text in inputs:
                batch = self.batch(Corpus(self.records([text], self.data)), [0])
                looking = None if lens is None else lens.fresh()
                log_probs = network(batch.letters, batch.lengths, lens=looking).log_softmax(-1)[0]
                value = int(log_probs.argmax())
                prediction = Prediction(value, float(log_probs[value]), float(log_probs[value]))
                predictions.append(prediction if looking is None else self._seen(prediction, text, looking))
        return predictions

    def _seen(self, prediction: Prediction, text: str, lens: Lens) -> Prediction:
        axes = {"word": Tokens(tuple(text), text=text), "answer": Tokens((str(prediction.value),))}
        return replace(prediction, trace=lens.trace.labelled(axes, input=text, output=str(prediction.value)))

    def evaluate(self, network, corpus, *, how, metrics, limit=None):
        words = corpus.words[:limit]
        outputs = [prediction.value for prediction in self.predict(network, [word.source for word in words], how=how)]
        right = sum(output == word.target for output, word in zip(outputs, words, strict=True))
        corpus_loss(self, network, corpus)
        return Evaluation({"accuracy": right / len(words)}, {}, {"accuracy": True}, outputs)
