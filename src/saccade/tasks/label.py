"""Words → a tag each: parts of speech, chunks, names. Tags may mark spans of words, which are then what is counted.

A record becomes a row of ids (:mod:`saccade.data.tags.batch`), the network's emissions a loss by its softmax or its CRF

    loss = −log p(y₁ … yₙ | x₁ … xₙ)

a prediction the likeliest tags of the words together, with each tag's probability, and what the network looked at a trace whose
rows are the words with their tags. What a network is taught may be another scheme than the file's (``data.learn``); everything
that is told is told in the file's.

Legend: B batch, S positions, K tags.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.data.batching import plan
from saccade.data.labels.batch import IGNORED
from saccade.data.reading import FaultCounts
from saccade.data.splits import Splits
from saccade.data.tags.batch import MARKS, Batch, Corpus, collate, corpus_of, parts_of, together
from saccade.data.tags.records import Tagged, TaggedData, load_tagged, read_file, tagged_of
from saccade.data.tags.schemes import spans_of
from saccade.data.tags.tagset import Tags
from saccade.data.tokenizers.tokenizer import unknown_notes
from saccade.data.tokenizers.vectors import VectorMatch, is_frozen
from saccade.data.tokenizers.words import WordReader
from saccade.data.toy.repeats import EXAMPLES
from saccade.errors import InputError, SaccadeError, preview
from saccade.metrics.labels import SPAN_METRICS, TAG_METRICS, by_tag, by_type, mistaken, span_statistics, tag_accuracy
from saccade.metrics.significance import Statistics
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.nn.tagger import Tagger
from saccade.nn.word_vectors import begin_words
from saccade.task import Evaluation, Loss, Prediction
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
from saccade.tasks.unsupported import refuse_sampling
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace
from saccade.training.evaluation import eval_mode

TAGS = "labels.json"
SHOWN = 12  # types of span, or mistakes, that an evaluation names


@dataclass(frozen=True)
class TagOutput:
    """What the network says to a record: learnt tags, by number, and the probabilities of all [words, K]; what it looked at."""

    tags: list[int]
    shares: Float[Tensor, "words K"]
    seen: list[Record]


class Label:
    """The task: how words become ids, the tags, and the rules for over-long sentences."""

    name = "label"
    metrics = TAG_METRICS
    searches = False  # tags are found exactly: beams mean nothing
    alternatives = False  # nor are the next likeliest

    def __init__(self, data: TaggedData, reader: WordReader, tags: Tags, found: VectorMatch | None = None) -> None:
        self.data, self.reader, self.tags, self.found = data, reader, tags, found

    @property
    def tokenizer(self) -> Any:
        """The vocabulary of words or pieces."""
        return self.reader.tokenizer

    @staticmethod
    def check_recipe(recipe: Any) -> None:
        """Raise where a setting means nothing to this task."""
        refuse_sampling(recipe)

    @staticmethod
    def load(data: TaggedData, folder: Path, seed: int) -> Splits:
        return load_tagged(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: TaggedData) -> list[Tagged]:
        return read_file(path, data)

    @staticmethod
    def records(given: Any, data: TaggedData, left_out: FaultCounts | None = None) -> list[Tagged]:
        return tagged_of(given, data, left_out)

    def examples(self, folder: Path, seed: int, test: Sequence[Tagged] | None = None) -> list[str]:
        """Inputs worth looking at: the built-in source's own, or of the first test sentences those that are handy to type."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = load_tagged(self.data, folder, seed).test if test is None else test
        read = [self._beginning(record.source) for record in test[:100]]
        handy = sorted(read, key=lambda words: (typed(words) != " ".join(words), abs(len(words) - 12)))
        return [typed(words) for words in handy[:10]]

    def _beginning(self, words: Sequence[str]) -> Sequence[str]:
        """As many of the words as are read whole: what is looked at must be."""
        return words[: parts_of(self.reader.cut(words), self.data.max_length)[0].end]

    @classmethod
    def learn(cls, data: TaggedData, train: Sequence[Tagged]) -> Label:
        """The task of these training records: words, characters and tags are learnt from them alone."""
        reader, found = WordReader.learn([record.source for record in train], data.tokens, data.vectors)
        return cls(data, reader, Tags.of(train, data), found)

    @classmethod
    def adopt(cls, data: TaggedData, train: Sequence[Tagged], files: dict[str, str]) -> Label:
        """The task of these training records with the tokenizer of a run of another task, which was pre-trained."""
        return cls(data, WordReader.restore(files, data.tokens), Tags.of(train, data))

    @classmethod
    def go_on(cls, data: TaggedData, train: Sequence[Tagged], files: dict[str, str]) -> Label:
        """The task that :meth:`files` kept, for a run that begins from it. Where ``data.labels`` is given, tags are learnt in
        another scheme, or these training records have one that it lacks, the tags are those of the records."""
        kept = cls.restore(data, files)
        own = replace(kept.tags, scheme=data.scheme, learn=data.learn or data.scheme)
        met = {tag for record in train for tag in own.learnt(record.target)}
        same = data.labels is None and own.learn == kept.tags.learn and met <= set(own.names)
        return cls(data, kept.reader, own.counted(train) if same else Tags.of(train, data))

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the network chooses among."""
        return self.tags.names

    def unknown(self, corpus: Corpus) -> tuple[int, int]:
        """How many tokens the vocabulary lacks, and how many there are."""
        ids = [token for rows in corpus.rows for row in rows for token in row.ids]
        return ids.count(self.tokenizer.UNK), len(ids)

    @classmethod
    def restore(cls, data: TaggedData, files: dict[str, str]) -> Label:
        """The task that :meth:`files` kept."""
        if TAGS not in files:
            raise InputError(TAGS, expected="a file of the bundle", found="no such file")
        return cls(data, WordReader.restore(files, data.tokens), Tags.from_json(files[TAGS], TAGS))

    def files(self) -> dict[str, str]:
        return {**self.reader.files(), TAGS: self.tags.to_json()}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Tagged], where: str) -> Corpus:
        """Records as rows; over-long ones are an error, or read in parts, as the recipe says."""
        made = corpus_of(records, self.reader, self.tags, self.data, f"{where}, sentence")
        told = self.tags.told(records, training=where == "data.train")
        return replace(made, note=f"{where}: {'; '.join(filter(None, (told, made.parted)))}")

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        sizes = [sum(len(row.ids) + MARKS for row in rows) for rows in corpus.rows]
        longest = max(range(len(sizes)), key=sizes.__getitem__, default=0)
        if tokens is not None and sizes and sizes[longest] > tokens:
            sentence = f"sentence {longest + 1} ({preview(' '.join(corpus.records[longest].source))})"
            raise SaccadeError(
                f"{sentence} does not fit into a batch of {tokens} tokens: it has {sizes[longest]}, its marks "
                "counted; raise train.batch_tokens"
            )
        lengths = [(size - 1, 0) for size in sizes]  # plan() counts one more, the end of a side
        return plan(lengths, tokens=tokens, sentences=records, seed=seed, epoch=epoch)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        mark, rows = self.tokenizer, [row for number in numbers for row in corpus.rows[number]]
        made = collate(rows, numbers, corpus.letters, first=mark.BOS, last=mark.EOS, padding=mark.PAD)
        return replace(made, longest=self.data.max_length + MARKS)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> Tagger:
        if "labels" not in inspect.signature(network_class).parameters:
            expected = "a network that reads words and says a tag for each, such as attentive_tagger"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: Tagger = network_class(config, **self.sizes())
        if network.wants_characters and not self.reader.alphabet:
            expected = "words, where the network reads their characters"
            raise InputError("recipe", field="data.tokens.kind", expected=expected, found=self.data.tokens.kind)
        marks = MARKS if network.layout == "marked" else 0
        if network.longest is not None and self.data.max_length + marks > network.longest:
            expected = (
                f"at most {network.longest - marks}, since the network reads {network.longest} positions, marks counted"
            )
            found = str(self.data.max_length)
            raise InputError("recipe", field="data.max_length", expected=expected, found=found)
        network.allow(None if self.tags.learn == "none" else torch.from_numpy(self.tags.moves))
        begin_words(network, self.found, is_frozen(self.data.vectors))
        return network

    def sizes(self, more: int = 0) -> dict[str, int]:
        """What a network is made for, beside its fields; with ``more`` tags than there are."""
        tags = len(self.tags.names) + more
        return {"vocabulary": self.tokenizer.size, "labels": tags, "characters": self.reader.alphabet}

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """−log p(tags), a unit a tag; ``sampling`` means nothing where tags are said all at once."""
        if sampling:
            raise SaccadeError(f"train.sampling must be 0 for the task label: got {sampling}")
        emissions, rows = self.emissions(network, batch)
        options = {"smoothing": smoothing} if smoothing else {}
        found: Tensor = network.loss(emissions, rows.tags, rows.lengths, **options)  # type: ignore[operator]
        return Loss(found, batch.tokens)

    def emissions(
        self, network: Any, batch: Batch, *, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B S K"], Batch]:
        """What the network says to a batch, and its rows laid out as the network read them."""
        rows = batch.rows(network.layout)
        characters = rows.characters if network.wants_characters else None
        found: Tensor = network(rows.text, rows.lengths, characters=characters, lens=lens)
        return found, rows

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def predict(
        self, network: Tagger, inputs: Sequence[Any], *, how: Search, lens: Lens | None = None
    ) -> list[Prediction]:
        """The tags of each input's words: an input is a text, or a list of words."""
        if how.sample is not None or how.diverse is not None or how.n_best > 1:
            raise SaccadeError("the task label says the likeliest tags: it does not sample, and has no n-best list")
        asked = [self._read(each, number) for number, each in enumerate(inputs)]
        corpus = self._inputs(asked, lens)
        with eval_mode(network):
            found = self._said(network, corpus, lens)
        if lens is not None and inputs:
            lens.check()
        return [self._prediction(one, said, lens, network) for one, said in zip(asked, found, strict=True)]

    def check_input(self, given: Any, number: int) -> None:
        """Raise where this input, the ``number``-th from 0, cannot be read."""
        self._inputs([self._read(given, number)], None, first=number + 1)

    def _read(self, given: Any, number: int) -> TagInput:
        asked = read_words(given, f"input {number + 1}")
        ids = self.reader.cut(asked.words).ids
        notes = [f"read in parts of at most {self.data.max_length} tokens"] if len(ids) > self.data.max_length else []
        notes += unknown_notes(ids, self.tokenizer.UNK)
        return replace(asked, notes=tuple(notes))

    def _inputs(self, asked: Sequence[TagInput], lens: Lens | None, first: int = 1) -> Corpus:
        """Inputs as rows; one that is looked at is read whole."""
        records = [Tagged(one.words, ()) for one in asked]
        corpus = corpus_of(records, self.reader, self.tags, self.data, "input", first)
        parted = next((number for number, rows in enumerate(corpus.rows) if len(rows) > 1), None)
        if lens is not None and parted is not None:
            expected = f"at most {self.data.max_length} tokens where it is looked at, so that there is one map"
            raise InputError(f"input {parted + first}", expected=expected, found=str(len(corpus.ids[parted])))
        return corpus

    def _said(self, network: Tagger, corpus: Corpus, lens: Lens | None = None) -> list[TagOutput]:
        """What the network says to each record, in batches of similar length."""
        made: dict[int, TagOutput] = {}
        for numbers in together(corpus):
            looking = lens.fresh() if lens is not None else None
            tags, shares, batch = self._decoded(network, corpus, numbers, looking)
            records, row = looking.records if looking is not None else [], 0
            for number in numbers:
                chosen, likely, seen = list[int](), [], list[Record]()
                if records:
                    seen = [record.select(torch.tensor([row], device=batch.text.device)) for record in records]
                for part in corpus.rows[number]:
                    places = [place + (MARKS // 2 if network.layout == "marked" else 0) for place in part.places]
                    chosen += tags[row, places].tolist()
                    likely.append(shares[row, places])
                    row += 1
                made[number] = TagOutput(chosen, torch.cat(likely), seen)
        return [made[number] for number in range(len(corpus))]

    @torch.no_grad()
    def _decoded(
        self, network: Tagger, corpus: Corpus, numbers: Sequence[int], lens: Lens | None
    ) -> tuple[Tensor, Tensor, Batch]:
        """The likeliest tags [B, S] and the probabilities of all [B, S, K] of one batch, on the CPU."""
        device = next(network.parameters()).device
        emissions, rows = self.emissions(network, self.batch(corpus, numbers).to(device), lens=lens)
        tags, shares = network.decode(emissions, rows.lengths, judged=rows.tags != IGNORED)
        return tags.cpu(), shares.float().cpu(), rows

    def _told(self, said: TagOutput) -> list[str]:
        return self.tags.said([self.tags.names[number] for number in said.tags])

    def _prediction(self, asked: TagInput, said: TagOutput, lens: Lens | None, network: Tagger) -> Prediction:
        tags = self._told(said)
        chosen = said.shares[torch.arange(len(said.tags)), torch.tensor(said.tags)]
        shares = chosen.tolist()
        log_prob = float(chosen.clamp_min(torch.finfo(torch.float32).tiny).log().sum())
        made = Prediction(
            tags,
            score=float(chosen.mean()),
            log_prob=log_prob,
            notes=asked.notes,
            tokens=answer_tokens(asked, tags, shares),
            spans=answer_spans(asked, tags) if self.tags.scheme != "none" else (),
        )
        return made if lens is None else replace(made, trace=self._trace(asked, tags, said, lens, network, made))

    # What it looked at becomes a labelled trace -----------------------------------------------------------------------

    def _trace(
        self, asked: TagInput, tags: list[str], said: TagOutput, lens: Lens, network: Tagger, made: Prediction
    ) -> Trace:
        trace = trace_of(asked, tags, said.seen, self.reader, network.layout, last_site(network.sites))
        if lens.wants("outputs"):
            text = trace.axes["text"]
            places = first_pieces(text) if isinstance(text, Tokens) else ()
            learnt = [self.tags.names[number] for number in said.tags]
            trace = replace(trace, outputs=outputs_of(said.shares, learnt, places, self.tags, len(text)))
        about = {"task": self.name, "input": asked.text, "output": " ".join(tags), "score": made.score}
        spans = {"spans": [dict(span) for span in made.spans]} if made.spans else {}
        return replace(trace, about={**trace.about, **about, **spans})

    def force(
        self, network: Tagger, given: Any, tags: Sequence[str], lens: Lens
    ) -> tuple[list[float], list[int], Trace]:
        """The probabilities of these tags, the positions of their words in a row, and what was looked at meanwhile."""
        asked = self._read(given, 0)
        with eval_mode(network):
            (said,) = self._said(network, self._inputs([asked], lens), lens)
        trace = trace_of(asked, tags, said.seen, self.reader, network.layout, last_site(network.sites))
        numbers = self.tags.numbers(tags, "output")
        text = trace.axes["text"]
        return said.shares[range(len(numbers)), numbers].tolist(), first_pieces(text), trace  # type: ignore[arg-type]

    # Figures ----------------------------------------------------------------------------------------------------------

    @property
    def known_metrics(self) -> tuple[str, ...]:
        """The metrics that these tags have: those of spans only where they mark some."""
        return self.metrics if self.tags.scheme != "none" else self.metrics[:1]

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise where a metric is asked for that these tags do not have."""
        known = self.known_metrics
        unknown = [name for name in names if name not in known]
        if unknown:
            hint = "f1, precision and recall are of spans: data.scheme says how tags mark them"
            hinted = hint if unknown[0] in SPAN_METRICS else None
            raise InputError("metrics", expected=f"any of {', '.join(known)}", found=repr(unknown[0]), hint=hinted)

    def statistics(self, name: str, outputs: Sequence[str], records: Sequence[Tagged]) -> Statistics:
        """What a metric is computed from, of outputs as :meth:`evaluate` gives them."""
        said, true = [output.split() for output in outputs], [record.target for record in records]
        if name == "accuracy":
            return tag_accuracy(said, true)
        return span_statistics(name, [spans_of(each) for each in said], [spans_of(each) for each in true])

    def evaluate(
        self, network: Tagger, corpus: Corpus, *, how: Search, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """``accuracy`` of tags; ``f1``, ``precision`` and ``recall`` of spans. ``details`` has those of each type or tag."""
        self.check_metrics(metrics)
        corpus = corpus.first(limit)
        with eval_mode(network):
            said = [self._told(each) for each in self._said(network, corpus)]
        true = [list(record.target) for record in corpus.records]
        outputs = [" ".join(tags) for tags in said]
        found = {name: self.statistics(name, outputs, corpus.records) for name in metrics}
        details, note = self._details(said, true)
        return Evaluation(
            {name: each.value for name, each in found.items()},
            {name: each.signature for name, each in found.items() if each.signature},
            {name: each.higher_is_better for name, each in found.items()},
            outputs,
            tuple(filter(None, (corpus.parted, note))),
            details,
        )

    def _details(self, said: list[list[str]], true: list[list[str]]) -> tuple[dict[str, dict[str, float]], str]:
        """The figures of each type of span, or of each tag, and the gist of them in a sentence."""
        if self.tags.scheme != "none":
            types = by_type([spans_of(tags) for tags in said], [spans_of(tags) for tags in true])
            each = [f"{type} {figures['f1']:.3f} ({int(figures['count']):,})" for type, figures in types.items()]
            more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
            return types, f"f1 by type (spans): {', '.join(each[:SHOWN])}{more}"
        wrong = mistaken(said, true, SHOWN // 2)
        told = ", ".join(f"{one} → {other} {count:,}" for one, other, count in wrong)
        return by_tag(said, true), f"most often mistaken: {told}" if told else ""
