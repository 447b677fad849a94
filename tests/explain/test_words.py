"""Words by label: weights are summed where they stand, tokens become words, looks in two steps are multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.explain.words import looked, word_places, words
from saccade.task import Prediction
from saccade.trace.axes import Sentences, Tokens
from saccade.trace.maps import AttentionMap, Trace


def tokens(text: str, pieces: list[str], special: tuple[int, ...] = ()) -> Tokens:
    spans, place = [], 0
    for number, piece in enumerate(pieces):
        if number in special:
            spans.append((place, place))
            continue
        start = text.index(piece, place)
        place = start + len(piece)
        spans.append((start, place))
    return Tokens(tuple(pieces), text=text, spans=tuple(spans), special=special)


def dense(site: str, query: str, key: str, weights: list[list[float]], head: int | None = None) -> AttentionMap:
    return AttentionMap(site, query, key, "dense", {"weights": torch.tensor(weights)}, head, keys=len(weights[0]))


def label(name: str = "pos") -> Tokens:
    return Tokens((name,), text=name)


@dataclass
class Reader:
    """A trained model that looks as it is told to: text → (label, pieces, weights)."""

    told: dict[str, tuple[str, list[str], list[float]]]
    lower: bool = True

    @property
    def task(self):
        config = SimpleNamespace(lower=self.lower)
        tokenizer = SimpleNamespace(config=config)
        return SimpleNamespace(name="classify", output="label", labels=("pos", "neg"), vocabularies={"text": tokenizer})

    def predict(self, inputs, lens=None):
        made = []
        for text in inputs:
            value, pieces, weights = self.told[text]
            axes = {"text": tokens(text, pieces), "label": label(value)}
            made.append(Prediction(value, trace=Trace(axes, (dense("pool", "label", "text", [weights]),))))
        return made


def record(text: str, target: str = "pos") -> SimpleNamespace:
    return SimpleNamespace(source=text, target=target)


TOLD = {
    "Good film": ("pos", ["Good", "film"], [0.75, 0.25]),
    "good good end": ("pos", ["good", "good", "end"], [0.5, 0.125, 0.375]),
    "bad film": ("neg", ["bad", "film"], [1.0, 0.0]),
}


def test_sums_means_and_lifts_of_a_hand_worked_case() -> None:
    found = words(Reader(TOLD), [record(text) for text in TOLD], least=1)
    first, *_ = found.labels["pos"]
    good = next(word for word in found.labels["pos"] if word.word == "good")
    assert first.word == "good" and good.count == 3
    assert good.total == pytest.approx(1.375) and good.mean == pytest.approx(1.375 / 3)
    assert good.lift == pytest.approx((0.75 * 2 + 0.5 * 3 + 0.125 * 3) / 3)
    assert found.texts == {"pos": 2, "neg": 1} and list(found.labels) == ["pos", "neg"]
    assert sum(word.total for part in found.labels.values() for word in part) == pytest.approx(3.0)


def test_capital_letters_count_where_the_task_reads_them() -> None:
    found = words(Reader(TOLD, lower=False), [record(text) for text in TOLD], least=1)
    assert {word.word for word in found.labels["pos"]} == {"Good", "good", "film", "end"}


def test_rare_words_are_left_out_and_ranks_differ() -> None:
    found = words(Reader(TOLD), [record(text) for text in TOLD], least=2)
    assert [word.word for word in found.labels["pos"]] == ["good"] and found.labels["neg"] == ()
    assert found.notes == ("no word of the label 'neg' occurs 2 times",)
    told = {"a b b b b": ("pos", list("abbbb"), [0.28, 0.18, 0.18, 0.18, 0.18])}
    found = words(Reader(told), [record("a b b b b")], least=1)
    assert [found.top("pos", 1, by)[0].word for by in ("mean", "total", "lift")] == ["a", "b", "a"]


def test_labels_may_be_those_of_the_data() -> None:
    found = words(Reader(TOLD), [record(text, "neg") for text in TOLD], least=1, whose="given")
    assert found.texts == {"neg": 3}


def test_the_weights_of_a_word_are_kept_label_by_label() -> None:
    found = words(Reader(TOLD), [record(text) for text in TOLD], least=1, watch=["Film", "good"])
    assert found.weights == {"film": {"pos": (0.25,), "neg": (0.0,)}, "good": {"pos": (0.75, 0.5, 0.125)}}
    with pytest.raises(SaccadeError, match="--word: expected words of these texts, found none of 'zebra'"):
        words(Reader(TOLD), [record(text) for text in TOLD], watch=["zebra"])
    found = words(Reader(TOLD), [record(text) for text in TOLD], least=1, watch=["good", "zebra"])
    assert list(found.weights) == ["good"] and found.notes == ("'zebra' does not occur in these texts",)


def test_tokens_of_one_word_are_put_together_and_marks_are_none() -> None:
    axis = tokens("unplayable, films", ["<bos>", "un", "play", "able", ",", "films", "<eos>"], special=(0, 6))
    assert list(word_places(axis)) == [("unplayable", [1, 2, 3]), (",", [4]), ("films", [5])]
    grouped = Tokens(("re", "-", "do"), text="re-do", spans=((0, 2), (2, 3), (3, 5)), words=(0, 0, 0))
    assert list(word_places(grouped)) == [("re-do", [0, 1, 2])]


def test_the_lift_of_a_word_of_several_tokens_is_against_as_many() -> None:
    told = {"un play x": ("pos", ["un", "play", "x"], [0.25, 0.25, 0.5])}
    told["unplay x"] = ("pos", ["un", "play", "x"], [0.25, 0.25, 0.5])
    found = words(Reader(told), [record("unplay x")], least=1)
    lifts = {word.word: word.lift for word in found.labels["pos"]}
    assert lifts == {"unplay": pytest.approx(0.75), "x": pytest.approx(1.5)}


def nested() -> Trace:
    """Two sentences of two words and one: p(sentence) = 0.25, 0.75."""
    text = Tokens(("a", "b", "c"), parent="sentences", within=(0, 0, 1), text="a b c", spans=((0, 1), (2, 3), (4, 5)))
    axes = {"text": text, "sentences": Sentences(("a b", "c")), "label": label()}
    inner = dense("word", "sentences", "text", [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    return Trace(axes, (inner, dense("sentence", "label", "sentences", [[0.25, 0.75]])))


def test_looks_at_sentences_and_words_in_them_are_multiplied() -> None:
    found = looked(nested())
    assert found.weights.tolist() == [0.125, 0.125, 0.75] and found.site == "sentence × word"
    assert found.even.tolist() == pytest.approx([1 / 3] * 3)
    alone = looked(nested(), "word")
    assert alone.weights.tolist() == [0.5, 0.5, 1.0] and alone.even.tolist() == [0.5, 0.5, 1.0]


def test_heads_are_averaged_and_of_several_sites_one_must_be_named() -> None:
    axes = {"text": tokens("a b", ["a", "b"]), "label": label()}
    heads = (dense("pool", "label", "text", [[1.0, 0.0]], 0), dense("pool", "label", "text", [[0.0, 1.0]], 1))
    assert looked(Trace(axes, heads)).weights.tolist() == [0.5, 0.5]
    both = Trace(axes, (*heads, dense("aspect", "label", "text", [[0.25, 0.75]])))
    assert looked(both, "aspect").weights.tolist() == [0.25, 0.75]
    with pytest.raises(SaccadeError, match="site: expected one of pool, aspect, since several"):
        looked(both)
    with pytest.raises(SaccadeError, match="site: expected one of pool, aspect, found 'x'"):
        looked(both, "x")


def test_a_model_whose_label_looks_nowhere_is_refused() -> None:
    axes = {"text": tokens("a b", ["a", "b"]), "label": label()}
    with pytest.raises(SaccadeError, match=r"expected attention .*, found none"):
        looked(Trace(axes))
    with pytest.raises(SaccadeError, match=r"from the label on the words, found encoder\.0"):
        looked(Trace(axes, (dense("encoder.0", "text", "text", [[0.5, 0.5], [0.5, 0.5]]),)))
    writer = SimpleNamespace(task=SimpleNamespace(name="translate", output="text"))
    with pytest.raises(SaccadeError, match="expected a classifier, found the task 'translate'"):
        words(writer, [record("a")])
    with pytest.raises(SaccadeError, match="expected at least one record, found none"):
        words(Reader(TOLD), [])


def test_the_share_of_the_marks_is_reported() -> None:
    class Marked(Reader):
        def predict(self, inputs, lens=None):
            axis = tokens("a", ["<bos>", "a"], special=(0,))
            trace = Trace({"text": axis, "label": label()}, (dense("pool", "label", "text", [[0.25, 0.75]]),))
            return [Prediction("pos", trace=trace) for _ in inputs]

    found = words(Marked({}), [record("a")] * 3, least=1)
    assert found.marks == pytest.approx(0.25) and [word.word for word in found.labels["pos"]] == ["a"]
