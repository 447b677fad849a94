"""Classifies a text, or a pair of texts: sentiment, topics, whether one sentence follows from another.

A record becomes a row of ids with special tokens (:mod:`saccade.data.labels.batch`), the network's logits the loss

    loss = Σ_b w(y_b) · −log p(y_b | text_b),        w(c) = 1, or with ``balance: weights``  N / (C · N_c)

A prediction is the likeliest label with the probabilities of all labels; a trace is labelled with the words.
"""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import Corpus, group
from saccade.data.config import CUT
from saccade.data.files.records import Name
from saccade.data.files.semeval import ENTITY_MARKS, MARKED, unmarked
from saccade.data.labels.batch import (
    IGNORED,
    Batch,
    Ids,
    Layout,
    NestedBatch,
    collate,
    collate_nested,
    fit,
    fit_nested,
    marks_of,
    nested,
)
from saccade.data.labels.classes import Classes, described, labels_in
from saccade.data.labels.records import Labelled, LabelledData, Text, labelled_of, load_labelled, read_file
from saccade.data.rankings.word_overlap import words
from saccade.data.tokenizers.sentences import sentences
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.data.tokenizers.vectors import VectorMatch, is_frozen, learn_words
from saccade.data.tokenizers.wordpiece import stored_tokenizer
from saccade.data.toy import examples
from saccade.errors import InputError, preview
from saccade.kinds import PAIR
from saccade.metrics.baselines import linear, most_frequent
from saccade.metrics.calibration import PROBABILITY_METRICS, probability_scores
from saccade.metrics.labels import (
    CLASSIFIER_METRICS,
    LABEL_METRICS,
    Confusion,
    by_tag,
    label_scores,
    label_statistics,
    relation_of,
)
from saccade.metrics.significance import Statistics
from saccade.models import name_of
from saccade.nn.classifier import Classifier
from saccade.nn.search.beam_search import Search
from saccade.nn.word_vectors import begin_words
from saccade.task import (
    Calibrates,
    Evaluation,
    FineTunes,
    Loss,
    Prediction,
    Probabilities,
    Progress,
    Scored,
    Scores,
    Surveys,
    Task,
    check_positions,
    check_text,
    eval_mode,
    keep_best,
    rows_of,
)
from saccade.tasks.axes import BREAK, nested_axes, row_axis
from saccade.tasks.calibration import Calibration, shares_of
from saccade.tasks.scoring import choice_scorer, unknown_share
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace

VOCABULARY, CLASSES = "tokenizer.json", "labels.json"


