"""Contract tests for tasks: records → batch → loss → prediction → metrics, and restoring from a bundle's files."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from saccade.errors import InputError, SaccadeError
from saccade.kinds import InputKind, OutputKind
from saccade.models import network_class
from saccade.nn.search.beam_search import Sampling, Search
from saccade.plugins import EVERYTHING, searching
from saccade.task import (
    Calibrates,
    Evaluation,
    FineTunes,
    Loss,
    OutputConstraints,
    Prediction,
    Scored,
    Scores,
    Searches,
    Steers,
    Task,
)
from saccade.tasks import TASKS, data_class, metrics_of, task_class
from saccade.testing.promises import ContractBroken, demand, keep, name_of, numbers, same
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

SIZE = 3  # records per batch
RANKS = 3
PLACE = "input 7"  # how a call that must fail names its input
LOOSE = {"rtol": 1e-4, "atol": 1e-4}  # sums in float32, in another order


def check_task(
    task: Any,
    data: Any,
    network: Any,
    config: Any = None,
    *,
    inputs: Sequence[Any] | None = None,
    metrics: Sequence[str] | None = None,
    folder: str | Path = ".",
) -> tuple[str, ...]:
    """Raise :class:`ContractBroken` unless a task keeps every promise; return the promises.

    Args:
        task: a class that derives from :class:`saccade.task.Task`, or its name.
        data: what its recipe's ``data`` would be read into; a few dozen records are enough.
        network, config: what it is tried with: a class (or its name) and its Config, ``config_class()`` unless given.
        inputs: what to predict; what the first test records ask (``Task.input_of``) unless given.
        metrics: what to evaluate; the task's own ``metrics`` unless given.
        folder: where the data's relative paths start.
    """
    __tracebackhide__ = True
    with searching(trust=EVERYTHING):  # a test names what it tries
        kind: Any = task
        if isinstance(kind, str):
            kind = task_class(kind)
        made = network_class(network) if isinstance(network, str) else network
    if config is None and not hasattr(made, "config_class"):
        raise ContractBroken(f"{name_of(network)} has no config_class, the dataclass of its fields")
    config = made.config_class() if config is None else config
    wanted: tuple[str, ...] = tuple(metrics) if metrics else getattr(kind, "metrics", ())
    subject = _Subject(kind, data, made, config, None if inputs is None else tuple(inputs), wanted, Path(folder))
    return keep(name_of(task), subject, PROMISES, needed=2)


@dataclass(frozen=True)
class _Subject:
    kind: Any
    data: Any
    network_class: Any
    config: Any
    given: tuple[Any, ...] | None
    metrics: tuple[str, ...]
    folder: Path

    @cached_property
    def splits(self) -> Any:
        return self.kind.load(self.data, self.folder, 1)

    @cached_property
    def task(self) -> Task:
        task: Task = self.kind.learn(self.data, self.splits.train)
        return task

    @cached_property
    def network(self) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            network = self.task.network(self.network_class, self.config)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.mul_(3)  # away from a fresh network's one answer to everything
        return network

    @cached_property
    def corpus(self) -> Any:
        return self.task.corpus(self.splits.train, "train")

    @cached_property
    def test(self) -> Any:
        return self.task.corpus(self.splits.test, "test")

    @property
    def inputs(self) -> list[Any]:
        return list(self.given or [self.task.input_of(record) for record in self.splits.test[:SIZE]])

    def plan(self, records: int = SIZE, epoch: int = 0, **ranks: int) -> list[list[int]]:
        found: list[list[int]] = self.task.plan(self.corpus, tokens=None, records=records, seed=1, epoch=epoch, **ranks)
        return found

    def loss_of(self, task: Any, numbers: Sequence[int]) -> Loss:
        loss: Loss = task.loss(self.network, task.batch(self.corpus, numbers).to("cpu"))
        return loss

    def values(self, inputs: Sequence[Any], task: Any = None) -> list[Any]:
        """The predicted values as text, so that values of any type can be compared."""
        found = (task or self.task).predict(self.network, list(inputs), how=Search())
        return [repr(prediction.value) for prediction in found]


def _declared(subject: _Subject) -> None:
    kind = subject.kind
    demand(isinstance(kind, type) and issubclass(kind, Task), f"{kind!r} does not derive from saccade.task.Task")
    missing = sorted(kind.__abstractmethods__)
    missing += [name for name in ("name", "Data", "metrics", "input", "output") if not hasattr(kind, name)]
    demand(not missing, f"it lacks {', '.join(missing)}")
    demand(
        isinstance(kind.Data, type) and dataclasses.is_dataclass(kind.Data), f"Data is not a dataclass: {kind.Data!r}"
    )
    given = type(subject.data).__name__
    demand(isinstance(subject.data, kind.Data), f"Data is {kind.Data.__name__}, the data to try it with is {given}")
    demand(isinstance(kind.input, InputKind), f"input is not an InputKind of saccade.kinds: {kind.input!r}")
    outputs = get_args(OutputKind)
    demand(kind.output in outputs, f"output must be one of {', '.join(outputs)}: found {kind.output!r}")
    texts = isinstance(kind.metrics, tuple) and all(isinstance(name, str) for name in kind.metrics)
    demand(texts and kind.metrics, f"metrics must be a tuple of names: found {kind.metrics!r}")
    if kind.name in TASKS and task_class(kind.name) is kind:
        demand(data_class(kind.name) is kind.Data, f"TASKS has {data_class(kind.name).__name__} as the task's data")
        demand(metrics_of(kind.name) == kind.metrics, f"TASKS has other metrics: {', '.join(metrics_of(kind.name))}")


def _records(subject: _Subject) -> None:
    again = subject.kind.load(subject.data, subject.folder, 1)
    for name in ("train", "valid", "test"):
        records = list(getattr(subject.splits, name))
        demand(bool(records), f"load gave no {name} records")
        odd = [record for record in records if not dataclasses.is_dataclass(record) or not hasattr(record, "source")]
        demand(not odd, f"a record of {name} is not a dataclass with a source: {odd[:1]!r}")
        demand(records == list(getattr(again, name)), f"load gave other {name} records in a second call")
        json.dumps([dataclasses.asdict(record) for record in records])  # a resumed run knows its data by this
    count = len(subject.splits.train)
    demand(len(subject.corpus) == count, f"the corpus of {count} records has {len(subject.corpus)}")
    demand(isinstance(getattr(subject.corpus, "note", None), str), "the corpus has no note, a text that may be empty")


def _plan(subject: _Subject) -> None:
    for epoch in (0, 3):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            first, drawn = subject.plan(epoch=epoch), torch.rand(1)
            torch.manual_seed(5)
            demand(torch.equal(drawn, torch.rand(1)), "plan draws from torch's own random numbers")
        demand(subject.plan(epoch=epoch) == first, f"the plan of epoch {epoch} differs in a second call")
        visited = sorted(number for batch in first for number in batch)
        missing = set(range(len(subject.corpus))) - set(visited)
        demand(not missing, f"epoch {epoch} leaves out {len(missing)} records, {sorted(missing)[:3]} among them")
        twice = len(visited) - len(set(visited))
        demand(not twice, f"epoch {epoch} visits {twice} records more than once")
        most = max(map(len, first))
        demand(most <= SIZE, f"a batch holds {most} records, where at most {SIZE} were asked for")


def _ranks(subject: _Subject) -> None:
    try:
        plans = [subject.plan(rank=rank, ranks=RANKS) for rank in range(RANKS)]
    except SaccadeError as error:
        demand("rank" in str(error), f"plan refused {RANKS} ranks without naming them: {error}")
        return
    counts = [len(batches) for batches in plans]
    demand(len(set(counts)) == 1, f"{RANKS} ranks have unequally many batches: {counts}")
    visited = [number for batches in plans for batch in batches for number in batch]
    missing = len(set(range(len(subject.corpus))) - set(visited))
    demand(not missing, f"{RANKS} ranks together leave out {missing} records")
    twice = len(visited) - len(set(visited))
    demand(not twice or len(subject.corpus) < RANKS, f"{RANKS} ranks together visit {twice} records more than once")


@torch.no_grad()
def _loss(subject: _Subject) -> None:
    subject.network.eval()
    totals = []
    for size in (1, SIZE, len(subject.corpus)):
        parts = [subject.loss_of(subject.task, numbers) for numbers in subject.plan(size)]
        demand(all(isinstance(part, Loss) for part in parts), f"loss gave {type(parts[0]).__name__}, not a Loss")
        totals.append((sum(float(part.total) for part in parts), sum(part.count for part in parts)))
    for size, (total, count) in zip((1, SIZE), totals, strict=False):
        demand(count == totals[-1][1], f"{count} units in batches of {size}, {totals[-1][1]} in one batch")
        scale = count or 1
        same(_scalar(total / scale), _scalar(totals[-1][0] / scale), f"the loss in batches of {size}", **LOOSE)


def _scalar(number: float) -> Tensor:
    return torch.tensor(number, dtype=torch.float64)


def _gradients(subject: _Subject) -> None:
    network = subject.network.train()
    batch = subject.task.batch(subject.corpus, subject.plan()[0]).to("cpu")
    subject.task.loss(network, batch, smoothing=0.0, sampling=0.0).mean.backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters() if parameter.grad is not None}
    network.zero_grad(set_to_none=True)
    demand(bool(gradients), "no parameter got a gradient")
    for name, gradient in gradients.items():
        numbers(gradient, f"the gradient of {name}")
    demand(any(gradient.any() for gradient in gradients.values()), "every gradient is 0")


def _predictions(subject: _Subject) -> None:
    inputs = subject.inputs
    found = subject.task.predict(subject.network, inputs, how=Search())
    demand(len(found) == len(inputs), f"{len(found)} predictions for {len(inputs)} inputs")
    demand(all(isinstance(one, Prediction) for one in found), f"predict gave {type(found[0]).__name__}s")
    together, alone = [repr(one.value) for one in found], [subject.values([one])[0] for one in inputs]
    demand(together == alone, f"together they are {together}, one by one {alone}")
    backwards = subject.values(inputs[::-1])[::-1]
    demand(together == backwards, f"in another order they are {backwards}, not {together}")


def _refusals(subject: _Subject) -> None:
    task = subject.task
    try:
        task.read(None, PLACE)
    except InputError as error:
        demand(PLACE in str(error), f"read does not say which input it refuses: {error}")
    else:
        raise ContractBroken("read takes None for an input")
    costs = [task.cost(task.read(given, PLACE, subject.network)) for given in subject.inputs]
    demand(all(cost > 0 for cost in costs), f"cost must count an input's positions: found {costs}")
    if not (isinstance(task, Searches) or task.draws):
        try:
            task.predict(subject.network, subject.inputs, how=Search(sample=Sampling()))
        except SaccadeError:
            return
        raise ContractBroken("it samples, though it does not derive from Searches")


def _described(subject: _Subject) -> None:
    for name, told in (("describe()", subject.task.describe()), ("about", subject.task.about)):
        demand(isinstance(told, dict), f"{name} is not a dict: {told!r}")
        json.dumps(told)  # GET /v1/models and saved traces hold it
    for prediction in subject.task.predict(subject.network, subject.inputs, how=Search()):
        json.dumps(prediction.to_json())
    labels = subject.task.labels
    demand(len(set(labels)) == len(labels), f"labels has a name twice: {labels}")


def _scores(subject: _Subject) -> None:
    task: Any = subject.task
    for given in subject.inputs if isinstance(subject.task, Scores) else ():
        (prediction,) = task.predict(subject.network, [given], how=Search(), lens=Lens())
        for output in (prediction.value, (prediction.trace or Trace()).about.get("output")):
            task.scorer(subject.network, given, output)(Lens())  # what erasure passes
        scored = task.scorer(subject.network, given, None)(Lens())
        demand(isinstance(scored, Scored), f"scorer gives a function that returns {type(scored).__name__}")
        probabilities = torch.tensor(scored.log_probs, dtype=torch.float64)
        numbers(probabilities, "log_probs of scorer")
        demand((probabilities <= 1e-6).all(), f"log_probs of scorer are above 0: {scored.log_probs}")
        if _one_spelling(task, prediction, scored):
            same(probabilities.sum(), _scalar(prediction.log_prob), "the sum of scorer's log_probs", **LOOSE)


def _one_spelling(task: Any, prediction: Prediction, scored: Scored) -> bool:
    """Whether the output text is tokenised into the generated tokens; only then must the scores agree."""
    if task.output not in ("text", "continuation") or not task.vocabularies:
        return True
    tokenizer = task.output_tokenizer or list(task.vocabularies.values())[-1]
    value = prediction.value.strip()
    ids = tokenizer.encode(value) if value else []
    trace = prediction.trace or Trace()
    written = max((map.queries + map.step for map in trace.maps if map.site == trace.last_look), default=None)
    length = max(scored.steps) + 1
    return tokenizer.UNK not in ids and tokenizer.decode(ids).strip() == value and written in (None, length)


def _capabilities(subject: _Subject) -> None:
    if isinstance(subject.task, Calibrates):
        _calibrates(subject)
    if subject.task.baseline_names:
        splits, metrics = subject.splits, list(subject.metrics)
        baselines, names = subject.task.baselines(splits.train, splits.test, metrics), subject.task.baseline_names
        demand(
            set(baselines) <= set(names), f"baselines gives {', '.join(baselines)}; baseline_names: {', '.join(names)}"
        )
        for name, figures in baselines.items():
            odd = [metric for metric in figures if metric not in metrics or not math.isfinite(figures[metric])]
            demand(not odd, f"the baseline {name!r} has no number for the metrics that were asked for: {figures}")
    if isinstance(subject.task, Steers):
        nothing = [OutputConstraints()] * len(subject.inputs)
        free = subject.task.predict(subject.network, subject.inputs, how=Search(), constraints=nothing)
        values = [repr(one.value) for one in free]
        demand(values == subject.values(subject.inputs), "empty constraints change the output")
    if isinstance(subject.task, FineTunes):
        sizes, more = subject.task.sizes(), subject.task.sizes(1)
        demand(all(isinstance(size, int) for size in sizes.values()), f"sizes must be numbers: found {sizes}")
        demand(set(more) == set(sizes), f"sizes(1) names {', '.join(more)}, sizes() {', '.join(sizes)}")
        strange = set(subject.task.lacking) - set(subject.task.labels)
        demand(not strange, f"lacking names unknown labels: {strange}")


def _calibrates(subject: _Subject) -> None:
    task: Any = subject.task
    network = subject.network
    logits, targets = task.logits_of(network, subject.test), list(task.targets_of(subject.test))
    shape = [len(subject.test), len(task.labels)]
    demand(list(logits.shape) == shape, f"logits_of: expected {shape}, found {list(logits.shape)}")
    demand(len(targets) == shape[0], f"targets_of gives {len(targets)} labels for {shape[0]} records")
    demand(all(0 <= target < shape[1] for target in targets), f"targets_of must number the labels: {targets[:5]}")
    inputs = [task.input_of(record) for record in subject.splits.test]
    chosen = [task.labels[number] for number in logits.argmax(-1).tolist()]
    values = [one.value for one in task.predict(network, inputs, how=Search())]
    demand(values == chosen, f"the largest logits are those of {chosen}, predicted is {values}")


def _traces(subject: _Subject) -> None:
    plain = subject.task.predict(subject.network, subject.inputs, how=Search())
    demand(all(one.trace is None for one in plain), "without a lens a prediction has a trace")
    found = subject.task.predict(subject.network, subject.inputs, how=Search(), lens=Lens())
    demand([one.value for one in found] == [one.value for one in plain], "the predictions differ under a lens")
    for one in found if getattr(subject.network, "sites", ()) else ():
        trace = one.trace or Trace()
        demand(bool(trace.maps), "under a lens a prediction has no map")
        for map in trace.maps:
            sizes = len(trace.axes[map.query]) - map.step, len(trace.axes[map.key])
            demand(sizes == (map.queries, map.keys), f"{map.site}: {sizes} labels for {map.queries} × {map.keys}")


def _figures(subject: _Subject) -> None:
    evaluate = subject.task.evaluate
    found = evaluate(subject.network, subject.test, how=Search(), metrics=list(subject.metrics))
    demand(isinstance(found, Evaluation), f"evaluate gave {type(found).__name__}, not an Evaluation")
    for name in subject.metrics:
        demand(name in found.figures, f"{name} was asked for, {', '.join(found.figures) or 'nothing'} computed")
        demand(math.isfinite(found.figures[name]), f"{name} is {found.figures[name]}")
        demand(name in found.higher_is_better, f"higher_is_better does not say which way {name} is better")
    some = evaluate(subject.network, subject.test, how=Search(), metrics=list(subject.metrics), limit=1)
    demand(len(some.outputs) <= 1, f"with limit=1 there are {len(some.outputs)} outputs")


def _untouched(subject: _Subject) -> None:
    network = subject.network.train()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    subject.values(subject.inputs)
    subject.task.evaluate(network, subject.test, how=Search(), metrics=list(subject.metrics))
    demand(network.training, "a network in training was left in eval")
    for name, tensor in network.state_dict().items():
        same(tensor, before[name], name, rtol=0, atol=0)


@torch.no_grad()
def _restored(subject: _Subject) -> None:
    files = subject.task.files()
    odd = [name for name, text in files.items() if Path(name).name != name or not isinstance(text, str)]
    demand(not odd, f"files must be plain names and texts: {odd[:1]}")
    task = subject.kind.restore(subject.data, dict(files))
    demand(task.files() == files, "the files of the restored task differ")
    subject.network.eval()
    corpus, first = task.corpus(subject.splits.train, "train"), subject.plan()[0]
    ours = subject.loss_of(subject.task, first).total
    theirs = task.loss(subject.network, task.batch(corpus, first).to("cpu")).total
    same(theirs, ours, "the restored task's loss", **LOOSE)
    demand(subject.values(subject.inputs, task) == subject.values(subject.inputs), "its predictions differ")
    with torch.random.fork_rng(devices=[]):
        fresh = task.network(subject.network_class, subject.config)
    fresh.load_state_dict(subject.network.state_dict())


def _examples(subject: _Subject) -> None:
    shown = subject.task.examples(subject.folder, 1, test=subject.splits.test)
    demand(len(shown) > 0, "it shows no examples")
    subject.values(shown[:SIZE])


PROMISES: dict[str, Callable[[_Subject], None]] = {
    "it declares Data, metrics, input and output, and TASKS agrees": _declared,
    "load gives the same records each time, and corpus contains all of them": _records,
    "a plan has every record once, and depends on its arguments only": _plan,
    "ranks share a plan: their batches are disjoint and cover every record": _ranks,
    "the loss does not depend on how records are cut into batches": _loss,
    "the loss has finite gradients": _gradients,
    "an input gets the same prediction alone and among others": _predictions,
    "errors of malformed inputs name the input, and unsupported searches are refused": _refusals,
    "describe(), about and predictions can be written as JSON": _described,
    "a scorer's log-probabilities sum to the prediction's": _scores,
    "the methods of its capabilities work": _capabilities,
    "a lens adds a labelled trace and does not change the prediction": _traces,
    "the requested metrics are computed, with whether higher is better": _figures,
    "predicting and evaluating do not change the network": _untouched,
    "its files restore it": _restored,
    "its examples can be predicted": _examples,
}
