"""Collects the words that a classifier attends to, by label, over a whole data set.

The weights of a text are αₛ over its positions, from its label. If a network attends first to sentences and in them to words
(Yang et al. 2016), the weights are multiplied, so that they sum to 1 too:

    αₛ = Σᵢ p(sentence i) · p(s | sentence i)

(Drawings of a document use √p(sentence), so that words of unimportant sentences stay visible; means do not.) For a word w that
occurs n(w) times in the texts of a label:

    total(w) = Σ αₛ         mean(w) = total(w) / n(w)         lift(w) = mean of αₛ · (length of its text)

The lift is 1 if the weights of a text are uniform, whatever its length. Tokens of one word are joined; special tokens are not
words. The paper argues from the weight of words such as "good" by label that attention depends on context:
:attr:`Words.weights` has all weights of the watched words.

Legend: S positions, M sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from jaxtyping import Float
from torch import Tensor

from saccade.api.bundle import Bundle
from saccade.errors import SaccadeError
from saccade.task import Task
from saccade.trace.axes import Axis, Tokens
from saccade.trace.lens import Lens
from saccade.trace.maps import AttentionMap, Trace

TEXT, LABEL = "text", "label"
TOGETHER = 256  # texts whose traces are held at a time
Rank = Literal["mean", "total", "lift"]
Whose = Literal["predicted", "given"]


@dataclass(frozen=True)
class Word:
    """The attention on one word in the texts of a label, over ``count`` occurrences."""

    word: str
    count: int
    mean: float
    total: float
    lift: float


@dataclass(frozen=True)
class Words:
    """The words of each label, by mean weight, and the number of texts per label.

    Attributes:
        labels: label → its words.
        texts: label → how many texts.
        site: the attention site; ``a × b`` if the weights of two are multiplied.
        whose: whether labels are those ``predicted`` or those ``given``.
        marks: the share of the weight on special tokens such as ``<eos>``.
        least: words with fewer occurrences are left out.
        weights: watched word → label → its weight at each occurrence.
        notes: warnings.
    """

    labels: dict[str, tuple[Word, ...]]
    texts: dict[str, int]
    site: str
    whose: Whose
    marks: float
    least: int
    weights: dict[str, dict[str, tuple[float, ...]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def top(self, label: str, count: int, by: Rank = "mean") -> list[Word]:
        """The first ``count`` words of a label by mean weight, by total weight, or by lift."""
        return sorted(self.labels[label], key=lambda word: (-getattr(word, by), word.word))[:count]

    def to_plain(self, top: int, by: Rank = "mean") -> dict[str, Any]:
        """As plain data, for JSON."""
        labels = {
            label: {"texts": self.texts[label], "words": [asdict(word) for word in self.top(label, top, by)]}
            for label in self.labels
        }
        about = {"site": self.site, "labels_are": self.whose, "marks": self.marks, "min_count": self.least, "rank": by}
        return {**about, "labels": labels, "weights": self.weights, "notes": list(self.notes)}


def words(
    bundle: Bundle,
    records: Any,
    *,
    whose: Whose = "predicted",
    site: str | None = None,
    least: int = 5,
    watch: Sequence[str] = (),
    progress: Callable[[int], None] = lambda count: None,
) -> Words:
    """The words that a classifier attends to in these records.

    Args:
        records: those of the task, or whatever ``bundle.evaluate`` takes: a list, a DataFrame, a file.
        site: the attention site to use if there are several; for attention on sentences and words, that on the words only.
        least: the fewest occurrences of a listed word.
        watch: words whose weights are all returned.
        progress: called with the number of further records that are done.

    >>> # explain.words.words(bundle, bundle.records_of(None)[0]).top("praise", 10)
    """
    if bundle.task.output != "label":
        raise SaccadeError(f"expected a classifier, found the task {bundle.task.name!r}")
    notes: Sequence[str] = ()
    if not (isinstance(records, Sequence) and all(hasattr(record, "source") for record in records)):
        records, _, notes = bundle.records_of(records)
    if not records:
        raise SaccadeError("expected at least one record, found none")
    folded = _folds(bundle.task)
    tally = _Tally(tuple(word.lower() if folded else word for word in watch))
    for first in range(0, len(records), TOGETHER):
        part = records[first : first + TOGETHER]
        made = bundle.predict([record.source for record in part], lens=Lens())
        for record, prediction in zip(part, made, strict=True):
            trace = prediction.trace or Trace()
            look = looked(trace, site)
            label = prediction.value if whose == "predicted" else record.target
            tally.add(label, look, trace.axes[TEXT], folded=folded)
        progress(len(part))
    words = tally.words(whose, least, bundle.task.labels)
    return replace(words, notes=(*notes, *words.notes))


@dataclass(frozen=True)
class Look:
    """The weight of each position of a text, and the uniform weight."""

    site: str
    weights: Float[Tensor, " S"]
    even: Float[Tensor, " S"]


def looked(trace: Trace, site: str | None = None) -> Look:
    """The attention of the label on its text; weights on sentences and on words in them are multiplied (see above)."""
    text = trace.axes.get(TEXT)
    parent = None if text is None else text.parent
    at_text = [map for map in trace.maps if map.key == TEXT and map.query in (LABEL, parent)]
    names = list(dict.fromkeys(map.site for map in at_text))
    if text is None or not names:
        there = ", ".join(trace.sites) or "none"
        raise SaccadeError(f"expected attention from the label on the words, found {there}")
    if site is not None and site not in names:
        raise SaccadeError(f"site: expected one of {', '.join(names)}, found {site!r}")
    if site is None and len(names) > 1:
        raise SaccadeError(f"site: expected one of {', '.join(names)}, since several attend to the words: --site SITE")
    name = site or names[0]
    of_words = [map for map in at_text if map.site == name]
    weights = _mean(of_words)  # [1, S], or [M, S]
    if of_words[0].query == LABEL:
        return Look(name, weights[0], weights.new_full((len(text),), 1 / len(text)))
    if site is not None:  # in each sentence they sum to 1
        return Look(name, weights.sum(0), weights.new_tensor(_even_within(text)))
    at_sentences = [map for map in trace.maps if map.query == LABEL and map.key == parent]
    if not at_sentences:
        raise SaccadeError(f"{name} attends to words from {parent}, but no site attends to {parent} from the label")
    both = f"{at_sentences[0].site} × {name}"
    return Look(both, (_mean(at_sentences) @ weights)[0], weights.new_full((len(text),), 1 / len(text)))


def _mean(heads: Sequence[AttentionMap]) -> Tensor:
    return sum((map.weights.float().cpu() for map in heads[1:]), heads[0].weights.float().cpu()) / len(heads)


def _even_within(text: Axis) -> list[float]:
    counts = {place: text.within.count(place) for place in set(text.within)}
    return [1 / counts[place] for place in text.within]


# Words out of tokens ----------------------------------------------------------------------------------------------------


def _folds(task: Task) -> bool:
    """Whether a tokenizer of the task lower-cases."""
    return any(tokenizer.config.lower for tokenizer in task.vocabularies.values())


def word_places(text: Axis) -> Iterator[tuple[str, list[int]]]:
    """Each word of a text and the positions of its tokens, without special tokens.

    Tokens belong to one word if the axis says so, or if they are adjacent letters without a gap.
    """
    special = set(getattr(text, "special", ()))
    places = [place for place in range(len(text)) if place not in special]
    group: list[int] = []
    for place in places:
        if group and not _goes_on(text, group[-1], place):
            yield "".join(text.labels[token] for token in group), group
            group = []
        group.append(place)
    if group:
        yield "".join(text.labels[token] for token in group), group


def _goes_on(text: Axis, before: int, place: int) -> bool:
    if not isinstance(text, Tokens) or place != before + 1:
        return False
    if text.words:
        return text.words[before] == text.words[place]
    if not text.spans or text.spans[before][1] != text.spans[place][0]:
        return False
    return text.labels[before][-1:].isalnum() and text.labels[place][:1].isalnum()


# Counting ---------------------------------------------------------------------------------------------------------------


class _Tally:
    """Sums over texts: (label, word) → [count, total weight, total lift]."""

    def __init__(self, watch: Sequence[str]) -> None:
        self.sums: dict[tuple[str, str], list[float]] = {}
        self.texts: dict[str, int] = {}
        self.watched: dict[str, dict[str, list[float]]] = {word: {} for word in watch}
        self.site, self.weight, self.on_marks = "", 0.0, 0.0

    def add(self, label: str, look: Look, text: Axis, *, folded: bool) -> None:
        self.site, self.texts[label] = look.site, self.texts.get(label, 0) + 1
        weights, even = look.weights.tolist(), look.even.tolist()
        marks = sum(weights[place] for place in getattr(text, "special", ()))
        self.weight, self.on_marks = self.weight + sum(weights), self.on_marks + marks
        for written, places in word_places(text):
            word = written.lower() if folded else written
            weight = sum(weights[place] for place in places)
            sums = self.sums.setdefault((label, word), [0, 0.0, 0.0])
            sums[0] += 1
            sums[1] += weight
            sums[2] += weight / sum(even[place] for place in places)
            if word in self.watched:
                self.watched[word].setdefault(label, []).append(weight)

    def words(self, whose: Whose, least: int, order: Sequence[str]) -> Words:
        found: dict[str, list[Word]] = {label: [] for label in (*order, *self.texts) if label in self.texts}
        for (label, word), (count, total, lift) in self.sums.items():
            if count >= least:
                found[label].append(Word(word, int(count), total / count, total, lift / count))
        labels = {label: tuple(sorted(part, key=lambda word: (-word.mean, word.word))) for label, part in found.items()}
        absent = [word for word, by_label in self.watched.items() if not by_label]
        if absent and len(absent) == len(self.watched):
            raise SaccadeError(f"--word: expected words of these texts, found none of {', '.join(map(repr, absent))}")
        weights = {
            word: {label: tuple(by_label[label]) for label in labels if label in by_label}
            for word, by_label in self.watched.items()
            if by_label
        }
        empty = [f"no word of the label {label!r} occurs {least} times" for label in labels if not labels[label]]
        empty += [f"{word!r} does not occur in these texts" for word in absent]
        marks = self.on_marks / self.weight if self.weight else 0.0
        return Words(labels, self.texts, self.site, whose, marks, least, weights, tuple(empty))
