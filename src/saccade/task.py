"""Defines the interface of tasks, which turn records into batches and network outputs into losses, metrics and predictions.

The training loop, the bundle, the command line, the server and the explorer use tasks only through this module. A task
derives from :class:`Task` and implements:

    data      load, read_file, records          where records come from
    learnt    learn, restore, files             vocabularies and the like, saved in the bundle
    batches   corpus, batch                     records → rows → tensors
    network   network, loss (or phases)         the network and its objective
    inputs    read, cost, forward               one input → tensors; a batch of inputs → predictions
    figures   evaluate

Optional abilities are types, tested with ``isinstance(task, Searches)``: :class:`Searches`, :class:`Steers`,
:class:`Calibrates`, :class:`FineTunes`, :class:`Scores`, :class:`Surveys`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from numpy import ndarray
from torch import Tensor, nn

from saccade.data.batching import Corpus, group, plan, widths_of
from saccade.data.files.jsonl import fields_of
from saccade.data.files.records import Fault, Fields, Name
from saccade.data.memory import inputs_in
from saccade.data.reading import FaultCounts
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.kinds import InputKind, OutputKind
from saccade.metrics.labels import Confusion
from saccade.metrics.significance import Statistics, statistics
from saccade.metrics.text import Score
from saccade.nn.search.beam_search import Search
from saccade.progress import portion, report
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace

Progress = Callable[[int, int], None]  # inputs done, inputs in total

FUSED_SETTINGS = ("focus", "ctc", "lm")  # of a search, for tasks that fuse scores
UNBEATEN = "the network does not beat the trivial baseline"  # how a note on it begins


@dataclass(frozen=True)
class Loss:
    """A sum over ``count`` units (target tokens, documents …); training minimises and reports the mean."""

    total: Tensor
    count: int

    @property
    def mean(self) -> Tensor:
        return self.total / max(self.count, 1)


@dataclass(frozen=True)
class Detail:
    """The task-specific part of a prediction: a task derives its own frozen dataclass."""

    def to_json(self) -> dict[str, Any]:
        """The non-empty fields as plain data, for JSON."""
        return {name: value for name, value in asdict(self).items() if value}

    def lines(self) -> list[str] | None:
        """What ``saccade predict`` prints instead of the value; None: the value."""
        return None


@dataclass(frozen=True)
class Probabilities(Detail):
    """The probability of every output to choose from, the likeliest first."""

    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Prediction:
    """What the network predicts for one input. The fields of ``detail`` can be read on the prediction itself.

    Attributes:
        value: the output, as the task's users write it.
        score: the value it is ranked by; ``log_prob`` is its log-probability, ``parts`` the terms of the score:
            score = log_prob / length_penalty + coverage.
        stopped: "eos" if the network ended it, "length" if it reached the length limit.
        notes: warnings: cut inputs, unknown characters, a limit reached.
        trace: the recorded attention, when a lens was given.
        alternatives: the other hypotheses of an n-best list.
        detail: the task-specific fields: probabilities of labels, tags of words, candidates in order.
        readable: the value as people write it, where that differs: "l'herbe" for "l ' herbe". Metrics use the value.
    """

    value: Any
    score: float = 0.0
    log_prob: float = 0.0
    stopped: str = "eos"
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    alternatives: tuple[Prediction, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    detail: Detail = field(default_factory=Detail)
    readable: str = ""

    def __getattr__(self, name: str) -> Any:
        detail = self.__dict__.get("detail")
        if detail is not None and not name.startswith("_") and name in getattr(detail, "__dataclass_fields__", ()):
            return getattr(detail, name)
        if not name.startswith("_") and (hasattr(Trace, name) or name in Trace.__dataclass_fields__):
            hint = (
                f"prediction.trace.{name}" if self.trace is not None else "predict(…, lens=saccade.Lens()) records one"
            )
            raise AttributeError(f"this prediction has no {name!r}, but a trace has: {hint}")
        raise AttributeError(f"this prediction has no {name!r}: its detail is {type(detail).__name__}")

    def to_json(self) -> dict[str, Any]:
        """The prediction as the command line and the server write it, without its trace and its alternatives."""
        plain = {"output": self.value, "score": self.score, "log_prob": self.log_prob, "stopped": self.stopped}
        return {**plain, **({"readable": self.readable} if self.readable else {}), **self.detail.to_json()}


@dataclass(frozen=True)
class OutputConstraints:
    """What one input's output must begin with, must contain, and may not contain, as text."""

    prefix: str = ""
    require: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """Metrics by name, how each was computed, and the outputs that they were computed from; ``details`` holds the metrics of
    parts, such as those of each label or type of span, ``confusion`` which labels were taken for which, and ``lost`` the notes
    on records that were dropped or cut."""

    figures: Mapping[str, float]
    signatures: Mapping[str, str] = field(default_factory=dict)
    higher_is_better: Mapping[str, bool] = field(default_factory=dict)
    outputs: Sequence[Any] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    confusion: Confusion | None = None
    lost: tuple[str, ...] = ()
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # the same metrics of trivial predictors

    def beside(self, baselines: Mapping[str, Mapping[str, float]]) -> Evaluation:
        """The evaluation with the metrics of trivial predictors by name, and notes on them and on those not beaten."""
        known = {
            name: {metric: figures[metric] for metric in self.figures if metric in figures}
            for name, figures in baselines.items()
        }
        shown = [f"{name}: {in_words(figures)}" for name, figures in known.items() if figures]
        if not shown:
            return self
        notes = [f"trivial baselines: {'; '.join(shown)}"]
        for name, figures in known.items():
            behind = [f"{metric} {self.figures[metric]:.4f}" for metric in figures if not self._beats(metric, figures)]
            if behind:
                notes.append(f"{UNBEATEN} {name}: it has only {', '.join(behind)}")
        return replace(self, baselines=known, notes=(*self.notes, *notes))

    def _beats(self, metric: str, other: Mapping[str, float]) -> bool:
        ours, theirs = self.figures[metric], other[metric]
        return ours > theirs if self.higher_is_better.get(metric, True) else ours < theirs

    @classmethod
    def of(
        cls,
        scores: Mapping[str, Score | Statistics],
        outputs: Sequence[Any] = (),
        notes: Sequence[str] = (),
        details: Mapping[str, Mapping[str, float]] | None = None,
        confusion: Confusion | None = None,
    ) -> Evaluation:
        """The evaluation with these scores, by the name of their metric; empty notes are left out."""
        return cls(
            {name: score.value for name, score in scores.items()},
            {name: score.signature for name, score in scores.items() if score.signature},
            {name: score.higher_is_better for name, score in scores.items()},
            outputs,
            tuple(filter(None, notes)),
            details or {},
            confusion,
        )

    @property
    def parts(self) -> dict[str, Any]:
        """``details`` and ``confusion`` as plain data, where there are any."""
        confusion = {} if self.confusion is None else {"confusion": asdict(self.confusion)}
        return ({"details": self.details} if self.details else {}) | confusion