class Classify(Calibrates, FineTunes, Scores, Surveys, Task):
    """The task: a tokenizer, the labels, and the rule for over-long texts."""

    name = "classify"
    Data = LabelledData
    record_types = (Labelled,)
    network_base = Classifier
    metrics = CLASSIFIER_METRICS
    baseline_names = ("most frequent label", "tf-idf + logistic regression")
    input = PAIR
    output = "label"
    length_setting = "data.max_length"
    survey = "labels"
    calibration: Calibration | None = None

    def __init__(
        self, data: LabelledData, tokenizer: Tokenizer, classes: Classes, vectors: VectorMatch | None = None
    ) -> None:
        self.data, self.tokenizer, self.classes, self.vectors = data, tokenizer, classes, vectors
        self.reader = reader_of(data, tokenizer, pairs=classes.pairs)

    load = staticmethod(load_labelled)
    read_file = staticmethod(read_file)
    records = staticmethod(labelled_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Labelled] | None = None) -> list[str]:
        """Examples of the built-in source, or the shortest of the first test records."""
        if self.data.source is not None:
            return examples(self.data.source)
        test = self.load(self.data, folder, seed).test if test is None else test
        shortest = sorted(test[:100], key=lambda record: len("".join(record.source)))[:10]
        return ["\t".join(" ".join(text.split()) for text in texts_of(record.source)) for record in shortest]

    @classmethod
    def learn(cls, data: LabelledData, train: Sequence[Labelled]) -> Classify:
        """The task of these training records: vocabulary and labels are learnt from them alone."""
        _check_marks_whole(data)
        texts = [text for record in train for text in texts_of(record.source)]
        tokenizer, vectors = learn_words(texts, data.tokens, data.vectors)
        return cls(data, tokenizer, Classes.of(train, data.labels), vectors)

    @classmethod
    def adopt(cls, data: LabelledData, train: Sequence[Labelled], files: dict[str, str]) -> Classify:
        """The task of these training records with the tokenizer of a pre-trained run of another task."""
        if VOCABULARY not in files:
            raise InputError(
                VOCABULARY, expected="a tokenizer in the bundle that the run starts from", found="no such file"
            )
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), Classes.of(train, data.labels))

    @classmethod
    def continue_from(cls, data: LabelledData, train: Sequence[Labelled], files: dict[str, str]) -> Classify:
        """The saved task, with its labels counted in these training records. They are learnt again if ``data.labels``
        lists others, or if the records have one that it lacks."""
        saved = cls.restore(data, files)
        known = set(labels_in(train)) <= set(saved.classes.names)
        same = tuple(data.labels) == saved.classes.names if data.labels else known
        pairs = isinstance(train[0].source, tuple)
        classes = replace(saved.classes.counted(train), pairs=pairs) if same else Classes.of(train, data.labels)
        return cls(data, saved.tokenizer, classes)

    @property
    def reads_pairs(self) -> bool:
        """Whether texts come in pairs, each with its segment."""
        return self.classes.pairs

    @property
    def labels(self) -> tuple[str, ...]:
        return self.classes.names

    @property
    def lacking(self) -> tuple[str, ...]:
        return tuple(name for name, count in zip(self.classes.names, self.classes.counts, strict=True) if not count)

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer}

    @property
    def vectors_note(self) -> str:
        return "" if self.vectors is None else self.vectors.note

    @classmethod
    def restore(cls, data: LabelledData, files: dict[str, str]) -> Classify:
        """The task that :meth:`files` saved."""
        for name in (VOCABULARY, CLASSES):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        classes = Classes.from_json(files[CLASSES], CLASSES)
        task = cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), classes)
        task.calibration = Calibration.among(files)
        return task

    @classmethod
    def of_import(cls, data: LabelledData, tokenizer: Tokenizer, labels: Sequence[str], *, pairs: bool) -> Classify:
        return cls(data, tokenizer, Classes(tuple(labels), (0,) * len(labels), pairs))

    def files(self) -> dict[str, str]:
        calibration = {} if self.calibration is None else self.calibration.files
        return {VOCABULARY: self.tokenizer.to_json(), CLASSES: self.classes.to_json(), **calibration}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Labelled], where: str) -> Corpus:
        """A row is (ids, number of the label)."""
        names = [_name(record, number, where) for number, record in enumerate(records)]
        for record, name in zip(records, names, strict=True):
            self.reader.check_kind(record.source, name)
        labels = [self.classes.number(record.target, name) for record, name in zip(records, names, strict=True)]
        encoded = self.reader.encoded([record.source for record in records])
        fitted = [self.reader.fit(ids, name) for ids, name in zip(encoded, names, strict=True)]
        count = sum(was_cut for _, was_cut in fitted)
        cut = f"{count:,} of {len(records):,} texts cut to their {self.reader.limits}" if count else ""
        occurring = labels_in(records)
        counts = described(occurring) + self.classes.remark(
            occurring, self.data.balance, training=where == "data.train"
        )
        note = f"{where}: {'; '.join(filter(None, (counts, cut)))}"
        rows = [(ids, label) for (ids, _), label in zip(fitted, labels, strict=True)]
        costs = [self.reader.size(ids) for ids, _ in rows]
        return Corpus(records, rows, costs, note, f"{where}: {cut}" if cut else "")

    def row_name(self, corpus: Corpus, number: int) -> str:
        return _name(corpus.records[number], number)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch | NestedBatch:
        rows = [corpus.rows[number] for number in numbers]
        return self.reader.batch([ids for ids, _ in rows], [label for _, label in rows], numbers)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        return {"text": sum(len(self.reader.tokens(ids)) for ids, _ in corpus.rows)}

    def unknown_tokens(self, corpus: Corpus) -> list[str]:
        return unknown_share([token for ids, _ in corpus.rows for token in self.reader.tokens(ids)], self.tokenizer)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> Classifier:
        if "classes" not in inspect.signature(network_class).parameters:
            expected = "a network that classifies texts, such as attentive_classifier"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: Classifier = network_class(config, **self.sizes())
        self.reader.check(network, name_of(network_class))
        begin_words(network, self.vectors, is_frozen(self.data.vectors))
        return network

    def sizes(self, more: int = 0) -> dict[str, int]:
        return {"vocabulary": self.tokenizer.size, "classes": len(self.classes.names) + more}

    def loss(
        self, network: nn.Module, batch: Batch | NestedBatch, *, smoothing: float = 0.0, sampling: float = 0.0
    ) -> Loss:
        """Cross-entropy of the labels."""
        weights = self.classes.weights if self.data.balance == "weights" else None
        return Loss(label_loss(self.logits(network, batch), batch.labels, weights, smoothing), batch.tokens)

    def logits(self, network: Any, batch: Batch | NestedBatch, *, lens: Lens | None = None) -> Float[Tensor, "B C"]:
        """The network's output for a batch, whose rows are laid out as the network expects."""
        tokens, lengths, segments = batch.rows(network.layout)
        logits: Tensor = network(tokens, lengths, segments, lens=lens)
        return logits

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        columns = self.data.columns
        return (columns.text, columns.second) if columns.second is not None else (columns.text,)

    def read(self, given: Any, where: str, network: Any = None) -> ClassifyInput:
        """An input is a text; of pairs two, as a tuple or as one text with a tab between them."""
        return self.reader.read(given, where)

    def cost(self, item: ClassifyInput) -> int:
        return self.reader.size(item.ids)

    def forward(
        self, network: Classifier, items: Sequence[ClassifyInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The likeliest label of each input; ``how.n_best`` asks for the next labels as alternatives."""
        device = next(network.parameters()).device
        batch_lens = lens.fresh() if lens is not None else None
        batch = self.reader.batch([item.ids for item in items], [IGNORED] * len(items), range(len(items))).to(device)
        probabilities = shares_of(self.logits(network, batch, lens=batch_lens), self.calibration).tolist()
        recorded = rows_of(batch_lens.records if batch_lens is not None else (), len(items), device)
        return [
            self._prediction(item, row, records, how, lens, network)
            for item, row, records in zip(items, probabilities, recorded, strict=True)
        ]

    def _prediction(
        self,
        item: ClassifyInput,
        probabilities: list[float],
        records: list[Record],
        how: Search,
        lens: Lens | None,
        network: Classifier,
    ) -> Prediction:
        names = self.classes.names
        order = sorted(range(len(names)), key=lambda number: -probabilities[number])
        shares = {names[number]: probabilities[number] for number in order}
        trace = None if lens is None else self._trace(item, shares, order, records, lens, network)
        best = [
            Prediction(name, share, _log(share), "eos", item.notes)
            for name, share in list(shares.items())[: how.n_best]
        ]
        return replace(keep_best(best), trace=trace, detail=Probabilities(shares))

    def scorer(self, network: Classifier, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        return choice_scorer(self, network, given, output)

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def _trace(
        self,
        item: ClassifyInput,
        shares: dict[str, float],
        order: list[int],
        records: list[Record],
        lens: Lens,
        network: Classifier,
    ) -> Trace:
        value, *_ = shares
        label = Tokens((value,), text=value)
        axes: dict[str, Axis] = {**self.reader.axes(item, network.layout), "label": label}
        trace = assemble(records, 0) if records else Trace()
        outputs = None
        if lens.wants("outputs"):
            likeliest = torch.tensor([list(shares.values())])
            outputs = Outputs("label", (tuple(shares),), likeliest, torch.tensor([order]))
        about = {**self.about, "input": BREAK.join(texts_of(item.text)), "output": value, "score": shares[value]}
        return replace(trace, outputs=outputs).labelled(axes, **about, probabilities=shares)

    # Figures ----------------------------------------------------------------------------------------------------------

    def check_metrics(self, names: Sequence[str]) -> None:
        super().check_metrics(names)
        if "relation_f1" in names and not any(map(relation_of, self.classes.names)):
            expected = "relations beside Other, for relation_f1"
            raise InputError("metrics", expected=expected, found=str(self.classes.names))

    def measure(
        self, network: Classifier, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """Metrics of the predicted labels and of their probabilities."""
        shares = shares_of(self.logits_of(network, corpus), self.calibration)
        return evaluate_labels(shares, corpus, self.targets_of(corpus), self.classes, metrics, "records")

    def baselines(
        self, train: Sequence[Labelled], records: Sequence[Labelled], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The most frequent label for every text, and logistic regression of tf-idf; the words of a second text are features
        of their own."""
        labels, truth = [record.target for record in train], [record.target for record in records]
        named = [name for name in metrics if name in LABEL_METRICS]
        if not named:
            return {}
        predicted = {
            self.baseline_names[0]: [most_frequent(labels)] * len(records),
            self.baseline_names[1]: linear(list(map(_features, train)), labels, list(map(_features, records))),
        }
        return {
            name: {metric: score.value for metric, score in label_scores(named, outputs, truth).items()}
            for name, outputs in predicted.items()
        }

    @torch.no_grad()
    def logits_of(self, network: Classifier, corpus: Corpus) -> Float[Tensor, "N C"]:
        device = next(network.parameters()).device
        logits = torch.zeros(len(corpus), len(self.classes.names))
        with eval_mode(network):
            for numbers in group(corpus.costs, most=self.together, positions=self.positions):
                logits[numbers] = self.logits(network, self.batch(corpus, numbers).to(device)).float().cpu()
        return logits

    def targets_of(self, corpus: Corpus) -> list[int]:
        return [label for _, label in corpus.rows]

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return LABEL_METRICS

    def statistics(self, name: str, outputs: Sequence[str], records: Sequence[Labelled]) -> Statistics:
        return label_statistics(name, outputs, [record.target for record in records])


def _check_marks_whole(data: LabelledData) -> None:
    """Raise unless the tokenizer keeps the entity markers of relations whole; it would split them at their punctuation."""
    whole = data.tokens.whole
    if data.format == "relations" and data.tokens.kind == "words" and not set(ENTITY_MARKS) <= set(whole):
        expected = f"{json.dumps(ENTITY_MARKS)}, the marks of relations"
        raise InputError("recipe", field="data.tokens.whole", expected=expected, found=json.dumps(whole))


def _features(record: Labelled) -> list[str]:
    """The words of a record's texts; those of a second text differ from the same words in the first."""
    first, *second = texts_of(record.source)
    return [*words(first), *(f"{word} 2" for text in second for word in words(text))]


def _name(record: Labelled, number: int, where: str = "") -> str:
    """The name of a record in errors; ``number`` counts from 0."""
    return f"{where}{', ' * bool(where)}record {number + 1} ({preview(texts_of(record.source)[0])})"


def _log(share: float) -> float:
    return float(torch.tensor(share).clamp_min(torch.finfo(torch.float32).tiny).log())


@dataclass(frozen=True)
class ClassifyInput:
    """An input: its text or texts, their ids, and its notes."""

    text: Text
    ids: Any
    notes: tuple[str, ...] = ()


class ClassifyReader(ABC):
    """Turns texts into ids and batches, by the settings of a recipe's ``data``."""

    layouts: tuple[Layout, ...]

    def __init__(self, data: LabelledData, tokenizer: Tokenizer, *, pairs: bool) -> None:
        self.data, self.tokenizer, self.pairs = data, tokenizer, pairs

    @abstractmethod
    def encoded(self, sources: Sequence[Text]) -> list[Any]:
        """The ids of many inputs, not yet cut."""

    @abstractmethod
    def fit(self, ids: Any, where: str) -> tuple[Any, bool]:
        """The ids within the recipe's limits, and whether any were cut."""

    @abstractmethod
    def tokens(self, ids: Any) -> list[int]:
        """All tokens of an input, one after the other."""

    @abstractmethod
    def size(self, ids: Any) -> int:
        """How many positions an input takes, special tokens included."""

    @abstractmethod
    def batch(self, ids: Sequence[Any], labels: Sequence[int], numbers: Sequence[int]) -> Batch | NestedBatch:
        """Inputs as tensors."""

    @abstractmethod
    def axes(self, item: ClassifyInput, layout: Layout) -> dict[str, Axis]:
        """The axes of a trace for a network of this layout, labelled with the words."""

    @property
    def limits(self) -> str:
        """The limit to which texts are cut."""
        return f"{self.data.keep} {self.data.max_length} tokens"

    def check(self, network: Classifier, name: str) -> None:
        """Raise if the network does not read this layout."""
        if network.layout in self.layouts:
            return
        if network.layout == "sentences":
            expected = f"{{most: 50, words: 50}} or the like: {name} reads a text sentence by sentence"
            raise InputError("recipe", field="data.sentences", expected=expected, found="nothing")
        expected = f"nothing: {name} reads a text as one row"
        raise InputError("recipe", field="data.sentences", expected=expected, found=str(self.data.sentences))

    def check_kind(self, source: Text, where: str) -> None:
        """Raise on one text where pairs are expected, or the other way round."""
        if isinstance(source, tuple) != self.pairs:
            kinds = ("two texts", "one text") if self.pairs else ("one text", "two texts")
            raise InputError(where, expected=f"{kinds[0]}, as in training", found=kinds[1])
        self._check_marks(source, where)

    def _check_marks(self, source: Text, where: str) -> None:
        fault = unmarked(texts_of(source)[0]) if self.data.format == "relations" else ""
        if fault:
            raise InputError(where, expected=MARKED, found=fault)

    def read(self, given: Any, where: str) -> ClassifyInput:
        """One input, checked, as ids."""
        source = self._parted(given, where)
        for text in texts_of(source):
            check_text(text, where)
        self._check_marks(source, where)
        ids, cut = self.fit(self.encoded([source])[0], where)
        notes = [f"{CUT} its {self.limits}"] if cut else []
        read = self.tokens(ids)
        notes += unknown_notes(read, self.tokenizer.UNK)
        return ClassifyInput(source, ids, tuple(notes))

    def _parted(self, given: Any, where: str) -> Text:
        if not self.pairs:
            if not isinstance(given, str):
                raise InputError(where, expected="a text", found=type(given).__name__)
            return given
        parts = given.split("\t") if isinstance(given, str) else given
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            found = f"{len(parts)} text(s)" if isinstance(parts, tuple | list) else type(parts).__name__
            hint = "a tuple, or one text with a tab between the two"
            raise InputError(where, expected="two texts, as in training", found=found, hint=hint)
        return parts[0], parts[1]


class Rows(ClassifyReader):
    """A text, or a pair of texts, as one row with special tokens."""

    layouts = ("plain", "marked")

    def encoded(self, sources: Sequence[Text]) -> list[Ids]:
        firsts = self._encoded([texts_of(source)[0] for source in sources])
        if not self.pairs:
            return [(ids, None) for ids in firsts]
        return list(zip(firsts, self._encoded([texts_of(source)[1] for source in sources]), strict=True))

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        # A text may be empty after normalisation; a row must not be.
        return [ids or [self.tokenizer.UNK] for ids in self.tokenizer.encode_all(texts)]

    def fit(self, ids: Ids, where: str) -> tuple[Ids, bool]:
        return fit(ids, self.data.max_length, self.data.too_long, self.data.keep, where)

    def tokens(self, ids: Ids) -> list[int]:
        return [*ids[0], *(ids[1] or ())]

    def size(self, ids: Ids) -> int:
        return len(ids[0]) + len(ids[1] or ()) + marks_of("marked", self.pairs)

    def batch(self, ids: Sequence[Ids], labels: Sequence[int], numbers: Sequence[int]) -> Batch:
        mark, longest = self.tokenizer, self.data.max_length + marks_of("marked", self.pairs)
        made = collate(ids, labels, numbers, first=mark.BOS, last=mark.EOS, padding=mark.PAD)
        return replace(made, longest=longest)

    def axes(self, item: ClassifyInput, layout: Layout) -> dict[str, Axis]:
        sizes = [len(part) for part in item.ids if part is not None]
        return {"text": row_axis(self.tokenizer, texts_of(item.text), sizes, layout=layout, keep=self.data.keep)}

    def check(self, network: Classifier, name: str) -> None:
        super().check(network, name)
        if network.needs_second is not None and not self.pairs:
            expected = f"a column with the {network.needs_second} of each text, which {name} needs"
            hint = "data.format: aspects has one; model.whole: true reads texts as a whole"
            raise InputError("recipe", field="data.columns.second", expected=expected, found="single texts", hint=hint)
        check_positions(network.longest, self.data, marks_of(network.layout, self.pairs))


class Sentenced(ClassifyReader):
    """A text as a list of sentences of ids; a sentence that is too long becomes several."""

    layouts = ("sentences",)

    def encoded(self, sources: Sequence[Text]) -> list[list[list[int]]]:
        cut = [[text[start:end] for start, end in sentences(text)] for (text, *_) in map(texts_of, sources)]
        flat = iter(self.tokenizer.encode_all([sentence for document in cut for sentence in document]))
        # A sentence may be empty after normalisation; a document must not be.
        documents = [[ids for ids in (next(flat) for _ in document) if ids] for document in cut]
        return [document or [[self.tokenizer.UNK]] for document in documents]

    def fit(self, ids: list[list[int]], where: str) -> tuple[list[list[int]], bool]:
        limits = nested(self.data.sentences)
        return fit_nested(ids, self.data.max_length, limits, self.data.too_long, self.data.keep, where)

    def tokens(self, ids: list[list[int]]) -> list[int]:
        return [token for sentence in ids for token in sentence]

    def size(self, ids: list[list[int]]) -> int:
        return sum(map(len, ids))

    def batch(self, ids: Sequence[list[list[int]]], labels: Sequence[int], numbers: Sequence[int]) -> NestedBatch:
        return collate_nested(ids, labels, numbers, padding=self.tokenizer.PAD)

    def axes(self, item: ClassifyInput, layout: Layout) -> dict[str, Axis]:
        text = texts_of(item.text)[0]
        sizes = [len(sentence) for sentence in item.ids]
        return nested_axes(self.tokenizer, text, sentences(text), sizes, keep=self.data.keep)

    @property
    def limits(self) -> str:
        return f"{super().limits} and {nested(self.data.sentences).most} sentences"


def label_loss(
    logits: Float[Tensor, "B C"], labels: Int64[Tensor, " B"], weights: Sequence[float] | None, smoothing: float
) -> Float[Tensor, ""]:
    """The sum of the cross-entropies, each with the weight of its class, where there are ``weights``; padding has none."""
    logits = logits.float()
    # Made on the device, so that a CUDA graph can hold it.
    weight = None if weights is None else torch.cat([logits.new_full((1,), value) for value in weights])
    return functional.cross_entropy(
        logits, labels, weight=weight, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
    )


def evaluate_labels(
    shares: Float[Tensor, "N C"],
    corpus: Corpus,
    targets: Sequence[int],
    classes: Classes,
    metrics: Sequence[str],
    noun: str,
) -> Evaluation:
    """Metrics of the likeliest labels and of all probabilities, by label and as a confusion matrix, which counts ``noun``."""
    outputs = [classes.names[number] for number in shares.argmax(-1).tolist()]
    true = [record.target for record in corpus.records]
    likely = [name for name in metrics if name in PROBABILITY_METRICS]
    scores = label_scores([name for name in metrics if name not in likely], outputs, true)
    if likely:
        scores |= probability_scores(likely, shares.double().cpu().numpy(), np.array(targets))
    confusion = Confusion.of(zip(true, outputs, strict=True), classes.names, noun)
    ordered = {name: scores[name] for name in metrics}
    return Evaluation.of(ordered, outputs, [corpus.cut], by_tag([outputs], [true]), confusion)


def reader_of(data: LabelledData, tokenizer: Tokenizer, *, pairs: bool) -> ClassifyReader:
    """The reader for a recipe's ``data``."""
    return (Rows if data.sentences is None else Sentenced)(data, tokenizer, pairs=pairs)


def texts_of(source: Text) -> tuple[str, ...]:
    """One text or two."""
    return source if isinstance(source, tuple) else (source,)
