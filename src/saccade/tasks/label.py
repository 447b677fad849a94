"""Tags the words of a text: parts of speech, chunks, named entities. If tags mark spans, metrics are computed over spans.

A record becomes a row of ids (:mod:`saccade.data.tags.batch`), the network's emissions the loss of a softmax or a CRF

    loss = −log p(y₁ … yₙ | x₁ … xₙ)

A prediction is the likeliest tag sequence with each tag's probability; the rows of a trace are the words with their tags. The
network may learn another tagging scheme than the file's (``data.learn``); outputs are always in the file's scheme.

Legend: B batch, S positions, K tags.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.data.batching import Corpus, group
from saccade.data.files.records import Fields, Name
from saccade.data.labels.batch import IGNORED
from saccade.data.tags.batch import MARKS, Batch, collate, corpus_of, parts_of
from saccade.data.tags.records import Tagged, TaggedData, by_word, load_tagged, read_file, tagged_of, word_columns
from saccade.data.tags.schemes import spans_of
from saccade.data.tags.tagset import Tags
from saccade.data.tokenizers.tokenizer import unknown_notes
from saccade.data.tokenizers.vectors import VectorMatch, is_frozen
from saccade.data.tokenizers.words import WordReader
from saccade.data.toy.repeats import EXAMPLES
from saccade.errors import InputError, preview
from saccade.kinds import WORDS
from saccade.metrics.baselines import tags_by_word
from saccade.metrics.labels import (
    SPAN_METRICS,
    TAG_METRICS,
    Confusion,
    by_tag,
    by_type,
    mistaken,
    span_pairs,
    span_statistics,
    tag_accuracy,
)
from saccade.metrics.significance import Statistics
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.nn.tagger import Tagger
from saccade.nn.word_vectors import begin_words
from saccade.task import (
    Detail,
    Evaluation,
    FineTunes,
    HasBaselines,
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
from saccade.tasks.label_inputs import (
    TagInput,
    answer_spans,
    answer_tokens,
    first_pieces,
    last_site,
    outputs_of,
    read_words,
    trace_of,
    typed,
)
from saccade.tasks.scoring import TINY, unknown_share
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace

TAGS = "labels.json"
SHOWN = 12  # types of span, or mistakes, that an evaluation names


@dataclass(frozen=True)
class TagOutput:
    """The prediction for a record: the numbers of its tags in the learnt scheme, the probabilities of all tags [words, K], and
    what a lens recorded."""

    tags: list[int]
    shares: Float[Tensor, "words K"]
    seen: list[Record]


@dataclass(frozen=True)
class TagDetail(Detail):
    """Every word with its tag and the tag's probability, and the spans that the tags mark.

    A token has ``text``, ``tag``, ``probability``, ``start`` and ``end`` (characters); a span ``type``, ``text``, ``start``,
    ``end``, and ``first`` and ``last`` (words).
    """

    tokens: tuple[Mapping[str, Any], ...] = ()
    spans: tuple[Mapping[str, Any], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"tokens": list(self.tokens), "spans": list(self.spans)}

    def lines(self) -> list[str]:
        """A word per line with its tag, as in CoNLL files."""
        width = max(len(token["text"]) for token in self.tokens)
        return [f"{token['text']:<{width}}  {token['tag']}" for token in self.tokens]


class Label(FineTunes, HasBaselines, Scores, Surveys, Task):
    """The task: how words become ids, the tags, and the rule for over-long sentences."""

    name = "label"
    Data = TaggedData
    record_types = (Tagged,)
    network_base = Tagger
    metrics = TAG_METRICS
    input = WORDS
    output = "tags"
    input_depth = 1
    length_setting = "data.max_length"
    survey = "tags"
    alternatives = False  # the likeliest tags are found exactly

    def __init__(self, data: TaggedData, reader: WordReader, tags: Tags, vectors: VectorMatch | None = None) -> None:
        self.data, self.reader, self.tags, self.vectors = data, reader, tags, vectors

    @property
    def tokenizer(self) -> Any:
        """The vocabulary of words or pieces."""
        return self.reader.tokenizer

    load = staticmethod(load_tagged)
    read_file = staticmethod(read_file)
    records = staticmethod(tagged_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Tagged] | None = None) -> list[str]:
        """Examples of the built-in source, or those of the first test sentences that are easy to type."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = self.load(self.data, folder, seed).test if test is None else test
        read = [self._first_part(record.source) for record in test[:100]]
        handy = sorted(read, key=lambda words: (typed(words) != " ".join(words), abs(len(words) - 12)))
        return [typed(words) for words in handy[:10]]

    def _first_part(self, words: Sequence[str]) -> Sequence[str]:
        """The words of the first row: under a lens an input must fit one row."""
        return words[: parts_of(self.reader.cut(words), self.data.max_length)[0].end]

    @classmethod
    def learn(cls, data: TaggedData, train: Sequence[Tagged]) -> Label:
        """The task of these training records: words, characters and tags are learnt from them alone."""
        reader, vectors = WordReader.learn([record.source for record in train], data.tokens, data.vectors)
        return cls(data, reader, Tags.of(train, data), vectors)

    @classmethod
    def adopt(cls, data: TaggedData, train: Sequence[Tagged], files: dict[str, str]) -> Label:
        """The task of these training records with the tokenizer of a pre-trained run of another task."""
        return cls(data, WordReader.restore(files, data.tokens), Tags.of(train, data))

    @classmethod
    def continue_from(cls, data: TaggedData, train: Sequence[Tagged], files: dict[str, str]) -> Label:
        """The saved task. Its tags are learnt again from these records if ``data.labels`` is given, if the learnt scheme is
        another, or if the records have a tag that it lacks."""
        saved = cls.restore(data, files)
        own = replace(saved.tags, scheme=data.scheme, learn=data.learn or data.scheme)
        met = {tag for record in train for tag in own.learnt(record.target)}
        same = data.labels is None and own.learn == saved.tags.learn and met <= set(own.names)
        return cls(data, saved.reader, own.counted(train) if same else Tags.of(train, data))

    @property
    def labels(self) -> tuple[str, ...]:
        return self.tags.names

    @property
    def vocabularies(self) -> dict[str, Any]:
        return {"text": self.tokenizer}

    @property
    def vectors_note(self) -> str:
        return "" if self.vectors is None else self.vectors.note

    @classmethod
    def restore(cls, data: TaggedData, files: dict[str, str]) -> Label:
        """The task that :meth:`files` saved."""
        if TAGS not in files:
            raise InputError(TAGS, expected="a file of the bundle", found="no such file")
        return cls(data, WordReader.restore(files, data.tokens), Tags.from_json(files[TAGS], TAGS))

    def files(self) -> dict[str, str]:
        return {**self.reader.files(), TAGS: self.tags.to_json()}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Tagged], where: str) -> Corpus:
        """A row is the list of a sentence's parts: over-long sentences are an error, or read in parts, as the recipe says."""
        corpus = corpus_of(records, self.reader, self.tags, self.data, f"{where}, sentence")
        counts = self.tags.described(records, training=where == "data.train")
        return replace(corpus, note=f"{where}: {'; '.join(filter(None, (counts, corpus.cut)))}")

    def row_name(self, corpus: Corpus, number: int) -> str:
        return f"sentence {number + 1} ({preview(' '.join(corpus.records[number].source))})"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        mark, rows = self.tokenizer, [row for number in numbers for row in corpus.rows[number]]
        batch = collate(rows, numbers, corpus.shared, first=mark.BOS, last=mark.EOS, padding=mark.PAD)
        return replace(batch, longest=self.data.max_length + MARKS)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        return {"text": sum(len(row.ids) for rows in corpus.rows for row in rows)}

    def unknown_tokens(self, corpus: Corpus) -> list[str]:
        return unknown_share([token for rows in corpus.rows for row in rows for token in row.ids], self.tokenizer)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> Tagger:
        if "labels" not in inspect.signature(network_class).parameters:
            expected = "a network that tags words, such as attentive_tagger"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: Tagger = network_class(config, **self.sizes())
        if network.wants_characters and not self.reader.alphabet:
            expected = "words, since the network reads their characters"
            raise InputError("recipe", field="data.tokens.kind", expected=expected, found=self.data.tokens.kind)
        marks = MARKS if network.layout == "marked" else 0
        if network.longest is not None and self.data.max_length + marks > network.longest:
            expected = (
                f"at most {network.longest - marks}: the network has {network.longest} positions with special tokens"
            )
            found = str(self.data.max_length)
            raise InputError("recipe", field="data.max_length", expected=expected, found=found)
        network.allow(None if self.tags.learn == "none" else torch.from_numpy(self.tags.moves))
        begin_words(network, self.vectors, is_frozen(self.data.vectors))
        return network

    def sizes(self, more: int = 0) -> dict[str, int]:
        tags = len(self.tags.names) + more
        return {"vocabulary": self.tokenizer.size, "labels": tags, "characters": self.reader.alphabet}

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−log p(tags), one unit per tag."""
        emissions, rows = self.emissions(network, batch)
        options = {"smoothing": smoothing} if smoothing else {}
        total: Tensor = network.loss(emissions, rows.tags, rows.lengths, **options)  # type: ignore[operator]
        return Loss(total, batch.tokens)

    def emissions(
        self, network: Any, batch: Batch, *, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B S K"], Batch]:
        """The network's emissions for a batch, and the rows as the network read them."""
        rows = batch.rows(network.layout)
        characters = rows.characters if network.wants_characters else None
        emissions: Tensor = network(rows.text, rows.lengths, characters=characters, lens=lens)
        return emissions, rows

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return word_columns(self.data.columns, names)

    def inputs_of_table(self, columns: Sequence[Name], rows: Iterable[Fields]) -> list[Any]:
        """The words of each row; of a table with one row per word, those of each sentence."""
        if len(columns) == 1:
            return super().inputs_of_table(columns, rows)
        sentences = by_word([list(column) for column in zip(*(row.values for row in rows), strict=True)])
        return [sentence.values[0] for sentence in sentences]

    def read(self, given: Any, where: str, network: Any = None) -> TagInput:
        """An input is a text, or a list of words."""
        item = read_words(given, where)
        ids, limit = self.reader.cut(item.words).ids, self.data.max_length
        if len(ids) > limit and self.data.too_long == "error":
            hint = f"set data.too_long: split, or data.max_length: {len(ids)}"
            raise InputError(where, expected=f"at most {limit} tokens", found=str(len(ids)), hint=hint)
        notes = [f"read in parts of at most {limit} tokens"] if len(ids) > limit else []
        return replace(item, notes=(*notes, *unknown_notes(ids, self.tokenizer.UNK)))

    def cost(self, item: TagInput) -> int:
        return len(self.reader.cut(item.words).ids) + MARKS

    def forward(
        self, network: Tagger, items: Sequence[TagInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The likeliest tags of each input's words."""
        outputs = self._outputs(network, self._rows(items), lens)
        return [self._prediction(item, output, lens, network) for item, output in zip(items, outputs, strict=True)]

    def predict_items(
        self,
        network: Tagger,
        items: Sequence[TagInput],
        *,
        how: Search,
        lens: Lens | None = None,
        progress: Progress | None = None,
    ) -> list[Prediction]:
        for number, item in enumerate(items if lens is not None else (), start=1):
            self._check_whole(item, f"input {number}")
        return super().predict_items(network, items, how=how, lens=lens, progress=progress)

    def _check_whole(self, item: TagInput, where: str) -> None:
        """Under a lens an input must fit one row, so that there is one map."""
        cut = self.reader.cut(item.words)
        if len(parts_of(cut, self.data.max_length)) > 1:
            expected = f"at most {self.data.max_length} tokens under a lens, so that there is one map"
            raise InputError(where, expected=expected, found=str(len(cut.ids)))

    def _rows(self, items: Sequence[TagInput]) -> Corpus:
        return corpus_of([Tagged(item.words, ()) for item in items], self.reader, self.tags, self.data, "input")

    def _outputs(self, network: Tagger, corpus: Corpus, lens: Lens | None = None) -> list[TagOutput]:
        """What the network predicts for each record, in batches of similar length."""
        outputs: dict[int, TagOutput] = {}
        for numbers in group(corpus.costs, most=self.together, positions=self.positions):
            batch_lens = lens.fresh() if lens is not None else None
            tags, shares, batch = self._decoded(network, corpus, numbers, batch_lens)
            records = rows_of(batch_lens.records if batch_lens is not None else (), len(tags), batch.text.device)
            row, offset = 0, MARKS // 2 if network.layout == "marked" else 0
            for number in numbers:
                chosen, likely, seen = list[int](), [], records[row]
                for part in corpus.rows[number]:
                    places = [place + offset for place in part.places]
                    chosen += tags[row, places].tolist()
                    likely.append(shares[row, places])
                    row += 1
                outputs[number] = TagOutput(chosen, torch.cat(likely), seen)
        return [outputs[number] for number in range(len(corpus))]

    @torch.no_grad()
    def _decoded(
        self, network: Tagger, corpus: Corpus, numbers: Sequence[int], lens: Lens | None
    ) -> tuple[Tensor, Tensor, Batch]:
        """The likeliest tags [B, S] and the probabilities of all [B, S, K] of one batch, on the CPU."""
        device = next(network.parameters()).device
        emissions, rows = self.emissions(network, self.batch(corpus, numbers).to(device), lens=lens)
        tags, shares = network.decode(emissions, rows.lengths, judged=rows.tags != IGNORED)
        return tags.cpu(), shares.float().cpu(), rows

    def _in_file_scheme(self, output: TagOutput) -> list[str]:
        """The predicted tags in the scheme of the file, which may differ from the learnt one."""
        return self.tags.said([self.tags.names[number] for number in output.tags])

    def _prediction(self, item: TagInput, output: TagOutput, lens: Lens | None, network: Tagger) -> Prediction:
        tags = self._in_file_scheme(output)
        chosen = output.shares[torch.arange(len(output.tags)), torch.tensor(output.tags)]
        log_prob = float(chosen.clamp_min(torch.finfo(torch.float32).tiny).log().sum())
        spans = answer_spans(item, tags) if self.tags.scheme != "none" else ()
        detail = TagDetail(answer_tokens(item, tags, chosen.tolist()), spans)
        prediction = Prediction(tags, float(chosen.mean()), log_prob, notes=item.notes, detail=detail)
        if lens is None:
            return prediction
        return replace(prediction, trace=self._trace(item, tags, output, lens, network, prediction))

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def _trace(
        self, item: TagInput, tags: list[str], output: TagOutput, lens: Lens, network: Tagger, prediction: Prediction
    ) -> Trace:
        trace = trace_of(item, tags, output.seen, self.reader, network.layout, last_site(network.sites))
        if lens.wants("outputs"):
            text = trace.axes["text"]
            places = first_pieces(text) if isinstance(text, Tokens) else ()
            learnt = [self.tags.names[number] for number in output.tags]
            trace = replace(trace, outputs=outputs_of(output.shares, learnt, places, self.tags, len(text)))
        about = {**self.about, "input": item.text, "output": " ".join(tags), "score": prediction.score}
        spans = {"spans": [dict(span) for span in prediction.spans]} if prediction.spans else {}
        return replace(trace, about={**trace.about, **about, **spans})

    def scorer(self, network: Tagger, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        """How likely these tags are, the predicted ones unless given; the steps are the words."""
        item = self.read(given, "input")
        self._check_whole(item, "input")
        if output is None:
            output = self.predict(network, [given], how=Search())[0].value
        tags = output.split() if isinstance(output, str) else list(output)
        numbers = self.tags.numbers(tags, "output")

        def score(lens: Lens) -> Scored:
            with eval_mode(network):
                (found,) = self._outputs(network, self._rows([item]), lens)
            trace = trace_of(item, tags, found.seen, self.reader, network.layout, last_site(network.sites))
            text: Any = trace.axes["text"]
            shares = found.shares[range(len(numbers)), numbers].tolist()
            return Scored(tuple(log(max(share, TINY)) for share in shares), trace, places=tuple(first_pieces(text)))

        return score

    # Figures ----------------------------------------------------------------------------------------------------------

    @property
    def known_metrics(self) -> tuple[str, ...]:
        """The metrics of these tags: those of spans only if the tags mark spans."""
        return self.metrics if self.tags.scheme != "none" else self.metrics[:1]

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise if a metric does not apply to these tags."""
        known = self.known_metrics
        unknown = [name for name in names if name not in known]
        if unknown:
            hint = "f1, precision and recall are of spans: data.scheme says how tags mark them"
            hinted = hint if unknown[0] in SPAN_METRICS else None
            raise InputError("metrics", expected=f"any of {', '.join(known)}", found=repr(unknown[0]), hint=hinted)

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return self.known_metrics

    def reference(self, record: Tagged) -> str:
        return " ".join(record.target)

    def source_text(self, record: Tagged) -> str:
        return " ".join(record.source)

    def length_of(self, record: Tagged, by: str) -> int:
        return len(self.reader.cut(record.source).ids) if by == "source_tokens" else super().length_of(record, by)

    def statistics(self, name: str, outputs: Sequence[str], records: Sequence[Tagged]) -> Statistics:
        """The per-record statistics of a metric, from outputs of :meth:`evaluate`."""
        predicted, true = [output.split() for output in outputs], [record.target for record in records]
        if name == "accuracy":
            return tag_accuracy(predicted, true)
        return span_statistics(name, [spans_of(tags) for tags in predicted], [spans_of(tags) for tags in true])

    def measure(
        self, network: Tagger, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """``accuracy`` of tags; ``f1``, ``precision`` and ``recall`` of spans. ``details`` has those of each type or tag."""
        with eval_mode(network):
            predicted = [self._in_file_scheme(output) for output in self._outputs(network, corpus)]
        outputs = [" ".join(tags) for tags in predicted]
        scores = {name: self.statistics(name, outputs, corpus.records) for name in metrics}
        details, confusion, note = self._details(predicted, [list(record.target) for record in corpus.records])
        return Evaluation.of(scores, outputs, [corpus.cut, note], details, confusion)

    def baselines(
        self, train: Sequence[Tagged], records: Sequence[Tagged], metrics: Sequence[str]
    ) -> dict[str, dict[str, float]]:
        """The most frequent tag of each word."""
        known = [(record.source, record.target) for record in train]
        outputs = [" ".join(tags) for tags in tags_by_word(known, [record.source for record in records])]
        return {
            "most frequent tag of each word": {name: self.statistics(name, outputs, records).value for name in metrics}
        }

    def _details(
        self, predicted: list[list[str]], true: list[list[str]]
    ) -> tuple[dict[str, dict[str, float]], Confusion, str]:
        """The metrics of each type of span, or of each tag, their confusion, and a summary in a sentence."""
        if self.tags.scheme != "none":
            spans = [spans_of(tags) for tags in predicted], [spans_of(tags) for tags in true]
            types = by_type(*spans)
            confusion = Confusion.of(span_pairs(*spans), list(types), "spans")
            shown = [f"{type} {figures['f1']:.3f} ({int(figures['count']):,})" for type, figures in types.items()]
            more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
            return types, confusion, f"f1 by type (spans): {', '.join(shown[:SHOWN])}{more}"
        wrong = mistaken(predicted, true, SHOWN // 2)
        confusions = ", ".join(f"{one} → {other} {count:,}" for one, other, count in wrong)
        pairs = chain.from_iterable(zip(*each, strict=True) for each in zip(true, predicted, strict=True))
        confusion = Confusion.of(pairs, self.labels, "words")
        return by_tag(predicted, true), confusion, f"most often confused: {confusions}" if confusions else ""
