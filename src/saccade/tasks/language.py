"""Models language: predicts each token of a text from those before it, and continues a prompt.

loss        Σₜ −log p(xₜ | x₍<ₜ₎) over every token of every text, its end included
metrics     perplexity = exp(loss / tokens), and per word and per character, which do not depend on the tokenizer
prediction  prompt → continuation, by any search
trace       queries on the axis "output" (the next tokens), keys on the axis "input" (the tokens read)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.data.batching import Corpus
from saccade.data.files.records import Name
from saccade.data.texts.chunks import (
    Batch,
    Ids,
    collate_pieces,
    pieces_of,
    plan_streams,
    sequences_of,
    streams_of,
)
from saccade.data.texts.records import Text, TextData, load_texts, read_texts, texts_of
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.data.toy import agreement
from saccade.errors import InputError, SaccadeError
from saccade.kinds import TEXT
from saccade.metrics.text import LANGUAGE_METRICS, bits_per_character, perplexity, word_perplexity
from saccade.models import name_of
from saccade.nn.language import LanguageModel
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
    eval_mode,
    refuse_rate,
)
from saccade.tasks.decoding import (
    Decodes,
    Searched,
    constrained,
    read_and_search,
    recorder_of,
    trace_of,
)
from saccade.tasks.steering import Spelling, TokenConstraints
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Trace
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

FILE = "tokenizer.json"
EVALUATED_TOGETHER = 4096  # tokens
UNKNOWN_REPORTED = 0.01  # from this share of <unk>, perplexities of two vocabularies cannot be compared


@dataclass(frozen=True)
class Chunks:
    """The ids of every text of a corpus, and the sequences that they are joined to, from which chunks are cut."""

    encoded: Sequence[list[int]]
    sequences: Sequence[Ids]

    @property
    def unknown(self) -> float:
        """The share of <unk> among all tokens."""
        return sum(ids.count(Tokenizer.UNK) for ids in self.encoded) / max(1, sum(len(ids) + 1 for ids in self.encoded))


@dataclass(frozen=True)
class LanguageInput:
    """A prompt: its text, its ids after the opening token, its notes, and the constraints on its continuation."""

    text: str
    ids: list[int]
    notes: tuple[str, ...] = ()
    wanted: TokenConstraints = field(default_factory=TokenConstraints)


@dataclass(frozen=True)
class ScoredText:
    """The tokens of a text, their log-probabilities, and the trace."""

    labels: tuple[str, ...]
    log_probs: tuple[float, ...]
    trace: Trace | None = None


class Language(Steers, Scores, Surveys, Decodes):
    """The task: one tokenizer and how texts are laid out."""

    name = "language"
    Data = TextData
    record_types = (Text,)
    network_base = LanguageModel
    metrics = LANGUAGE_METRICS
    input = TEXT
    output = "continuation"
    length_setting = "data.chunk or data.context"
    survey = "texts"

    def __init__(self, data: TextData, tokenizer: Tokenizer) -> None:
        self.data, self.tokenizer = data, tokenizer

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        if recipe.data.streams:
            refuse_rate(recipe, "sampling", "with data.streams the carried state must be that of the true text")

    load = staticmethod(load_texts)
    read_file = staticmethod(read_texts)
    records = staticmethod(texts_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Text] | None = None) -> list[str]:
        """Example prompts: those of the built-in source, or the first words of the test texts."""
        if self.data.source is not None:
            return list(agreement.EXAMPLES)
        test = self.load(self.data, folder, seed).test if test is None else test
        return [
            " ".join(words[: min(8, max(1, len(words) // 2))]) for text in test[:10] if (words := text.source.split())
        ]

    @classmethod
    def learn(cls, data: TextData, train: Sequence[Text]) -> Language:
        """The task of these training texts: its vocabulary is learnt from them alone."""
        return cls(data, Tokenizer.train([text.source for text in train], data.tokens))

    @classmethod
    def restore(cls, data: TextData, files: dict[str, str]) -> Language:
        if FILE not in files:
            raise InputError(FILE, expected="a tokenizer in the bundle", found="no such file")
        return cls(data, Tokenizer.from_json(files[FILE], FILE))

    @property
    def vocabularies(self) -> dict[str, Tokenizer]:
        return {"text": self.tokenizer}

    def files(self) -> dict[str, str]:
        return {FILE: self.tokenizer.to_json()}

    # A text becomes chunks ------------------------------------------------------------------------------------------

    @property
    def opening(self) -> int:
        """The token before a text: in a stream, the end of the previous text."""
        return Tokenizer.EOS if self.data.layout == "stream" else Tokenizer.BOS

    def corpus(self, records: Sequence[Text], where: str) -> Corpus:
        """A row is a chunk of the ids of one text, or of all texts in one stream; a note where chunks are not whole texts."""
        encoded = self.tokenizer.encode_all([text.source for text in records])
        corpus = self._chunks(records, encoded)
        if len(corpus) == len(records):
            return corpus
        tokens = sum(len(ids) + 1 for ids in encoded)
        streams = f" in {self.data.streams} streams" if self.data.streams else ""
        size = f"{len(corpus):,} chunks of up to {self.data.chunk}{streams}"
        return replace(corpus, note=f"{where}: {tokens:,} tokens of {len(records):,} texts in {size}")

    def _chunks(self, texts: Sequence[Text], encoded: Sequence[list[int]]) -> Corpus:
        data = self.data
        sequences = sequences_of(encoded, stream=data.layout == "stream")
        if data.streams is not None:
            pieces = streams_of(sequences[0], data.chunk, data.streams)
        else:
            pieces = pieces_of(sequences, data.chunk, data.context)
        return Corpus(texts, pieces, [piece.width for piece in pieces], shared=Chunks(encoded, sequences))

    def plan(self, corpus: Corpus, **how: Any) -> list[list[int]]:
        if self.data.streams is None:
            return super().plan(corpus, **how)
        if how.get("ranks", 1) > 1:
            raise SaccadeError("data.streams carries its state from batch to batch, so it needs training on one rank")
        return plan_streams(corpus.rows, self.data.streams)

    def row_name(self, corpus: Corpus, number: int) -> str:
        return f"a chunk of {corpus.costs[number]} tokens, context included,"

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        pieces = [corpus.rows[number] for number in numbers]
        return collate_pieces(corpus.shared.sequences, pieces, numbers, carried=self.data.streams is not None)

    # Chunks become a loss -------------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> LanguageModel:
        if not (isinstance(network_class, type) and issubclass(network_class, LanguageModel)):
            expected = "a language model (such as recurrent_lm)"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        if list(inspect.signature(network_class).parameters)[:2] != ["config", "size"]:
            expected = f"{network_class.__name__}(config, size)"
            raise InputError("recipe", field="model.name", expected=expected, found="other parameters")
        network: LanguageModel = network_class(config, self.tokenizer.size)
        widest, longest = self.data.chunk + self.data.context, network.longest
        if longest is not None and widest > longest:
            expected = f"data.chunk + data.context of at most {longest}, the positions of the network"
            raise InputError("recipe", field="data.chunk", expected=expected, found=str(widest))
        if self.data.streams is not None:
            network.carry(self.data.streams)
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        if sampling and batch.continues is not None:
            raise SaccadeError(
                "train.sampling must be 0 with data.streams: the carried state must be that of the true text"
            )
        logits = network(batch.inputs, batch.lengths, continues=batch.continues, sampling=sampling)
        return Loss(sequence_loss(logits, batch.outputs, padding=Tokenizer.PAD, smoothing=smoothing), batch.tokens)

    # A prompt becomes a continuation ----------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return (self.data.column,)

    def read(self, given: Any, where: str, network: Any = None) -> LanguageInput:
        """An input is a prompt: ``prompt + prediction.value`` is the whole text."""
        if not isinstance(given, str):
            raise InputError(where, expected="a text", found=type(given).__name__)
        ids = self.tokenizer.encode(given) if given else []
        item = LanguageInput(given, [self.opening, *ids], tuple(unknown_notes(ids, Tokenizer.UNK)))
        longest = None if network is None else self._longest(network)
        if longest is not None and len(item.ids) > longest:
            expected = f"at most {longest - 1} tokens, so that one can be generated"
            raise InputError(where, expected=expected, found=str(len(item.ids) - 1))
        return item

    def constrain(
        self, items: Sequence[LanguageInput], constraints: Sequence[OutputConstraints], dictionary: Mapping[str, str]
    ) -> list[LanguageInput]:
        return constrained(self.spelling, items, constraints)

    def cost(self, item: LanguageInput) -> int:
        return len(item.ids)

    def same_length(self, lens: Lens | None) -> bool:
        """Under a lens the steps of a batch must be at the same positions."""
        return lens is not None

    @cached_property
    def spelling(self) -> Spelling:
        """How continuations are spelt."""
        return Spelling(self.tokenizer)

    def _longest(self, network: nn.Module) -> int | None:
        """The most tokens that can be read, for an ensemble by every member; None: unlimited."""
        members = [module for module in network.modules() if isinstance(module, LanguageModel)]
        return min((member.longest for member in members if member.longest is not None), default=None)

    def search_batch(
        self, network: LanguageModel, items: Sequence[LanguageInput], how: Search, lens: Lens | None
    ) -> list[Searched]:
        lengths = torch.tensor([len(item.ids) for item in items])
        prompts = nn.utils.rnn.pad_sequence([torch.tensor(item.ids) for item in items], batch_first=True)
        longest = self._longest(network)
        limits = [self.data.longest + item.wanted.length for item in items]
        if longest is not None:
            limits = [min(limit, longest - len(item.ids) + 1) for limit, item in zip(limits, items, strict=True)]
        constrains = any(item.wanted != TokenConstraints() for item in items)
        return read_and_search(
            network, prompts, lengths, limits, how, bos=Tokenizer.BOS, eos=Tokenizer.EOS,
            forbidden=(Tokenizer.PAD, Tokenizer.BOS), lens=lens,
            constraints=[item.wanted.constraints for item in items] if constrains else None,
            begins=self.spelling.begins if constrains else None, recorder=recorder_of(network),
        )  # fmt: skip

    def prediction_of(
        self, item: LanguageInput, found: Hypothesis, read: list[Record], how: Search, lens: Lens | None
    ) -> Prediction:
        notes = [*item.notes, *item.wanted.notes, *item.wanted.missed(found)]
        if found.stopped == "length":
            notes.append(f"stopped after {len(found.tokens)} tokens (data.longest)")
        prompt = item.ids[1:]
        before = self.tokenizer.decode(prompt, "<unk>")
        value = self.tokenizer.decode([*prompt, *found.tokens], "<unk>")[len(before) :]
        if item.text[-1:].isspace() and not before[-1:].isspace():
            value = value.removeprefix(" ")  # the prompt ends with this space, but no token represents it
        trace = None
        if lens is not None:
            ended = [Tokenizer.EOS] if found.stopped == "eos" else []
            axes = self._axes([*item.ids, *found.tokens, *ended], item.text)
            about = {**self.about, "input": item.text, "output": value, "given": len(prompt)}
            trace = trace_of(found, read, axes, self.tokenizer.pieces, written="output", **about)
        return Prediction(
            value, found.score, found.log_prob, found.stopped, tuple(notes), trace, parts=how.parts(found)
        )

    # Attention becomes a labelled trace ---------------------------------------------------------------------------------

    def _axes(self, ids: Sequence[int], text: str) -> dict[str, Tokens]:
        """The axes: tokens read, and shifted by one the next tokens; unknown tokens of ``text`` show their original text."""
        labels = self.tokenizer.pieces(ids)
        for number, (start, end) in enumerate(self.tokenizer.spans(text) if text else (), start=1):
            if number < len(ids) and ids[number] == Tokenizer.UNK:
                labels[number] = text[start:end]
        special = [number for number, token in enumerate(ids) if token in (Tokenizer.BOS, Tokenizer.EOS)]
        marks = [tuple(n - shift for n in special if 0 <= n - shift < len(ids) - 1) for shift in (0, 1)]
        whole = self.tokenizer.decode(ids, "<unk>")
        return {
            "input": Tokens(tuple(labels[:-1]), text=whole, special=marks[0]),
            "output": Tokens(tuple(labels[1:]), text=whole, special=marks[1]),
        }

    @torch.no_grad()
    def force(self, network: LanguageModel, text: str, lens: Lens | None = None) -> ScoredText:
        """The log-probability of each token of a text, its end included, and the trace."""
        ids = [*self.read(text, "input 1", network).ids, Tokenizer.EOS]
        tokens = torch.tensor([ids], device=next(network.parameters()).device)
        recorder = None if lens is None else lens.fresh()
        with eval_mode(network):
            memory = network.encode(tokens[:, :1], torch.ones(1, dtype=torch.int64, device=tokens.device))
            log_probs = torch.log_softmax(network.teach(memory, tokens[:, :-1], lens=recorder).float(), dim=-1)
        own: Tensor = log_probs[0].gather(1, tokens[0, 1:, None]).squeeze(1)
        axes, trace = self._axes(ids, text), None
        if recorder is not None:
            lens.check() if lens is not None else None
            about = {**self.about, "input": text, "log_prob": float(own.sum()), "given": len(ids) - 1}
            trace = assemble(recorder.records, 0).labelled(axes, **about)
        return ScoredText(axes["output"].labels, tuple(own.tolist()), trace)

    def scorer(
        self, network: LanguageModel, given: str, output: Any, *, ended: bool = True
    ) -> Callable[[Lens], Scored]:
        """The probability of a continuation: the steps after the prompt count."""
        if output is None:
            prediction = self.predict(network, [given], how=Search())[0]
            output, ended = prediction.value, prediction.stopped != "length"
        first = len(self.tokenizer.encode(given)) if given else 0
        between = " " if given and output and not (given[-1].isspace() or output[0].isspace()) else ""

        def score(lens: Lens) -> Scored:
            text = self.force(network, given + between + output, lens)
            log_probs = text.log_probs[first:]
            last = None if ended or len(log_probs) == 1 else -1
            return Scored(log_probs[:last], text.trace or Trace(), first)

        return score

    # Figures ----------------------------------------------------------------------------------------------------------

    def first(self, corpus: Corpus, limit: int | None) -> Corpus:
        if limit is None:
            return corpus
        return self._chunks(corpus.records[:limit], corpus.shared.encoded[:limit])

    def measure(
        self, network: LanguageModel, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """Perplexity per token and word, bits per character."""
        if self.data.streams is not None:
            for member in getattr(
                network, "members", ()
            ):  # members of an ensemble may have been made for other streams
                member.carry(self.data.streams)
        most = max([EVALUATED_TOGETHER, *corpus.costs])
        nll, tokens = corpus_loss(self, network, corpus, tokens=most, records=None)
        texts = [text.source for text in corpus.records]  # the end of each text counts as a word and as a character
        scores = {
            "perplexity": lambda: perplexity(nll, tokens),
            "word_perplexity": lambda: word_perplexity(nll, sum(len(text.split()) + 1 for text in texts)),
            "bits_per_character": lambda: bits_per_character(nll, sum(len(text) + 1 for text in texts)),
        }
        unknown, notes = corpus.shared.unknown, list[str]()
        if unknown >= UNKNOWN_REPORTED:
            notes.append(
                f"{unknown:.1%} of the tokens are <unk>, which is easy to predict: do not compare the metrics with those of "
                "another vocabulary"
            )
        if progress is not None:
            progress(len(corpus), len(corpus))
        return Evaluation.of({name: scores[name]() for name in metrics}, notes=notes)
