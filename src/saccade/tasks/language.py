"""Language models: a text becomes chunks of ids, each token a prediction from those before it, a prompt a continuation.

loss        Σₜ −log p(xₜ | x₍<ₜ₎) over every token of every text, its end counted
figures     perplexity = exp(loss / tokens), and per word and per character, so that tokenisations compare
prediction  prompt → continuation, by any search
trace       queries on the axis "output" (what was written next), keys on the axis "input" (what was read)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.data.splits import Splits
from saccade.data.texts.chunks import (
    Batch,
    Ids,
    Piece,
    collate_pieces,
    pieces_of,
    plan_pieces,
    sequences_of,
    streams_of,
)
from saccade.data.texts.records import Text, TextData, load_texts, read_texts, texts_of
from saccade.data.tokenizers.tokenizer import Tokenizer, unknown_notes
from saccade.data.toy import agreement
from saccade.errors import InputError, SaccadeError
from saccade.metrics.text import bits_per_character, perplexity, word_perplexity
from saccade.models import name_of
from saccade.nn.language import LanguageModel
from saccade.nn.search.beam_search import Hypothesis, Search
from saccade.nn.search.fast_beam import Recorder
from saccade.task import Evaluation, Loss, OutputConstraints, Prediction, eval_mode
from saccade.tasks.decoding import PREDICTED_TOGETHER, inputs_together, read_and_search, recorder_of, trace_of
from saccade.tasks.steering import Spelling, TokenConstraints
from saccade.tasks.unsupported import refuse_rate
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, Record, assemble
from saccade.trace.maps import Trace
from saccade.training.evaluation import corpus_loss
from saccade.training.losses import sequence_loss

FILE = "tokenizer.json"
EVALUATED_TOGETHER = 4096  # tokens
SHARE_TOLD = 0.01  # of tokens that are <unk>, from which a perplexity means something else

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Corpus:
    """Texts, their ids in sequences, and the chunks these are read in. Its length is that of its chunks."""

    texts: Sequence[Text]
    encoded: Sequence[list[int]]
    sequences: Sequence[Ids]
    pieces: Sequence[Piece]
    note: str = ""

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def words(self) -> int:
        """What blanks part, and the end of each text."""
        return sum(len(text.source.split()) + 1 for text in self.texts)

    @property
    def characters(self) -> int:
        """Characters, and the end of each text."""
        return sum(len(text.source) + 1 for text in self.texts)

    @property
    def unknown(self) -> float:
        """The share of <unk> among all tokens."""
        return sum(ids.count(Tokenizer.UNK) for ids in self.encoded) / max(1, sum(len(ids) + 1 for ids in self.encoded))


@dataclass(frozen=True)
class LanguageInput:
    """A prompt: its text, its ids behind the mark that opens a text, what the reader must know, and what is wished."""

    text: str
    ids: list[int]
    notes: tuple[str, ...] = ()
    wanted: TokenConstraints = field(default_factory=TokenConstraints)


@dataclass(frozen=True)
class LanguageReader:
    """How well each token of a text was foreseen: its label, its log-probability, and what was looked at."""

    labels: tuple[str, ...]
    log_probs: tuple[float, ...]
    trace: Trace | None = None


class Language:
    """The task: one tokenizer and how texts are laid out."""

    name = "language"
    metrics = ("perplexity", "word_perplexity", "bits_per_character")

    def __init__(self, data: TextData, tokenizer: Tokenizer) -> None:
        self.data, self.tokenizer = data, tokenizer

    @staticmethod
    def check_recipe(recipe: Any) -> None:
        """Raise where a setting does not go with how texts are read."""
        if getattr(recipe.data, "streams", None):
            refuse_rate(recipe, "sampling", "with data.streams what is carried is the text's own state")

    @staticmethod
    def load(data: TextData, folder: Path, seed: int) -> Splits:
        return load_texts(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: TextData) -> list[Text]:
        return read_texts(path, data)

    @staticmethod
    def records(given: Any, data: TextData) -> list[Text]:
        return texts_of(given, data)

    def examples(self, folder: Path, seed: int, test: Sequence[Text] | None = None) -> list[str]:
        """Prompts worth continuing: the built-in source's own, or how the test texts begin."""
        if self.data.source is not None:
            return list(agreement.EXAMPLES)
        test = load_texts(self.data, folder, seed).test if test is None else test
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

    def files(self) -> dict[str, str]:
        return {FILE: self.tokenizer.to_json()}

    # A text becomes chunks ------------------------------------------------------------------------------------------

    @property
    def opening(self) -> int:
        """What stands before a text: in a stream the end of the one before."""
        return Tokenizer.EOS if self.data.layout == "stream" else Tokenizer.BOS

    def corpus(self, texts: Sequence[Text], where: str) -> Corpus:
        """Texts as ids, whole, in chunks; a note where these are not the texts themselves."""
        encoded = self.tokenizer.encode_all([text.source for text in texts])
        corpus = self._corpus(texts, encoded)
        if len(corpus) == len(texts):
            return corpus
        tokens = sum(len(ids) + 1 for ids in encoded)
        rows = f" in {self.data.streams} streams" if self.data.streams else ""
        cut = f"{tokens:,} tokens of {len(texts):,} texts in {len(corpus):,} chunks of up to {self.data.chunk}{rows}"
        return replace(corpus, note=f"{where}: {cut}")

    def _corpus(self, texts: Sequence[Text], encoded: Sequence[list[int]]) -> Corpus:
        data = self.data
        sequences = sequences_of(encoded, stream=data.layout == "stream")
        if data.streams is not None:
            return Corpus(texts, encoded, sequences, streams_of(sequences[0], data.chunk, data.streams))
        return Corpus(texts, encoded, sequences, pieces_of(sequences, data.chunk, data.context))

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        rows = self.data.streams
        return plan_pieces(corpus.pieces, rows=rows, tokens=tokens, records=records, seed=seed, epoch=epoch)

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        pieces = [corpus.pieces[number] for number in numbers]
        return collate_pieces(corpus.sequences, pieces, numbers, carried=self.data.streams is not None)

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
            expected = f"data.chunk and data.context of together at most {longest}, all that the network can read"
            raise InputError("recipe", field="data.chunk", expected=expected, found=str(widest))
        if self.data.streams is not None:
            network.carry(self.data.streams)
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        if sampling and batch.continues is not None:
            raise SaccadeError("train.sampling does not go with data.streams: what is carried is the text's own state")
        logits = network(batch.inputs, batch.lengths, continues=batch.continues, sampling=sampling)
        return Loss(sequence_loss(logits, batch.outputs, padding=Tokenizer.PAD, smoothing=smoothing), batch.tokens)

    # A prompt becomes a continuation ----------------------------------------------------------------------------------

    def predict(
        self,
        network: LanguageModel,
        inputs: Sequence[str],
        *,
        how: Search,
        lens: Lens | None = None,
        wishes: Sequence[OutputConstraints] = (),
    ) -> list[Prediction]:
        """How the network continues each prompt: ``prompt + prediction.value`` is the whole text."""
        asked = [self._read(network, text, number) for number, text in enumerate(inputs)]
        if wishes:
            pairs = enumerate(zip(asked, wishes, strict=True), start=1)
            asked = [replace(each, wanted=self.spelling.wanted(wish, f"input {n}")) for n, (each, wish) in pairs]
        predictions: dict[int, Prediction] = {}
        with eval_mode(network):
            recorder = recorder_of(network)
            for numbers in self._together(network, asked, how, lens):
                found = self._search(network, [asked[number] for number in numbers], how, lens, recorder)
                for number, (hypotheses, read) in zip(numbers, found, strict=True):
                    made = [self._prediction(asked[number], each, read, how, lens) for each in hypotheses]
                    predictions[number] = replace(made[0], alternatives=tuple(made[1:]))
        if lens is not None and inputs:
            lens.check()
        return [predictions[number] for number in range(len(asked))]

    @cached_property
    def spelling(self) -> Spelling:
        """How continuations are spelt."""
        return Spelling(self.tokenizer)

    def check_input(self, text: str, number: int) -> None:
        """Raise where this prompt, the ``number``-th from 0, cannot be read."""
        self._asked(text, number)

    def _asked(self, text: str, number: int) -> LanguageInput:
        if not isinstance(text, str):
            raise InputError(f"input {number + 1}", expected="a text", found=type(text).__name__)
        ids = self.tokenizer.encode(text) if text else []
        return LanguageInput(text, [self.opening, *ids], tuple(unknown_notes(ids, Tokenizer.UNK)))

    def _read(self, network: LanguageModel, text: str, number: int) -> LanguageInput:
        asked, longest = self._asked(text, number), self._longest(network)
        if longest is not None and len(asked.ids) > longest:
            expected = f"at most {longest - 1} tokens, so that the network can write one"
            raise InputError(f"input {number + 1}", expected=expected, found=str(len(asked.ids) - 1))
        return asked

    def _longest(self, network: nn.Module) -> int | None:
        """How many tokens can be read; of an ensemble, by the member that reads least."""
        members = [each for each in network.modules() if isinstance(each, LanguageModel)]
        return min((each.longest for each in members if each.longest is not None), default=None)

    def _together(
        self, network: LanguageModel, asked: Sequence[LanguageInput], how: Search, lens: Lens | None
    ) -> list[list[int]]:
        """Prompts of similar length share a batch; under a lens those of one length, whose steps stand at one place."""
        order = sorted(range(len(asked)), key=lambda number: len(asked[number].ids))
        most = inputs_together(how, PREDICTED_TOGETHER, network)
        alike = [list(group) for _, group in groupby(order, key=lambda number: len(asked[number].ids))]
        groups = alike if lens is not None else [order]
        return [group[start : start + most] for group in groups for start in range(0, len(group), most)]

    def _search(
        self,
        network: LanguageModel,
        asked: Sequence[LanguageInput],
        how: Search,
        lens: Lens | None,
        recorder: Recorder | None,
    ) -> list[tuple[list[Hypothesis], list[Record]]]:
        lengths = torch.tensor([len(each.ids) for each in asked])
        prompts = nn.utils.rnn.pad_sequence([torch.tensor(each.ids) for each in asked], batch_first=True)
        longest = self._longest(network)
        limits = [self.data.longest + each.wanted.length for each in asked]
        if longest is not None:
            limits = [min(limit, longest - len(each.ids) + 1) for limit, each in zip(limits, asked, strict=True)]
        wished = any(each.wanted != TokenConstraints() for each in asked)
        return read_and_search(
            network, prompts, lengths, limits, how, bos=Tokenizer.BOS, eos=Tokenizer.EOS,
            forbidden=(Tokenizer.PAD, Tokenizer.BOS), lens=lens,
            constraints=[each.wanted.constraints for each in asked] if wished else None,
            begins=self.spelling.begins if wished else None, recorder=recorder,
        )  # fmt: skip

    def _prediction(
        self, asked: LanguageInput, found: Hypothesis, read: list[Record], how: Search, lens: Lens | None
    ) -> Prediction:
        notes = [*asked.notes, *asked.wanted.notes, *asked.wanted.missed(found)]
        if found.stopped == "length":
            notes.append(f"stopped after {len(found.tokens)} tokens (data.longest)")
        prompt = asked.ids[1:]
        before = self.tokenizer.decode(prompt, "<unk>")
        value = self.tokenizer.decode([*prompt, *found.tokens], "<unk>")[len(before) :]
        if asked.text[-1:].isspace() and not before[-1:].isspace():
            value = value.removeprefix(" ")  # the prompt has the blank already, though no token stands for it
        trace = None
        if lens is not None:
            ended = [Tokenizer.EOS] if found.stopped == "eos" else []
            axes = self._axes([*asked.ids, *found.tokens, *ended], asked.text)
            about = {"task": self.name, "input": asked.text, "output": value}
            trace = trace_of(found, read, axes, self.tokenizer.pieces, written="output", **about)
        return Prediction(
            value, found.score, found.log_prob, found.stopped, tuple(notes), trace, parts=how.parts(found)
        )

    # What it looked at becomes a labelled trace -------------------------------------------------------------------------

    def _axes(self, ids: Sequence[int], text: str) -> dict[str, Tokens]:
        """What was read, and one token on what came next; unknown tokens of ``text`` are shown as they were written."""
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
    def force(self, network: LanguageModel, text: str, lens: Lens | None = None) -> LanguageReader:
        """Read a text as it stands, its end included: how likely each token was, and what was looked at for it."""
        ids = [*self._read(network, text, 0).ids, Tokenizer.EOS]
        tokens = torch.tensor([ids], device=next(network.parameters()).device)
        seen = None if lens is None else lens.fresh()
        with eval_mode(network):
            memory = network.encode(tokens[:, :1], torch.ones(1, dtype=torch.int64, device=tokens.device))
            log_probs = torch.log_softmax(network.teach(memory, tokens[:, :-1], lens=seen).float(), dim=-1)
        found: Tensor = log_probs[0].gather(1, tokens[0, 1:, None]).squeeze(1)
        axes, trace = self._axes(ids, text), None
        if seen is not None:
            lens.check() if lens is not None else None
            about = {"task": self.name, "input": text, "log_prob": float(found.sum())}
            trace = assemble(seen.records, 0).labelled(axes, **about)
        return LanguageReader(axes["output"].labels, tuple(found.tolist()), trace)

    # Figures ----------------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        network: LanguageModel,
        corpus: Corpus,
        *,
        how: Search,
        metrics: Sequence[str],
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """How well the texts were foreseen; ``limit`` takes the first texts only."""
        unknown = [name for name in metrics if name not in self.metrics]
        if unknown:
            raise SaccadeError(
                f"unknown metric {unknown[0]!r}: those of the task {self.name} are {', '.join(self.metrics)}"
            )
        if limit is not None:
            corpus = self._corpus(corpus.texts[:limit], corpus.encoded[:limit])
        if self.data.streams is not None:
            for member in getattr(network, "members", ()):  # of an ensemble: each was made for its own streams
                member.carry(self.data.streams)
        widest = max((piece.width for piece in corpus.pieces), default=1)
        nll, tokens = corpus_loss(self, network, corpus, tokens=max(EVALUATED_TOGETHER, widest), records=None)
        known = {
            "perplexity": lambda: perplexity(nll, tokens),
            "word_perplexity": lambda: word_perplexity(nll, corpus.words),
            "bits_per_character": lambda: bits_per_character(nll, corpus.characters),
        }
        scores = [known[name]() for name in metrics]
        notes = []
        if corpus.unknown >= SHARE_TOLD:
            notes.append(
                f"{corpus.unknown:.1%} of the tokens are <unk>, which is easily foreseen: the figures do not compare with "
                "those of another vocabulary"
            )
        if progress is not None:
            progress(len(corpus), len(corpus))
        figures, higher = {each.name: each.value for each in scores}, dict.fromkeys(metrics, False)
        return Evaluation(figures, {}, higher, (), tuple(notes))
