"""A question and candidate answers → the candidates in order, the best first: answer selection, question retrieval.

A record becomes a row for each (question, candidate), the network's scores s a loss over the candidates c of each question

    listwise     loss = −Σ_c r_c / Σ_c' r_c' · log softmax_c(s)         which of them? (r: relevance)
    pointwise    loss = −Σ_c r_c log σ(s_c) + (1 − r_c) log(1 − σ(s_c))  does this one? (r at most 1)

a prediction the best candidate with all of them in order, and what the network looked at a trace labelled with the words. A
network that says a label of two texts serves too: one label, whose logit is the score.
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
from saccade.data.labels.batch import marks_of
from saccade.data.rankings.batch import Batch, Row, collate, joined
from saccade.data.rankings.records import Ranked, RankedData, load_ranked, ranked_of, read_file
from saccade.data.rankings.word_overlap import FEATURES, SharedWords
from saccade.data.reading import FaultCounts
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.data.tokenizers.vectors import VectorMatch, is_frozen, learn_words
from saccade.data.tokenizers.wordpiece import stored_tokenizer
from saccade.data.toy.facts import EXAMPLES
from saccade.errors import InputError, SaccadeError, preview
from saccade.metrics.ranking import RANKING_METRICS, by_chance, order, ranking_scores
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.nn.word_vectors import begin_words
from saccade.task import Evaluation, Loss, Prediction
from saccade.tasks.axes import BREAK, row_axis
from saccade.tasks.rank_inputs import RankInput, RankReader, typed
from saccade.tasks.unsupported import refuse_sampling
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Outputs, Trace
from saccade.training.evaluation import eval_mode

VOCABULARY, SHARED = "tokenizer.json", "shared_words.json"
TOGETHER = 256  # rows scored in one batch …
POSITIONS_TOGETHER = 32_768  # … and positions at most, padding included
NOWHERE = -1e9  # the score of a candidate that is not there: its share is 0, and no number is made of none
Seen = tuple[list[Record], int]  # what was recorded of a batch, and a row of it


@dataclass(frozen=True)
class Corpus:
    """Questions, a row of ids for each of their candidates; ``cut`` says what was cut, ``note`` that and the counts."""

    records: Sequence[Ranked]
    rows: Sequence[tuple[Row, ...]]
    cut: str = ""
    note: str = ""

    def __len__(self) -> int:
        return len(self.records)

    def first(self, count: int | None) -> Corpus:
        return self if count is None else replace(self, records=self.records[:count], rows=self.rows[:count])


class Rank:
    """The task: a tokenizer, how rare words are, and the rules for over-long texts."""

    name = "rank"
    metrics = RANKING_METRICS
    searches = False  # candidates are given, not searched for: beams mean nothing
    reads_pairs = True  # a question and a candidate

    def __init__(
        self, data: RankedData, tokenizer: Tokenizer, shared: SharedWords, found: VectorMatch | None = None
    ) -> None:
        self.data, self.tokenizer, self.shared, self.found = data, tokenizer, shared, found
        self.reading = RankReader(data, tokenizer, shared)

    @staticmethod
    def check_recipe(recipe: Any) -> None:
        """Raise where a setting means nothing to this task."""
        refuse_sampling(recipe)

    @staticmethod
    def load(data: RankedData, folder: Path, seed: int) -> Splits:
        return load_ranked(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: RankedData) -> list[Ranked]:
        return read_file(path, data)

    @staticmethod
    def records(given: Any, data: RankedData, left_out: FaultCounts | None = None) -> list[Ranked]:
        return ranked_of(given, data, left_out)

    def examples(self, folder: Path, seed: int, test: Sequence[Ranked] | None = None) -> list[str]:
        """Inputs worth looking at: the built-in source's own, or the shortest at the beginning of the test set."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = load_ranked(self.data, folder, seed).test if test is None else test
        beginning = sorted(test[:100], key=lambda record: len("".join(record.candidates)))
        return [typed(record) for record in beginning[:10]]

    @classmethod
    def learn(cls, data: RankedData, train: Sequence[Ranked]) -> Rank:
        """The task of these training records: vocabulary and counts are learnt from them alone."""
        texts = [text for record in train for text in (record.source, *record.candidates)]
        tokenizer, found = learn_words(texts, data.tokens, data.vectors)
        return cls(data, tokenizer, _shared(train), found)

    @classmethod
    def adopt(cls, data: RankedData, train: Sequence[Ranked], files: dict[str, str]) -> Rank:
        """The task of these training records with the tokenizer of a run of another task, which was pre-trained."""
        if VOCABULARY not in files:
            raise InputError(VOCABULARY, expected="a tokenizer in the bundle that is begun from", found="no such file")
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), _shared(train))

    @classmethod
    def restore(cls, data: RankedData, files: dict[str, str]) -> Rank:
        """The task that :meth:`files` kept."""
        for name in (VOCABULARY, SHARED):
            if name not in files:
                raise InputError(name, expected="a file of the bundle", found="no such file")
        shared = SharedWords.from_json(files[SHARED], SHARED)
        return cls(data, stored_tokenizer(files[VOCABULARY], VOCABULARY), shared)

    def files(self) -> dict[str, str]:
        return {VOCABULARY: self.tokenizer.to_json(), SHARED: self.shared.to_json()}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Ranked], where: str) -> Corpus:
        """Records as ids; over-long texts are an error, or cut and counted, as the recipe says."""
        rows, count = self.reading.rows([record.asked for record in records], where)
        pairs, relevant = sum(map(len, rows)), sum(grade > 0 for record in records for grade in record.target)
        cut = f"{count:,} of {pairs + len(records):,} texts cut to {self.data.max_length} tokens" if count else ""
        counts = f"{len(records):,} questions with {pairs:,} candidates, {relevant:,} of them relevant"
        without = sum(not record.answered for record in records)
        if without:
            fate = "left out of the figures"
            if where == "data.train":
                fate = "nothing is learnt of them" if self.data.loss == "listwise" else "all their candidates are wrong"
            counts += f"; {without:,} of the questions without a relevant candidate ({fate})"
        if where == "data.train" and without == len(records):
            raise InputError(where, expected="a question with a relevant candidate", found="none")
        note = f"{where}: {'; '.join(filter(None, (counts, cut)))}"
        return Corpus(records, rows, f"{where}: {cut}" if cut else "", note)

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        """``tokens`` bounds the padded tokens of a batch's rows, ``records`` its questions."""
        widths = [max(map(_size, rows)) for rows in corpus.rows]
        sizes = [len(rows) * width for rows, width in zip(corpus.rows, widths, strict=True)]
        largest = max(range(len(sizes)), key=sizes.__getitem__, default=0)
        if tokens is not None and sizes and sizes[largest] > tokens:
            record = f"record {largest + 1} ({preview(corpus.records[largest].source)})"
            raise SaccadeError(
                f"{record} does not fit into a batch of {tokens} tokens: its {len(corpus.rows[largest])} "
                f"candidates have {sizes[largest]} with the question; raise train.batch_tokens"
            )
        lengths = [(size - 1, 0) for size in sizes]  # plan() counts one more, the end of a side
        return plan(lengths, tokens=tokens, records=records, seed=seed, epoch=epoch)

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
        begin_words(network, self.found, is_frozen(self.data.vectors))
        made: nn.Module = network
        return made

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """What the scores of each question's candidates cost; ``sampling`` means nothing where nothing is written."""
        if sampling:
            raise SaccadeError(f"train.sampling must be 0 for the task rank: got {sampling}")
        scores = self.scores(network, batch).float()  # [N]
        there = batch.places >= 0  # [Q, C]
        table = scores.gather(0, batch.places.clamp_min(0).flatten()).view_as(batch.relevance)
        cost = _pointwise if self.data.loss == "pointwise" else _listwise
        return Loss(cost(table, batch.relevance, there, smoothing), batch.tokens)

    def scores(self, network: Any, batch: Batch, *, lens: Lens | None = None) -> Float[Tensor, " N"]:
        """What the network says to each row of a batch."""
        layout = getattr(network, "layout", None)
        if layout is None:
            asked, said = (batch.question, batch.question_lengths), (batch.candidate, batch.candidate_lengths)
            scores: Tensor = network(*asked, *said, batch.features, lens=lens)
            return scores
        tokens, lengths, segments = joined(batch, first=self.tokenizer.BOS, last=self.tokenizer.EOS)
        if layout == "plain":
            tokens, lengths, segments = tokens[:, 1:-1], lengths - 2, segments[:, 1:-1]
        if network.longest is not None:  # padding beyond what it can read
            tokens, segments = tokens[:, : network.longest], segments[:, : network.longest]
        logits: Tensor = network(tokens, lengths, segments, lens=lens)
        return logits[:, 0]

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def predict(
        self, network: nn.Module, inputs: Sequence[Any], *, how: Search, lens: Lens | None = None
    ) -> list[Prediction]:
        """The best candidate of each input; ``probabilities`` has all of them, the best first.

        An input is a text, the question and its candidates with tabs between them, or (question, [candidates]), or a dict of
        both. ``how.n_best`` asks for the next candidates as alternatives, under a lens with a trace of their own. With
        ``loss: listwise`` the candidates of a question share 1 among them; with ``pointwise`` each has its own probability.
        """
        if how.sample is not None or how.diverse is not None:
            raise SaccadeError("the task rank orders the candidates it is given: it does not sample or search")
        asked = [self.reading.read(each, number) for number, each in enumerate(inputs)]
        scores, seen = self._scored(network, [row for each in asked for row in each.rows], lens)
        made, start = list[Prediction](), 0
        for each in asked:
            own = slice(start, start + len(each.rows))
            made.append(self._prediction(each, scores[own], seen[own], how, lens, network))
            start = own.stop
        if lens is not None and inputs:
            lens.check()
        return made

    def check_input(self, given: Any, number: int) -> None:
        """Raise where this input, the ``number``-th from 0, cannot be read."""
        self.reading.read(given, number)

    @torch.no_grad()
    def _scored(
        self, network: nn.Module, rows: Sequence[Row], lens: Lens | None = None
    ) -> tuple[list[float], list[Seen]]:
        """The score of each row, and what was recorded while it was read."""
        device = next(network.parameters()).device
        scores, seen = [0.0] * len(rows), list[Seen]([([], 0)]) * len(rows)
        with eval_mode(network):
            for numbers in _together(rows):
                looking = lens.fresh() if lens is not None else None
                batch = self._batch([[rows[n]] for n in numbers], [[0.0]] * len(numbers), numbers, 0).to(device)
                found = self.scores(network, batch, lens=looking).float().tolist()
                for row, number in enumerate(numbers):
                    scores[number] = found[row]
                    seen[number] = (looking.records if looking is not None else [], row)
        return scores, seen

    def _prediction(
        self,
        asked: RankInput,
        scores: Sequence[float],
        seen: Sequence[Seen],
        how: Search,
        lens: Lens | None,
        network: Any,
    ) -> Prediction:
        ranked = order(scores)
        raw = torch.tensor(scores, dtype=torch.float64)
        logs = functional.logsigmoid(raw) if self.data.loss == "pointwise" else raw.log_softmax(-1)
        shares = {asked.candidates[number]: float(logs[number].exp()) for number in ranked}
        best, *others = (
            Prediction(
                asked.candidates[number], shares[asked.candidates[number]], float(logs[number]), "eos", asked.notes,
                None if lens is None else self._trace(asked, number, shares, seen[number], lens, network),
            )
            for number in ranked[: how.n_best]
        )  # fmt: skip
        return replace(best, alternatives=tuple(others), probabilities=shares)

    # What it looked at becomes a labelled trace -----------------------------------------------------------------------

    def _trace(
        self, asked: RankInput, number: int, shares: dict[str, float], seen: Seen, lens: Lens, network: Any
    ) -> Trace:
        candidate, (question, said, _) = asked.candidates[number], asked.rows[number]
        verdict = f"{shares[candidate]:.3f}"
        axes: dict[str, Axis] = {
            "question": self._axis([asked.question], [len(question)]),
            "candidate": self._axis([candidate], [len(said)]),
            "score": Tokens((verdict,), text=verdict),
        }
        layout = getattr(network, "layout", None)
        if layout is not None:
            texts, sizes = [asked.question, candidate], [len(question), len(said)]
            text = row_axis(self.tokenizer, texts, sizes, layout=layout, keep="first")
            axes = {"text": text, "label": axes["score"]}
        records, row = seen
        trace = assemble(records, row) if records else Trace()
        if lens.wants("outputs"):
            likeliest, places = torch.tensor([list(shares.values())]), torch.arange(len(shares)).unsqueeze(0)
            trace = replace(trace, outputs=Outputs("label" if layout else "score", (tuple(shares),), likeliest, places))
        shown = asked.question if layout is None else BREAK.join((asked.question, candidate))
        about = {"task": self.name, "input": shown, "output": candidate, "score": shares[candidate]}
        return trace.labelled(axes, **about, probabilities=shares)

    def _axis(self, texts: Sequence[str], sizes: Sequence[int]) -> Tokens:
        return row_axis(self.tokenizer, texts, sizes, layout="plain", keep="first")

    # Figures ----------------------------------------------------------------------------------------------------------

    def evaluate(
        self, network: nn.Module, corpus: Corpus, *, how: Search, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """``map``, ``mrr`` and ``precision_at_1`` of the questions that have a relevant candidate; ``outputs`` are the scores
        of each question's candidates."""
        unknown = [name for name in metrics if name not in self.metrics]
        if unknown:
            raise InputError("metrics", expected=f"any of {', '.join(self.metrics)}", found=repr(unknown[0]))
        corpus = corpus.first(limit)
        answered = sum(record.answered for record in corpus.records)
        if not answered:
            raise SaccadeError(
                f"none of {len(corpus):,} questions has a relevant candidate: {metrics[0]} means nothing"
            )
        scores, _ = self._scored(network, [row for rows in corpus.rows for row in rows])
        given = iter(scores)
        outputs = [[next(given) for _ in rows] for rows in corpus.rows]
        relevance = [record.target for record in corpus.records]
        found = ranking_scores(metrics, outputs, relevance)
        notes = [f"a random order has a map of {by_chance(relevance):.4f}", *filter(None, [corpus.cut])]
        if answered < len(corpus):
            left = len(corpus) - answered
            notes.append(f"{left:,} of {len(corpus):,} questions have no relevant candidate and are left out")
        return Evaluation(
            {name: each.value for name, each in found.items()},
            {name: each.signature for name, each in found.items() if each.signature},
            {name: each.higher_is_better for name, each in found.items()},
            outputs,
            tuple(notes),
        )


def _shared(train: Sequence[Ranked]) -> SharedWords:
    return SharedWords.of(text for record in train for text in record.candidates)


def _size(row: Row) -> int:
    return len(row[0]) + len(row[1])


def _together(rows: Sequence[Row]) -> Iterator[list[int]]:
    """Rows of similar length, as many as fit into a batch."""
    batch, asked = list[int](), 0
    for number in sorted(range(len(rows)), key=lambda number: (len(rows[number][1]), len(rows[number][0]))):
        question, candidate, _ = rows[number]
        asked = max(asked, len(question))
        width = asked + len(candidate) + 3
        if batch and (len(batch) == TOGETHER or width * (len(batch) + 1) > POSITIONS_TOGETHER):
            yield batch
            batch, asked = [], len(question)
        batch.append(number)
    if batch:
        yield batch


def _listwise(table: Tensor, relevance: Tensor, there: Tensor, smoothing: float) -> Tensor:
    """−Σ r / Σ r · log softmax(s), a question at a time; one without a relevant candidate costs nothing."""
    shares = relevance / relevance.sum(-1, keepdim=True).clamp_min(torch.finfo(relevance.dtype).tiny)
    if smoothing:
        answered = (relevance > 0).any(-1, keepdim=True) & there
        even = answered / there.sum(-1, keepdim=True).clamp_min(1)
        shares = (1 - smoothing) * shares + smoothing * even
    logs = table.masked_fill(~there, NOWHERE).log_softmax(-1)
    return -(shares * logs).sum()


def _pointwise(table: Tensor, relevance: Tensor, there: Tensor, smoothing: float) -> Tensor:
    target = (1 - smoothing) * relevance.clamp_max(1.0) + smoothing / 2
    cost = functional.binary_cross_entropy_with_logits(table, target, reduction="none")
    return cost.masked_fill(~there, 0.0).sum()
