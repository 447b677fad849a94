"""A text, or two that are judged together → one label: sentiment, topics, whether one sentence follows from another.

A record becomes a row of ids between marks (:mod:`saccade.data.documents`), the network's logits a loss

    loss = Σ_b w(y_b) · −log p(y_b | text_b),        w(c) = 1, or with ``balance: weights``  N / (C · N_c)

a prediction the likeliest label with the probabilities of all, and what the network looked at a trace labelled with the words.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import plan
from saccade.data.classes import Classes, labels_in, told
from saccade.data.documents import IGNORED, Batch, Ids, collate, fit, marks_of
from saccade.data.labelled import Labelled, LabelledData, Text, load_labelled, read_file
from saccade.data.labelled_memory import labelled_of
from saccade.data.opinions import EXAMPLES
from saccade.data.text import Tokenizer
from saccade.data.wordpieces import learn_tokenizer, stored_tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.metrics.labels import LABEL_METRICS, label_scores
from saccade.models import name_of
from saccade.nn.classifier import Classifier
from saccade.nn.search import Search
from saccade.splits import Splits
from saccade.task import Evaluation, Loss, Prediction
from saccade.tasks.rows import BREAK, row_axis
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace
from saccade.training.evaluation import resting

VOCABULARY, CLASSES = "tokenizer.json", "labels.json"
TOGETHER = 64  # inputs predicted in one batch …
POSITIONS_TOGETHER = 32_768  # … and positions at most, padding included


@dataclass(frozen=True)
class Corpus:
    """Records, the ids of their texts, the numbers of their labels; ``cut`` says what was cut, ``note`` that and the counts."""

    records: Sequence[Labelled]
    ids: Sequence[Ids]
    labels: Sequence[int]
    cut: str = ""
    note: str = ""

    def __len__(self) -> int:
        return len(self.records)

    def first(self, count: int | None) -> Corpus:
        if count is None:
            return self
        return replace(self, records=self.records[:count], ids=self.ids[:count], labels=self.labels[:count])


@dataclass(frozen=True)
class Asked:
    """An input: its text or texts, their ids, and what the reader must know of it."""

    text: Text
    ids: Ids
    notes: tuple[str, ...] = ()


class Classify:
    """The task: a tokenizer, the labels, and the rules for over-long texts."""

    name = "classify"
    metrics = LABEL_METRICS
    searches = False  # a label is not searched for: beams mean nothing

    def __init__(self, data: LabelledData, tokenizer: Tokenizer, classes: Classes) -> None:
        self.data, self.tokenizer, self.classes = data, tokenizer, classes

    @staticmethod
    def load(data: LabelledData, folder: Path, seed: int) -> Splits:
        return load_labelled(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: LabelledData) -> list[Labelled]:
        return read_file(path, data)

    @staticmethod
    def records(given: Any, data: LabelledData) -> list[Labelled]:
        return labelled_of(given, data)

    def examples(self, folder: Path, seed: int, test: Sequence[Labelled] | None = None) -> list[str]:
        """Inputs worth looking at: the built-in source's own, or the shortest at the beginning of the test set."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = load_labelled(self.data, folder, seed).test if test is None else test
        beginning = sorted(test[:100], key=lambda record: len("".join(record.source)))
        return [_typed(record.source) for record in beginning[:10]]

    @classmethod
    def learn(cls, data: LabelledData, train: Sequence[Labelled]) -> Classify:
        """The task of these training records: vocabulary and labels are learnt from them alone."""
        texts = [text for record in train for text in _texts(record.source)]
        return cls(data, learn_tokenizer(texts, data.tokens), Classes.of(train, data.labels))

    @classmethod
    def adopt(cls, data: LabelledData, train: Sequence[Labelled], files: dict[str, str]) -> Classify:
        """The task of these training records with the tokenizer of a run of another task, which was pre-trained."""
        if VOCABULARY not in files:
            raise InputError(VOCABULARY, expected="a tokenizer in the bundle that is begun from", found="no such file")
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), Classes.of(train, data.labels))

    @classmethod
    def go_on(cls, data: LabelledData, train: Sequence[Labelled], files: dict[str, str]) -> Classify:
        """The task that :meth:`files` kept, for a run that begins from it: labels weigh what these training records say."""
        kept = cls.restore(data, files)
        return cls(data, kept.tokenizer, kept.classes.counted(train))

    @classmethod
    def restore(cls, data: LabelledData, files: dict[str, str]) -> Classify:
        """The task that :meth:`files` kept."""
        for name in (VOCABULARY, CLASSES):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        classes = Classes.from_json(files[CLASSES], CLASSES)
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), classes)

    def files(self) -> dict[str, str]:
        return {VOCABULARY: self.tokenizer.to_json(), CLASSES: self.classes.to_json()}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Labelled], where: str) -> Corpus:
        """Records as ids; over-long ones are an error, or cut and counted, as the recipe says."""
        for number, record in enumerate(records, start=1):
            self._check_kind(record.source, f"{where}, record {number}")
        labels = [self.classes.number(each.target, f"{where}, record {n}") for n, each in enumerate(records, start=1)]
        parts = [self._encoded([_texts(record.source)[0] for record in records])]
        if self.classes.pairs:
            parts.append(self._encoded([_texts(record.source)[1] for record in records]))
        encoded: Iterator[Ids] = zip(parts[0], parts[1] if self.classes.pairs else [None] * len(records), strict=True)
        fitted = [self._fit(ids, f"{where}, record {number}") for number, ids in enumerate(encoded, start=1)]
        count = sum(was_cut for _, was_cut in fitted)
        limits = f"cut to their {self.data.keep} {self.data.max_length} tokens"
        cut = f"{count:,} of {len(records):,} texts {limits}" if count else ""
        found = labels_in(records)
        counts = told(found) + self.classes.remark(found, self.data.balance, training=where == "data.train")
        note = f"{where}: {'; '.join(filter(None, (counts, cut)))}"
        return Corpus(records, [ids for ids, _ in fitted], labels, f"{where}: {cut}" if cut else "", note)

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        # A text may be nothing once it is normalised; a row is never empty.
        return [ids or [self.tokenizer.UNK] for ids in self.tokenizer.encode_all(texts)]

    def _fit(self, ids: Ids, where: str) -> tuple[Ids, bool]:
        return fit(ids, self.data.max_length, self.data.too_long, self.data.keep, where)

    def _check_kind(self, source: Text, where: str) -> None:
        if isinstance(source, tuple) != self.classes.pairs:
            kinds = ("two texts", "one text") if self.classes.pairs else ("one text", "two texts")
            raise InputError(where, expected=f"{kinds[0]}, as in training", found=kinds[1])

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        marks = marks_of("marked", self.classes.pairs)
        sizes = [len(first) + len(second or ()) + marks for first, second in corpus.ids]
        longest = max(range(len(sizes)), key=sizes.__getitem__, default=0)
        if tokens is not None and sizes and sizes[longest] > tokens:
            raise SaccadeError(
                f"record {longest + 1} does not fit into a batch of {tokens} tokens: it has {sizes[longest]}, its marks "
                "counted; raise train.batch_tokens or limit data.max_length"
            )
        lengths = [(size - 1, 0) for size in sizes]  # plan() counts one more, the end of a side
        return plan(lengths, tokens=tokens, sentences=records, seed=seed, epoch=epoch)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        return self._batch([corpus.ids[n] for n in numbers], [corpus.labels[n] for n in numbers], numbers)

    def _batch(self, ids: Sequence[Ids], labels: Sequence[int], numbers: Sequence[int]) -> Batch:
        mark, longest = self.tokenizer, self.data.max_length + marks_of("marked", self.classes.pairs)
        made = collate(ids, labels, numbers, first=mark.BOS, last=mark.EOS, padding=mark.PAD)
        return replace(made, longest=longest)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> Classifier:
        if "classes" not in inspect.signature(network_class).parameters:
            expected = "a network that reads texts and says a label, such as attentive_classifier"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: Classifier = network_class(config, vocabulary=self.tokenizer.size, classes=len(self.classes.names))
        marks = marks_of(network.layout, self.classes.pairs)
        if network.longest is not None and self.data.max_length + marks > network.longest:
            expected = (
                f"at most {network.longest - marks}, since the network reads {network.longest} positions, marks counted"
            )
            found = str(self.data.max_length)
            raise InputError("recipe", field="data.max_length", expected=expected, found=found)
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
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

    def logits(self, network: Any, batch: Batch, *, lens: Lens | None = None) -> Float[Tensor, "B C"]:
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
        asked = [self._read(each, number) for number, each in enumerate(inputs)]
        made: dict[int, Prediction] = {}
        with resting(network):
            for numbers in self._together([each.ids for each in asked]):
                found = self._distributions(network, [asked[number].ids for number in numbers], lens)
                for number, (probabilities, records) in zip(numbers, found, strict=True):
                    made[number] = self._prediction(asked[number], probabilities, records, how, lens, network)
        if lens is not None and inputs:
            lens.check()
        return [made[number] for number in range(len(asked))]

    def check_input(self, given: Any, number: int) -> None:
        """Raise where this input, the ``number``-th from 0, cannot be read."""
        self._read(given, number)

    def _read(self, given: Any, number: int) -> Asked:
        where = f"input {number + 1}"
        source = self._parted(given, where)
        for text in _texts(source):
            if not isinstance(text, str):
                raise InputError(where, expected="a text", found=type(text).__name__)
            if not text.strip():
                raise InputError(where, expected="a text", found="nothing" if not text else "blanks only")
        parts = [self.tokenizer.encode(text) or [self.tokenizer.UNK] for text in _texts(source)]
        ids, cut = self._fit((parts[0], parts[1] if self.classes.pairs else None), where)
        notes = [f"cut to its {self.data.keep} {self.data.max_length} tokens"] if cut else []
        read = [*ids[0], *(ids[1] or ())]
        unknown = read.count(self.tokenizer.UNK)
        if unknown:
            notes.append(f"{unknown} of {len(read)} tokens never seen in training")
        return Asked(source, ids, tuple(notes))

    def _parted(self, given: Any, where: str) -> Text:
        if not self.classes.pairs:
            if not isinstance(given, str):
                raise InputError(where, expected="a text", found=type(given).__name__)
            return given
        parts = given.split("\t") if isinstance(given, str) else given
        if not isinstance(parts, tuple | list) or len(parts) != 2:
            found = f"{len(parts)} text(s)" if isinstance(parts, tuple | list) else type(parts).__name__
            hint = "a tuple, or one text with a tab between the two"
            raise InputError(where, expected="two texts, as in training", found=found, hint=hint)
        return parts[0], parts[1]

    def _together(self, ids: Sequence[Ids]) -> Iterator[list[int]]:
        """Inputs of similar length, as many as fit into a batch."""
        sizes = [len(first) + len(second or ()) + 3 for first, second in ids]
        order, batch = sorted(range(len(ids)), key=sizes.__getitem__), list[int]()
        for number in order:
            if batch and (len(batch) == TOGETHER or sizes[number] * (len(batch) + 1) > POSITIONS_TOGETHER):
                yield batch
                batch = []
            batch.append(number)
        if batch:
            yield batch

    @torch.no_grad()
    def _distributions(
        self, network: Classifier, ids: Sequence[Ids], lens: Lens | None = None
    ) -> list[tuple[list[float], list[Record]]]:
        """For each input the probabilities of the labels, and what was recorded while it was read."""
        device = next(network.parameters()).device
        looking = lens.fresh() if lens is not None else None
        batch = self._batch(ids, [IGNORED] * len(ids), range(len(ids))).to(device)
        found = self.logits(network, batch, lens=looking).float().softmax(-1).tolist()
        records = looking.records if looking is not None else []
        rows = [torch.tensor([number], device=device) for number in range(len(ids))] if records else []
        kept = [[record.select(row) for record in records] for row in rows] or [[] for _ in ids]
        return list(zip(found, kept, strict=True))

    def _prediction(
        self,
        asked: Asked,
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
        asked: Asked,
        shares: dict[str, float],
        order: list[int],
        records: list[Record],
        lens: Lens,
        network: Classifier,
    ) -> Trace:
        value, *_ = shares
        axes: dict[str, Axis] = {"text": self._axis(asked, network), "label": Tokens((value,), text=value)}
        trace = assemble(records, 0) if records else Trace()
        outputs = None
        if lens.wants("outputs"):
            likeliest = torch.tensor([list(shares.values())])
            outputs = Outputs("label", (tuple(shares),), likeliest, torch.tensor([order]))
        about = {"task": self.name, "input": BREAK.join(_texts(asked.text)), "output": value, "score": shares[value]}
        return replace(trace, outputs=outputs).labelled(axes, **about, probabilities=shares)

    def _axis(self, asked: Asked, network: Classifier) -> Tokens:
        sizes = [len(part) for part in asked.ids if part is not None]
        return row_axis(self.tokenizer, _texts(asked.text), sizes, layout=network.layout, keep=self.data.keep)

    # Figures ----------------------------------------------------------------------------------------------------------

    def evaluate(
        self, network: Classifier, corpus: Corpus, *, how: Search, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """``accuracy``, and ``f1``: the mean over the labels."""
        unknown = [name for name in metrics if name not in self.metrics]
        if unknown:
            raise InputError("metrics", expected=f"any of {', '.join(self.metrics)}", found=repr(unknown[0]))
        corpus = corpus.first(limit)
        names = self.classes.names
        said: dict[int, str] = {}
        with resting(network):
            for numbers in self._together(corpus.ids):
                found = self._distributions(network, [corpus.ids[number] for number in numbers])
                for number, (shares, _) in zip(numbers, found, strict=True):
                    said[number] = names[max(range(len(names)), key=shares.__getitem__)]
        outputs = [said[number] for number in range(len(corpus))]
        scores = label_scores(metrics, outputs, [record.target for record in corpus.records])
        return Evaluation(
            {name: each.value for name, each in scores.items()},
            {name: each.signature for name, each in scores.items() if each.signature},
            {name: each.higher_is_better for name, each in scores.items()},
            outputs,
            (corpus.cut,) if corpus.cut else (),
        )


def _texts(source: Text) -> tuple[str, ...]:
    return source if isinstance(source, tuple) else (source,)


def _typed(source: Text) -> str:
    """An input as a person types it."""
    return "\t".join(" ".join(text.split()) for text in _texts(source))


def _log(share: float) -> float:
    return float(torch.tensor(share).clamp_min(torch.finfo(torch.float32).tiny).log())
