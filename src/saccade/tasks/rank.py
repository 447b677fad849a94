"""Ranks the candidate answers of a question, the best first: answer selection, question retrieval.

A record becomes one row per (question, candidate), the network's scores s a loss over the candidates c of each question

    listwise     loss = −Σ_c r_c / Σ_c' r_c' · log softmax_c(s)         which of them? (r: relevance)
    pointwise    loss = −Σ_c r_c log σ(s_c) + (1 − r_c) log(1 − σ(s_c))  does this one? (r at most 1)

A prediction is the best candidate with all candidates in order; a trace is labelled with the words. A classifier of text pairs
can be used too: with one label, whose logit is the score.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import Corpus
from saccade.data.config import CUT, fit
from saccade.data.files.records import Fields, Name
from saccade.data.labels.batch import marks_of
from saccade.data.memory import INPUTS
from saccade.data.rankings.batch import Batch, Row, collate, joined
from saccade.data.rankings.records import Ranked, RankedData, load_ranked, questions_of, ranked_of, read_file
from saccade.data.rankings.word_overlap import FEATURES, SharedWords
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.data.tokenizers.vectors import VectorMatch, is_frozen, learn_words
from saccade.data.tokenizers.wordpiece import stored_tokenizer
from saccade.data.toy.facts import EXAMPLES
from saccade.errors import InputError, SaccadeError, preview
from saccade.kinds import CANDIDATES
from saccade.metrics.ranking import RANKING_METRICS, by_chance, order, ranking_scores, ranking_statistics
from saccade.metrics.significance import Statistics
from saccade.models import name_of
from saccade.nn.ranker import Ranker
from saccade.nn.search.beam_search import Search
from saccade.nn.word_vectors import begin_words
from saccade.task import (
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
    check_text,
    eval_mode,
    keep_best,
)
from saccade.tasks.axes import BREAK, row_axis
from saccade.tasks.scoring import choice_scorer
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace

VOCABULARY, SHARED = "tokenizer.json", "shared_words.json"
FORMS = "a question and its candidates: a text with tabs between them, (question, [candidates]), or a dict of both"
ROWS_TOGETHER = 256  # rows scored in one batch
ABSENT_SCORE = -1e9  # of padding candidates: their probability is 0, without NaN
Seen = tuple[list[Record], int]  # what a lens recorded of a batch, and a row number


class Rank(FineTunes, Scores, Surveys, Task):
    """The task: a tokenizer, word frequencies, and the rule for over-long texts."""

    name = "rank"
    Data = RankedData
    record_types = (Ranked,)
    network_base = Ranker
    metrics = RANKING_METRICS
    baseline_names = ("shared words, by idf",)
    input = CANDIDATES
    output = "ranking"
    length_setting = "data.max_length"
    survey = "rankings"
    reads_pairs = True  # a question and a candidate

    def __init__(
        self, data: RankedData, tokenizer: Tokenizer, shared: SharedWords, vectors: VectorMatch | None = None
    ) -> None:
        self.data, self.tokenizer, self.shared, self.vectors = data, tokenizer, shared, vectors
        self.reader = RankReader(data, tokenizer, shared)

    load = staticmethod(load_ranked)
    read_file = staticmethod(read_file)
    records = staticmethod(ranked_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Ranked] | None = None) -> list[str]:
        """Examples of the built-in source, or the shortest of the first test records."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = self.load(self.data, folder, seed).test if test is None else test
        shortest = sorted(test[:100], key=lambda record: len("".join(record.candidates)))[:10]
        return [typed(record.source, record.candidates) for record in shortest]

    def input_of(self, record: Ranked) -> Any:
        return record.asked

    @classmethod
    def learn(cls, data: RankedData, train: Sequence[Ranked]) -> Rank:
        """The task of these training records: vocabulary and counts are learnt from them alone."""
        texts = [text for record in train for text in (record.source, *record.candidates)]
        tokenizer, vectors = learn_words(texts, data.tokens, data.vectors)
        return cls(data, tokenizer, _shared(train), vectors)

    @classmethod
    def adopt(cls, data: RankedData, train: Sequence[Ranked], files: dict[str, str]) -> Rank:
        """The task of these training records with the tokenizer of a pre-trained run of another task."""
        if VOCABULARY not in files:
            raise InputError(
                VOCABULARY, expected="a tokenizer in the bundle that the run starts from", found="no such file"
            )
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), _shared(train))

    @classmethod
    def restore(cls, data: RankedData, files: dict[str, str]) -> Rank:
        """The task that :meth:`files` saved."""
        for name in (VOCABULARY, SHARED):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        shared = SharedWords.from_json(files[SHARED], SHARED)
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), shared)

    def files(self) -> dict[str, str]:
        return {VOCABULARY: self.tokenizer.to_json(), SHARED: self.shared.to_json()}

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer}

    @property
    def vectors_note(self) -> str:
        return "" if self.vectors is None else self.vectors.note

    def sizes(self, more: int = 0) -> dict[str, int]:
        return {"vocabulary": self.tokenizer.size, "classes": 1}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Ranked], where: str) -> Corpus:
        """Records as ids; over-long texts are an error, or cut and counted, as the recipe says."""
        rows, count = self.reader.rows([record.asked for record in records], where)
        pairs, relevant = sum(map(len, rows)), sum(grade > 0 for record in records for grade in record.target)
        cut = f"{count:,} of {pairs + len(records):,} texts cut to {self.data.max_length} tokens" if count else ""
        counts = f"{len(records):,} questions with {pairs:,} candidates, {relevant:,} of them relevant"
        without = sum(not record.answered for record in records)
        if without:
            fate = "left out of the metrics"
            if where == "data.train":
                fate = "ignored in training" if self.data.loss == "listwise" else "all their candidates are wrong"
            counts += f"; {without:,} of the questions without a relevant candidate ({fate})"
        if where == "data.train" and without == len(records):
            raise InputError(where, expected="a question with a relevant candidate", found="none")
        note = f"{where}: {'; '.join(filter(None, (counts, cut)))}"
        costs = [len(candidates) * max(map(_size, candidates)) for candidates in rows]
        return Corpus(records, rows, costs, note, f"{where}: {cut}" if cut else "")

    def row_name(self, corpus: Corpus, number: int) -> str:
        record = corpus.records[number]
        return f"record {number + 1} ({preview(record.source)}) with {len(record.candidates)} candidates"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        records = [corpus.records[number] for number in numbers]
        rows = [corpus.rows[number] for number in numbers]
        listwise = self.data.loss == "listwise"
        units = sum(record.answered for record in records) if listwise else sum(map(len, rows))
        return self._batch(rows, [record.target for record in records], numbers, units)

    def _batch(
        self, rows: Sequence[Sequence[Row]], relevance: Sequence[Sequence[float]], numbers: Sequence[int], units: int
    ) -> Batch:
        longest = self.data.max_length
        return collate(rows, relevance, numbers, padding=self.tokenizer.PAD, tokens=units, longest=longest)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        question = sum(len(rows[0][0]) for rows in corpus.rows)
        return {"question": question, "candidate": sum(len(row[1]) for rows in corpus.rows for row in rows)}

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> nn.Module:
        parameters, size = inspect.signature(network_class).parameters, self.tokenizer.size
        network: Any
        if "features" in parameters:
            network = network_class(config, vocabulary=size, features=FEATURES)
        elif "classes" in parameters and getattr(network_class, "layout", "") in ("plain", "marked"):
            network = network_class(config, vocabulary=size, classes=1)
            marks = marks_of(network.layout, pair=True)
            if network.longest is not None and 2 * self.data.max_length + marks > network.longest:
                most = (network.longest - marks) // 2
                expected = (
                    f"at most {most}, since the network reads {network.longest} positions of two texts and their marks"
                )
                raise InputError("recipe", field="data.max_length", expected=expected, found=str(self.data.max_length))
        else:
            expected = "a network that scores a candidate for a question, such as siamese"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        begin_words(network, self.vectors, is_frozen(self.data.vectors))
        made: nn.Module = network
        return made

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """The listwise or pointwise loss of each question's candidates."""
        scores = self.scores(network, batch).float()  # [N]
        there = batch.places >= 0  # [Q, C]
        table = scores.gather(0, batch.places.clamp_min(0).flatten()).view_as(batch.relevance)
        cost = _pointwise if self.data.loss == "pointwise" else _listwise
        return Loss(cost(table, batch.relevance, there, smoothing), batch.tokens)

    def scores(self, network: Any, batch: Batch, *, lens: Lens | None = None) -> Float[Tensor, " N"]:
        """The network's score for each row of a batch."""
        layout = getattr(network, "layout", None)
        if layout is None:
            question, candidate = (batch.question, batch.question_lengths), (batch.candidate, batch.candidate_lengths)
            scores: Tensor = network(*question, *candidate, batch.features, lens=lens)
            return scores
        tokens, lengths, segments = joined(batch, first=self.tokenizer.BOS, last=self.tokenizer.EOS)
        if layout == "plain":
            tokens, lengths, segments = tokens[:, 1:-1], lengths - 2, segments[:, 1:-1]
        if network.longest is not None:  # cut padding beyond its positions
            tokens, segments = tokens[:, : network.longest], segments[:, : network.longest]
        logits: Tensor = network(tokens, lengths, segments, lens=lens)
        return logits[:, 0]

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        columns = self.data.columns.among(names)
        group = () if columns.group is None or columns.group not in names else (columns.group,)
        return (columns.question, columns.candidate, *group)

    def input_of_dict(self, given: Mapping[str, Any], where: str) -> Any:
        """A dict is an input as it is: {"question", "candidates"}."""
        return given

    def inputs_of_table(self, columns: Sequence[Name], rows: Iterable[Fields]) -> list[Any]:
        """One input per question, whose candidates stand in one row or in several."""
        return questions_of(rows, self.data.columns, INPUTS)

    def read(self, given: Any, where: str, network: Any = None) -> RankInput:
        """An input is a text, the question and its candidates with tabs between them, (question, [candidates]), or a dict.

        A dict may name one ``candidate``: its trace is recorded, and a lens edits its attention alone.
        """
        return self.reader.read(given, where)

    def cost(self, item: RankInput) -> int:
        return sum(map(_size, item.rows))

    def forward(
        self, network: nn.Module, items: Sequence[RankInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The best candidate of each input.

        ``how.n_best`` adds the next candidates as alternatives, under a lens with their own traces. With ``loss: listwise`` the
        probabilities of a question's candidates sum to 1; with ``pointwise`` they are independent.
        """
        rows = [row for item in items for row in item.rows]
        edits = lens is not None and bool(lens.edits)
        edited = [not edits or item.chosen in (None, n) for item in items for n in range(len(item.rows))]
        scores, seen = self._scored(network, rows, lens, edited)
        predictions, start = list[Prediction](), 0
        for item in items:
            own = slice(start, start + len(item.rows))
            predictions.append(self._prediction(item, scores[own], seen[own], how, lens, network))
            start = own.stop
        return predictions

    def scorer(self, network: nn.Module, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        item = self.read(given, "input", network)
        best = self.predict(network, [given], how=Search())[0].value if output is None else output
        if best in item.candidates:  # what is hidden is hidden in this candidate, not in those that it competes with
            given = about_candidate(item, item.candidates.index(best))
        return choice_scorer(self, network, given, best)

    @torch.no_grad()
    def _scored(
        self, network: nn.Module, rows: Sequence[Row], lens: Lens | None = None, edited: Sequence[bool] = ()
    ) -> tuple[list[float], list[Seen]]:
        """The score of each row, and what the lens recorded of it; its edits apply to the rows that are ``edited``."""
        device = next(network.parameters()).device
        scores, seen = [0.0] * len(rows), list[Seen]([([], 0)]) * len(rows)
        with eval_mode(network):
            for numbers, is_edited in self._together(rows, edited or [True] * len(rows)):
                batch_lens = lens.fresh() if lens is not None else None
                if lens is not None and not is_edited:
                    batch_lens = Lens(lens.keep, k=lens.k, detail=lens.detail)
                batch = self._batch([[rows[n]] for n in numbers], [[0.0]] * len(numbers), numbers, 0).to(device)
                for row, score in enumerate(self.scores(network, batch, lens=batch_lens).float().tolist()):
                    scores[numbers[row]] = score
                    seen[numbers[row]] = (batch_lens.records if batch_lens is not None else [], row)
        return scores, seen

    def _together(self, rows: Sequence[Row], edited: Sequence[bool]) -> Iterator[tuple[list[int], bool]]:
        """The batches of rows, and whether they are edited: all of a batch are, or none."""
        for each in dict.fromkeys(edited):
            group = [number for number, is_edited in enumerate(edited) if is_edited == each]
            for numbers in _batches([rows[number] for number in group], self.positions):
                yield [group[number] for number in numbers], each

    def _prediction(
        self,
        item: RankInput,
        scores: Sequence[float],
        seen: Sequence[Seen],
        how: Search,
        lens: Lens | None,
        network: Any,
    ) -> Prediction:
        ranked = order(scores)
        raw = torch.tensor(scores, dtype=torch.float64)
        logs = functional.logsigmoid(raw) if self.data.loss == "pointwise" else raw.log_softmax(-1)
        shares = {item.candidates[number]: float(logs[number].exp()) for number in ranked}
        traced = ranked if item.chosen is None else [item.chosen, *ranked[1:]]
        best = [
            Prediction(
                item.candidates[number], shares[item.candidates[number]], float(logs[number]), "eos", item.notes,
                None if lens is None else self._trace(item, shown, shares, seen[shown], lens, network),
            )
            for number, shown in zip(ranked[: how.n_best], traced[: how.n_best], strict=True)
        ]  # fmt: skip
        return replace(keep_best(best), detail=Probabilities(shares))

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def _trace(
        self, item: RankInput, number: int, shares: dict[str, float], seen: Seen, lens: Lens, network: Any
    ) -> Trace:
        candidate, (question_ids, candidate_ids, _) = item.candidates[number], item.rows[number]
        verdict = f"{shares[candidate]:.3f}"
        axes: dict[str, Axis] = {
            "question": self._axis([item.question], [len(question_ids)]),
            "candidate": self._axis([candidate], [len(candidate_ids)]),
            "score": Tokens((verdict,), text=verdict),
        }
        layout = getattr(network, "layout", None)
        if layout is not None:
            texts, sizes = [item.question, candidate], [len(question_ids), len(candidate_ids)]
            text = row_axis(self.tokenizer, texts, sizes, layout=layout, keep="first")
            axes = {"text": text, "label": axes["score"]}
        records, row = seen
        trace = assemble(records, row) if records else Trace()
        if lens.wants("outputs"):
            likeliest, places = torch.tensor([list(shares.values())]), torch.arange(len(shares)).unsqueeze(0)
            trace = replace(trace, outputs=Outputs("label" if layout else "score", (tuple(shares),), likeliest, places))
        shown = item.question if layout is None else BREAK.join((item.question, candidate))
        about = {**self.about, "input": shown, "output": candidate, "score": shares[candidate]}
        about |= {"asked": about_candidate(item, number), "typed": typed(item.question, item.candidates)}
        return trace.labelled(axes, **about, probabilities=shares)

    def _axis(self, texts: Sequence[str], sizes: Sequence[int]) -> Tokens:
        return row_axis(self.tokenizer, texts, sizes, layout="plain", keep="first")

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: nn.Module, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """``map``, ``mrr`` and ``precision_at_1`` of the questions that have a relevant candidate; ``outputs`` are the scores
        of each question's candidates."""
        answered = sum(record.answered for record in corpus.records)
        if not answered:
            raise SaccadeError(
                f"none of {len(corpus):,} questions has a relevant candidate: no {metrics[0]} to compute"
            )
        scores, _ = self._scored(network, [row for rows in corpus.rows for row in rows])
        given = iter(scores)
        outputs = [[next(given) for _ in rows] for rows in corpus.rows]
        relevance = [record.target for record in corpus.records]
        figures = ranking_scores(metrics, outputs, relevance)
        notes = [f"a random order has a map of {by_chance(relevance):.4f}", corpus.cut]
        if answered < len(corpus):
            left = len(corpus) - answered
            notes.append(f"{left:,} of {len(corpus):,} questions have no relevant candidate and are left out")
        return Evaluation.of(figures, outputs, notes)

    def baselines(
        self, train: Sequence[Ranked], records: Sequence[Ranked], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The words that question and candidate share, weighted by their rarity (idf)."""
        shared, relevance = _shared(train), [record.target for record in records]
        outputs = [[shared.features(record.source, text)[1] for text in record.candidates] for record in records]
        scores = ranking_scores(metrics, outputs, relevance)
        (name,) = self.baseline_names
        return {name: {metric: score.value for metric, score in scores.items()}}

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return ("map", *(name for name in RANKING_METRICS if name != "map"))

    def reference(self, record: Ranked) -> str:
        return " | ".join(text for text, grade in zip(record.candidates, record.target, strict=True) if grade > 0)

    def output_text(self, record: Ranked, output: Sequence[float]) -> str:
        return record.candidates[order(output)[0]]

    def statistics(self, name: str, outputs: Sequence[Any], records: Sequence[Ranked]) -> Statistics:
        return ranking_statistics(name, outputs, [record.target for record in records])


def _shared(train: Sequence[Ranked]) -> SharedWords:
    return SharedWords.of(text for record in train for text in record.candidates)


def _size(row: Row) -> int:
    return len(row[0]) + len(row[1])


def _batches(rows: Sequence[Row], positions: int) -> Iterator[list[int]]:
    """Rows of similar length, as many as fit into a batch: questions and candidates are padded separately."""
    batch, longest = list[int](), 0
    for number in sorted(range(len(rows)), key=lambda number: (len(rows[number][1]), len(rows[number][0]))):
        question, candidate, _ = rows[number]
        longest = max(longest, len(question))
        width = longest + len(candidate) + 3  # special tokens
        if batch and (len(batch) == ROWS_TOGETHER or width * (len(batch) + 1) > positions):
            yield batch
            batch, longest = [], len(question)
        batch.append(number)
    if batch:
        yield batch


def _listwise(table: Tensor, relevance: Tensor, there: Tensor, smoothing: float) -> Tensor:
    """−Σ r / Σ r · log softmax(s) per question; a question without a relevant candidate has loss 0."""
    shares = relevance / relevance.sum(-1, keepdim=True).clamp_min(torch.finfo(relevance.dtype).tiny)
    if smoothing:
        answered = (relevance > 0).any(-1, keepdim=True) & there
        even = answered / there.sum(-1, keepdim=True).clamp_min(1)
        shares = (1 - smoothing) * shares + smoothing * even
    logs = table.masked_fill(~there, ABSENT_SCORE).log_softmax(-1)
    return -(shares * logs).sum()


def _pointwise(table: Tensor, relevance: Tensor, there: Tensor, smoothing: float) -> Tensor:
    target = (1 - smoothing) * relevance.clamp_max(1.0) + smoothing / 2
    cost = functional.binary_cross_entropy_with_logits(table, target, reduction="none")
    return cost.masked_fill(~there, 0.0).sum()


@dataclass(frozen=True)
class RankInput:
    """An input: the question, its candidates, one row of ids per candidate, and its notes.

    ``chosen`` is the number of the candidate that is traced and edited; None: the best is traced, and all are edited.
    """

    question: str
    candidates: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    chosen: int | None = None


def parted(given: Any, where: str) -> tuple[str, tuple[str, ...]]:
    """The question and the candidates of an input."""
    if isinstance(given, Ranked):
        return given.asked
    if isinstance(given, Mapping):
        missing = [name for name in ("question", "candidates") if name not in given]
        if missing:
            keys = ", ".join(map(str, list(given)[:20])) or "nothing"
            raise InputError(where, field=missing[0], expected=FORMS, found=f"the keys {keys}")
        question, candidates = given["question"], given["candidates"]
    elif isinstance(given, str):
        question, *candidates = given.split("\t")
    elif isinstance(given, tuple | list) and len(given) == 2:
        question, candidates = given
    else:
        raise InputError(where, expected=FORMS, found=type(given).__name__)
    if isinstance(candidates, str) or not isinstance(candidates, Sequence):
        raise InputError(where, expected="a list of candidates", found=type(candidates).__name__)
    if not candidates:
        hint = "on the command line, write the candidates after the question, each after a tab"
        raise InputError(where, expected="at least one candidate", found="none", hint=hint)
    for name, text in (("question", question), *((f"candidate {n}", text) for n, text in enumerate(candidates, 1))):
        check_text(text, where, name)
    return question, tuple(candidates)


def typed(question: str, candidates: Sequence[str]) -> str:
    """An input as one line: its question and candidates, separated by tabs."""
    return "\t".join(" ".join(text.split()) for text in (question, *candidates))


def about_candidate(item: RankInput, number: int) -> dict[str, Any]:
    """The input that asks about one candidate alone, the others being as they are: for edits of its attention."""
    return {"question": item.question, "candidates": list(item.candidates), "candidate": item.candidates[number]}


def _chosen(given: Any, candidates: Sequence[str], where: str) -> int | None:
    candidate = given.get("candidate") if isinstance(given, Mapping) else None
    if candidate is None:
        return None
    if candidate not in candidates:
        found = preview(candidate) if isinstance(candidate, str) else type(candidate).__name__
        raise InputError(where, field="candidate", expected="one of the candidates", found=found)
    return candidates.index(candidate)


class RankReader:
    """Turns questions and candidates into rows of ids, each within ``data.max_length`` tokens, with word-overlap features."""

    def __init__(self, data: RankedData, tokenizer: Tokenizer, shared: SharedWords) -> None:
        self.data, self.tokenizer, self.shared = data, tokenizer, shared

    def rows(self, questions: Sequence[tuple[str, Sequence[str]]], where: str) -> tuple[list[tuple[Row, ...]], int]:
        """The rows of each question, and how many texts were cut for them; ``where`` names the records in errors."""
        question_ids = self.tokenizer.encode_all([question for question, _ in questions])
        candidate_ids = iter(self.tokenizer.encode_all([text for _, candidates in questions for text in candidates]))
        made, cut = list[tuple[Row, ...]](), 0
        for number, (question, candidates) in enumerate(questions):
            place = f"{where}, record {number + 1} ({preview(question)})" if len(questions) > 1 else where
            ids, was_cut = self._fit(question_ids[number], f"{place}, question")
            cut += was_cut
            own: list[Row] = []
            for other, candidate in enumerate(candidates, start=1):
                theirs, was_cut = self._fit(next(candidate_ids), f"{place}, candidate {other}")
                cut += was_cut
                own.append((ids, theirs, self.shared.features(question, candidate)))
            made.append(tuple(own))
        return made, cut

    def read(self, given: Any, where: str) -> RankInput:
        """One input, checked, as ids."""
        question, listed = parted(given, where)
        candidates = tuple(dict.fromkeys(listed))  # duplicates would split the probability of one answer
        (rows,), cut = self.rows([(question, candidates)], where)
        limit, again = self.data.max_length, len(listed) - len(candidates)
        notes = [f"{again} of {len(listed)} candidates are duplicates and left out"] if again else []
        notes += [f"{cut} of {1 + len(rows)} texts {CUT} their first {limit} tokens"] if cut else []
        read = [*rows[0][0], *(token for row in rows for token in row[1])]
        notes += unknown_notes(read, self.tokenizer.UNK)
        return RankInput(question, candidates, rows, tuple(notes), _chosen(given, candidates, where))

    def _fit(self, ids: list[int], where: str) -> tuple[list[int], bool]:
        # A text may be empty after normalisation; a row must not be.
        return fit(ids or [self.tokenizer.UNK], self.data.max_length, self.data.too_long, where)
