"""Any text → text: translation, dates, spelling, transliteration.

Read this page first: a pair of texts becomes a batch of ids, the network's logits a loss, its search a prediction, and
what it looked at a trace labelled with the tokens of both texts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from saccade.data.batching import CLOSING, plan
from saccade.data.config import fit, fit_all
from saccade.data.pairs.batch import Batch, collate
from saccade.data.pairs.records import Pair, PairData, load_splits, pairs_of, read_file
from saccade.data.reading import FaultCounts
from saccade.data.splits import Splits
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.data.toy.pairs import EXAMPLES
from saccade.errors import InputError
from saccade.metrics.text import perplexity, score
from saccade.models import name_of
from saccade.nn.decoder import EncoderDecoder
from saccade.nn.recurrent import mask_of
from saccade.nn.search.beam_search import Hypothesis, Search
from saccade.nn.search.fast_beam import Recorder
from saccade.task import Evaluation, Loss, OutputConstraints, Prediction, eval_mode
from saccade.tasks.decoding import PREDICTED_TOGETHER, inputs_together, read_and_search, recorder_of, trace_of
from saccade.tasks.steering import Spelling, TokenConstraints, source_word
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record
from saccade.trace.maps import Trace
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

Progress = Callable[[int, int], None]
SHARED, SOURCE, TARGET = "tokenizer.json", "tokenizer.source.json", "tokenizer.target.json"


@dataclass(frozen=True)
class Corpus:
    """Pairs and their ids; ``note`` says what was cut."""

    pairs: Sequence[Pair]
    ids: Sequence[tuple[list[int], list[int]]]
    note: str = ""

    def __len__(self) -> int:
        return len(self.pairs)

    def first(self, count: int | None) -> Corpus:
        return self if count is None else replace(self, pairs=self.pairs[:count], ids=self.ids[:count])


@dataclass(frozen=True)
class TranslateInput:
    """An input: its text, its ids, what the reader must know of it, and what is wished of its output."""

    text: str
    ids: list[int]
    notes: tuple[str, ...] = ()
    wanted: TokenConstraints = field(default_factory=TokenConstraints)


class Translate:
    """The task: two tokenizers and the rules for over-long texts."""

    name = "translate"

    def __init__(self, data: PairData, source: Tokenizer, target: Tokenizer) -> None:
        self.data, self.source, self.target = data, source, target

    @staticmethod
    def load(data: PairData, folder: Path, seed: int) -> Splits:
        return load_splits(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: PairData) -> list[Pair]:
        return read_file(path, data)

    @staticmethod
    def records(given: Any, data: PairData, left_out: FaultCounts | None = None) -> list[Pair]:
        return pairs_of(given, data.columns, left_out)

    def examples(self, folder: Path, seed: int, test: Sequence[Pair] | None = None) -> list[str]:
        """Inputs worth looking at: the built-in source's own, or the beginning of the test set."""
        if self.data.source in EXAMPLES:
            return list(EXAMPLES[self.data.source])
        test = load_splits(self.data, folder, seed).test if test is None else test
        return [pair.source for pair in test[:10]]

    @classmethod
    def learn(cls, data: PairData, train: Sequence[Pair]) -> Translate:
        """The task of these training pairs: its vocabularies are learnt from them alone."""
        sources, targets = [pair.source for pair in train], [pair.target for pair in train]
        if data.shared:
            both = Tokenizer.train([*sources, *targets], data.tokens)
            return cls(data, both, both)
        target_tokens = data.target_tokens or data.tokens
        return cls(data, Tokenizer.train(sources, data.tokens), Tokenizer.train(targets, target_tokens))

    @classmethod
    def restore(cls, data: PairData, files: dict[str, str]) -> Translate:
        """The task that :meth:`files` kept."""
        names = (SHARED, SHARED) if SHARED in files else (SOURCE, TARGET)
        missing = [name for name in names if name not in files]
        if missing:
            raise InputError(missing[0], expected="a tokenizer in the bundle", found="no such file")
        source = Tokenizer.from_json(files[names[0]], names[0])
        return cls(data, source, source if SHARED in files else Tokenizer.from_json(files[names[1]], names[1]))

    def files(self) -> dict[str, str]:
        if self.source is self.target:
            return {SHARED: self.source.to_json()}
        return {SOURCE: self.source.to_json(), TARGET: self.target.to_json()}

    # A record becomes a batch --------------------------------------------------------------------------------------

    def corpus(self, pairs: Sequence[Pair], where: str) -> Corpus:
        """Pairs as ids; over-long ones are an error, or cut and counted, as the recipe says."""
        sources = [pair.source for pair in pairs]
        targets = self.target.encode_all([pair.target for pair in pairs])
        encoded = list(zip(self.source.encode_all(sources), targets, strict=True))
        fitted = fit_all(encoded, self.data.max_length, self.data.too_long, where, sources)
        return Corpus(pairs, fitted.pairs, f"{where}: {fitted}" if fitted.cut_pairs else "")

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        lengths = [(len(source), len(target)) for source, target in corpus.ids]
        return plan(lengths, tokens=tokens, records=records, seed=seed, epoch=epoch)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        return collate([corpus.ids[number] for number in numbers], numbers)

    # A batch becomes a loss ----------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> EncoderDecoder:
        if "source_size" not in inspect.signature(network_class).parameters:
            expected = "a network that reads and writes tokens (seq2seq, rnnsearch, luong, transformer)"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        if getattr(config, "one_vocabulary", False) and self.source is not self.target:
            expected = "one vocabulary for source and target"
            hint = "set data.shared: true, or tie less"
            raise InputError("recipe", field="model.tied", expected=expected, found="one for each", hint=hint)
        network: EncoderDecoder = network_class(config, self.source.size, self.target.size)
        longest = getattr(network, "longest", None)
        if longest is not None and longest < self.data.max_length + CLOSING:
            expected = f"at least {self.data.max_length + CLOSING}: data.max_length and an end mark"
            raise InputError("recipe", field="model.places", expected=expected, found=f"{longest}")
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        logits = network(batch.source, batch.source_lengths, batch.target_in, sampling=sampling)
        return Loss(sequence_loss(logits, batch.target_out, padding=Tokenizer.PAD, smoothing=smoothing), batch.tokens)

    # An input becomes a prediction ---------------------------------------------------------------------------------

    def predict(
        self,
        network: EncoderDecoder,
        inputs: Sequence[str],
        *,
        how: Search,
        lens: Lens | None = None,
        wishes: Sequence[OutputConstraints] = (),
        dictionary: Mapping[str, str] | None = None,
    ) -> list[Prediction]:
        """The network's output for each text, searched in batches of similar length.

        ``wishes``, one an input, steer it; ``dictionary`` says how source words that are copied are written.
        """
        for number, text in enumerate(inputs):
            self._check_text(text, number)
        found = zip(inputs, self.source.encode_all(inputs), strict=True)
        asked = [self._asked(text, ids, number) for number, (text, ids) in enumerate(found)]
        if wishes:
            pairs = enumerate(zip(asked, wishes, strict=True), start=1)
            asked = [replace(each, wanted=self.spelling.wanted(wish, f"input {n}")) for n, (each, wish) in pairs]
        predictions = self._predict(network, asked, how, lens, dictionary or {})
        if lens is not None and inputs:
            lens.check()
        return predictions

    def _predict(
        self,
        network: EncoderDecoder,
        asked: Sequence[TranslateInput],
        how: Search,
        lens: Lens | None,
        dictionary: Mapping[str, str],
        progress: Progress | None = None,
    ) -> list[Prediction]:
        order = sorted(range(len(asked)), key=lambda number: len(asked[number].ids))
        predictions: dict[int, Prediction] = {}
        most = inputs_together(how, PREDICTED_TOGETHER, network)
        with eval_mode(network):
            recorder = recorder_of(network)
            for start in range(0, len(order), most):
                numbers = order[start : start + most]
                found = self._search(network, [asked[number] for number in numbers], how, lens, recorder)
                for number, (hypotheses, read) in zip(numbers, found, strict=True):
                    made = [self._prediction(asked[number], each, read, how, lens, dictionary) for each in hypotheses]
                    predictions[number] = replace(made[0], alternatives=tuple(made[1:])) if made[1:] else made[0]
                if progress is not None:
                    progress(len(predictions), len(order))
        return [predictions[number] for number in range(len(asked))]

    @cached_property
    def spelling(self) -> Spelling:
        """How outputs are spelt."""
        return Spelling(self.target)

    def check_input(self, text: str, number: int) -> None:
        """Raise where this input, the ``number``-th from 0, cannot be read."""
        self._check_text(text, number)
        self._asked(text, self.source.encode(text), number)

    def _check_text(self, text: Any, number: int) -> None:
        where = f"input {number + 1}"
        if not isinstance(text, str):
            raise InputError(where, expected="a text", found=type(text).__name__)
        if not text.strip():
            raise InputError(where, expected="a text", found="nothing" if not text else "blanks only")

    def _asked(self, text: str, ids: list[int], number: int) -> TranslateInput:
        ids, cut = fit(ids, self.data.max_length, self.data.too_long, f"input {number + 1}")
        notes = [f"cut to its first {self.data.max_length} tokens"] if cut else []
        notes += unknown_notes(ids, Tokenizer.UNK)
        return TranslateInput(text, ids, tuple(notes))

    def _search(
        self,
        network: EncoderDecoder,
        asked: Sequence[TranslateInput],
        how: Search,
        lens: Lens | None,
        recorder: Recorder | None = None,
    ) -> list[tuple[list[Hypothesis], list[Record]]]:
        batch = collate([(each.ids, []) for each in asked], range(len(asked)))
        # A length no sensible output exceeds (GroundHog allows three times the source); reaching it is reported.
        limits = [3 * (len(each.ids) + 1) + 10 + each.wanted.length for each in asked]
        longest = getattr(network, "longest", None)
        if longest is not None:
            limits = [min(limit, longest) for limit in limits]
        wished = any(each.wanted != TokenConstraints() for each in asked)
        return read_and_search(
            network, batch.source, batch.source_lengths, limits, how, bos=Tokenizer.BOS, eos=Tokenizer.EOS,
            forbidden=(Tokenizer.PAD, Tokenizer.BOS), lens=lens,
            constraints=[each.wanted.constraints for each in asked] if wished else None,
            words=mask_of(batch.source_lengths - 1, batch.source.shape[1]),  # EOS is no word
            begins=self.spelling.begins if wished else None, recorder=recorder,
        )  # fmt: skip

    def _prediction(
        self,
        asked: TranslateInput,
        found: Hypothesis,
        read: list[Record],
        how: Search,
        lens: Lens | None,
        dictionary: Mapping[str, str],
    ) -> Prediction:
        replaced, notes = dict(asked.wanted.given), [*asked.notes, *asked.wanted.notes, *asked.wanted.missed(found)]
        if found.stopped == "length":
            notes.append("reached the length limit without an end")
        if how.unknown == "copy":
            copied = self._copied(asked, found, dictionary)
            replaced |= {number: word for number, (_, word) in copied.items()}
            notes += [f"<unk> replaced by {word!r}, for {source!r} in the input" for source, word in copied.values()]
        value = self.spelling.written(found.tokens, replaced) if replaced else self.target.decode(found.tokens, "<unk>")
        trace = None if lens is None else self._trace(asked.text, value, found, read, replaced)
        parts = how.parts(found)
        return Prediction(value, found.score, found.log_prob, found.stopped, tuple(notes), trace, parts=parts)

    def _copied(
        self, asked: TranslateInput, found: Hypothesis, dictionary: Mapping[str, str]
    ) -> dict[int, tuple[str, str]]:
        """For each <unk> the source word looked at most and what is written for it (Luong et al. 2015, Jean et al. 2015)."""
        copied: dict[int, tuple[str, str]] = {}
        given = asked.wanted.given
        unknown = [n for n, token in enumerate(found.tokens) if token == Tokenizer.UNK and n not in given]
        spans = self.source.spans(asked.text) if unknown else []
        for number in unknown:
            if found.looked[number] >= 0:
                whole = self.target.config.kind == "words"
                source = source_word(asked.text, spans[found.looked[number]], whole)
                # As an output would write it: in small letters, where the network knows no others.
                word = self.target.canonical(dictionary.get(source, dictionary.get(source.lower(), source)))
                together = {**given, **{n: text for n, (_, text) in copied.items()}, number: word}
                if word and not self.spelling.says(self.spelling.written(found.tokens, together), asked.wanted.barred):
                    copied[number] = (source, word)
        return copied

    # What it looked at becomes a labelled trace -----------------------------------------------------------------------

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
        return trace_of(hypothesis, read, axes, self.target.pieces, task=self.name, input=text, output=value)

    def source_axis(self, text: str) -> Tokens:
        """The source as the network reads it, each token labelled with what was written there, EOS last."""
        spans = self.source.spans(text)[: self.data.max_length]
        written = [text[start:end] or "·" for start, end in spans]
        labels = (*written, *self.source.pieces([Tokenizer.EOS]))
        return Tokens(labels, text=text, spans=(*spans, (len(text), len(text))), special=(len(spans),))

    def target_axis(self, hypothesis: Hypothesis) -> Tokens:
        ended = [Tokenizer.EOS] if hypothesis.stopped == "eos" else []
        labels = tuple(self.target.pieces([*hypothesis.tokens, *ended]))
        return Tokens(labels, text=self.target.decode(hypothesis.tokens), special=(len(labels) - 1,) if ended else ())

    def prefix_axis(self, target: Tokens) -> Tokens:
        """What a decoder that looks back has read at each step of the target: BOS, then the tokens but the last."""
        return Tokens((*self.target.pieces([Tokenizer.BOS]), *target.labels[:-1]), text=target.text, special=(0,))

    # Figures ----------------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        network: EncoderDecoder,
        corpus: Corpus,
        *,
        how: Search,
        metrics: Sequence[str],
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """The named metrics of the network's outputs; ``perplexity`` is that of the true targets.

        ``progress`` is told how many of all inputs are searched, after each batch of them.
        """
        corpus = corpus.first(limit)
        figures: dict[str, float] = {}
        signatures: dict[str, str] = {}
        higher: dict[str, bool] = {}
        notes: list[str] = [corpus.note] if corpus.note else []
        scores = []
        outputs: list[str] = []
        if "perplexity" in metrics:
            scores.append(perplexity(*corpus_loss(self, network, corpus)))
        named = [name for name in metrics if name != "perplexity"]
        if named:
            # The ids are at hand, cut where the recipe says so: they are searched as they are.
            asked = [TranslateInput(pair.source, ids) for pair, (ids, _) in zip(corpus.pairs, corpus.ids, strict=True)]
            predictions = self._predict(network, asked, how, None, {}, progress)
            outputs = [prediction.value for prediction in predictions]
            unfinished = sum(prediction.stopped == "length" for prediction in predictions)
            if unfinished:
                notes.append(f"{unfinished} of {len(outputs)} outputs reached the length limit")
            references = [self.target.canonical(pair.target) for pair in corpus.pairs]
            # Words are already cut by spaces; sacrebleu must not cut them again.
            cut = "none" if self.target.config.kind == "words" else "13a"
            scores += score(named, outputs, references, bleu_tokenize=cut).values()
        for each in scores:
            figures[each.name], higher[each.name] = each.value, each.higher_is_better
            if each.signature:
                signatures[each.name] = each.signature
        return Evaluation(figures, signatures, higher, outputs, tuple(notes))
