"""Pre-trains on raw text: predicts masked words, and whether a second text follows the first (next-sentence prediction).

A document becomes rows with blanks, drawn again in each epoch (:mod:`saccade.data.texts.masking`), the logits the loss

    loss = mean over the blanks of −log p(word) + mean over the rows of −log p(follows or not)

A prediction fills each [MASK] of a text with its likeliest words; a trace is labelled with the pieces.
"""

from __future__ import annotations

import heapq
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.data.batching import Corpus
from saccade.data.files.records import Name
from saccade.data.texts import masking
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
from saccade.data.texts.records import MARKS, PretrainData, Text, load_texts, read_texts, sentences_of, texts_of
from saccade.data.tokenizers.tokenizer import CONTINUES
from saccade.data.tokenizers.wordpiece import BLANK, WordPieces, learn_tokenizer, stored_tokenizer
from saccade.data.toy.topics import EXAMPLES
from saccade.errors import InputError
from saccade.kinds import PAIR
from saccade.metrics.text import MASKED_METRICS, Score
from saccade.models import name_of
from saccade.nn.search.beam_search import Search
from saccade.task import (
    Evaluation,
    Loss,
    Prediction,
    Probabilities,
    Progress,
    Scored,
    Scores,
    Surveys,
    Task,
    eval_mode,
    keep_best,
    named_metrics,
)
from saccade.tasks.axes import BREAK
from saccade.tasks.scoring import choice_scorer
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens, assemble
from saccade.trace.maps import Trace

FILE = "tokenizer.json"
BETWEEN = "\t"  # between the two texts of a pair, in inputs and outputs
EVALUATED_TOGETHER = 16_384  # positions
ENCODED_TOGETHER = 4_000  # documents
SHOWN = 10  # words per blank
FOLLOWS, ELSEWHERE = "follows", "does not follow"
# The parts of the network that each answer needs beside the encoder.
NEEDED = {"words": ("transform",), "followers": ("next", "trunk.pooler")}
FOLLOWERS, NO_PAIRS = "nsp_accuracy", "metrics of masked words (mlm_…), since data.pairs is none"
HOLLOW = 0.25  # warn about next-sentence metrics from this share of rows inside one sentence


@dataclass(frozen=True)
class Sums:
    """The sums from which the metrics are computed."""

    loss: float
    blanks: int
    right_words: int
    rows: int
    right_rows: int


