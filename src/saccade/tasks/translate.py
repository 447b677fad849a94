"""Translates a text into a text: translation, dates, spelling, transliteration.

The first task to read: a pair of texts becomes a batch of ids, the network's logits a loss, its search a prediction, and its
attention a trace labelled with the tokens of both texts.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from saccade.data.batching import CLOSING, Corpus
from saccade.data.config import CUT, fit, fit_all
from saccade.data.files.records import Name
from saccade.data.pairs.batch import Batch, collate
from saccade.data.pairs.records import GroupedPair, Pair, PairData, load_splits, pairs_of, read_file
from saccade.data.reading import FaultCounts
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.data.tokenizers.writing import WRITING, Writing
from saccade.data.toy import examples
from saccade.errors import InputError
from saccade.kinds import TEXT
from saccade.metrics.text import TEXT_METRICS, Score, perplexity, score
from saccade.models import name_of
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import mask_of
from saccade.nn.search.beam_search import Hypothesis, Search
from saccade.task import (
    Evaluation,
    Loss,
    OutputConstraints,
    Prediction,
    Progress,
    Scored,
    Scores,
    Steers,
    Surveys,
    check_text,
    eval_mode,
)
from saccade.tasks.decoding import (
    Decodes,
    Searched,
    constrained,
    read_and_search,
    recorder_of,
    trace_of,
    unfinished,
)
from saccade.tasks.scoring import FIXED, share
from saccade.tasks.steering import Spelling, TokenConstraints, source_word
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

SHARED, SOURCE, TARGET = "tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"
SHOWN = 8  # unknown tokens that are named


@dataclass(frozen=True)
class TranslateInput:
    """An input: its text, its ids, its notes, and the constraints on its output."""

    text: str
    ids: list[int]
    notes: tuple[str, ...] = ()
    wanted: TokenConstraints = field(default_factory=TokenConstraints)
    dictionary: Mapping[str, str] = field(default_factory=dict)  # source word → target word


class Translate(Steers, Scores, Surveys, Decodes):
    """The task: two tokenizers and the rule for over-long texts."""

    name = "translate"
    Data = PairData
    record_types = (Pair, GroupedPair)
    network_base = EncoderDecoder
    metrics = TEXT_METRICS
    input = TEXT
    output = "text"
    length_setting = "data.max_length"
    survey = "pairs"
    aligns = True
    takes_dictionary = True

    def __init__(self, data: PairData, source: Tokenizer, target: Tokenizer, writing: Writing | None = None) -> None:
        self.data, self.source, self.target, self.writing = data, source, target, writing

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        """Every setting applies to this task."""

    load = staticmethod(load_splits)
    read_file = staticmethod(read_file)

    @staticmethod
    def records(given: Any, data: PairData, dropped: FaultCounts | None = None) -> list[Pair]:
        return pairs_of(given, data.columns, dropped)

    def examples(self, folder: Path, seed: int, test: Sequence[Pair] | None = None) -> list[str]:
        """Examples of the built-in source, or the first test inputs."""
        if toy := examples(self.data.source):
            return toy
        return super().examples(folder, seed, test)

    @classmethod
    def learn(cls, data: PairData, train: Sequence[Pair]) -> Translate:
        """The task of these training pairs: its vocabularies are learnt from them alone."""
        sources, targets = [pair.source for pair in train], [pair.target for pair in train]
        if data.shared:
            both = Tokenizer.train([*sources, *targets], data.tokens)
            return cls(data, both, both, Writing.learn(targets, both))
        written = Tokenizer.train(targets, data.target_tokens or data.tokens)
        return cls(data, Tokenizer.train(sources, data.tokens), written, Writing.learn(targets, written))

    @classmethod
    def restore(cls, data: PairData, files: dict[str, str]) -> Translate:
        """The task that :meth:`files` saved."""
        names = (SHARED, SHARED) if SHARED in files else (SOURCE, TARGET)
        missing = [name for name in names if name not in files]
        if missing:
            raise InputError(missing[0], expected="a tokenizer in the bundle", found="no such file")
        source = Tokenizer.from_json(files[names[0]], names[0])
        target = source if SHARED in files else Tokenizer.from_json(files[names[1]], names[1])
        return cls(data, source, target, Writing.from_json(files[WRITING], WRITING) if WRITING in files else None)

    def files(self) -> dict[str, str]:
        writing = {} if self.writing is None else {WRITING: self.writing.to_json()}
        if self.source is self.target:
            return {SHARED: self.source.to_json(), **writing}
        return {SOURCE: self.source.to_json(), TARGET: self.target.to_json(), **writing}

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"source": self.source, "target": self.target}

    def describe(self) -> dict[str, Any]:
        languages = self.data.dates.languages if self.data.source == "dates" else ()
        return {**super().describe(), "languages": languages}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Pair], where: str) -> Corpus:
        """A row is (source ids, target ids)."""
        sources = [pair.source for pair in records]
        targets = self.target.encode_all([pair.target for pair in records])
        encoded = list(zip(self.source.encode_all(sources), targets, strict=True))
        fitted = fit_all(encoded, self.data.max_length, self.data.too_long, where, sources)
        cut = f"{where}: {fitted}" if fitted.cut_pairs else ""
        return Corpus(records, fitted.pairs, [(len(source), len(target)) for source, target in fitted.pairs], cut, cut)

    def row_name(self, corpus: Corpus, number: int) -> str:
        source, target = corpus.rows[number]
        return f"pair {number + 1}, of {len(source)} source and {len(target)} target tokens,"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        return collate([corpus.rows[number] for number in numbers], numbers)

    def token_counts(self, corpus: Corpus) -> dict[str, int]:
        return {
            side: sum(len(row[place]) + CLOSING for row in corpus.rows)
            for place, side in enumerate(("source", "target"))
        }

    def unknown_tokens(self, corpus: Corpus) -> list[str]:
        notes = []
        for side, (name, tokenizer) in enumerate(self.vocabularies.items()):
            ids = [row[side] for row in corpus.rows]
            unknown, tokens = sum(row.count(Tokenizer.UNK) for row in ids), sum(map(len, ids))
            if unknown:
                which = _unknown_tokens(tokenizer, [getattr(pair, name) for pair in corpus.records], ids)
                shown = " ".join(repr(token) for token, _ in which.most_common(SHOWN))
                more = " …" if len(which) > SHOWN else ""
                counts = share(f"data.train, {name}", unknown, tokens)
                notes.append(f"{counts} and become <unk>: {shown}{more}. {FIXED}")
        return notes

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> EncoderDecoder:
        if "source_size" not in inspect.signature(network_class).parameters:
            expected = "a network that reads and writes tokens (seq2seq, rnnsearch, luong, transformer)"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        if getattr(config, "one_vocabulary", False) and self.source is not self.target:
            expected = "one vocabulary for source and target"
            hint = "set data.shared: true, or tie fewer weights"
            raise InputError("recipe", field="model.tied", expected=expected, found="two vocabularies", hint=hint)
        network: EncoderDecoder = network_class(config, self.source.size, self.target.size)
        longest = getattr(network, "longest", None)
        if longest is not None and longest < self.data.max_length + CLOSING:
            expected = f"at least {self.data.max_length + CLOSING}: data.max_length and the end token"
            raise InputError("recipe", field="model.places", expected=expected, found=f"{longest}")
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        logits = network(batch.source, batch.source_lengths, batch.target_in, sampling=sampling)
        return Loss(sequence_loss(logits, batch.target_out, padding=Tokenizer.PAD, smoothing=smoothing), batch.tokens)

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return (self.data.columns.source_among(names),)

    def read(self, given: Any, where: str, network: Any = None) -> TranslateInput:
        """An input is a text."""
        return self._fitted(check_text(given, where), self.source.encode(given), where)

    def read_all(self, inputs: Sequence[Any], network: Any = None) -> list[TranslateInput]:
        texts = [check_text(given, f"input {number}") for number, given in enumerate(inputs, start=1)]
        encoded = enumerate(zip(texts, self.source.encode_all(texts), strict=True), start=1)
        return [self._fitted(text, ids, f"input {number}") for number, (text, ids) in encoded]

    def _fitted(self, text: str, ids: list[int], where: str) -> TranslateInput:
        ids, cut = fit(ids, self.data.max_length, self.data.too_long, where)
        notes = [f"{CUT} its first {self.data.max_length} tokens"] if cut else []
        return TranslateInput(text, ids, (*notes, *unknown_notes(ids, Tokenizer.UNK)))

    def constrain(
        self,
        items: Sequence[TranslateInput],
        constraints: Sequence[OutputConstraints],
        dictionary: Mapping[str, str],
    ) -> list[TranslateInput]:
        """``dictionary`` translates source words that are copied."""
        return constrained(self.spelling, [replace(item, dictionary=dictionary) for item in items], constraints)

    def cost(self, item: TranslateInput) -> int:
        return len(item.ids)

    @cached_property
    def spelling(self) -> Spelling:
        """How outputs are spelt."""
        return Spelling(self.target)

    def search_batch(
        self, network: EncoderDecoder, items: Sequence[TranslateInput], how: Search, lens: Lens | None
    ) -> list[Searched]:
        batch = collate([(item.ids, []) for item in items], range(len(items)))
        # A length that no sensible output exceeds (GroundHog allows three times the source); a note says if it is reached.
        limits = [3 * (len(item.ids) + 1) + 10 + item.wanted.length for item in items]
        longest = getattr(network, "longest", None)
        if longest is not None:
            limits = [min(limit, longest) for limit in limits]
        constrains = any(item.wanted != TokenConstraints() for item in items)
        return read_and_search(
            network, batch.source, batch.source_lengths, limits, how, bos=Tokenizer.BOS, eos=Tokenizer.EOS,
            forbidden=(Tokenizer.PAD, Tokenizer.BOS), lens=lens,
            constraints=[item.wanted.constraints for item in items] if constrains else None,
            words=mask_of(batch.source_lengths - 1, batch.source.shape[1]),  # without EOS
            begins=self.spelling.begins if constrains else None, recorder=recorder_of(network),
        )  # fmt: skip

    def prediction_of(
        self,
        item: TranslateInput,
        found: Hypothesis,
        read: list[Record],
        how: Search,
        lens: Lens | None,
    ) -> Prediction:
        replaced, notes = dict(item.wanted.given), [*item.notes, *item.wanted.notes, *item.wanted.missed(found)]
        if found.stopped == "length":
            notes.append("reached the length limit without an end")
        if how.unknown == "copy":
            copied = self._copied(item, found)
            replaced |= {number: word for number, (_, word) in copied.items()}
            notes += [f"<unk> replaced by {word!r}, for {source!r} in the input" for source, word in copied.values()]
        value = self.spelling.written(found.tokens, replaced) if replaced else self.target.decode(found.tokens, "<unk>")
        trace = None if lens is None else self._trace(item.text, value, found, read, replaced)
        parts = how.parts(found)
        written = value if self.writing is None else self.writing.write(value)
        readable = written if written != value else ""
        return Prediction(
            value, found.score, found.log_prob, found.stopped, tuple(notes), trace, parts=parts, readable=readable
        )

    def _copied(self, item: TranslateInput, found: Hypothesis) -> dict[int, tuple[str, str]]:
        """For each <unk> the source word with the most attention and its replacement (Luong et al. 2015, Jean et al. 2015)."""
        copied: dict[int, tuple[str, str]] = {}
        given = item.wanted.given
        unknown = [n for n, token in enumerate(found.tokens) if token == Tokenizer.UNK and n not in given]
        spans = self.source.spans(item.text) if unknown else []
        for number in unknown:
            if found.looked[number] >= 0:
                whole = self.target.config.kind == "words"
                source = source_word(item.text, spans[found.looked[number]], whole)
                # In the normal form of outputs: lower-cased, if the tokenizer does so.
                dictionary = item.dictionary
                word = self.target.canonical(dictionary.get(source, dictionary.get(source.lower(), source)))
                together = {**given, **{n: text for n, (_, text) in copied.items()}, number: word}
                if word and not self.spelling.says(self.spelling.written(found.tokens, together), item.wanted.barred):
                    copied[number] = (source, word)
        return copied

    # Attention becomes a labelled trace -------------------------------------------------------------------------------

    def _trace(
        self, text: str, value: str, hypothesis: Hypothesis, read: list[Record], replaced: Mapping[int, str]
    ) -> Trace:
        target = self.target_axis(hypothesis)
        if replaced:
            marked = [f"‹{replaced[n]}›" if n in replaced else label for n, label in enumerate(target.labels)]
            target = replace(target, labels=tuple(marked), text=value)
        axes = {"source": self.source_axis(text), "target": target}
        if any(record.site.key == "prefix" for record in hypothesis.records):
            axes["prefix"] = self.prefix_axis(target)
        return trace_of(hypothesis, read, axes, self.target.pieces, **self.about, input=text, output=value)

    def source_axis(self, text: str) -> Tokens:
        """The source tokens, each labelled with its text in the input, EOS last."""
        spans = self.source.spans(text)[: self.data.max_length]
        written = [text[start:end] or "·" for start, end in spans]
        labels = (*written, *self.source.pieces([Tokenizer.EOS]))
        return Tokens(labels, text=text, spans=(*spans, (len(text), len(text))), special=(len(spans),))

    def target_axis(self, hypothesis: Hypothesis) -> Tokens:
        ended = [Tokenizer.EOS] if hypothesis.stopped == "eos" else []
        labels = tuple(self.target.pieces([*hypothesis.tokens, *ended]))
        return Tokens(labels, text=self.target.decode(hypothesis.tokens), special=(len(labels) - 1,) if ended else ())

    def prefix_axis(self, target: Tokens) -> Tokens:
        """The decoder inputs at each step of the target, for self-attention: BOS, then the tokens except the last."""
        return Tokens((*self.target.pieces([Tokenizer.BOS]), *target.labels[:-1]), text=target.text, special=(0,))

    # Figures ----------------------------------------------------------------------------------------------------------

    def measure(
        self, network: EncoderDecoder, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """The named metrics of the network's outputs; ``perplexity`` is that of the true targets."""
        scores, notes, outputs = list[Score](), [corpus.note], list[str]()
        if "perplexity" in metrics:
            scores.append(perplexity(*corpus_loss(self, network, corpus)))
        named = [name for name in metrics if name != "perplexity"]
        if named:
            # Reuse the ids of the corpus, which are cut already.
            items = [
                TranslateInput(pair.source, ids) for pair, (ids, _) in zip(corpus.records, corpus.rows, strict=True)
            ]
            predictions = self.predict_items(network, items, how=how, progress=progress)
            outputs = [prediction.value for prediction in predictions]
            notes += unfinished(predictions)
            references = [self.target.canonical(pair.target) for pair in corpus.records]
            # Words are already separated by spaces; sacrebleu must not tokenise them again.
            tokenize = "none" if self.target.config.kind == "words" else "13a"
            scores += score(named, outputs, references, bleu_tokenize=tokenize).values()
        return Evaluation.of({metric.name: metric for metric in scores}, outputs, notes)

    def scorer(
        self, network: EncoderDecoder, given: str, output: Any, *, ended: bool = True
    ) -> Callable[[Lens], Scored]:
        """The probability of a target, token by token."""
        if output is None:
            prediction = self.predict(network, [given], how=Search())[0]
            output, ended = prediction.value, prediction.stopped != "length"
        device = next(network.parameters()).device
        source = self.corpus([Pair(given, "")], "input").rows[0][0]
        target = self.target.encode(output)  # data.max_length does not limit outputs
        length = max(1, len(target) + ended)
        batch = collate([(source, target)], [0]).to(device)
        before, after = batch.target_in[:, :length], batch.target_out[0, :length]

        @torch.no_grad()
        def score(lens: Lens) -> Scored:
            with eval_mode(network):
                logits = network(batch.source, batch.source_lengths, before, lens=lens)
            log_probs = -functional.cross_entropy(logits[0].float(), after, reduction="none")
            return Scored(tuple(log_probs.tolist()), lens.trace if lens.records else Trace())

        return score

    @property
    def output_metrics(self) -> tuple[str, ...]:
        return tuple(name for name in TEXT_METRICS if name != "perplexity")

    @property
    def output_tokenizer(self) -> Tokenizer:
        return self.target


def _unknown_tokens(tokenizer: Tokenizer, texts: Sequence[str], ids: Sequence[list[int]]) -> Counter[str]:
    """The tokens behind <unk>, counted in the first thousand texts that have any."""
    having = islice((number for number, row in enumerate(ids) if Tokenizer.UNK in row), 1000)
    counts = Counter[str]()
    for number in having:
        # Texts that were cut have fewer ids than spans.
        spans = zip(ids[number], tokenizer.spans(texts[number]), strict=False)
        counts.update(texts[number][start:end] for token, (start, end) in spans if token == Tokenizer.UNK)
    return counts
