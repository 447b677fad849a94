"""Metrics of captions agree with numbers worked by hand, with their formulas written out, and with the published code.

``captions.json`` holds captions of our own, and the tokens and figures that ``pycocoevalcap`` 1.2 gave for them
(``benchmarks/captions/published.py`` computes them again).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.errors import SaccadeError
from saccade.metrics.captions import (
    CAPTION_METRICS,
    PAIRED_CAPTION_METRICS,
    caption_scores,
    caption_statistics,
    caption_tokens,
    check_available,
    meteor,
)
from saccade.metrics.significance import bootstrap

FIXED: dict[str, Any] = json.loads(Path(__file__).with_name("captions.json").read_text(encoding="utf-8"))
PREDICTIONS = [record["prediction"] for record in FIXED["records"]]
REFERENCES = [record["references"] for record in FIXED["records"]]


def value(name: str, predictions: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    return caption_scores([name], predictions, references)[name].value


# Tokens


@pytest.mark.parametrize(
    ("caption", "tokens"),
    [
        ("A dog's ball isn't here; they'll go.", "a dog 's ball is n't here they 'll go"),
        ("A man cannot stop, he's gonna fall!", "a man can not stop he 's gon na fall"),
        ('A "red" t-shirt -- size 5.5 -- (new)', "a red t-shirt size 5.5 -lrb- new -rrb-"),
        ("St. James road in the U.S. at 10:30 a.m.", "st. james road in the u.s. at 10:30 a.m."),
        ("Miami U. wins. They say no.", "miami u. wins they say no"),
        ("An A&amp;M player drinks m&n", "an a&m player drinks m & n"),
        ("two men’s “café”", "two men 's café"),
        ("rock 'n' roll and the boys' dogs", "rock 'n' roll and the boys dogs"),
        (" . ? ! ", ""),
    ],
)
def test_captions_are_cut_as_the_published_tokenizer_cuts_them(caption: str, tokens: str) -> None:
    assert " ".join(caption_tokens(caption)) == tokens


def test_the_published_tokens_of_the_fixed_captions_are_ours() -> None:
    for record in FIXED["records"]:
        assert " ".join(caption_tokens(record["prediction"])) == record["tokens"]
        for reference, tokens in zip(record["references"], record["reference_tokens"], strict=True):
            assert " ".join(caption_tokens(reference)) == tokens


# BLEU


def test_a_word_counts_as_often_as_in_the_reference_that_has_it_most() -> None:
    # the: at most 2, since the second reference has it twice; cat: 1. 3 of 4 words.
    references = [["the cat", "the cat by the door there"]]
    assert value("bleu_1_no_bp", ["the the the cat"], references) == pytest.approx(100 * 3 / 4)


def test_the_reference_length_is_the_closest_and_of_two_the_shorter() -> None:
    # 4 words; references of 3 and 5 are as close: 3, so nothing is taken off. Of 5 and 6 words 5 is closer.
    assert value("bleu_1", ["a b c d"], [["a b c d e", "a b c"]]) == pytest.approx(100)
    assert value("bleu_1", ["a b c d"], [["a b c d e f", "a b c d e"]]) == pytest.approx(100 * math.exp(1 - 5 / 4))


def test_bleu_sums_over_pictures_and_the_penalty_can_be_left_out() -> None:
    # Words: 2 of 2 and 1 of 3; pairs: 1 of 1 and 0 of 2. Lengths 5 against 4 + 3.
    predictions, references = ["a b", "x y c"], [["a b c d"], ["c d e"]]
    without = 100 * math.sqrt(3 / 5 * 1 / 3)
    assert value("bleu_2_no_bp", predictions, references) == pytest.approx(without)
    assert value("bleu_2", predictions, references) == pytest.approx(without * math.exp(1 - 7 / 5))


def test_without_a_common_ngram_bleu_is_almost_zero_and_finite() -> None:
    assert 0 <= value("bleu_4", ["a b c d e"], [["v w x y z"]]) < 0.01
    assert value("bleu_4", ["", ""], [["a"], ["b c"]]) < 1e-6


# CIDEr-D


def test_cider_of_two_pictures_by_hand() -> None:
    # Every n-gram is in the references of one of 2 pictures: idf = log 2 throughout, so it cancels.
    # "a b c" and "a b d": words 2/3, pairs 1/2, triples 0, fours none: (2/3 + 1/2) / 4. "p q" itself: (1 + 1) / 4.
    # In the second picture a word of the first is added: words 2 of √(2·3), pairs 1 of √(1·2); one apart: exp(-1 / 72).
    predictions, references = ["a b c", "p q"], [["a b d"], ["p q"]]
    assert value("cider", predictions, references) == pytest.approx(10 * ((2 / 3 + 1 / 2) / 4 + 2 / 4) / 2)
    apart = math.exp(-1 / (2 * 36)) * (2 / math.sqrt(6) + 1 / math.sqrt(2)) / 4
    references = [["a b d"], ["p q r"]]
    assert value("cider", predictions, references) == pytest.approx(10 * ((2 / 3 + 1 / 2) / 4 + apart) / 2)


def test_an_ngram_of_every_picture_is_worth_nothing_and_repetition_is_clipped() -> None:
    # "a" is in both pictures: its idf is 0. "dog dog" against "dog cat": min(2, 1) · 1 of √4 · √2, pairs 0.
    predictions, references = ["a", "dog dog"], [["a b"], ["a", "dog cat"]]
    second = (1 / (2 * math.sqrt(2))) / 4 / 2
    assert value("cider", predictions, references) == pytest.approx(10 * (0 + second) / 2)


def cider_written_out(predictions: list[str], references: list[list[str]]) -> float:
    """CIDEr-D in dense vectors over every n-gram, order by order."""
    mine, theirs = (
        [text.split() for text in predictions],
        [[text.split() for text in several] for several in references],
    )

    def grams(tokens: list[str], order: int) -> list[str]:
        return [" ".join(tokens[start : start + order]) for start in range(len(tokens) - order + 1)]

    total = 0.0
    for order in range(1, 5):
        known = sorted(
            {gram for several in theirs for text in several for gram in grams(text, order)}
            | {gram for text in mine for gram in grams(text, order)}
        )
        df = [sum(any(gram in grams(text, order) for text in several) for several in theirs) for gram in known]
        idf = np.log(len(mine)) - np.log(np.maximum(df, 1)) if known else np.zeros(0)

        def vector(tokens: list[str], order: int = order, known: Any = known, idf: Any = idf) -> Any:
            return np.array([grams(tokens, order).count(gram) for gram in known], float) * idf

        for text, several in zip(mine, theirs):
            for other in several:
                one, two = vector(text), vector(other)
                norms = np.linalg.norm(one) * np.linalg.norm(two)
                δ = len(text) - len(other)
                if norms:
                    total += np.minimum(one, two) @ two / norms * math.exp(-(δ**2) / 72) / len(several)
    return 10 * total / 4 / len(mine)


def rouge_written_out(prediction: list[str], references: list[list[str]]) -> float:
    def common(one: list[str], two: list[str]) -> int:
        if not one or not two:
            return 0
        if one[-1] == two[-1]:
            return 1 + common(one[:-1], two[:-1])
        return max(common(one[:-1], two), common(one, two[:-1]))

    if not prediction:
        return 0.0
    precision = max(common(prediction, other) / len(prediction) for other in references)
    recall = max(common(prediction, other) / len(other) for other in references)
    return 2.44 * precision * recall / (recall + 1.44 * precision) if precision else 0.0


def test_cider_equals_its_formula_written_out() -> None:
    tokens = [record["tokens"] for record in FIXED["records"]]
    references = [record["reference_tokens"] for record in FIXED["records"]]
    assert value("cider", PREDICTIONS, REFERENCES) == pytest.approx(cider_written_out(tokens, references), rel=1e-12)


# ROUGE-L


def test_precision_and_recall_of_rouge_may_come_from_different_references() -> None:
    # Against the first: 3 of 3 words, 3 of 6. Against the second: 1 of 3, 1 of 1.
    assert value("rouge_l", ["a b c"], [["a x b y c z", "b"]]) == pytest.approx(1.0)
    # 2 common words in order ("a c"), not 3: P = 2/3, R = 2/4.
    by_hand = 2.44 * (2 / 3) * (1 / 2) / (1 / 2 + 1.44 * (2 / 3))
    assert value("rouge_l", ["a b c"], [["b x a c"]]) == pytest.approx(by_hand)


def test_rouge_equals_its_formula_written_out() -> None:
    short = [record for record in FIXED["records"] if len(record["tokens"].split()) < 10]
    found = caption_statistics(
        "rouge_l", [record["prediction"] for record in short], [record["references"] for record in short]
    ).by_sentence
    by_formula = [
        rouge_written_out(record["tokens"].split(), [text.split() for text in record["reference_tokens"]])
        for record in short
    ]
    assert len(short) == 6 and found == pytest.approx(by_formula, rel=1e-12)


# The published code


@pytest.mark.parametrize("name", ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "cider", "rouge_l"])
def test_a_metric_has_the_value_that_the_published_code_gives(name: str) -> None:
    assert value(name, PREDICTIONS, REFERENCES) == pytest.approx(FIXED["published"][name], rel=1e-9)


@pytest.mark.parametrize("name", ["cider", "rouge_l"])
def test_each_caption_has_the_value_that_the_published_code_gives(name: str) -> None:
    found = caption_statistics(name, PREDICTIONS, REFERENCES).rows[:, 0]
    assert found == pytest.approx([record[name] for record in FIXED["records"]], rel=1e-9)


# Statistics and errors


def test_exact_match_is_met_by_any_reference() -> None:
    assert value("exact_match", ["a b", "c", "d"], [["a", "a b"], ["c d"], ["d"]]) == pytest.approx(2 / 3)


@pytest.mark.parametrize("name", PAIRED_CAPTION_METRICS)
def test_resamples_of_the_statistics_surround_the_metric(name: str) -> None:
    predictions, references = [*PREDICTIONS, "a red dog"], [*REFERENCES, ["a red dog", "a dog that is red"]]
    of = caption_statistics(name, predictions, references)
    assert of.value == value(name, predictions, references) and len(of) == 8
    figures = bootstrap(of, samples=200, seed=3)
    assert figures.min() < of.value < figures.max()


def test_every_metric_is_listed_once_and_the_first_is_bleu_4() -> None:
    assert CAPTION_METRICS[0] == "bleu_4" and len(set(CAPTION_METRICS)) == len(CAPTION_METRICS)
    assert set(CAPTION_METRICS) - set(PAIRED_CAPTION_METRICS) == {"meteor", "perplexity"}


@pytest.mark.parametrize(
    ("predictions", "references", "words"),
    [
        (["a"], ["a b"], "found one text"),
        (["a", "b"], [["a"], []], "prediction 2, found none"),
        (["a"], [["a"], ["b"]], "1 predictions and 2 references"),
        ("a", [["a"]], "found one text"),
        ([], [], "at least one prediction"),
    ],
)
def test_what_is_not_a_list_of_references_per_prediction_is_refused(
    predictions: Any, references: Any, words: str
) -> None:
    with pytest.raises(SaccadeError, match=words):
        caption_scores(["bleu_4"], predictions, references)


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(SaccadeError, match="bleu_5"):
        caption_scores(["bleu_5"], ["a"], [["a"]])


# METEOR: a stand-in for its program speaks its protocol. The published program itself is compared by the benchmark.

PROGRAM = """#!{python}
import sys
assert sys.argv[1:] == "-jar -Xmx2G meteor-1.5.jar - - -stdio -l en -norm".split(), sys.argv
for line in sys.stdin:
    kind, *parts = line.strip("\\n").split(" ||| ")
    if kind == "SCORE":
        if parts[-1] == "die":
            sys.exit(1)
        print(len(parts) - 1, len(parts[-1].split()), flush=True)
    else:
        pairs = [part.split() for part in parts]
        for references, words in pairs:
            print(int(references) / 10, flush=True)
        print(sum(int(words) for _, words in pairs) / 100, flush=True)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package, commands = tmp_path / "packages" / "pycocoevalcap", tmp_path / "bin"
    (package / "meteor").mkdir(parents=True)
    (package / "meteor" / "meteor-1.5.jar").write_bytes(b"")
    commands.mkdir()
    java = commands / "java"
    java.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.syspath_prepend(str(package.parent))
    monkeypatch.setenv("PATH", str(commands))
    return java


def test_meteor_is_the_last_of_its_programs_answers(program: Path) -> None:
    check_available(["meteor"])
    # 3 and 2 tokens: 0.05 over the corpus; the answers of the captions, 0.1 and 0.2, come before it.
    assert meteor(["A red dog.", "two men"], [["a dog"], ["men", "a man"]]).value == pytest.approx(0.05)
    assert value("meteor", ["A red dog."], [["a dog"]]) == pytest.approx(0.03)


def test_a_meteor_that_ends_early_is_an_error_and_no_hang(program: Path) -> None:
    with pytest.raises(SaccadeError, match="ended"):
        meteor(["a", "die"], [["b"], ["c"]])


def test_without_its_package_or_java_meteor_says_what_to_install(
    program: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program.unlink()
    with pytest.raises(SaccadeError, match="Java"):
        check_available(["bleu_4", "meteor"])
    (tmp_path / "packages" / "pycocoevalcap" / "meteor" / "meteor-1.5.jar").unlink()
    with pytest.raises(SaccadeError, match="pip install --no-deps pycocoevalcap"):
        check_available(["meteor"])
    check_available(["bleu_4", "cider"])
