"""Pre-training on raw text: words that were taken out are found again, and whether a second text follows the first is told.

A document becomes rows with blanks, drawn anew in each epoch (:mod:`saccade.data.texts.masking`), the network's logits a loss

    loss = mean over the blanks of −log p(word) + mean over the rows of −log p(follows or not)

a text with [MASK] in it the likeliest words, and what the network looked at a trace labelled with the pieces.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import plan
from saccade.data.splits import Splits
from saccade.data.texts.documents import MARKS, PretrainData, documents_of, load_documents, read_documents, sentences_of
from saccade.data.texts.masking import (
    IGNORED,
    Batch,
    Documents,
    Marks,
    Stretches,
    Visit,
    collate,
    draw_of,
    stretches_of,
)
from saccade.data.texts.records import Text
from saccade.data.tokenizers.wordpiece import BLANK, WordPieces, learn_tokenizer, stored_tokenizer
from saccade.data.toy.topics import EXAMPLES
from saccade.errors import InputError, SaccadeError
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.task import Evaluation, Loss, Prediction, eval_mode
from saccade.tasks.axes import BREAK
from saccade.tasks.fill_mask import FillMaskInput, filling, never_trained
from saccade.tasks.unsupported import named_metrics, refuse_sampling
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, assemble
from saccade.trace.maps import Trace

FILE = "tokenizer.json"
BETWEEN = "\t"  # stands between the two texts of a pair, in what is given and in what is said
EVALUATED_TOGETHER = 16_384  # positions
ENCODED_TOGETHER = 4_000  # documents
SHOWN = 10  # words for a blank
FOLLOWERS, NO_PAIRS = "nsp_accuracy", "mlm figures where data.pairs is none"
HOLLOW = 0.25  # the share of rows inside one sentence from which on next-sentence figures are warned of


@dataclass(frozen=True)
class Corpus:
    """Documents as ids and the stretches that rows are made of; its length is that of its rows."""

    texts: Sequence[Text]
    documents: Documents
    stretches: Stretches
    note: str = ""

    def __len__(self) -> int:
        return len(self.stretches)


@dataclass(frozen=True)
class Sums:
    """What the figures are computed from."""

    loss: float
    blanks: int
    found: int
    rows: int
    told: int


class Pretrain:
    """The task: a tokenizer with a mark for what is to be found, and how rows are made."""

    name = "pretrain"
    metrics = ("mlm_accuracy", "mlm_perplexity", "mlm_loss", FOLLOWERS)
    searches = False  # a word is not searched for: beams mean nothing

    def __init__(self, data: PretrainData, tokenizer: WordPieces) -> None:
        self.data, self.tokenizer = data, tokenizer
        self.untrained: tuple[str, ...] = ()  # parts that an imported network lacked; a bundle knows them

    @staticmethod
    def check_recipe(recipe: Any) -> None:
        """Raise where a setting means nothing to this task, or a figure is wanted of what is not trained."""
        refuse_sampling(recipe)
        for field, name in named_metrics(recipe).items():
            if name == FOLLOWERS and recipe.data.pairs == "none":
                raise InputError("recipe", field=field, expected=NO_PAIRS, found=repr(name))

    @staticmethod
    def load(data: PretrainData, folder: Path, seed: int) -> Splits:
        return load_documents(data, folder, seed)

    @staticmethod
    def read_file(path: Path, data: PretrainData) -> list[Text]:
        return read_documents(path, data)

    @staticmethod
    def records(given: Any, data: PretrainData) -> list[Text]:
        return documents_of(given, data)

    def examples(self, folder: Path, seed: int, test: Sequence[Text] | None = None) -> list[str]:
        """Texts with a blank: the built-in source's own, or sentences of the test documents that miss a word."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = load_documents(self.data, folder, seed).test if test is None else test
        sentences = (next(iter(sentences_of(document.source)), "") for document in test[:100])
        worded = [words for sentence in sentences if 2 < len(words := sentence.split()) < 30]
        return [" ".join([*words[: len(words) // 2], BLANK, *words[len(words) // 2 + 1 :]]) for words in worded[:10]]

    @classmethod
    def learn(cls, data: PretrainData, train: Sequence[Text]) -> Pretrain:
        """The task of these training documents: its pieces are learnt from them alone, unless a file has them."""
        return cls(data, _with_blanks(learn_tokenizer([text.source for text in train], data.tokens)))

    @classmethod
    def restore(cls, data: PretrainData, files: dict[str, str]) -> Pretrain:
        if FILE not in files:
            raise InputError(FILE, expected="a tokenizer in the bundle", found="no such file")
        return cls(data, _with_blanks(stored_tokenizer(files[FILE], FILE)))

    @property
    def reads_pairs(self) -> bool:
        """Whether texts come in pairs, each with its segment."""
        return self.data.pairs == "next"

    def files(self) -> dict[str, str]:
        return {FILE: self.tokenizer.to_json()}

    # Documents become rows ------------------------------------------------------------------------------------------

    def corpus(self, texts: Sequence[Text], where: str) -> Corpus:
        """Documents as ids, cut into stretches; every token is in one of them."""
        documents = Documents.of(self._encoded(texts))
        if self.data.pairs == "next" and len(documents) < 2:
            hint = "data.pairs: none pre-trains on single texts; data.unit says what a document is"
            found = f"{len(documents)}"
            raise InputError(
                where, expected="two documents at least, to draw second texts from", found=found, hint=hint
            )
        return self._cut(texts, documents, where)

    def _encoded(self, texts: Sequence[Text]) -> Iterator[list[list[int]]]:
        """Documents of sentences of ids, some at a time: as lists all of them would take many times their memory."""
        for start in range(0, len(texts), ENCODED_TOGETHER):
            parted = [list(sentences_of(text.source)) for text in texts[start : start + ENCODED_TOGETHER]]
            encoded = iter(self.tokenizer.encode_all([sentence for document in parted for sentence in document]))
            for document in parted:
                yield [next(encoded) for _ in document]

    def _cut(self, texts: Sequence[Text], documents: Documents, where: str) -> Corpus:
        stretches = stretches_of(documents, self.data.room, self.data.short)
        sentences, tokens = len(documents.sentences) - 1, len(documents.ids)
        made = f"{len(stretches):,} rows of up to {self.data.length} positions"
        note = f"{where}: {len(documents):,} documents, {sentences:,} sentences, {tokens:,} tokens in {made}"
        if where == "data.train" and self.data.pairs == "next":  # said once
            note += _hollow(documents, stretches)
        return Corpus(texts, documents, stretches, note)

    def plan(
        self, corpus: Corpus, *, tokens: int | None, records: int | None, seed: int, epoch: int
    ) -> list[list[int]]:
        if tokens is not None and tokens < self.data.length:
            raise SaccadeError(
                f"a row of {self.data.length} positions does not fit into a batch of {tokens} tokens: raise "
                "train.batch_tokens or lower data.length"
            )
        sizes = np.maximum(corpus.stretches.stop - corpus.stretches.start, 2) + MARKS
        lengths = [(size - 1, 0) for size in sizes.tolist()]  # plan() counts one more, the end of a side
        draw = draw_of(seed, epoch)
        return [Visit(batch, draw) for batch in plan(lengths, tokens=tokens, records=records, seed=seed, epoch=epoch)]

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        pairs, masked = self.data.pairs == "next", self.data.masked
        made = collate(corpus.documents, corpus.stretches, numbers, self._marks, masked=masked, pairs=pairs)
        return replace(made, longest=self.data.length)

    @cached_property
    def _marks(self) -> Marks:
        pieces = self.tokenizer
        marks = (pieces.PAD, pieces.BOS, pieces.EOS, pieces.UNK, pieces.MASK)
        ordinary = np.setdiff1d(np.arange(pieces.size), marks)
        return Marks(pieces.PAD, pieces.BOS, pieces.EOS, pieces.MASK, ordinary)

    # Rows become a loss -----------------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> nn.Module:
        if list(inspect.signature(network_class).parameters) != ["config", "vocabulary"]:
            expected = "a network that finds masked words, such as bert"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: nn.Module = network_class(config, self.tokenizer.size)
        longest: Any = network.longest
        if longest is not None and self.data.length > longest:
            expected = f"at most {longest}, the positions of the network"
            raise InputError("recipe", field="data.length", expected=expected, found=str(self.data.length))
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """The two means, times the number of blanks; smoothing is for the words alone."""
        if sampling:
            raise SaccadeError(f"train.sampling must be 0 for the task pretrain: got {sampling}")
        words, follows = network(batch.text, batch.lengths, self._segments(batch), batch.chosen)
        total = _entropy(words.flatten(0, 1), batch.words.flatten(), smoothing)
        if self.data.pairs == "next":
            # Counted on the device: a recorded update must not keep this batch's numbers.
            blanks, rows = ((each != IGNORED).sum() for each in (batch.words, batch.follows))
            total = total + _entropy(follows, batch.follows) * blanks / rows.clamp_min(1)
        return Loss(total, batch.tokens)

    def _segments(self, batch: Batch) -> Tensor | None:
        return batch.segments if self.data.pairs == "next" else None

    # A text with blanks becomes words --------------------------------------------------------------------------------

    def predict(
        self, network: Any, inputs: Sequence[Any], *, how: Search, lens: Lens | None = None
    ) -> list[Prediction]:
        """The likeliest words for every [MASK], each blank by itself; ``how.n_best`` asks for the next likeliest fillings.

        Two texts with a tab between them are read as a pair; of these without a blank it is told whether the second
        follows the first.
        """
        if how.sample is not None or how.diverse is not None:
            raise SaccadeError("the task pretrain says the likeliest words: it does not sample or search")
        asked = [self._read(each, number, network.longest) for number, each in enumerate(inputs)]
        single = getattr(getattr(network, "config", None), "segments", 2) < 2
        pair = next((number for number, each in enumerate(asked, start=1) if each.pair), None) if single else None
        if pair is not None:
            raise InputError(f"input {pair}", expected="one text, as model.segments is 1", found="two")
        with eval_mode(network):
            found = [self._filled(network, self._warned(each), how, lens) for each in asked]
        if lens is not None and inputs:
            lens.check()
        return found

    def _warned(self, asked: FillMaskInput) -> FillMaskInput:
        """With a note where what is asked for was never trained."""
        part: Literal["words", "followers"] = "words" if asked.blanks else "followers"
        return replace(asked, notes=(*asked.notes, *never_trained(part, self.untrained, self.data.pairs)))

    def check_input(self, given: Any, number: int) -> None:
        """Raise where this input, the ``number``-th from 0, cannot be read."""
        self._read(given, number, None)

    def _read(self, given: Any, number: int, longest: int | None) -> FillMaskInput:
        where = f"input {number + 1}"
        if not isinstance(given, str):
            raise InputError(where, expected="a text", found=type(given).__name__)
        texts = given.split(BETWEEN)
        if len(texts) > 2 or not all(text.strip() for text in texts):
            found = (
                f"{len(texts)} texts" if len(texts) > 2 else "nothing in one of them" if len(texts) > 1 else "nothing"
            )
            raise InputError(where, expected="a text, or two with a tab between them", found=found)
        if BLANK not in given and len(texts) == 1:
            hint = "a second text after a tab is judged without one"
            expected, found = f"a text with {BLANK} where a word is to be found", repr(given[:60])
            raise InputError(where, expected=expected, found=found, hint=hint)
        asked = self._laid_out(texts)
        if longest is not None and len(asked.ids) > longest:
            raise InputError(where, expected=f"at most {longest} tokens, marks counted", found=str(len(asked.ids)))
        unknown = asked.ids.count(self.tokenizer.UNK)
        return replace(asked, notes=(f"{unknown} of {len(asked.ids)} tokens are {'[UNK]'}",)) if unknown else asked

    def _laid_out(self, texts: Sequence[str]) -> FillMaskInput:
        ids, spans, segments, start = [self.tokenizer.BOS], [(0, 0)], [0], 0
        for segment, text in enumerate(texts):
            here, places = self.tokenizer.blanked(text)
            ids += [*here, self.tokenizer.EOS]
            spans += [(start + first, start + last) for first, last in places]
            start += len(text)
            spans.append((start, start))
            segments += [segment] * (len(here) + 1)
            start += len(BETWEEN)
        blanks = [place for place, token in enumerate(ids) if token == self.tokenizer.MASK]
        return FillMaskInput(BETWEEN.join(texts), ids, spans, segments, blanks)

    @torch.no_grad()
    def _filled(self, network: Any, asked: FillMaskInput, how: Search, lens: Lens | None) -> Prediction:
        device = next(network.parameters()).device
        rows = [torch.tensor([each], device=device) for each in (asked.ids, asked.segments, asked.blanks or [0])]
        lengths = torch.tensor([len(asked.ids)], device=device)
        looking = lens.fresh() if lens is not None else None
        words, follows = network(rows[0], lengths, rows[1] if asked.pair else None, rows[2], lens=looking)
        judged = follows[0].float().softmax(-1).tolist()
        likely = self._likely(words[0].float(), max(SHOWN, how.n_best)) if asked.blanks else []
        made = filling(asked, likely, judged, how.n_best)
        if looking is None:
            return made
        return replace(made, trace=self._trace(asked, made, assemble(looking.records, 0)))

    def _likely(self, logits: Tensor, count: int) -> list[dict[str, float]]:
        """The likeliest pieces of each blank and their probabilities; marks are no words."""
        shares = logits.softmax(-1)
        pieces = self.tokenizer
        marks = [pieces.PAD, pieces.BOS, pieces.EOS, pieces.UNK, pieces.MASK]
        shares[:, marks] = -1.0  # after words of no probability
        values, ids = shares.topk(min(count, shares.shape[-1] - len(marks)))
        return [
            dict(zip(pieces.pieces(row), share, strict=True))
            for row, share in zip(ids.tolist(), values.tolist(), strict=True)
        ]

    def _trace(self, asked: FillMaskInput, made: Prediction, seen: Trace) -> Trace:
        pieces = self.tokenizer
        marks = (pieces.BOS, pieces.EOS)
        written = [asked.text[first:last] for first, last in asked.spans]
        labels = [text or piece for text, piece in zip(written, pieces.pieces(asked.ids), strict=True)]
        special = tuple(place for place, token in enumerate(asked.ids) if token in marks)
        shown = asked.text.replace(BETWEEN, BREAK)  # as long: the spans stay
        axes = {"text": Tokens(tuple(labels), text=shown, spans=tuple(asked.spans), special=special)}
        about = {"task": self.name, "input": asked.text, "output": made.value, "score": made.score}
        return seen.labelled(axes, **about, choices=[dict(each) for each in made.choices])

    # Figures ----------------------------------------------------------------------------------------------------------

    def check_metrics(self, names: Sequence[str]) -> None:
        """Raise where a metric is asked for that there is not, or that is of pairs where there are none."""
        unknown = [name for name in names if name not in self.metrics]
        if unknown:
            raise InputError("metrics", expected=f"any of {', '.join(self.metrics)}", found=repr(unknown[0]))
        if FOLLOWERS in names and self.data.pairs == "none":
            raise InputError("metrics", expected=NO_PAIRS, found=repr(FOLLOWERS))

    def evaluate(
        self, network: Any, corpus: Corpus, *, how: Search, metrics: Sequence[str], limit: int | None = None
    ) -> Evaluation:
        """How well blanks are filled and followers told, on one draw that is always the same; ``limit``: documents."""
        self.check_metrics(metrics)
        if limit is not None and limit < len(corpus.documents):
            corpus = self._first(corpus, max(limit, 2 if self.data.pairs == "next" else 1))
        sums = self._sums(network, corpus)
        mean = sums.loss / max(1, sums.blanks)
        figures = {
            "mlm_accuracy": sums.found / max(1, sums.blanks),
            "mlm_perplexity": math.exp(min(mean, 700.0)),
            "mlm_loss": mean,
            "nsp_accuracy": sums.told / max(1, sums.rows),
        }
        higher = {name: name.endswith("accuracy") for name in metrics}
        words, followers = (any(name.startswith(of) for name in metrics) for of in ("mlm", "nsp"))
        notes = never_trained("words", self.untrained, self.data.pairs) if words else ()
        notes += never_trained("followers", self.untrained, self.data.pairs) if followers else ()
        return Evaluation({name: figures[name] for name in metrics}, {}, higher, notes=notes)

    def _first(self, corpus: Corpus, count: int) -> Corpus:
        bounds = corpus.documents.documents[: count + 1]
        sentences = corpus.documents.sentences[: int(bounds[-1]) + 1]
        return self._cut(
            corpus.texts[:count], Documents(corpus.documents.ids[: int(sentences[-1])], sentences, bounds), ""
        )

    @torch.no_grad()
    def _sums(self, network: Any, corpus: Corpus) -> Sums:
        device, tokens = next(network.parameters()).device, max(EVALUATED_TOGETHER, self.data.length)
        loss, blanks, found, rows, told = 0.0, 0, 0, 0, 0
        with eval_mode(network):
            for numbers in self.plan(corpus, tokens=tokens, records=None, seed=0, epoch=0):
                batch = self.batch(corpus, numbers).to(device)
                words, follows = network(batch.text, batch.lengths, self._segments(batch), batch.chosen)
                loss += float(_entropy(words.flatten(0, 1), batch.words.flatten()))
                found += int((words.argmax(-1) == batch.words).sum())
                told += int((follows.argmax(-1) == batch.follows).sum())
                blanks, rows = blanks + batch.tokens, rows + len(numbers)
        return Sums(loss, blanks, found, rows, told)


def _hollow(documents: Documents, stretches: Stretches) -> str:
    """A warning where telling what follows would need no reading: true second texts begin in mid-sentence, false ones not."""
    inside = stretches.within_a_sentence(documents)
    if inside <= HOLLOW * len(stretches):
        return ""
    return (
        f"; {inside:,} of the rows hold no more than one sentence: there a second text that follows begins in mid-sentence "
        "and one that does not begins a sentence, so nsp_accuracy says little. Set data.pairs: none, or let documents have "
        "several sentences (data.unit)"
    )


def _with_blanks(tokenizer: Any) -> WordPieces:
    if not isinstance(tokenizer, WordPieces):
        raise InputError(FILE, expected="a tokenizer of the kind bert", found=tokenizer.config.kind)
    return tokenizer


def _entropy(logits: Tensor, target: Tensor, smoothing: float = 0.0) -> Tensor:
    return functional.cross_entropy(
        logits.float(), target, ignore_index=IGNORED, reduction="sum", label_smoothing=smoothing
    )
