"""Tags the words of a text: parts of speech, chunks, named entities. If tags mark spans, metrics are computed over spans.

A record becomes a row of ids (:mod:`saccade.data.tags.batch`), the network's emissions the loss of a softmax or a CRF

    loss = −log p(y₁ … yₙ | x₁ … xₙ)

A prediction is the likeliest tag sequence with each tag's probability; the rows of a trace are the words with their tags. The
network may learn another tagging scheme than the file's (``data.learn``); outputs are always in the file's scheme.

An input is a text, which is split into words as by the tokenizer ``words``: runs of letters and digits, and every other
character by itself. Words may be given instead, as a list or as JSON: ["U.N.", "official"] stays two words.

Legend: B batch, S positions, K tags.
"""

from __future__ import annotations

import inspect
import json
import re
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
from saccade.data.labels.batch import IGNORED, Layout
from saccade.data.tags.batch import MARKS, Batch, collate, corpus_of, parts_of
from saccade.data.tags.records import Tagged, TaggedData, by_word, load_tagged, read_file, tagged_of, word_columns
from saccade.data.tags.schemes import OUTSIDE, converted, may_follow, parted, spans_of, tags_with, types_in
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
    Loss,
    Prediction,
    Progress,
    Scored,
    Scores,
    Surveys,
    Task,
    check_positions,
    eval_mode,
    rows_of,
)
from saccade.tasks.scoring import TINY, unknown_share
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens, Record, Site, assemble
from saccade.trace.maps import Outputs, Trace

TAGS = "labels.json"
WORD = re.compile(r"(?:\w[\u0300-\u036f]*)+|[^\w\s]")
TEXT, TAG = "text", "tag"  # the axes of keys and queries
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


class Label(FineTunes, Scores, Surveys, Task):
    """The task: how words become ids, the tags, and the rule for over-long sentences."""

    name = "label"
    Data = TaggedData
    record_types = (Tagged,)
    network_base = Tagger
    metrics = TAG_METRICS
    baseline_names = ("most frequent tag of each word",)
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

    @classmethod
    def of_import(cls, data: TaggedData, tokenizer: Any, labels: Sequence[str], *, pairs: bool) -> Label:
        """The tags are predicted independently (``learn="none"``), as the imported network was trained."""
        tags = Tags(tuple(labels), (0,) * len(labels), scheme=data.scheme, learn="none")
        return cls(data, WordReader(tokenizer, data.tokens), tags)

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
        check_positions(network.longest, self.data, MARKS if network.layout == "marked" else 0)
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
        return self.tags.in_file_scheme([self.tags.names[number] for number in output.tags])

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
        (name,) = self.baseline_names
        return {name: {metric: self.statistics(metric, outputs, records).value for metric in metrics}}

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


@dataclass(frozen=True)
class TagInput:
    """An input: its text, its words, their character spans, and its notes."""

    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
    notes: tuple[str, ...] = ()


def read_words(given: Any, where: str) -> TagInput:
    """The words of an input: a text, a list of words, or such a list as JSON."""
    listed = _listed(given)
    if listed is None and not isinstance(given, str):
        raise InputError(where, expected="a text or a list of words", found=type(given).__name__)
    if listed is not None:
        wrong = next((word for word in listed if not isinstance(word, str) or not word.strip()), None)
        if wrong is not None or not listed:
            found = "an empty list" if not listed else repr(wrong)[:40]
            raise InputError(where, expected="words, each a text", found=found)
        words, start, spans = tuple(map(str, listed)), 0, list[tuple[int, int]]()
        for word in words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return TagInput(" ".join(words), words, tuple(spans))
    cut = tuple(match.span() for match in WORD.finditer(given))
    if not cut:
        raise InputError(where, expected="a text", found="nothing" if not given else "whitespace only")
    return TagInput(given, tuple(given[start:end] for start, end in cut), cut)


def _listed(given: Any) -> list[Any] | None:
    """The words, if they were given as a list or as JSON."""
    if isinstance(given, tuple | list):
        return list(given)
    if isinstance(given, str) and given.lstrip().startswith("["):
        try:
            listed = json.loads(given)
        except (ValueError, RecursionError):
            return None
        # "[3]" is a text; a list with a string in it, or an empty one, is a list of words.
        is_words = isinstance(listed, list) and (not listed or any(isinstance(word, str) for word in listed))
        return listed if is_words else None
    return None


def typed(words: Sequence[str]) -> str:
    """Words as a text, or as JSON if the text would be split into other words."""
    text = " ".join(words)
    return text if WORD.findall(text) == list(words) else json.dumps(list(words), ensure_ascii=False)


def answer_tokens(item: TagInput, tags: Sequence[str], shares: Sequence[float]) -> tuple[dict[str, Any], ...]:
    """Every word with its tag, the tag's probability and its characters."""
    rows = zip(item.words, tags, shares, item.spans, strict=True)
    return tuple(
        {"text": word, "tag": tag, "probability": share, "start": start, "end": end}
        for word, tag, share, (start, end) in rows
    )


