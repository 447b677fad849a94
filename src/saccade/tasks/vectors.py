"""Word vectors learnt from raw text: a text becomes pairs of words that stand near each other, a word its nearest words.

A stretch of text becomes pairs, drawn anew in each epoch (:mod:`saccade.data.texts.skipgrams`), the network's scores a loss

    loss = Σ over the pairs of −log σ(score of the word that is there) − Σₖ log σ(−score of a word that was drawn)

and a word those whose vectors have the largest cosine with its own. ``king - man + woman`` is read as a sum of unit vectors.
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
from saccade.data.texts.masking import Visit, draw_of
from saccade.data.texts.records import Text, WordData, load_texts, read_texts, texts_of
from saccade.data.texts.skipgrams import Batch, Frequencies, Stretches, collate
from saccade.data.tokenizers.tokenizer import SPECIAL, Tokenizer
from saccade.data.toy.topics import families
from saccade.errors import InputError
from saccade.kinds import TEXT
from saccade.metrics.ranking import VECTOR_METRICS, neighbours
from saccade.metrics.text import Score
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.task import Detail, Evaluation, Loss, Prediction, Progress, Surveys, Task, eval_mode, refuse_rate
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

FILE, COUNTS = "tokenizer.json", "counts.json"
ENCODED_TOGETHER = 4_000  # texts
EVALUATED_TOGETHER = 8_192  # words
SHOWN = 10  # nearest words
UNGROUPED = "neighbours is left out: which words belong together is known with data.source: topics alone"
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
    """The task: a vocabulary of words, and how often training had each."""

    name = "vectors"
    Data = WordData
    network_base = nn.Module
    metrics = VECTOR_METRICS
    input = TEXT
    output = "text"
    survey = "texts"

    def __init__(self, data: WordData, tokenizer: Tokenizer, counts: Sequence[int]) -> None:
        self.data, self.tokenizer, self.counts = data, tokenizer, list(counts)
        self._encoded_train: tuple[Sequence[Text], Stretches] | None = None  # training texts are encoded once

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        super().check_recipe(recipe)
        refuse_rate(recipe, "label_smoothing", "the task vectors learns from pairs, which are there or drawn")

    load = staticmethod(load_texts)
    read_file = staticmethod(read_texts)
    records = staticmethod(texts_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Text] | None = None) -> list[str]:
        """Words worth looking up: one of each built-in topic, or some of the commoner words."""
        if self.data.source is not None:
            return [family[0] for family in families() if Tokenizer.UNK not in self.tokenizer.encode(family[0])][:10]
        words = [word for word in self.tokenizer.pieces(range(len(SPECIAL), self.tokenizer.size)) if word.isalpha()]
        return words[100:1000:90] or words[:10]  # the very commonest say little

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
        """The task that :meth:`files` kept."""
        for name in (FILE, COUNTS):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        tokenizer = Tokenizer.from_json(files[FILE], FILE)
        try:
            counts = [int(count) for count in json.loads(files[COUNTS])]
        except (TypeError, ValueError):
            counts = []
        if len(counts) != tokenizer.size or min(counts) < 0:
            raise InputError(COUNTS, expected=f"a list of {tokenizer.size:,} counts", found="another document")
        return cls(data, tokenizer, counts)

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer}

    def files(self) -> dict[str, str]:
        return {FILE: self.tokenizer.to_json(), COUNTS: json.dumps(self.counts)}

    # Texts become pairs -----------------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Text], where: str) -> Corpus:
        """A row is a stretch of known words; rare words are left out, and windows reach over them."""
        known = self._encoded_train
        stretches = known[1] if known is not None and known[0] is records else self._stretches(records)
        if not len(stretches):
            hint = "data.tokens.min_count says how often a word must occur"
            expected, found = "texts with at least two known words", f"none in {len(records):,}"
            raise InputError(where, expected=expected, found=found, hint=hint)
        size = f"{len(stretches.ids):,} known words in {len(stretches):,} stretches of up to {self.data.chunk}"
        note = f"{where}: {len(records):,} texts, {size}"
        return Corpus(records, range(len(stretches)), np.diff(stretches.bounds), note, shared=stretches)

    def _stretches(self, texts: Sequence[Text]) -> Stretches:
        return Stretches.of(self._encoded(texts), self.data.chunk)

    def _encoded(self, texts: Sequence[Text]) -> Iterator[NDArray[np.int32]]:
        """The known words of each text, some texts at a time: as lists all of them would take many times their memory."""
        for start in range(0, len(texts), ENCODED_TOGETHER):
            for ids in self.tokenizer.encode_all([text.source for text in texts[start : start + ENCODED_TOGETHER]]):
                row = np.asarray(ids, dtype=np.int32)
                yield row[row != Tokenizer.UNK]

    def visit(self, batch: list[int], seed: int, epoch: int) -> list[int]:
        """Which words are left out, and which are drawn against, changes in each epoch."""
        return Visit(batch, draw_of(seed, epoch))

    def row_name(self, corpus: Corpus, number: int) -> str:
        return f"a stretch of {corpus.costs[number]} words (data.chunk)"

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
        """What is minimised: −log σ of the scores, those of drawn words turned round."""
        there, against = network(batch.centres, batch.contexts, batch.against)
        each = functional.softplus(-there.float()) + functional.softplus(against.float()).sum(-1)
        return Loss((each * batch.weights).sum(), batch.tokens)

    # A word becomes its nearest words -----------------------------------------------------------------------------------

    def forward(
        self, network: Any, items: Sequence[VectorsInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The nearest words of each input and their cosines; ``how.n_best`` says how many, ten unless given. Word vectors look
        nowhere, so that a trace holds no maps."""
        unit = self._unit(network)
        predictions = [self._nearest(unit, item, how.n_best if how.n_best > 1 else SHOWN) for item in items]
        if lens is None:
            return predictions
        return [
            replace(made, trace=Trace().labelled({}, **self.about, input=item.text, output=made.value))
            for item, made in zip(items, predictions, strict=True)
        ]

    def read(self, given: Any, where: str, network: Any = None) -> VectorsInput:
        """An input is a word, or several with + and - between them."""
        if not isinstance(given, str):
            raise InputError(where, expected="a word", found=type(given).__name__)
        ids, signs, before = list[int](), list[float](), ""
        for part in given.split():
            if part in SIGNS and self.tokenizer.encode(given) != self.tokenizer.encode(part):
                if before:
                    raise InputError(where, expected=f"a word behind {before}", found=repr(part))
                before = part
                continue
            found = self._known(part, where)
            ids += found
            signs += [SIGNS[before or "+"]] * len(found)
            before = ""
        if before or not ids:
            raise InputError(where, expected=f"a word behind {before}" if before else "a word", found="nothing")
        total = Counter[int]()
        for number, sign in zip(ids, signs, strict=True):
            total[number] += int(sign)
        if not any(total.values()):
            raise InputError(where, expected="words that leave something", found=f"{given[:60]!r}, which is 0")
        if len(total) == self.tokenizer.size - len(SPECIAL):
            raise InputError(where, expected="fewer words", found="the whole vocabulary, which leaves no neighbours")
        return VectorsInput(given, tuple(ids), tuple(signs))

    def _known(self, part: str, where: str) -> list[int]:
        """The words of a part between blanks, most often one."""
        found = self.tokenizer.encode(part)
        if len(found) > 1 and not SIGNS.keys().isdisjoint(part):
            raise InputError(where, expected="blanks around + and -, and words without them", found=repr(part[:60]))
        if not found or Tokenizer.UNK in found:
            hint = "only words that training had often enough have a vector"
            raise InputError(where, expected="words of the vocabulary", found=repr(part[:60]), hint=hint)
        return found

    @torch.no_grad()
    def _unit(self, network: Any) -> Float[Tensor, "V D"]:
        """Every word's vector, of length 1."""
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
        """``pair_loss``: the mean loss of a pair; ``pair_accuracy``: how often the true context word scores above all that were
        drawn against it; ``neighbours``: how often a word's nearest is of its own topic."""
        figures, notes = dict[str, float](), list[str]()
        if "neighbours" in metrics and self.data.source is None and len(metrics) > 1:
            # A recipe of ours on other texts: the run is not lost for a metric that they do not have.
            metrics, notes = [name for name in metrics if name != "neighbours"], [UNGROUPED]
        elif "neighbours" in metrics:
            figures["neighbours"] = self._neighbours(network)
        if {"pair_loss", "pair_accuracy"} & set(metrics):
            figures |= self._pairs(network, corpus)
        return Evaluation.of({name: Score(name, figures[name], name != "pair_loss") for name in metrics}, notes=notes)

    def _neighbours(self, network: Any) -> float:
        if self.data.source is None:
            hint = "pair_loss and pair_accuracy are known of any text"
            raise InputError("metrics", expected="neighbours with data.source: topics", found="other texts", hint=hint)
        number = {word: place for place, word in enumerate(self.tokenizer.pieces(range(self.tokenizer.size)))}
        known = [[number[word] - len(SPECIAL) for word in family if word in number] for family in families()]
        return neighbours(self._unit(network)[len(SPECIAL) :], known)

    @torch.no_grad()
    def _pairs(self, network: Any, corpus: Corpus) -> dict[str, float]:
        """Of one draw that is always the same."""
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