class Pretrain(Scores, Surveys, Task):
    """The task: a tokenizer with a [MASK] token, and how rows are made."""

    name = "pretrain"
    Data = PretrainData
    record_types = (Text,)
    network_base = nn.Module
    metrics = MASKED_METRICS
    input = PAIR
    output = "text"
    survey = "texts"

    def __init__(self, data: PretrainData, tokenizer: WordPieces) -> None:
        self.data, self.tokenizer = data, tokenizer

    @classmethod
    def check_recipe(cls, recipe: Any) -> None:
        super().check_recipe(recipe)
        for setting, name in named_metrics(recipe).items():
            if name == FOLLOWERS and recipe.data.pairs == "none":
                raise InputError("recipe", field=setting, expected=NO_PAIRS, found=repr(name))

    load = staticmethod(load_texts)
    read_file = staticmethod(read_texts)
    records = staticmethod(texts_of)

    def examples(self, folder: Path, seed: int, test: Sequence[Text] | None = None) -> list[str]:
        """Texts with a [MASK]: those of the built-in source, or sentences of the test documents with one word masked."""
        if self.data.source is not None:
            return list(EXAMPLES)
        test = self.load(self.data, folder, seed).test if test is None else test
        sentences = (next(iter(sentences_of(document.source)), "") for document in test[:100])
        usable = [words for sentence in sentences if 2 < len(words := sentence.split()) < 30]
        return [" ".join([*words[: len(words) // 2], BLANK, *words[len(words) // 2 + 1 :]]) for words in usable[:10]]

    @classmethod
    def learn(cls, data: PretrainData, train: Sequence[Text]) -> Pretrain:
        """The task of these training documents: its pieces are learnt from them, or read from a vocabulary file."""
        return cls(data, _with_blanks(learn_tokenizer([text.source for text in train], data.tokens)))

    @classmethod
    def restore(cls, data: PretrainData, files: dict[str, str]) -> Pretrain:
        if FILE not in files:
            raise InputError(FILE, expected="a tokenizer in the bundle", found="no such file")
        return cls(data, _with_blanks(stored_tokenizer(files[FILE], FILE)))

    @classmethod
    def of_import(cls, data: PretrainData, tokenizer: WordPieces, labels: Sequence[str], *, pairs: bool) -> Pretrain:
        return cls(data, tokenizer)

    @property
    def reads_pairs(self) -> bool:
        """Whether texts come in pairs, each with its segment."""
        return bool(self.data.pairs == "next")

    @property
    def vocabularies(self) -> dict[str, Any]:
        return {"text": self.tokenizer}

    @property
    def unreached(self) -> tuple[str, ...]:
        """Without pairs nothing trains the next-sentence head."""
        return NEEDED["followers"] if self.data.pairs == "none" else ()

    def files(self) -> dict[str, str]:
        return {FILE: self.tokenizer.to_json()}

    # Documents become rows ------------------------------------------------------------------------------------------

    def corpus(self, records: Sequence[Text], where: str) -> Corpus:
        """A row is a stretch of a document; every token is in one of them."""
        documents = Documents.of(self._encoded(records))
        if self.data.pairs == "next" and len(documents) < 2:
            hint = "data.pairs: none pre-trains on single texts; data.unit says what a document is"
            found = f"{len(documents)}"
            raise InputError(
                where, expected="at least two documents, to draw second texts from", found=found, hint=hint
            )
        return self._cut(records, documents, where)

    def _encoded(self, texts: Sequence[Text]) -> Iterator[list[list[int]]]:
        """Documents of sentences of ids, a few thousand at a time: as lists, all of them would take too much memory."""
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
        if where == "data.train" and self.data.pairs == "next":  # warn once
            note += _hollow(documents, stretches)
        costs = np.maximum(stretches.stop - stretches.start, 2) + MARKS
        return Corpus(texts, range(len(stretches)), costs, note, shared=(documents, stretches))

    def row_name(self, corpus: Corpus, number: int) -> str:
        return f"a row of {corpus.costs[number]} positions (data.length)"

    def visit(self, batch: list[int], seed: int, epoch: int) -> list[int]:
        """Blanks are drawn again in each epoch."""
        return Visit(batch, draw_of(seed, epoch))

    def batch(self, corpus: Corpus, numbers: Sequence[int]) -> Batch:
        pairs, masked = self.data.pairs == "next", self.data.masked
        documents, stretches = corpus.shared
        batch = collate(documents, stretches, numbers, self._marks, masked=masked, pairs=pairs)
        return replace(batch, longest=self.data.length)

    @cached_property
    def _marks(self) -> Marks:
        pieces = self.tokenizer
        marks = (pieces.PAD, pieces.BOS, pieces.EOS, pieces.UNK, pieces.MASK)
        ordinary = np.setdiff1d(np.arange(pieces.size), marks)
        return Marks(pieces.PAD, pieces.BOS, pieces.EOS, pieces.MASK, ordinary)

    # Rows become a loss -----------------------------------------------------------------------------------------------

    def network(self, network_class: Any, config: Any) -> nn.Module:
        if list(inspect.signature(network_class).parameters) != ["config", "vocabulary"]:
            expected = "a network that predicts masked words, such as bert"
            raise InputError("recipe", field="model.name", expected=expected, found=repr(name_of(network_class)))
        network: nn.Module = network_class(config, self.tokenizer.size)
        longest: Any = network.longest
        if longest is not None and self.data.length > longest:
            expected = f"at most {longest}, the positions of the network"
            raise InputError("recipe", field="data.length", expected=expected, found=str(self.data.length))
        return network

    def loss(self, network: nn.Module, batch: Batch, *, smoothing: float = 0.0, sampling: float = 0.0) -> Loss:
        """The two means, times the number of blanks; smoothing applies to the words only."""
        words, follows = network(batch.text, batch.lengths, self._segments(batch), batch.chosen)
        total = _entropy(words.flatten(0, 1), batch.words.flatten(), smoothing)
        if self.data.pairs == "next":
            # Counted on the device: a CUDA graph must not contain the numbers of one batch.
            blanks, rows = ((targets != IGNORED).sum() for targets in (batch.words, batch.follows))
            total = total + _entropy(follows, batch.follows) * blanks / rows.clamp_min(1)
        return Loss(total, batch.tokens)

    def _segments(self, batch: Batch) -> Tensor | None:
        return batch.segments if self.data.pairs == "next" else None

    # A text with blanks becomes words --------------------------------------------------------------------------------

    def input_columns(self, names: Sequence[Any]) -> tuple[Name, ...]:
        return (self.data.column,)

    def read(self, given: Any, where: str, network: Any = None) -> FillMaskInput:
        """An input is a text with [MASK] in it, or two texts with a tab between them, which are read as a pair."""
        texts = (
            given if isinstance(given, tuple | list) else given.split(BETWEEN) if isinstance(given, str) else [given]
        )
        if not all(isinstance(text, str) for text in texts):
            raise InputError(where, expected="a text", found=type(given).__name__)
        if len(texts) > 2 or not all(text.strip() for text in texts):
            found = f"{len(texts)} texts" if len(texts) > 2 else "nothing in one of them" if texts[1:] else "nothing"
            raise InputError(where, expected="a text, or two with a tab between them", found=found)
        if not any(BLANK in text for text in texts) and len(texts) == 1:
            hint = "or add a second text after a tab, to predict whether it follows"
            expected, found = f"a text with {BLANK} in place of a word", repr(given[:60])
            raise InputError(where, expected=expected, found=found, hint=hint)
        item = self._laid_out(texts)
        if network is not None:
            self._check_network(item, network, where)
        unknown = item.ids.count(self.tokenizer.UNK)
        notes = [f"{unknown} of {len(item.ids)} tokens are [UNK]"] if unknown else []
        part: Literal["words", "followers"] = "words" if item.blanks else "followers"
        return replace(item, notes=(*notes, *never_trained(part, self.untrained, self.data.pairs)))

    def _check_network(self, item: FillMaskInput, network: Any, where: str) -> None:
        if network.longest is not None and len(item.ids) > network.longest:
            expected = f"at most {network.longest} tokens, special tokens included"
            raise InputError(where, expected=expected, found=str(len(item.ids)))
        if item.pair and getattr(getattr(network, "config", None), "segments", 2) < 2:
            raise InputError(where, expected="one text, as model.segments is 1", found="two")

    def forward(
        self, network: Any, items: Sequence[FillMaskInput], *, how: Search, lens: Lens | None
    ) -> list[Prediction]:
        """The likeliest words for every [MASK], each independently; ``how.n_best`` adds the next fillings. For a pair without a
        [MASK]: whether the second text follows the first."""
        return [self._filled(network, item, how, lens) for item in items]

    def scorer(self, network: Any, given: Any, output: Any, *, ended: bool = True) -> Callable[[Lens], Scored]:
        """How likely a word is for the only blank, or that the second text follows the first."""
        prediction = self.predict(network, [given], how=Search())[0]
        if output in (None, prediction.value) and prediction.probabilities:  # the filled text stands for its word
            output = max(prediction.probabilities, key=prediction.probabilities.__getitem__)
        return choice_scorer(self, network, given, output)

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

    def _filled(self, network: Any, item: FillMaskInput, how: Search, lens: Lens | None) -> Prediction:
        device = next(network.parameters()).device
        rows = [torch.tensor([part], device=device) for part in (item.ids, item.segments, item.blanks or [0])]
        lengths = torch.tensor([len(item.ids)], device=device)
        item_lens = lens.fresh() if lens is not None else None
        words, follows = network(rows[0], lengths, rows[1] if item.pair else None, rows[2], lens=item_lens)
        likely = self._likely(words[0].float(), max(SHOWN, how.n_best)) if item.blanks else []
        prediction = filling(item, likely, follows[0].float().softmax(-1).tolist(), how.n_best)
        if item_lens is None:
            return prediction
        return replace(prediction, trace=self._trace(item, prediction, assemble(item_lens.records, 0)))

    def _likely(self, logits: Tensor, count: int) -> list[dict[str, float]]:
        """The likeliest pieces of each blank and their probabilities, without special tokens."""
        shares = logits.softmax(-1)
        pieces = self.tokenizer
        marks = [pieces.PAD, pieces.BOS, pieces.EOS, pieces.UNK, pieces.MASK]
        shares[:, marks] = -1.0  # below all words
        values, ids = shares.topk(min(count, shares.shape[-1] - len(marks)))
        return [
            dict(zip(pieces.pieces(row), share, strict=True))
            for row, share in zip(ids.tolist(), values.tolist(), strict=True)
        ]

    def _trace(self, item: FillMaskInput, prediction: Prediction, seen: Trace) -> Trace:
        pieces = self.tokenizer
        marks = (pieces.BOS, pieces.EOS)
        written = [item.text[first:last] for first, last in item.spans]
        labels = [text or piece for text, piece in zip(written, pieces.pieces(item.ids), strict=True)]
        special = tuple(place for place, token in enumerate(item.ids) if token in marks)
        shown = item.text.replace(BETWEEN, BREAK)  # of the same length: the spans stay valid
        axes = {"text": Tokens(tuple(labels), text=shown, spans=tuple(item.spans), special=special)}
        about = {**self.about, "input": item.text, "output": prediction.value, "score": prediction.score}
        return seen.labelled(axes, **about, choices=[dict(choice) for choice in prediction.choices])

    # Figures ----------------------------------------------------------------------------------------------------------

    def check_metrics(self, names: Sequence[str]) -> None:
        super().check_metrics(names)
        if FOLLOWERS in names and self.data.pairs == "none":
            raise InputError("metrics", expected=NO_PAIRS, found=repr(FOLLOWERS))

    def measure(
        self, network: Any, corpus: Corpus, metrics: list[str], how: Search, progress: Progress | None
    ) -> Evaluation:
        """Metrics of masked words and of next sentences, on one fixed draw."""
        sums = self._sums(network, corpus)
        mean = sums.loss / max(1, sums.blanks)
        figures = {
            "mlm_accuracy": sums.right_words / max(1, sums.blanks),
            "mlm_perplexity": math.exp(min(mean, 700.0)),
            "mlm_loss": mean,
            "nsp_accuracy": sums.right_rows / max(1, sums.rows),
        }
        scores = {name: Score(name, figures[name], name.endswith("accuracy")) for name in metrics}
        words, followers = (any(name.startswith(of) for name in metrics) for of in ("mlm", "nsp"))
        notes = never_trained("words", self.untrained, self.data.pairs) if words else ()
        notes += never_trained("followers", self.untrained, self.data.pairs) if followers else ()
        return Evaluation.of(scores, notes=notes)

    def first(self, corpus: Corpus, limit: int | None) -> Corpus:
        if limit is None or limit >= len(corpus.records):
            return corpus
        documents, count = corpus.shared[0], max(limit, 2 if self.data.pairs == "next" else 1)
        bounds = documents.documents[: count + 1]
        sentences = documents.sentences[: int(bounds[-1]) + 1]
        ids = documents.ids[: int(sentences[-1])]
        return self._cut(corpus.records[:count], Documents(ids, sentences, bounds), "")

    @torch.no_grad()
    def _sums(self, network: Any, corpus: Corpus) -> Sums:
        device, tokens = next(network.parameters()).device, max(EVALUATED_TOGETHER, self.data.length)
        loss, blanks, right_words, rows, right_rows = 0.0, 0, 0, 0, 0
        with eval_mode(network):
            for numbers in self.plan(corpus, tokens=tokens, records=None, seed=0, epoch=0):
                batch = self.batch(corpus, numbers).to(device)
                words, follows = network(batch.text, batch.lengths, self._segments(batch), batch.chosen)
                loss += float(_entropy(words.flatten(0, 1), batch.words.flatten()))
                right_words += int((words.argmax(-1) == batch.words).sum())
                right_rows += int((follows.argmax(-1) == batch.follows).sum())
                blanks, rows = blanks + batch.tokens, rows + len(numbers)
        return Sums(loss, blanks, right_words, rows, right_rows)


def _hollow(documents: Documents, stretches: Stretches) -> str:
    """A warning if next sentences can be recognised without reading: true ones begin in mid-sentence, false ones do not."""
    inside = stretches.within_a_sentence(documents)
    if inside <= HOLLOW * len(stretches):
        return ""
    return (
        f"; {inside:,} of the rows contain at most one sentence: there a true second text begins in mid-sentence and a "
        "false one at the start of a sentence, so nsp_accuracy is not meaningful. Set data.pairs: none, or use documents of "
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


@dataclass(frozen=True)
class FillMaskInput:
    """An input: one or two texts with [MASK]s, the ids with special tokens, their character spans, and the [MASK] positions."""

    text: str
    ids: list[int]
    spans: list[tuple[int, int]]
    segments: list[int]
    blanks: list[int]
    notes: tuple[str, ...] = ()

    @property
    def pair(self) -> bool:
        return self.segments[-1] == 1


@dataclass(frozen=True)
class FillDetail(Probabilities):
    """The likeliest words of every blank with their probabilities; ``probabilities`` are those of the only blank, or of whether
    the second text follows."""

    choices: tuple[Mapping[str, float], ...] = ()


def filling(
    item: FillMaskInput, likely: Sequence[Mapping[str, float]], judged: Sequence[float], n_best: int
) -> Prediction:
    """The likeliest fillings of all blanks; the probabilities of the blanks are multiplied, as if they were independent."""
    shares = {FOLLOWS: judged[masking.FOLLOWS], ELSEWHERE: judged[masking.ELSEWHERE]}
    parts = shares if item.pair else {}
    if not likely:
        value = max(shares, key=shares.__getitem__)
        score = shares[value]
        return Prediction(value, score, _log(score), notes=item.notes, parts=parts, detail=FillDetail(shares))
    best = [
        Prediction(filled(item.text, words), share, _log(share), notes=item.notes, parts=parts)
        for share, words in _best(likely, n_best)
    ]
    single = dict(likely[0]) if len(likely) == 1 else {}
    return replace(keep_best(best), detail=FillDetail(single, tuple(likely)))


def never_trained(
    part: Literal["words", "followers"], untrained: Sequence[str], pairs: Literal["next", "none"]
) -> tuple[str, ...]:
    """A note if the head that answers is among the ``untrained`` parts: the imported model lacked it, or all runs were trained
    on single texts (``pairs``).

    >>> never_trained("followers", ("next", "trunk.pooler"), "none")
    ('the next-sentence head was never trained (data.pairs: none); ignore its output',)
    >>> never_trained("followers", (), "none")  # fine-tuned from a network with a trained head
    ()
    """
    if not any(name in untrained for name in NEEDED[part]):
        return ()
    single = part == "followers" and pairs == "none"
    head = "masked-word" if part == "words" else "next-sentence"
    why = "data.pairs: none" if single else "not in the imported model"
    return (f"the {head} head was never trained ({why}); ignore its output",)


def _best(likely: Sequence[Mapping[str, float]], count: int) -> list[tuple[float, tuple[str, ...]]]:
    # Blank by blank: the best `count` fillings of all blanks extend the best `count` fillings of the first ones.
    best: list[tuple[float, tuple[str, ...]]] = [(1.0, ())]
    for choices in likely:
        longer = ((share * own, (*words, word)) for share, words in best for word, own in choices.items())
        best = heapq.nlargest(count, longer, key=lambda filling: filling[0])
    return best


def filled(text: str, words: Sequence[str]) -> str:
    """The text with its blanks filled; a word-internal piece is joined to the text before it.

    >>> filled("un [MASK] is [MASK] .", ["##able", "bad"])
    'unable is bad .'
    """
    return "".join(_parts(text.split(BLANK), words))


def _parts(texts: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    for text, word in zip(texts, (*words, ""), strict=True):
        inside = word.startswith(CONTINUES)
        yield text.rstrip(" ") if inside else text
        yield word.removeprefix(CONTINUES) if inside else word


def _log(share: float) -> float:
    return math.log(max(share, 1e-300))
