"""A text, or two that are judged together → one label: sentiment, topics, whether one sentence follows from another.

A record becomes a row of ids between marks (:mod:`saccade.data.labels.batch`), the network's logits a loss

    loss = Σ_b w(y_b) · −log p(y_b | text_b),        w(c) = 1, or with ``balance: weights``  N / (C · N_c)

a prediction the likeliest label with the probabilities of all, and what the network looked at a trace labelled with the words.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import plan
from saccade.data.labels.batch import IGNORED, Batch
from saccade.data.labels.classes import Classes, labels_in, told
from saccade.data.labels.nested_batch import NestedBatch
from saccade.data.labels.records import Labelled, LabelledData, Text, built_in, labelled_of, load_labelled, read_file
from saccade.data.reading import FaultCounts
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.data.tokenizers.vectors import VectorMatch, is_frozen, learn_words
from saccade.data.tokenizers.wordpiece import stored_tokenizer
from saccade.data.toy.relations import MARKS
from saccade.errors import InputError, SaccadeError, preview
from saccade.metrics.calibration import PROBABILITY_METRICS
from saccade.metrics.labels import LABEL_METRICS, relation_of
from saccade.models import name_of
from saccade.nn.classifier import Classifier
from saccade.nn.search.beam_search import Search
from saccade.nn.word_vectors import begin_words
from saccade.task import Evaluation, Loss, Prediction
from saccade.tasks.axes import BREAK
from saccade.tasks.calibration import Calibration, judged, shares_of
from saccade.tasks.classify_inputs import ClassifyInput, reading_of, texts_of
from saccade.tasks.unsupported import refuse_sampling
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace
from saccade.training.evaluation import eval_mode

VOCABULARY, CLASSES = "tokenizer.json", "labels.json"


@dataclass(frozen=True)
class Corpus:
    """Records, the ids of their texts, the numbers of their labels; ``cut`` says what was cut, ``note`` that and the counts."""

    records: Sequence[Labelled]
    ids: Sequence[Any]  # as the task's reading makes them
    labels: Sequence[int]
    cut: str = ""
    note: str = ""

    def __len__(self) -> int:
        return len(self.records)

    def first(self, count: int | None) -> Corpus:
        if count is None:
            return self
        return replace(self, records=self.records[:count], ids=self.ids[:count], labels=self.labels[:count])


class Classify:
    """The task: a tokenizer, the labels, and the rules for over-long texts."""

    name = "classify"
    metrics = (*LABEL_METRICS, *PROBABILITY_METRICS)
    searches = False  # a label is not searched for: beams mean nothing
    calibration: Calibration | None = None

    def __init__(
        self, data: LabelledData, tokenizer: Tokenizer, classes: Classes, found: VectorMatch | None = None
    ) -> None:
        self.data, self.tokenizer, self.classes, self.found = data, tokenizer, classes, found
        self.reading = reading_of(data, tokenizer, pairs=classes.pairs)

    @staticmethod
    def check_recipe(recipe: Any) -> None:
        """Raise where a setting means nothing to this task."""
        refuse_sampling(recipe)

    @staticmethod
    def load(data: LabelledData, folder: Path, seed: int) -> Splits:
        return load_labelled(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: LabelledData) -> list[Labelled]:
        return read_file(path, data)

    @staticmethod
    def records(given: Any, data: LabelledData, left_out: FaultCounts | None = None) -> list[Labelled]:
        return labelled_of(given, data, left_out)

    def examples(self, folder: Path, seed: int, test: Sequence[Labelled] | None = None) -> list[str]:
        """Inputs worth looking at: the built-in source's own, or the shortest at the beginning of the test set."""
        if self.data.source is not None:
            return list(built_in(self.data.source).EXAMPLES)
        test = load_labelled(self.data, folder, seed).test if test is None else test
        beginning = sorted(test[:100], key=lambda record: len("".join(record.source)))
        return [_typed(record.source) for record in beginning[:10]]

    @classmethod
    def learn(cls, data: LabelledData, train: Sequence[Labelled]) -> Classify:
        """The task of these training records: vocabulary and labels are learnt from them alone."""
        _check_marks_whole(data)
        texts = [text for record in train for text in texts_of(record.source)]
        tokenizer, found = learn_words(texts, data.tokens, data.vectors)
        return cls(data, tokenizer, Classes.of(train, data.labels), found)

    @classmethod
    def adopt(cls, data: LabelledData, train: Sequence[Labelled], files: dict[str, str]) -> Classify:
        """The task of these training records with the tokenizer of a run of another task, which was pre-trained."""
        if VOCABULARY not in files:
            raise InputError(VOCABULARY, expected="a tokenizer in the bundle that is begun from", found="no such file")
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), Classes.of(train, data.labels))

    @classmethod
    def go_on(cls, data: LabelledData, train: Sequence[Labelled], files: dict[str, str]) -> Classify:
        """The task that :meth:`files` kept, for a run that begins from it: labels weigh what these training records say. Where
        ``data.labels`` lists others, or the records have one that it lacks, the labels are those."""
        kept = cls.restore(data, files)
        known = set(labels_in(train)) <= set(kept.classes.names)
        same = tuple(data.labels) == kept.classes.names if data.labels else known
        pairs = isinstance(train[0].source, tuple)
        classes = replace(kept.classes.counted(train), pairs=pairs) if same else Classes.of(train, data.labels)
        return cls(data, kept.tokenizer, classes)

    @property
    def reads_pairs(self) -> bool:
        """Whether texts come in pairs, each with its segment."""
        return self.classes.pairs

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the network chooses among."""
        return self.classes.names

    @property
    def lacking(self) -> tuple[str, ...]:
        """The labels that the training records have none of."""
        return tuple(name for name, count in zip(self.classes.names, self.classes.counts, strict=True) if not count)

    def unknown(self, corpus: Corpus) -> tuple[int, int]:
        """How many tokens the vocabulary lacks, and how many there are."""
        ids = [token for each in corpus.ids for token in self.reading.tokens(each)]
        return ids.count(self.tokenizer.UNK), len(ids)

    @classmethod
    def restore(cls, data: LabelledData, files: dict[str, str]) -> Classify:
        """The task that :meth:`files` kept."""
        for name in (VOCABULARY, CLASSES):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        classes = Classes.from_json(files[CLASSES], CLASSES)
        task = cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), classes)
        task.calibration = Calibration.among(files)
        return task

    def files(self) -> dict[str, str]:
        kept = {} if self.calibration is None else self.calibration.files
        return {VOCABULARY: self.tokenizer.to_json(), CLASSES: self.classes.to_json(), **kept}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Labelled], where: str) -> Corpus:
        """Records as ids; over-long ones are an error, or cut and counted, as the recipe says."""
        names = [_named(record, number, where) for number, record in enumerate(records)]
        for record, name in zip(records, names, strict=True):
            self.reading.check_kind(record.source, name)
        labels = [self.classes.number(each.target, name) for each, name in zip(records, names, strict=True)]
        encoded = self.reading.encoded([record.source for record in records])
        fitted = [self.reading.fit(ids, name) for ids, name in zip(encoded, names, strict=True)]
        count = sum(was_cut for _, was_cut in fitted)
        cut = f"{count:,} of {len(records):,} texts cut to their {self.reading.limits}" if count else ""
        found = labels_in(records)
        counts = told(found) + self.classes.remark(found, self.data.balance, training=where == "data.train")
        note = f"{where}: {'; '.join(filter(None, (counts, cut)))}"
        return Corpus(records, [ids for ids, _ in fitted], labels, f"{where}: {cut}" if cut else "", note)

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        sizes = [self.reading.size(ids) for ids in corpus.ids]
        longest = max(range(len(sizes)), key=sizes.__getitem__, default=0)
        if tokens is not None and sizes and sizes[longest] > tokens:
            raise SaccadeError(
                f"{_named(corpus.records[longest], longest)} does not fit into a batch of {tokens} tokens: it has "
                f"{sizes[longest]}, its marks counted; raise train.batch_tokens or limit data.max_length"
            )
        lengths = [(size - 1, 0) for size in sizes]  # plan() counts one more, the end of a side
        return plan(lengths, tokens=tokens, sentences=records, seed=seed, epoch=epoch)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch | NestedBatch:
        return self.reading.batch([corpus.ids[n] for n in numbers], [corpus.labels[n] for n in numbers], numbers)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> Classifier:
        if "classes" not in inspect.signature(network_class).parameters:
            expected = "a network that reads texts and says a label, such as attentive_classifier"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: Classifier = network_class(config, **self.sizes())
        self.reading.check(network, name_of(network_class))
        begin_words(network, self.found, is_frozen(self.data.vectors))
        return network

    def sizes(self, more: int = 0) -> dict[str, int]:
        """What a network is made for, beside its fields; with ``more`` labels than there are."""
        return {"vocabulary": self.tokenizer.size, "classes": len(self.classes.names) + more}

    def loss(
        self, network: nn.Module, batch: Batch | NestedBatch, *, smoothing: float = 0.0, sampling: float = 0.0
    ) -> Loss:
        """Cross-entropy of the labels; ``sampling`` means nothing where one thing is said."""
        if sampling:
            raise SaccadeError(f"train.sampling must be 0 for the task classify: got {sampling}")
        logits = self.logits(network, batch)
        weight = None
        if self.data.balance == "weights":
            weight = torch.cat([logits.new_full((1,), each) for each in self.classes.weights])
        total = functional.cross_entropy(
            logits.float(),
            batch.labels,
            weight=weight,
            ignore_index=IGNORED,
            reduction="sum",
            label_smoothing=smoothing,
        )
        return Loss(total, batch.tokens)

    def logits(self, network: Any, batch: Batch | NestedBatch, *, lens: Lens | None = None) -> Float[Tensor, "B C"]:
        """What the network says to a batch, its rows laid out as it wants them."""
        tokens, lengths, segments = batch.rows(network.layout)
        found: Tensor = network(tokens, lengths, segments, lens=lens)
        return found

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def predict(
        self, network: Classifier, inputs: Sequence[Any], *, how: Search, lens: Lens | None = None
    ) -> list[Prediction]:
        """The likeliest label of each input, with the probability of every label.

        An input is a text; of pairs two, as a tuple or as one text with a tab between them. ``how.n_best`` asks for the next
        labels as alternatives.
        """
        if how.sample is not None or how.diverse is not None:
            raise SaccadeError("the task classify says the likeliest label: it does not sample or search")
        asked = [self.reading.read(each, number) for number, each in enumerate(inputs)]
        made: dict[int, Prediction] = {}
        with eval_mode(network):
            for numbers in self.reading.together([each.ids for each in asked]):
                found = self._distributions(network, [asked[number].ids for number in numbers], lens)
                for number, (probabilities, records) in zip(numbers, found, strict=True):
                    made[number] = self._prediction(asked[number], probabilities, records, how, lens, network)
        if lens is not None and inputs:
            lens.check()
        return [made[number] for number in range(len(asked))]

    def check_input(self, given: Any, number: int) -> None:
        """Raise where this input, the ``number``-th from 0, cannot be read."""
        self.reading.read(given, number)

    @torch.no_grad()
    def _distributions(
        self, network: Classifier, ids: Sequence[Any], lens: Lens | None = None
    ) -> list[tuple[list[float], list[Record]]]:
        """For each input the probabilities of the labels, and what was recorded while it was read."""
        device = next(network.parameters()).device
        looking = lens.fresh() if lens is not None else None
        batch = self.reading.batch(ids, [IGNORED] * len(ids), range(len(ids))).to(device)
        found = shares_of(self.logits(network, batch, lens=looking), self.calibration).tolist()
        records = looking.records if looking is not None else []
        rows = [torch.tensor([number], device=device) for number in range(len(ids))] if records else []
        kept = [[record.select(row) for record in records] for row in rows] or [[] for _ in ids]
        return list(zip(found, kept, strict=True))

    def _prediction(
        self,
        asked: ClassifyInput,
        probabilities: list[float],
        records: list[Record],
        how: Search,
        lens: Lens | None,
        network: Classifier,
    ) -> Prediction:
        names = self.classes.names
        order = sorted(range(len(names)), key=lambda number: -probabilities[number])
        shares = {names[number]: probabilities[number] for number in order}
        trace = None if lens is None else self._trace(asked, shares, order, records, lens, network)
        first, *others = (
            Prediction(name, share, _log(share), "eos", asked.notes)
            for name, share in list(shares.items())[: how.n_best]
        )
        return replace(first, trace=trace, alternatives=tuple(others), probabilities=shares)

    # What it looked at becomes a labelled trace -----------------------------------------------------------------------

    def _trace(
        self,
        asked: ClassifyInput,
        shares: dict[str, float],
        order: list[int],
        records: list[Record],
        lens: Lens,
        network: Classifier,
    ) -> Trace:
        value, *_ = shares
        label = Tokens((value,), text=value)
        axes: dict[str, Axis] = {**self.reading.axes(asked, network.layout), "label": label}
        trace = assemble(records, 0) if records else Trace()
        outputs = None
        if lens.wants("outputs"):
            likeliest = torch.tensor([list(shares.values())])
            outputs = Outputs("label", (tuple(shares),), likeliest, torch.tensor([order]))
        about = {"task": self.name, "input": BREAK.join(texts_of(asked.text)), "output": value, "score": shares[value]}
        return replace(trace, outputs=outputs).labelled(axes, **about, probabilities=shares)

    # Figures ----------------------------------------------------------------------------------------------------------

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise where a metric is asked for that there is not, or that these labels do not have."""
        unknown = [name for name in names if name not in self.metrics]
        if unknown:
            raise InputError("metrics", expected=f"any of {', '.join(self.metrics)}", found=repr(unknown[0]))
        if "relation_f1" in names and not any(map(relation_of, self.classes.names)):
            raise InputError(
                "metrics", expected="relations beside Other, for relation_f1", found=str(self.classes.names)
            )

    def evaluate(
        self, network: Classifier, corpus: Corpus, *, how: Search, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """Figures of the labels that are said, and of how likely they are said to be."""
        self.check_metrics(metrics)
        corpus = corpus.first(limit)
        shares = shares_of(self.judgements(network, corpus), self.calibration)
        return judged(metrics, shares, self.classes.names, corpus)

    @torch.no_grad()
    def judgements(self, network: Classifier, corpus: Corpus) -> Float[Tensor, "N C"]:
        """The logits of every record of a corpus, as the network says them: what a calibration is fitted by."""
        device = next(network.parameters()).device
        found = torch.zeros(len(corpus), len(self.classes.names))
        with eval_mode(network):
            for numbers in self.reading.together(corpus.ids):
                found[numbers] = self.logits(network, self.batch(corpus, numbers).to(device)).float().cpu()
        return found


def _check_marks_whole(data: LabelledData) -> None:
    """Words are cut at their signs: the marks of a relation, unless they are kept whole, would be lost among them."""
    whole = data.tokens.whole
    if data.format == "relations" and data.tokens.kind == "words" and not set(MARKS) <= set(whole):
        expected = f"{json.dumps(MARKS)}, the marks of relations"
        raise InputError("recipe", field="data.tokens.whole", expected=expected, found=json.dumps(whole))


def _named(record: Labelled, number: int, where: str = "") -> str:
    """A record, the ``number``-th from 0, in an error."""
    return f"{where}{', ' * bool(where)}record {number + 1} ({preview(texts_of(record.source)[0])})"


def _typed(source: Text) -> str:
    """An input as a person types it."""
    return "\t".join(" ".join(text.split()) for text in texts_of(source))


def _log(share: float) -> float:
    return float(torch.tensor(share).clamp_min(torch.finfo(torch.float32).tiny).log())