def answer_spans(item: TagInput, tags: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """The spans that the tags mark; ``first`` and ``last`` count words from 0."""
    spans = []
    for start, end, type in spans_of(tags):
        first, last = item.spans[start][0], item.spans[end - 1][1]
        text = item.text[first:last]
        spans.append({"type": type, "text": text, "start": first, "end": last, "first": start, "last": end - 1})
    return tuple(spans)


def trace_of(
    item: TagInput,
    tags: Sequence[str],
    records: Sequence[Record],
    reader: WordReader,
    layout: Layout,
    last: str | None,
) -> Trace:
    """The labelled trace: keys are words; queries of the last site are words with their predicted tags. ``about["tags"]`` has
    the tag of each position, "" for special tokens and later pieces of a word."""
    text = _axis(item, reader, layout)
    labels, own = list(text.labels), [""] * len(text.labels)
    for place, tag in zip(first_pieces(text), tags, strict=True):
        labels[place], own[place] = f"{labels[place]} [{tag}]", tag
    axes: dict[str, Axis] = {TEXT: text, TAG: Tokens(tuple(labels), special=text.special, words=text.words)}
    made = assemble([_with_tag_queries(record, last) for record in records], 0) if records else Trace()
    return made.labelled(axes, tags=own)


def first_pieces(text: Tokens) -> list[int]:
    """The positions at which words begin, without special tokens."""
    before = [None, *text.words]
    return [place for place, word in enumerate(text.words) if word != before[place] and place not in text.special]


def _with_tag_queries(record: Record, last: str | None) -> Record:
    """A record of the last site gets the axis of tags for its queries; others stay as they are."""
    site = record.site
    if record.kind == "signal" or site.name != last or (site.query, site.key) != (TEXT, TEXT):
        return record
    return replace(record, site=replace(site, query=TAG))


def _axis(item: TagInput, reader: WordReader, layout: Layout) -> Tokens:
    """The positions of a row: words or their pieces, and special tokens."""
    cut, tokenizer = reader.cut(item.words), reader.tokenizer
    labels, spans, words = list[str](), list[tuple[int, int]](), list[int]()
    for number, (word, (start, end)) in enumerate(zip(item.words, item.spans, strict=True)):
        inside = [(0, len(word))] if reader.config.kind == "words" else tokenizer.spans(word) or [(0, len(word))]
        labels += [word[first:last] or "·" for first, last in inside]
        spans += [(min(start + first, end), min(start + last, end)) for first, last in inside]
        words += [number] * len(inside)
    if len(labels) != len(cut.ids):
        raise InputError("input", expected=f"{len(cut.ids)} tokens", found=f"{len(labels)} spans")
    special: tuple[int, ...] = ()
    if layout == "marked":
        begin, close = (tokenizer.pieces([mark])[0] for mark in (tokenizer.BOS, tokenizer.EOS))
        labels, spans = [begin, *labels, close], [(0, 0), *spans, (len(item.text), len(item.text))]
        words, special = [0, *(number + 1 for number in words), len(item.words) + 1], (0, len(labels) - 1)
    return Tokens(tuple(labels), text=item.text, spans=tuple(spans), words=tuple(words), special=special)


def outputs_of(
    shares: Float[Tensor, "words K"], predicted: Sequence[str], places: Sequence[int], tags: Tags, rows: int
) -> Outputs:
    """The probabilities of the file's tags at each word, the likeliest first; ``places`` are the words' rows of ``rows``
    positions. Positions where no word begins have no tag."""
    names, summed = file_shares(shares, predicted, tags)
    likeliest, order = summed.sort(dim=-1, descending=True)  # [words, tags of the file]
    probability, index = (part.new_zeros(rows, len(names)) for part in (likeliest, order))
    probability[list(places)], index[list(places)] = likeliest, order
    labels: list[tuple[str, ...]] = [()] * rows
    for place, row in zip(places, order.tolist(), strict=True):
        labels[place] = tuple(names[number] for number in row)
    return Outputs(TAG, tuple(labels), probability, index)


def file_shares(
    shares: Float[Tensor, "words K"], predicted: Sequence[str], tags: Tags
) -> tuple[tuple[str, ...], Float[Tensor, "words tags"]]:
    """The file's tags and their probability at each word: learnt tags that convert to the same tag are summed."""
    if tags.learn == tags.scheme:
        return tags.names, shares
    names = tuple(tags_with(types_in(tags.names), tags.scheme))
    number = {name: place for place, name in enumerate(names)}
    around = [OUTSIDE, *predicted, OUTSIDE]
    summed = shares.new_zeros(len(predicted), len(names))
    for word, (before, after) in enumerate(zip(around[:-2], around[2:], strict=True)):
        becomes = [number[_in_file_scheme(before, tag, after, tags)] for tag in tags.names]
        summed[word].index_add_(0, torch.tensor(becomes, device=shares.device), shares[word])
    return names, summed


def _in_file_scheme(before: str, tag: str, after: str, tags: Tags) -> str:
    """A learnt tag in the file's scheme, given the predicted tags before and after it."""
    mark, type = parted(tag)
    if mark in "IE" and not may_follow(before, tag, tags.learn):
        # An inside tag continues a span, so one must begin before it, whatever tag was predicted there.
        before = f"B-{type}"
    return converted([before, tag, after], tags.scheme)[1]


def last_site(sites: Sequence[Site]) -> str | None:
    """The name of the last attention site before the tags are predicted."""
    return sites[-1].name if sites else None
