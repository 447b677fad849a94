"""Predicts outcomes from a patient's visits, each a set of codes with a time: after the last visit, or after every one.

A record becomes a row of codes per visit (:mod:`saccade.data.visits.batch`), the network's logits a loss

    loss = Σ_{b, d} −log p(y_bd | visits_b),        p(d) = σ(logit_d)

A prediction is the probabilities of the outcomes. A trace over visits and their codes has the attention, the contribution of
every code to the logit, and the risk after each visit.

A bundle contains the names of codes and outcomes but no patient's record; its examples are artificial.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, log
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
from torch.nn import functional

from saccade.data.batching import Corpus, group
from saccade.data.config import CUT
from saccade.data.files.records import Fields, Name
from saccade.data.memory import INPUTS
from saccade.data.toy.visits import EXAMPLES
from saccade.data.visits.batch import IGNORED, Batch, EncodedVisits, collate, encode
from saccade.data.visits.records import (
    Patient,
    Row,
    Visit,
    VisitData,
    load_visits,
    read_file,
    records_of,
    visits_by_patient,
    visits_of,
)
from saccade.documents import checked, parse
from saccade.errors import InputError, SaccadeError
from saccade.kinds import RECORD
from saccade.metrics.outcomes import OUTCOME_METRICS, outcome_statistics
from saccade.metrics.significance import Statistics
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.nn.visit_network import VisitNetwork
from saccade.task import (
    Detail,
    Evaluation,
    Loss,
    Prediction,
    Progress,
    Scored,
    Scores,
    Surveys,
    Task,
    eval_mode,
    rows_of,
)
from saccade.trace.axes import Axis, Tokens, Visits
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Trace

VOCABULARY = "codes.json"
TINY = 1e-300  # the least probability whose logarithm is taken


@dataclass(frozen=True)
class OutcomeDetail(Detail):
    """The probability of every outcome; under a lens also ``risk``, the probabilities after each visit, and ``contributions``:
    what each code of each visit adds to the logits."""

    probabilities: Mapping[str, float] = field(default_factory=dict)
    risk: tuple[Mapping[str, Any], ...] = ()
    contributions: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class VisitInput:
    """An input: its visits, the ids of their codes, and notes."""

    visits: tuple[Visit, ...]
    encoded: EncodedVisits
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Stored:
    codes: tuple[str, ...]
    outcomes: tuple[str, ...]


class VisitTask(Scores, Surveys, Task):
    """The task: its vocabulary of codes, and its outcomes."""

    name = "visits"
    Data = VisitData
    record_types = (Patient,)
    network_base = VisitNetwork
    metrics = OUTCOME_METRICS
    input = RECORD
    output = "number"
    alternatives = False
    lengths = ("visits", "codes")
    survey = "visits"

    def __init__(self, data: VisitData, codes: Sequence[str], outcomes: Sequence[str]) -> None:
        self.data, self.codes, self.outcomes = data, tuple(codes), tuple(outcomes)
        self.numbers = {code: number for number, code in enumerate(codes, start=1)}

    load = staticmethod(load_visits)
    read_file = staticmethod(read_file)
    records = staticmethod(records_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Patient] | None = None) -> list[str]:
        """Examples of the built-in cohort, or one artificial record of known codes: a run never shows a patient's record."""
        if self.data.source is not None:
            return [json.dumps(example) for example in EXAMPLES]
        return [json.dumps(self.sample, ensure_ascii=False)]

    @property
    def sample(self) -> dict[str, Any]:
        made = [{"time": f"2020-0{month}-01", "codes": [code]} for month, code in enumerate(self.codes[:3], start=1)]
        return {self.data.columns.visits: made}

    def input_of(self, record: Patient) -> dict[str, Any]:
        return {self.data.columns.visits: [{"time": each.time, "codes": list(each.codes)} for each in record.source]}

    @classmethod
    def learn(cls, data: VisitData, train: Sequence[Patient]) -> VisitTask:
        counts: dict[str, int] = {}
        for record in train:
            for code in {code for visit in record.source for code in visit.codes}:
                counts[code] = counts.get(code, 0) + 1
        codes = sorted(code for code, count in counts.items() if count >= data.min_count)
        truths = np.concatenate([np.atleast_2d(np.asarray(record.target)) for record in train])
        for name, column in zip(data.outcome_names, truths.T, strict=True):
            if len(train) > 1 and len(set(column.tolist())) == 1:
                found = f"{len(train):,} records, all {'with' if column[0] else 'without'} it"
                raise InputError("data.train", expected=f"records with and without the outcome {name}", found=found)
        return cls(data, codes, data.outcome_names)

    @classmethod
    def restore(cls, data: VisitData, files: dict[str, str]) -> VisitTask:
        if VOCABULARY not in files:
            raise InputError(VOCABULARY, expected="codes and outcomes in the bundle", found="no such file")
        saved = checked(_Stored, parse(files[VOCABULARY], VOCABULARY), VOCABULARY)
        if tuple(data.outcome_names) != saved.outcomes or len(set(saved.codes)) < len(saved.codes):
            expected = f"codes, each once, and the outcomes {', '.join(data.outcome_names)}"
            raise InputError(VOCABULARY, expected=expected, found="others")
        return cls(data, saved.codes, saved.outcomes)

    def files(self) -> dict[str, str]:
        return {
            VOCABULARY: json.dumps({"codes": self.codes, "outcomes": self.outcomes}, ensure_ascii=False, indent=1)
            + "\n"
        }

    @property
    def labels(self) -> tuple[str, ...]:
        return self.outcomes

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Patient], where: str) -> Corpus:
        """A row is (encoded visits, outcomes)."""
        most, rows, cut = self.data.max_visits, [], 0
        for number, record in enumerate(records, start=1):
            visits = record.source
            if len(visits) > most:
                if self.data.too_long == "error":
                    hint = f"set data.too_long: truncate, or data.max_visits: {len(visits)}"
                    place = f"{where}, record {number}"
                    raise InputError(place, expected=f"at most {most} visits", found=str(len(visits)), hint=hint)
                visits, cut = visits[-most:], cut + 1
            targets = self._targets(record)
            rows.append((encode(visits, self.numbers), targets if self.data.at == "every" else targets[0]))
        final = [target[-1] if self.data.at == "every" else target for _, target in rows]
        columns = zip(self.outcomes, zip(*final, strict=True), strict=True)
        counts = ", ".join(f"{sum(column):,} with {name}" for name, column in columns)
        shortened = f"{where}: {cut:,} of {len(records):,} patients cut to their last {most} visits" if cut else ""
        costs = [len(days) for (_, days), _ in rows]
        note = f"{where}: {len(records):,} patients, {sum(costs):,} visits, {counts}"
        return Corpus(records, rows, costs, "; ".join(filter(None, (note, shortened))), shortened)

    def _targets(self, record: Patient) -> tuple[tuple[int, ...], ...]:
        """The outcomes that a record's predictions are compared with: after its last visit, or after each that is read."""
        if self.data.at == "end":
            return (record.target,)
        each = record.target if isinstance(record.target[0], tuple) else (record.target,) * len(record.source)
        return each[-self.data.max_visits :]

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        rows = [corpus.rows[number] for number in numbers]
        return collate([encoded for encoded, _ in rows], [target for _, target in rows], numbers)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        codes = sum(len(listed) for (visits, _), _ in corpus.rows for listed in visits)
        return {"visits": sum(corpus.costs), "codes": codes}

    def unknown_tokens(self, corpus: Corpus) -> list[str]:
        written = [code for record in corpus.records for visit in record.source for code in visit.codes]
        unknown = sum(code not in self.numbers for code in written)
        return [f"data.train: {unknown:,} of {len(written):,} codes are not known, and not read"] if unknown else []

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> VisitNetwork:
        if not issubclass(network_class, VisitNetwork):
            expected = "a network that reads visits, such as retain"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: VisitNetwork = network_class(config, len(self.codes) + 1, len(self.outcomes))
        return network

    def loss(self, network: Any, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """Binary cross-entropy, summed over the outcomes; with smoothing ε a target y is y (1 − ε) + ε / 2."""
        logits = network(batch.codes, batch.times, batch.lengths, every=self.data.at == "every").float()
        targets = batch.outcomes * (1 - smoothing) + smoothing / 2
        losses = functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        return Loss(losses.masked_fill(batch.outcomes == IGNORED, 0.0).sum(), batch.tokens)

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def inputs(self, given: Any) -> list[Any]:
        if isinstance(given, Mapping) and self.data.columns.visits in given:
            return [given]
        return super().inputs(given)

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        columns = self.data.columns
        return (columns.visits,) if columns.visits in names else (columns.patient, columns.time, columns.code)

    def input_of_dict(self, given: Mapping[str, Any], where: str) -> Any:
        """A dict with the key "visits" is one input."""
        return given

    def inputs_of_table(self, columns: Sequence[Name], rows: Iterable[Fields]) -> list[Any]:
        """The visits of each row; of a table with one row per code, those of each patient."""
        if len(columns) == 1:
            return super().inputs_of_table(columns, rows)
        return list(visits_by_patient(rows, self.data, INPUTS).values())

    def read(self, given: Any, where: str, network: Any = None) -> VisitInput:
        """An input is {"visits": [{"time": …, "codes": […]}, …]}, or that list."""
        if isinstance(given, str):
            given = RECORD.from_argument(given, where)
        listed = given.source if isinstance(given, Patient) else given
        listed = listed.get(self.data.columns.visits) if isinstance(listed, Mapping) else listed
        if isinstance(listed, list | tuple):
            listed = [(each.time, each.codes) if isinstance(each, Visit) else each for each in listed]
        visits = visits_of(listed, Row({}, where), self.data)
        notes, most = [], self.data.max_visits
        if len(visits) > most:
            notes.append(f"{CUT} the last {most} of {len(visits)} visits")
            visits = visits[-most:]
        there = [code for code in self.data.target if any(code in visit.codes for visit in visits)]
        if there:
            notes.append(f"the record has {', '.join(there)} already, but the model predicts whether it comes later")
        unknown = [code for visit in visits for code in visit.codes if code not in self.numbers]
        if unknown:
            shown = ", ".join(list(dict.fromkeys(unknown))[:5]) + ", …" * (len(set(unknown)) > 5)
            notes.append(f"codes that training had not seen are not read: {shown}")
        return VisitInput(visits, encode(visits, self.numbers), tuple(notes))

    def cost(self, item: VisitInput) -> int:
        return len(item.visits)

    def group(self, network: Any, items: Sequence[VisitInput], how: Any, lens: Lens | None) -> Iterator[list[int]]:
        # Under a lens, and where outcomes are predicted after every visit, each visit reads all that came before it.
        squared = lens is not None or self.data.at == "every"
        costs = [self.cost(item) ** 2 if squared else self.cost(item) for item in items]
        return group(costs, most=self.together, positions=self.positions)

    def forward(
        self, network: VisitNetwork, items: Sequence[VisitInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The probability of the outcome after the last visit; of several outcomes, the probability of each by its name."""
        device = next(network.parameters()).device
        batch_lens = lens.fresh() if lens is not None else None
        blank = [[0] * len(self.outcomes)] * len(items)
        batch = collate([item.encoded for item in items], blank, range(len(items))).to(device)
        logits = network(batch.codes, batch.times, batch.lengths, lens=batch_lens)
        recorded = rows_of(batch_lens.records if batch_lens is not None else (), len(items), device)
        found = torch.sigmoid(logits.double()).tolist()
        return [
            self._prediction(item, dict(zip(self.outcomes, row, strict=True)), None if lens is None else records)
            for item, row, records in zip(items, found, recorded, strict=True)
        ]

    def _prediction(self, item: VisitInput, shares: dict[str, float], records: list[Record] | None) -> Prediction:
        first = shares[self.outcomes[0]]
        # The digits that do not depend on which inputs share a batch.
        rounded = {name: round(share, 6) for name, share in shares.items()}
        value: Any = rounded[self.outcomes[0]] if len(shares) == 1 else rounded
        trace = None if records is None else self._trace(item, shares, records)
        detail = OutcomeDetail(shares) if trace is None else self._detail(item, shares, trace)
        return Prediction(value, first, log(max(first, TINY)), notes=item.notes, trace=trace, detail=detail)

    # What it looked at becomes a labelled trace -----------------------------------------------------------------------

    def _trace(self, item: VisitInput, shares: dict[str, float], records: list[Record]) -> Trace:
        axes = axes_of(item.visits, self.numbers)
        visits = item.visits
        span = f"{visits[0].time} to {visits[-1].time}" if len(visits) > 1 else visits[0].time
        read = f"{len(visits)} visit{'s' * (len(visits) > 1)}, {span}"
        output = ", ".join(f"{name} {share:.3f}" for name, share in shares.items())
        about = {**self.about, "input": read, "output": output, "score": shares[self.outcomes[0]]}
        return assemble(records, 0).labelled(axes, **about, probabilities=shares, outcomes=list(self.outcomes))

    def _detail(self, item: VisitInput, shares: dict[str, float], trace: Trace) -> OutcomeDetail:
        def rows(name: str) -> list[dict[str, Any]]:
            values = trace.signals[name].values.tolist() if name in trace.signals else []
            return [dict(zip(self.outcomes, row, strict=True)) for row in values]

        visits = [{"visit": number, "time": visit.time} for number, visit in enumerate(item.visits, start=1)]
        codes = zip(trace.axes["codes"].labels, trace.axes["codes"].within, rows("contributions"), strict=False)
        risk = zip(visits, rows("risk"), strict=False)
        contributions = tuple({**visits[visit], "code": code, **row} for code, visit, row in codes)
        return OutcomeDetail(shares, tuple({**visit, **row} for visit, row in risk), contributions)

    def scorer(self, network: VisitNetwork, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        """Scores an outcome by its name, to which a trace may have added the probability; by default the first outcome."""
        named = output if isinstance(output, str) else self.outcomes[0]
        name = next((name for name in self.outcomes if named == name or named.startswith(f"{name} ")), None)
        if name is None:
            raise SaccadeError(f"expected one of the outcomes {', '.join(self.outcomes)}, found {named[:60]!r}")

        def score(lens: Lens) -> Scored:
            prediction = self.predict(network, [given], how=Search(), lens=lens)[0]
            trace = prediction.trace or Trace()
            return Scored((log(max(prediction.probabilities[name], TINY)),), trace, first=len(trace.axes["visits"]) - 1)

        return score

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: VisitNetwork, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """Metrics of the probabilities, of every visit if outcomes are predicted there. An output is a list per outcome."""
        outputs = [
            dict(zip(self.outcomes, rows.T.tolist(), strict=True))
            for rows in self.probabilities(network, corpus, progress)
        ]
        scores = {name: self.statistics(name, outputs, corpus.records) for name in metrics}
        undefined = [name for name in metrics if isnan(scores[name].value)]
        note = (
            f"{', '.join(undefined)}: not defined, since all {len(corpus)} records are of one kind" if undefined else ""
        )
        return Evaluation.of(scores, outputs, [corpus.cut, note])

    @torch.no_grad()
    def probabilities(
        self, network: VisitNetwork, corpus: Corpus, progress: Progress | None = None
    ) -> list[Float[ndarray, "T C"]]:
        """Per record the probabilities after its last visit [1, C], or after every visit [T, C]."""
        device, every = next(network.parameters()).device, self.data.at == "every"
        found: dict[int, Float[ndarray, "T C"]] = {}
        sizes = [len(days) for (_, days), _ in corpus.rows]
        costs = [size**2 if every else size for size in sizes]
        with eval_mode(network):
            for numbers in group(costs, most=self.together, positions=self.positions):
                batch = self.batch(corpus, numbers).to(device)
                logits = network(batch.codes, batch.times, batch.lengths, every=every)
                shares = torch.sigmoid(logits.double()).cpu().numpy()
                for number, row in zip(numbers, shares, strict=True):
                    found[number] = row[: sizes[number]] if every else row[None]
                if progress is not None:
                    progress(len(found), len(corpus))
        return [found[number] for number in range(len(corpus))]

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return OUTCOME_METRICS

    def statistics(self, name: str, outputs: Sequence[Mapping[str, Any]], records: Sequence[Patient]) -> Statistics:
        truths = [self._targets(record) for record in records]
        for output, rows in zip(outputs, truths, strict=True):
            sizes = {outcome: len(row) for outcome, row in output.items()}
            if sizes != dict.fromkeys(self.outcomes, len(rows)):
                expected = f"{len(rows)} predictions of {', '.join(self.outcomes)}"
                hint = "compare runs of the same outcomes, data.at and data.max_visits"
                raise SaccadeError(f"expected {expected} per record, found {json.dumps(sizes)}: {hint}")
        found = np.concatenate([np.array([output[name] for name in self.outcomes]).T for output in outputs])
        patients = np.repeat(np.arange(len(records)), [len(rows) for rows in truths])
        return outcome_statistics(name, found, np.concatenate([np.array(rows) for rows in truths]), patients)

    def reference(self, record: Patient) -> str:
        return ", ".join(
            f"{name} {value}" for name, value in zip(self.outcomes, self._targets(record)[-1], strict=True)
        )

    def source_text(self, record: Patient) -> str:
        return f"{len(record.source)} visits"

    def output_text(self, record: Patient, output: Mapping[str, Any]) -> str:
        """The probabilities after the last visit."""
        return ", ".join(f"{name} {shares[-1]:.3f}" for name, shares in output.items())

    def qualities(self, outputs: Sequence[Mapping[str, Any]], records: Sequence[Patient]) -> Float[ndarray, " N"]:
        """Minus the error of the probabilities after the last visit."""
        last = [[shares[-1] for shares in output.values()] for output in outputs]
        errors: ndarray = np.abs(np.array(last) - [self._targets(record)[-1] for record in records]).sum(axis=1)
        return -errors

    def length_of(self, record: Patient, by: str) -> int:
        return len(record.source) if by == "visits" else sum(len(visit.codes) for visit in record.source)


def axes_of(visits: Sequence[Visit], known: Mapping[str, int]) -> dict[str, Axis]:
    """The axis ``visits``, and the axis ``codes`` nested in it, of the known codes."""
    within = [number for number, visit in enumerate(visits) for code in visit.codes if code in known]
    codes = [code for visit in visits for code in visit.codes if code in known]
    times = [visit.time if "-" in visit.time[1:] else f"day {visit.time}" for visit in visits]
    labels = [f"visit {number}" for number in range(1, len(visits) + 1)]
    return {"visits": Visits(tuple(labels), times=tuple(times)), "codes": Tokens(tuple(codes), "visits", tuple(within))}
