"""Learns word vectors from raw text by skip-gram, and finds the nearest words of a word.

A stretch of text becomes pairs of neighbouring words, drawn again in each epoch (:mod:`saccade.data.texts.skipgrams`), the
network's scores a loss

    loss = Σ over the pairs of −log σ(score of the true context word) − Σₖ log σ(−score of a negative sample)

The nearest words are those with the largest cosine. ``king - man + woman`` is read as a sum of unit vectors.
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import Corpus
from saccade.data.files.records import Name
from saccade.data.texts.masking import Visit, draw_of
from saccade.data.texts.records import Text, WordData, load_texts, read_texts, texts_of
from saccade.data.texts.skipgrams import Batch, Frequencies, Stretches, collate
from saccade.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from saccade.data.toy.topics import families
from saccade.documents import checked, parse
from saccade.errors import InputError, SaccadeError
from saccade.kinds import TEXT
from saccade.metrics.text import VECTOR_METRICS, Score
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.task import Detail, Evaluation, Loss, Prediction, Progress, Surveys, Task, eval_mode, refuse_rate
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

FILE, COUNTS = "tokenizer.json", "counts.json"
ENCODED_TOGETHER = 4_000  # texts
EVALUATED_TOGETHER = 8_192  # words
SHOWN = 10  # nearest words
UNGROUPED = "neighbours is left out: word groups are only known for data.source: topics"
SIGNS = {"+": 1.0, "-": -1.0, "−": -1.0}


@dataclass(frozen=True)
class VectorsInput:
    """Words to add, by their ids, each with its sign."""

    text: str
    ids: tuple[int, ...]
    signs: tuple[float, ...]


@dataclass(frozen=True)
class NeighboursDetail(Detail):
    """The nearest words with their cosines, the nearest first."""

    choices: tuple[Mapping[str, float], ...] = ()


class WordVectors(Surveys, Task):
    """The task: a vocabulary of words with their counts in training."""

    name = "vectors"
    Data = WordData
    record_types = (Text,)
    network_base = nn.Module
    metrics = VECTOR_METRICS
    input = TEXT
    output = "text"
    length_setting = "data.chunk"
    survey = "texts"
    together = 10_000  # inputs are looked up: all share one normalised matrix

    def __init__(self, data: WordData, tokenizer: Tokenizer, counts: Sequence[int]) -> None:
        self.data, self.tokenizer, self.counts = data, tokenizer, list(counts)
        self._encoded_train: tuple[Sequence[Text], Stretches] | None = None  # training texts are encoded once

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        super().check_recipe(recipe)
        refuse_rate(
            recipe, "label_smoothing", "the task vectors has a binary loss, over true pairs and negative samples"
        )

    load = staticmethod(load_texts)
    read_file = staticmethod(read_texts)
    records = staticmethod(texts_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Text] | None = None) -> list[str]:
        """Example words: one of each built-in topic, or some frequent words."""
        if self.data.source is not None:
            return [family[0] for family in families() if Tokenizer.UNK not in self.tokenizer.encode(family[0])][:10]
        words = [word for word in self.tokenizer.pieces(range(len(SPECIAL), self.tokenizer.size)) if word.isalpha()]
        return words[100:1000:90] or words[:10]  # the most frequent ones are function words

    @classmethod
    def learn(cls, data: WordData, train: Sequence[Text]) -> WordVectors:
        """The task of these training texts: words and their counts are learnt from them alone."""
        tokenizer = Tokenizer.train([text.source for text in train], data.tokens)
        task = cls(data, tokenizer, [1] * tokenizer.size)
        stretches = task._stretches(train)
        task.counts = np.bincount(stretches.ids, minlength=tokenizer.size).tolist()
        task._encoded_train = train, stretches
        return task

    @classmethod
    def restore(cls, data: WordData, files: dict[str, str]) -> WordVectors:
        """The task that :meth:`files` saved."""
        for name in (FILE, COUNTS):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        tokenizer = Tokenizer.from_json(files[FILE], FILE)
        counts = checked(list[int], parse(files[COUNTS], COUNTS), COUNTS)
        if len(counts) != tokenizer.size or min(counts) < 0:
            raise InputError(COUNTS, expected=f"a list of {tokenizer.size:,} counts", found="others")
        return cls(data, tokenizer, counts)

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer}

    def files(self) -> dict[str, str]:
        return {FILE: self.tokenizer.to_json(), COUNTS: json.dumps(self.counts)}

    # Texts become pairs -----------------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Text], where: str) -> Corpus:
        """A row is a stretch of known words; rare words are removed, so that windows reach over them."""
        known = self._encoded_train
        stretches = known[1] if known is not None and known[0] is records else self._stretches(records)
        if not len(stretches):
            hint = "data.tokens.min_count sets how often a word must occur"
            expected, found = "texts with at least two known words", f"none in {len(records):,}"
            raise InputError(where, expected=expected, found=found, hint=hint)
        size = f"{len(stretches.ids):,} known words in {len(stretches):,} stretches of up to {self.data.chunk}"
        note = f"{where}: {len(records):,} texts, {size}"
        return Corpus(records, range(len(stretches)), np.diff(stretches.bounds), note, shared=stretches)

    def _stretches(self, texts: Sequence[Text]) -> Stretches:
        return Stretches.of(self._encoded(texts), self.data.chunk)

    def _encoded(self, texts: Sequence[Text]) -> Iterator[NDArray[np.int32]]:
        """The known words of each text, a few thousand texts at a time: as lists, all of them would take too much memory."""
        for start in range(0, len(texts), ENCODED_TOGETHER):
            for ids in self.tokenizer.encode_all([text.source for text in texts[start : start + ENCODED_TOGETHER]]):
                row = np.asarray(ids, dtype=np.int32)
                yield row[row != Tokenizer.UNK]

    def visit(self, batch: list[int], seed: int, epoch: int) -> list[int]:
        """Subsampling and negative samples are drawn again in each epoch."""
        return Visit(batch, draw_of(seed, epoch))

    def row_name(self, corpus: Corpus, number: int) -> str:
        return f"a stretch of {corpus.costs[number]} words"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        window, negatives = self.data.window, self.data.negatives
        return collate(corpus.shared, numbers, self._frequencies, window=window, negatives=negatives)

    @cached_property
    def _frequencies(self) -> Frequencies:
        return Frequencies.of(self.counts, self.data.subsample)

    # Pairs become a loss ------------------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> nn.Module:
        if list(inspect.signature(network_class).parameters) != ["config", "vocabulary"] or not hasattr(
            config, "embedding"
        ):
            expected = "a network that scores pairs of words, such as skipgram"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: nn.Module = network_class(config, self.tokenizer.size)
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−log σ(score) of true pairs plus −log σ(−score) of negative samples."""
        there, against = network(batch.centres, batch.contexts, batch.against)
        per_pair = functional.softplus(-there.float()) + functional.softplus(against.float()).sum(-1)
        return Loss((per_pair * batch.weights).sum(), batch.tokens)

    # A word becomes its nearest words -----------------------------------------------------------------------------------

    def forward(
        self, network: Any, items: Sequence[VectorsInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The nearest words of each input and their cosines; ``how.n_best`` is their number, ten unless given. There is no
        attention, so a trace has no maps."""
        unit = self._unit(network)
        predictions = [self._nearest(unit, item, how.n_best if how.n_best > 1 else SHOWN) for item in items]
        if lens is None:
            return predictions
        return [
            replace(made, trace=Trace().labelled({}, **self.about, input=item.text, output=made.value))
            for item, made in zip(items, predictions, strict=True)
        ]

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return (self.data.column,)

    def read(self, given: Any, where: str, network: Any = None) -> VectorsInput:
        """An input is a word, or several with + and - between them."""
        if not isinstance(given, str):
            raise InputError(where, expected="a word", found=type(given).__name__)
        ids, signs, before = list[int](), list[float](), ""
        for part in given.split():
            if part in SIGNS and self.tokenizer.encode(given) != self.tokenizer.encode(part):
                if before:
                    raise InputError(where, expected=f"a word after {before}", found=repr(part))
                before = part
                continue
            known = self._known(part, where)
            ids += known
            signs += [SIGNS[before or "+"]] * len(known)
            before = ""
        if before or not ids:
            raise InputError(where, expected=f"a word after {before}" if before else "a word", found="nothing")
        total = Counter[int]()
        for number, sign in zip(ids, signs, strict=True):
            total[number] += int(sign)
        if not any(total.values()):
            raise InputError(where, expected="words whose sum is not 0", found=repr(given[:60]))
        if len(total) == self.tokenizer.size - len(SPECIAL):
            raise InputError(where, expected="fewer words", found="the whole vocabulary, which leaves no neighbours")
        return VectorsInput(given, tuple(ids), tuple(signs))

    def _known(self, part: str, where: str) -> list[int]:
        """The ids of the words in a part without spaces, usually one."""
        ids = self.tokenizer.encode(part)
        if len(ids) > 1 and not SIGNS.keys().isdisjoint(part):
            raise InputError(where, expected="spaces around + and -, and words without them", found=repr(part[:60]))
        if not ids or Tokenizer.UNK in ids:
            hint = "only words that are frequent enough in training have a vector"
            raise InputError(where, expected="words of the vocabulary", found=repr(part[:60]), hint=hint)
        return ids

    @torch.no_grad()
    def _unit(self, network: Any) -> Float[Tensor, "V D"]:
        """Every word's vector, normalised to length 1."""
        return functional.normalize(network.embedding.weight.float(), dim=-1)

    def _nearest(self, unit: Tensor, item: VectorsInput, count: int) -> Prediction:
        signs = unit.new_tensor(item.signs).unsqueeze(-1)
        cosines = unit @ functional.normalize((unit[list(item.ids)] * signs).sum(0), dim=0)
        cosines[[*range(len(SPECIAL)), *item.ids]] = -torch.inf
        values, ids = cosines.topk(min(count, len(cosines) - len(SPECIAL) - len(set(item.ids))))
        near = dict(zip(self.tokenizer.pieces(ids.tolist()), values.tolist(), strict=True))
        value = ", ".join(f"{word} {cosine:.3f}" for word, cosine in near.items())
        return Prediction(value, float(values[0]), detail=NeighboursDetail((near,)))

    # Figures ------------------------------------------------------------------------------------------------------------

    def first(self, corpus: Corpus, limit: int | None) -> Corpus:
        """The first ``limit`` stretches."""
        return corpus if limit is None else replace(corpus, rows=corpus.rows[:limit], costs=corpus.costs[:limit])

    def measure(
        self, network: Any, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """``pair_loss``: the mean loss per pair; ``pair_accuracy``: how often the true context word scores above all negative
        samples; ``neighbours``: how often a word's nearest word is of its own topic."""
        figures, notes = dict[str, float](), list[str]()
        if "neighbours" in metrics and self.data.source is None and len(metrics) > 1:
            # A shipped recipe on other texts: do not fail the run for a metric that these do not have.
            metrics, notes = [name for name in metrics if name != "neighbours"], [UNGROUPED]
        elif "neighbours" in metrics:
            figures["neighbours"] = self._neighbours(network)
        if {"pair_loss", "pair_accuracy"} & set(metrics):
            figures |= self._pairs(network, corpus)
        return Evaluation.of({name: Score(name, figures[name], name != "pair_loss") for name in metrics}, notes=notes)

    def _neighbours(self, network: Any) -> float:
        if self.data.source is None:
            hint = "pair_loss and pair_accuracy can be computed for any text"
            raise InputError("metrics", expected="neighbours with data.source: topics", found="other texts", hint=hint)
        number = {word: place for place, word in enumerate(self.tokenizer.pieces(range(self.tokenizer.size)))}
        known = [[number[word] - len(SPECIAL) for word in family if word in number] for family in families()]
        return neighbours(self._unit(network)[len(SPECIAL) :], known)

    @torch.no_grad()
    def _pairs(self, network: Any, corpus: Corpus) -> dict[str, float]:
        """The metrics of pairs, on one fixed draw."""
        device, most = next(network.parameters()).device, max(EVALUATED_TOGETHER, self.data.chunk)
        loss, above, count = 0.0, 0, 0
        with eval_mode(network):
            for numbers in self.plan(corpus, tokens=most, records=None, seed=0, epoch=0):
                batch = self.batch(corpus, numbers).to(device)
                there, against = network(batch.centres, batch.contexts, batch.against)
                loss += float(self.loss(network, batch).total)
                above += int((there > against.amax(-1)).sum())
                count += batch.tokens
        return {"pair_loss": loss / max(1, count), "pair_accuracy": above / max(1, count)}


def neighbours(vectors: Float[Tensor, "V D"], groups: Sequence[Sequence[int]]) -> float:
    """The share of the grouped words whose nearest other word by cosine, cos(a, b) = a · b / (|a| |b|), is of their own group.

    >>> neighbours(torch.tensor([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.5, 1.0]]), [[0, 1], [2]])
    0.6666666666666666
    """
    rows = [row for group in groups for row in group]
    if not rows:
        raise SaccadeError("neighbours: expected groups of words, found none of their words in the vocabulary")
    unit = functional.normalize(vectors.float(), dim=-1)
    cosines = unit[rows] @ unit.T
    cosines[torch.arange(len(rows)), rows] = -torch.inf
    owner = {row: number for number, group in enumerate(groups) for row in group}
    nearest = cosines.argmax(-1).tolist()
    return sum(owner.get(near) == owner[row] for row, near in zip(rows, nearest, strict=True)) / len(rows)