@dataclass(frozen=True)
class Scored:
    """The log-probability of an output, token by token, and the trace. The rows of a map that predict the tokens start at
    ``first``, or are ``places``."""

    log_probs: tuple[float, ...]
    trace: Trace
    first: int = 0
    places: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """The rows of a map that predict the tokens."""
        return self.places or tuple(range(self.first, self.first + len(self.log_probs)))


def in_words(figures: Mapping[str, float]) -> str:
    """Metrics with their names.

    >>> in_words({"accuracy": 0.5, "f1": 1 / 3})
    'accuracy 0.5000, f1 0.3333'
    """
    return ", ".join(f"{name} {figure:.4f}" for name, figure in figures.items())


@contextmanager
def eval_mode(network: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; the previous mode afterwards."""
    training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(training)


def rows_of(records: Sequence[Record], count: int, device: torch.device) -> list[list[Record]]:
    """What a lens recorded of a batch, row by row."""
    if not records:
        return [[] for _ in range(count)]
    return [[record.select(torch.tensor([row], device=device)) for record in records] for row in range(count)]


class Task(ABC):
    """A task is made from its data and restored from a bundle's files; it owns what turns records into tensors.

    Attributes:
        name: its key in ``saccade.tasks.TASKS``.
        Data: the dataclass of a recipe's ``data`` section.
        record_types: the dataclasses of its records, by which saved ones are restored. Empty: records cannot be saved.
        network_base: the class that a custom network must derive from.
        metrics: the names of the metrics that it computes.
        input, output: the kind of its inputs, and how an output is shown.
        input_depth: how many lists within each other an input is: 0 for a text, 1 for a list of words.
        alternatives: whether there is a second-best output (``n_best``).
        draws: whether outputs are drawn at random: ``Search.sample`` has the seed, ``Search.n_best`` says how many are drawn.
        aligns: whether source and target are both tokens, so that attention is an alignment of words.
        fuses: whether a search may change the attention of the network, and add scores of CTC and of a language model.
        not_scored: why a task that does not :class:`Scores` cannot say how likely an output is.
        untrained: parts of the network that were never trained; set by the bundle.
        length_setting: what bounds a record's length, as an error names it.
        baseline_names: the names of the trivial predictors in :meth:`baselines`; empty: the task has none.
        lengths: what :meth:`length_of` can count, by which ``saccade compare`` sorts records; the first unless one is named.
        together, positions: the most inputs in one batch of predictions, and the most positions, padding included.
    """

    name: ClassVar[str]
    Data: ClassVar[type[Any]]
    record_types: ClassVar[tuple[type[Any], ...]] = ()
    network_base: ClassVar[type[nn.Module]] = nn.Module
    metrics: ClassVar[tuple[str, ...]]
    input: ClassVar[InputKind]
    output: ClassVar[OutputKind]
    input_depth: ClassVar[int] = 0
    alternatives: ClassVar[bool] = True
    draws: ClassVar[bool] = False
    aligns: ClassVar[bool] = False
    fuses: ClassVar[bool] = False
    not_scored: ClassVar[str] = "its outputs are not chosen one by one"
    length_setting: ClassVar[str] = "the length of records"
    baseline_names: ClassVar[tuple[str, ...]] = ()
    lengths: ClassVar[tuple[str, ...]] = ("source_words", "source_tokens", "reference_words")
    together: ClassVar[int] = 64
    positions: ClassVar[int] = 32_768

    data: Any
    untrained: tuple[str, ...] = ()

    # Where records come from ------------------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def load(data: Any, folder: Path, seed: int) -> Splits:
        """The records that a recipe's ``data`` names; relative paths start at ``folder``."""

    @staticmethod
    @abstractmethod
    def read_file(path: Any, data: Any, dropped: FaultCounts | None = None) -> list[Any]:
        """The records of one file, or of a tuple of files where ``data.most_files`` allows it. Malformed ones are refused;
        where ``dropped`` is given, ``data.faults`` may drop them, and they are counted in it. Data without the field ``faults``
        are read without ``dropped``."""

    @staticmethod
    @abstractmethod
    def records(given: Any, data: Any, dropped: FaultCounts | None = None) -> list[Any]:
        """Records from lists, dicts or a DataFrame. Malformed ones are counted in ``dropped`` where given, else refused;
        with ``dropped.skipped_only`` only those that the data itself excludes are."""

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        """Raise an InputError at "recipe" if a setting does not apply to this task."""
        if not issubclass(cls, Searches):
            refuse_rate(recipe, "sampling", f"the task {recipe.task} has no decoder that could read its own outputs")

    def examples(self, folder: Path, seed: int, test: Sequence[Any] | None = None) -> list[Any]:
        """Example inputs, from the test records if given; otherwise the data is read again."""
        test = self.load(self.data, folder, seed).test if test is None else test
        return [self.input_of(record) for record in test[:10]]

    @property
    def sample(self) -> Any:
        """An input that the card shows; it may not be taken from a record."""
        return self.input.sample

    def input_of(self, record: Any) -> Any:
        """The input of a record, as :meth:`read` takes it."""
        return record.source

    # What is learnt from training records, and saved in the bundle ----------------------------------------------------

    @classmethod
    @abstractmethod
    def learn(cls, data: Any, train: Sequence[Any]) -> Task:
        """The task of these training records; vocabularies and the like are learnt from them alone."""

    @classmethod
    @abstractmethod
    def restore(cls, data: Any, files: dict[str, str]) -> Task:
        """The task that :meth:`files` saved."""

    @abstractmethod
    def files(self) -> dict[str, str]:
        """The files that restore this task: file name → text."""

    @classmethod
    def continue_from(cls, data: Any, train: Sequence[Any], files: dict[str, str]) -> Task:
        """The task of a run that starts from another run of the same task, whose :meth:`files` these are."""
        return cls.restore(data, files)

    def brought(self, network: Any) -> Mapping[str, Tensor]:
        """Weights of a new network that are not drawn at random, by their names: it keeps those that a run that it starts from
        lacks."""
        return {}

    @classmethod
    def of_import(cls, data: Any, tokenizer: Any, labels: Sequence[str], *, pairs: bool) -> Task:
        """The task of a network that was trained by other software, with its tokenizer and its labels, if it has any;
        ``pairs``: it reads two texts together."""
        raise SaccadeError(f"the task {cls.name} cannot import networks of other software")

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes or tags, if the network chooses from a fixed list."""
        return ()

    @property
    def vocabularies(self) -> Mapping[str, Tokenizer]:
        """Every tokenizer by the side it reads or writes."""
        return {}

    @property
    def reads_pairs(self) -> bool:
        """Whether texts come in pairs, each with its segment."""
        return False

    @property
    def unreached(self) -> tuple[str, ...]:
        """Parts of the network that this task's loss does not train."""
        return ()

    @property
    def vectors_note(self) -> str:
        """How many words start from pre-trained vectors, in a sentence; empty where none do."""
        return ""

    @property
    def about(self) -> dict[str, Any]:
        """The entries about the task in a trace; views use the output kind, never the name."""
        return {"task": self.name, "output_kind": self.output}

    def describe(self) -> dict[str, Any]:
        """What ``GET /v1/models`` says of this task beyond its name."""
        return {"labels": self.labels}

    # Records become batches -------------------------------------------------------------------------------------------

    @abstractmethod
    def corpus(self, records: Sequence[Any], where: str) -> Corpus:
        """Records as rows with their costs; over-long ones are an error, or cut and counted, as the recipe says."""

    def plan(
        self,
        corpus: Corpus,
        *,
        tokens: int | None,
        records: int | None,
        seed: int,
        epoch: int,
        rank: int = 0,
        ranks: int = 1,
    ) -> list[list[int]]:
        """The batches of an epoch, as row numbers: a pure function of its arguments, so a resumed run finds its place."""
        widths = widths_of(corpus.costs) if tokens is not None and len(corpus) else None
        if tokens is not None and widths is not None and (width := int(widths.max())) > tokens:
            largest = int(widths.argmax())
            raise SaccadeError(
                f"{self.row_name(corpus, largest)} does not fit into a batch of {tokens} tokens: it takes {width} positions, "
                f"marks included; raise train.batch_tokens or lower {self.length_setting}"
            )
        batches = plan(corpus.costs, tokens=tokens, records=records, seed=seed, epoch=epoch, rank=rank, ranks=ranks)
        return [self.visit(batch, seed, epoch) for batch in batches]

    def visit(self, batch: list[int], seed: int, epoch: int) -> list[int]:
        """A planned batch; a task that samples in each epoch attaches the epoch's draw to it."""
        return batch

    def row_name(self, corpus: Corpus, number: int) -> str:
        """The name of a row in errors; ``number`` counts from 0."""
        return f"record {number + 1}"

    @abstractmethod
    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Any:
        """Rows as tensors."""

    def token_counts(self, corpus: Corpus) -> Mapping[str, int]:
        """How many tokens a corpus has on each side, for a dry run."""
        return {}

    def unknown_tokens(self, corpus: Corpus) -> list[str]:
        """Tokens of a corpus that are not in the vocabulary, one sentence per side."""
        return []

    # A network and its loss -------------------------------------------------------------------------------------------

    @abstractmethod
    def network(self, network_class: Any, config: Any) -> nn.Module:
        """A fresh network of the sizes that the data require."""

    @abstractmethod
    def loss(self, network: Any, batch: Any, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """What training minimises."""

    def phases(self, network: Any) -> tuple[Phase, ...]:
        """The optimiser steps of an update, in the order in which they run; one that minimises :meth:`loss` by default."""
        return (Phase("train", self.loss),)

    def monitored(self, network: Any) -> Mapping[str, float]:
        """What the log of a run shows of a network at each evaluation, beside its losses, by name."""
        return {}

    # Inputs become predictions ----------------------------------------------------------------------------------------

    def inputs(self, given: Any) -> list[Any]:
        """The inputs in what is handed to ``predict``: one input, an iterable of inputs, or a table (a DataFrame, a dict of
        columns) that has the :meth:`input_columns`."""
        return inputs_in(
            given,
            form=self.input.form,
            columns=self.input_columns,
            of_record=self.input_of_dict,
            of_table=self.inputs_of_table,
            depth=self.input_depth,
        )

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        """The columns that hold the inputs in a table with the columns ``names``. None: the task reads no tables."""
        return ()

    def input_of_dict(self, given: Mapping[str, Any], where: str) -> Any:
        """The input in a dict, under the keys that :meth:`input_columns` names; where it names none, the dict is the input."""
        columns = self.input_columns(list(given))
        fields = fields_of(given, columns, 0, where) if columns else Fields(0, (given,))
        if isinstance(fields, Fault):
            error = fields.error
            raise InputError(where, field=error.field, expected=error.expected, found=error.found)
        return fields.values[0] if len(fields.values) == 1 else fields.values

    def inputs_of_table(self, columns: Sequence[Name], rows: Iterable[Fields]) -> list[Any]:
        """The inputs in the rows of a table that hold the values of :meth:`input_columns`: by default one per row, and a tuple
        where there are several columns."""
        return [row.values[0] if len(columns) == 1 else row.values for row in rows]

    @abstractmethod
    def read(self, given: Any, where: str, network: Any = None) -> Any:
        """One input as the network takes it, with its ``notes``; raises an InputError that names ``where``."""

    def read_all(self, inputs: Sequence[Any], network: Any = None) -> list[Any]:
        """Every input as :meth:`read` gives it; a task that encodes many texts at once faster than one by one does so here."""
        return [self.read(given, f"input {number}", network) for number, given in enumerate(inputs, start=1)]

    def cost(self, item: Any) -> int:
        """How many positions an input that was read takes."""
        return 1

    @abstractmethod
    def forward(self, network: Any, items: Sequence[Any], *, how: Any, lens: Lens | None) -> Sequence[Prediction]:
        """Predictions for one batch of inputs that were read. Called in evaluation mode, without gradients."""

    def predict(
        self,
        network: Any,
        inputs: Sequence[Any],
        *,
        how: Any,
        lens: Lens | None = None,
        constraints: Sequence[OutputConstraints] = (),
        dictionary: Mapping[str, str] | None = None,
    ) -> list[Prediction]:
        """One prediction per input, with its trace when a lens is given.

        ``constraints``, one per input, and ``dictionary``, source word → target word, are for tasks that :class:`Steers`.
        """
        self.check_search(how)
        items = self.read_all(inputs, network)
        if isinstance(self, Steers) and (constraints or dictionary):
            items = self.constrain(items, constraints, dictionary or {})
        return self.predict_items(network, items, how=how, lens=lens)

    def predict_items(
        self,
        network: Any,
        items: Sequence[Any],
        *,
        how: Any,
        lens: Lens | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        """The prediction loop of every task: inputs that were read, in batches of similar cost."""
        predictions: dict[int, Prediction] = {}
        costs = [1 + self.cost(item) for item in items]
        done, total = 0, sum(costs)
        with eval_mode(network), torch.no_grad():
            for numbers in self.group(network, items, how, lens):
                cost = sum(costs[number] for number in numbers)
                with portion(done / total, cost / total):
                    report(0.0)
                    batch = self.forward(network, [items[number] for number in numbers], how=how, lens=lens)
                done += cost
                predictions |= zip(numbers, batch, strict=True)
                if progress is not None:
                    progress(len(predictions), len(items))
        if lens is not None and items:
            lens.check()
        return [predictions[number] for number in range(len(items))]

    def group(self, network: Any, items: Sequence[Any], how: Any, lens: Lens | None) -> Iterator[list[int]]:
        """Which inputs share a batch: those of similar cost, as many as fit."""
        return group([self.cost(item) for item in items], most=self.together, positions=self.positions)

    @classmethod
    def unused_settings(cls, given: Mapping[str, Any]) -> dict[str, str]:
        """The settings of a :class:`saccade.nn.Search` in ``given`` that this task has no use for, each with what it may be. A
        task without a search takes ``n_best``, if it has alternatives, and a beam of that size."""
        usual, count = vars(Search()), given.get("n_best")
        if issubclass(cls, Searches):
            asked = () if cls.fuses else FUSED_SETTINGS
            why = f"nothing: the task {cls.name} does not listen"
            return {name: why for name in asked if given.get(name) not in (None, usual[name])}
        unused = {name: value for name, value in given.items() if name in usual and value not in (None, usual[name])}
        if cls.alternatives:
            unused.pop("n_best", None)
        if unused.get("beam") == count:
            unused.pop("beam", None)
        why = f"the task {cls.name} predicts the likeliest output without a search"
        expected = {"n_best": f"1: the task {cls.name} has no n-best list"}
        if count not in (None, 1):
            expected["beam"] = f"{count}, as n_best: {why}"
        return {name: expected.get(name, f"nothing: {why}") for name in unused}

    def check_search(self, how: Search) -> None:
        """Raise if the search asks for outputs that this task does not have."""
        asked = {name: getattr(how, name) for name in ("sample", "diverse", "n_best", *FUSED_SETTINGS)}
        for name, expected in self.unused_settings(asked).items():
            raise SaccadeError(f"search.{name}: expected {expected}")

    # Figures ----------------------------------------------------------------------------------------------------------

    @property
    def known_metrics(self) -> tuple[str, ...]:
        """The metrics that this data has."""
        return self.metrics

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise if this task cannot compute a metric on its data."""
        unknown = [name for name in names if name not in self.known_metrics]
        if unknown:
            raise InputError("metrics", expected=f"any of {', '.join(self.known_metrics)}", found=repr(unknown[0]))

    def evaluate(
        self,
        network: Any,
        corpus: Corpus,
        *,
        how: Any,
        metrics: Sequence[str],
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Metrics on a corpus; ``limit`` takes its first records only."""
        self.check_metrics(metrics)
        return self.measure(network, self.first(corpus, limit), list(metrics), how, progress)

    def first(self, corpus: Corpus, limit: int | None) -> Corpus:
        """The corpus of the first ``limit`` records."""
        return corpus.first(limit)

    @abstractmethod
    def measure(
        self, network: Any, corpus: Corpus, metrics: list[str], how: Any, progress: Progress | None
    ) -> Evaluation:
        """The named metrics, which this task and its data have, on a corpus."""

    def baselines(
        self, train: Sequence[Any], records: Sequence[Any], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The metrics on ``records`` of the predictors in :attr:`baseline_names`, which a network has to beat. They learn from
        the ``train`` records alone. Metrics that need more than outputs are left out."""
        return {}

    # Two runs compared by their outputs -------------------------------------------------------------------------------

    @property
    def output_metrics(self) -> tuple[str, ...]:
        """The metrics computed from outputs alone, by which runs are compared. Empty: runs cannot be compared."""
        return tuple(name for name in self.metrics if name == "exact_match")

    @property
    def output_tokenizer(self) -> Tokenizer | None:
        """How outputs are cut into tokens, where they are texts."""
        return None

    def reference(self, record: Any) -> str:
        """The true output of a record, on one line."""
        return record.target if isinstance(record.target, str) else str(record.target)

    def source_text(self, record: Any) -> str:
        """A record's input on one line."""
        source = record.source
        return (
            " | ".join(source) if isinstance(source, tuple) and all(isinstance(s, str) for s in source) else str(source)
        )

    def output_text(self, record: Any, output: Any) -> str:
        """An output of :meth:`evaluate` as a person reads it."""
        return str(output)

    def statistics(self, name: str, outputs: Sequence[Any], records: Sequence[Any]) -> Statistics:
        """The per-record statistics of a metric, from outputs of :meth:`evaluate`."""
        texts = [self.output_text(record, output) for record, output in zip(records, outputs, strict=True)]
        return statistics(name, texts, [self.reference(record) for record in records])

    def qualities(self, outputs: Sequence[Any], records: Sequence[Any]) -> Float[ndarray, " N"]:
        """How good each output is alone; where two runs differ most in it, their outputs are shown."""
        texts = [self.output_text(record, output) for record, output in zip(records, outputs, strict=True)]
        return statistics("chrf", texts, [self.reference(record) for record in records]).by_sentence

    def length_of(self, record: Any, by: str) -> int:
        """The length of a record in one of the units of :attr:`lengths`."""
        if by == "source_tokens":
            return len(next(iter(self.vocabularies.values())).encode(self.source_text(record)))
        return len((self.reference(record) if by == "reference_words" else self.source_text(record)).split())


class Searches:
    """The output is found by a search (:class:`saccade.nn.search.Search`): beams, sampling and penalties apply."""


class Steers(ABC):
    """The output can be constrained: a prefix, and words that it must or must not contain."""

    takes_dictionary: ClassVar[bool] = False  # source word → target word for unknown words that are copied

    @abstractmethod
    def constrain(
        self, items: Sequence[Any], constraints: Sequence[OutputConstraints], dictionary: Mapping[str, str]
    ) -> list[Any]:
        """The inputs that were read, each with its constraints."""


class Calibrates(ABC):
    """The task has a probability for each label, which can be calibrated on held-out records."""

    calibration: Any = None  # a saccade.tasks.calibration.Calibration, or None

    @abstractmethod
    def logits_of(self, network: Any, corpus: Corpus) -> Tensor:
        """The logits [N, C] of every record, uncalibrated."""

    @abstractmethod
    def targets_of(self, corpus: Corpus) -> Sequence[int]:
        """The number of every record's true label."""


class FineTunes(ABC):
    """Training can start from a network that was pre-trained by another task."""

    @classmethod
    @abstractmethod
    def adopt(cls, data: Any, train: Sequence[Any], files: dict[str, str]) -> Task:
        """The task of these records with the tokenizer of the pre-training run, whose files these are."""

    @abstractmethod
    def sizes(self, more: int = 0) -> dict[str, int]:
        """The arguments of a network beside its config, for ``more`` additional labels."""

    @property
    def lacking(self) -> tuple[str, ...]:
        """Labels that no training record has."""
        return ()


class Scores(ABC):
    """The task can compute the probability of a given output under a lens; explain, what-if and compare use it."""

    @abstractmethod
    def scorer(self, network: Any, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        """A function of a lens: the probability of ``output`` for the input ``given``. ``ended``: its end counts as a token."""


class Surveys:
    """``saccade data`` can survey this task's files and write a recipe for them."""

    survey: ClassVar[str]  # its key in saccade.data.survey


def check_text(given: Any, where: str, field: str | None = None, expected: str = "a text") -> str:
    """The input, which must be a text with a visible character."""
    if not isinstance(given, str):
        raise InputError(where, field=field, expected=expected, found=type(given).__name__)
    if not given.strip():
        raise InputError(where, field=field, expected=expected, found="whitespace only" if given else "nothing")
    return given


def check_positions(longest: int | None, data: Any, marks: int) -> None:
    """Raise if ``data.max_length`` tokens and ``marks`` special tokens exceed the ``longest`` row that the network reads."""
    if longest is not None and data.max_length + marks > longest:
        expected = f"at most {longest - marks}: the network has {longest} positions with special tokens"
        raise InputError("recipe", field="data.max_length", expected=expected, found=str(data.max_length))


def refuse_rate(recipe: Any, name: str, why: str) -> None:
    """Raise unless ``train.NAME`` is 0."""
    given = getattr(recipe.train, name)
    if given:
        raise InputError("recipe", field=f"train.{name}", expected=f"0: {why}", found=f"{given:g}")


def named_metrics(recipe: Any) -> dict[str, str]:
    """The metrics that a recipe names, by field; without the loss."""
    named = {f"metrics[{number}]": name for number, name in enumerate(recipe.metrics)}
    if recipe.expect is not None:
        named["expect.metric"] = recipe.expect.metric
    return named if recipe.train.watch == "loss" else {**named, "train.watch": recipe.train.watch}


def keep_best(predictions: Sequence[Prediction]) -> Prediction:
    """The first prediction, with the others as its alternatives."""
    first, *others = predictions
    return replace(first, alternatives=tuple(others)) if others else first


@dataclass(frozen=True)
class Phase:
    """One optimiser step of an update: which parameters change, which loss they minimise, and by which optimiser.

    Most tasks have one phase: all parameters, the recipe's optimiser, :meth:`Task.loss`. A GAN has two, which take turns.
    A phase's step computes gradients for its own parameters only.

    Attributes:
        name: an identifier; with several phases it names the columns of the log.
        loss: ``(network, batch, *, smoothing, sampling) -> Loss``, called as :meth:`Task.loss` is. Random numbers come from
            PyTorch's global generators, whose state is part of a checkpoint.
        parameters: names of modules or parameters, or patterns such as ``decoder.*.bias``; all parameters unless given.
        settings: fields that differ from the recipe's ``train`` section: optimiser, learning rate, schedule, clipping.
        every: run in every so-many-th update: with 5, in updates 5, 10, 15 …
        steps: optimiser steps per update; each recomputes the loss on the update's batches.
        state: tensors that ``loss`` updates in place, such as a moving-average baseline. They move to the device and are
            saved in checkpoints, but not in the bundle.
        rates: learning rates of modules or parameters, by name or pattern, where the phase's is ``lr``: a schedule scales all
            of them alike.
    """

    name: str
    loss: Callable[..., Loss]
    parameters: tuple[str, ...] = ("*",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    every: int = 1
    steps: int = 1
    state: dict[str, Tensor] = field(default_factory=dict)
    rates: Mapping[str, float] = field(default_factory=dict)
