"""Computes metrics of captions with several references, as the published coco-caption code (Chen et al. 2015) computes them.

    bleu_n    BP · (Π_{k ≤ n} matched_k / predicted_k)^{1/n}, over the corpus; BP = exp(1 − r / c) where c < r, else 1
    cider     CIDEr-D: 10 · mean over k = 1 … 4 and references of e^{−δ² / 2σ²} Σ_w min(g_w, g'_w) g'_w / (|g| |g'|), σ = 6
    rouge_l   (1 + β²) P R / (R + β² P), β = 1.2;  P = max LCS / |prediction|, R = max LCS / |reference|, each over references
    meteor    by the published program itself: METEOR 1.5 in the package ``pycocoevalcap``, which needs Java

``matched_k`` counts an n-gram at most as often as the reference that has it most often. c is the length of all predictions, r
the sum of those reference lengths that are closest to the prediction's (of two as close, the shorter). ``bleu_n_no_bp`` is
``bleu_n`` with BP = 1. g and g' are the tf-idf vectors of a prediction and a reference: count × (log N − log df),
where df of N pictures have the n-gram in a reference; δ is the difference of their lengths. With N = 1, CIDEr-D is 0. CIDEr-D,
ROUGE-L and METEOR have the published code's range (CIDEr-D 0 to 10, the others 0 to 1); BLEU is in percent.

Texts are compared as :func:`caption_tokens`: what coco-caption's tokenizer makes of plain captions. :data:`CAPTION_METRICS`
lists the names, :func:`caption_scores` computes them.

Chen et al. 2015: Microsoft COCO captions, arXiv 1504.00325. Vedantam et al. 2015: CIDEr. Lin 2004: ROUGE. Denkowski & Lavie
2014: METEOR.

Legend: N pictures.
"""

from __future__ import annotations

import html
import importlib.util
import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.significance import Statistics
from saccade.metrics.text import Score, check_paired

ORDERS = 4  # the longest n-grams
SIGMA = 6.0  # of the length penalty of CIDEr-D
BETA = 1.2  # how much more recall counts in ROUGE-L
SMALL, TINY = 1e-9, 1e-15  # what the published code adds to the denominators and the numerators of BLEU

References = Sequence[Sequence[str]]  # per picture
Tokens = tuple[str, ...]


# Tokens ---------------------------------------------------------------------------------------------------------------

ABBREVIATIONS = (
    "mr mrs ms dr st jr sr vs etc mt ave blvd rd dept inc co corp ltd prof gen col sgt lt capt rev hon gov sen rep ft"
)
QUOTES = str.maketrans({"’": "'", "‘": "'", "´": "'", "“": '"', "”": '"', "–": " - ", "—": " - ", "…": "..."})
BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
DROPPED = frozenset(["''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";", '"'])
TOKEN = re.compile(
    rf"""
      (?:[a-z]\.){{2,}}                                         # u.s.
    | (?:{"|".join(ABBREVIATIONS.split())}|ph\.d)\.          # st. bernard
    | (?:[a-hj-z]|no|fig)\.(?=\s+\w)                          # no. 5, but not at the end of a sentence
    | [a-z\d]+(?:\.[a-z\d]+)*\.(?:com|org|net|edu)\b            # example.com
    | (?-i:[A-Z]+&[A-Z]+\b) | [a-z]/[a-z]+\b | c(?:\+\+|\#)    # A&M, w/o
    | can(?=not\b) | (?:gon|wan)(?=na\b) | got(?=ta\b) | (?:gim|lem)(?=me\b)
    | \d+(?:[.,:/]\d+)+                                         # 3.50, 10:30
    | [^\W_]+?(?=n't\b) | n't\b | '(?:s|re|ve|ll|d|m)\b         # is n't, dog 's
    | o'clock\b | [od]'[a-z]{{2,}} | 'n' | 'em\b | '\d\ds\b | 't(?=is\b|was\b) | y'(?=all\b)
    | [^\W_]+(?:[-_][^\W_]+)*                                   # t-shirt
    | \.{{2,}} | --+ | [^\s\w]
    """,
    re.VERBOSE | re.IGNORECASE,
)


def caption_tokens(caption: str) -> Tokens:
    """The tokens of a caption: lower case, contractions split, punctuation dropped.

    It follows the rules that captions need of Stanford's PTBTokenizer (CoreNLP 3.4.1, ``-lowerCase``), which coco-caption runs,
    and its list of dropped tokens. Brackets stay, as ``-lrb-``. Not reproduced: its other abbreviations, web addresses in full,
    telephone numbers, fractions, emoticons and SGML.

    >>> caption_tokens("A dog's T-shirt isn't red (it cannot be).")
    ('a', 'dog', "'s", 't-shirt', 'is', "n't", 'red', '-lrb-', 'it', 'can', 'not', 'be', '-rrb-')
    """
    found = TOKEN.findall(html.unescape(caption).translate(QUOTES))
    return tuple(BRACKETS.get(token, token.lower()) for token in found if token not in DROPPED)


def _ngrams(tokens: Tokens, order: int) -> Counter[Tokens]:
    return Counter(tokens[start : start + order] for start in range(len(tokens) - order + 1))


def _tokenised(predictions: Sequence[str], references: References) -> tuple[list[Tokens], list[list[Tokens]]]:
    check_references(predictions, references)
    return (
        [caption_tokens(prediction) for prediction in predictions],
        [[caption_tokens(reference) for reference in several] for several in references],
    )


def check_references(predictions: Sequence[str], references: References) -> None:
    """Raise unless there is a list of at least one reference per prediction, and at least one prediction."""
    check_paired(predictions, references)  # type: ignore[arg-type]  # it counts them
    for number, several in enumerate(references, start=1):
        if isinstance(several, str) or not several or not all(isinstance(text, str) for text in several):
            found = "one text" if isinstance(several, str) else "none" if not several else "something else"
            raise SaccadeError(f"references: expected a list of texts for prediction {number}, found {found}")


# BLEU -----------------------------------------------------------------------------------------------------------------


def _bleu_rows(predictions: Sequence[str], references: References) -> Float[ndarray, "N 10"]:
    """Per picture: the length of the prediction, the closest length of a reference, and for each order the n-grams that are
    predicted and matched."""
    rows = []
    for prediction, several in zip(*_tokenised(predictions, references), strict=True):
        length = len(prediction)
        closest = min((len(reference) for reference in several), key=lambda other: (abs(other - length), other))
        row = [length, closest]
        for order in range(1, ORDERS + 1):
            most: Counter[Tokens] = Counter()
            for reference in several:
                most |= _ngrams(reference, order)  # the greatest count of each
            predicted = _ngrams(prediction, order)
            row += [predicted.total(), (predicted & most).total()]
        rows.append(row)
    return np.array(rows, dtype=float)


def _bleu_statistics(order: int, penalised: bool) -> Callable[[str, Sequence[str], References], Statistics]:
    def figure(sums: Float[ndarray, " 10"]) -> float:
        length, closest = sums[:2]
        predicted, matched = sums[2 : 2 + 2 * order : 2], sums[3 : 3 + 2 * order : 2]
        precision = float(np.prod((matched + TINY) / (predicted + SMALL)) ** (1 / order))
        ratio = (length + TINY) / (closest + SMALL)
        penalty = math.exp(1 - 1 / ratio) if penalised and ratio < 1 else 1.0
        return 100 * precision * penalty

    signature = f"coco-caption, percent, closest length, {'brevity penalty' if penalised else 'no brevity penalty'}"

    def of(name: str, predictions: Sequence[str], references: References) -> Statistics:
        return Statistics(name, _bleu_rows(predictions, references), figure, True, signature)

    return of


# CIDEr-D --------------------------------------------------------------------------------------------------------------


def _cider_rows(predictions: Sequence[str], references: References) -> list[float]:
    """The CIDEr-D of each picture; the document frequencies are those of all references given."""
    candidates, several = _tokenised(predictions, references)
    frequency = [
        Counter(gram for texts in several for gram in set().union(*(_ngrams(text, order) for text in texts)))
        for order in range(1, ORDERS + 1)
    ]
    pictures = math.log(len(several))

    def vectors(tokens: Tokens) -> list[tuple[dict[Tokens, float], float]]:
        """The tf-idf vector of each order, and its norm."""
        found = []
        for order, frequencies in enumerate(frequency, start=1):
            counts = _ngrams(tokens, order)
            vector = {gram: count * (pictures - math.log(max(1, frequencies[gram]))) for gram, count in counts.items()}
            found.append((vector, math.sqrt(sum(value * value for value in vector.values()))))
        return found

    scores = []
    for candidate, texts in zip(candidates, several, strict=True):
        ours = vectors(candidate)
        total = 0.0
        for text in texts:
            apart = len(candidate) - len(text)
            for (vector, norm), (other, other_norm) in zip(ours, vectors(text), strict=True):
                if norm and other_norm:
                    shared = sum(
                        min(value, other.get(gram, 0.0)) * other.get(gram, 0.0) for gram, value in vector.items()
                    )
                    total += shared / (norm * other_norm) * math.exp(-(apart**2) / (2 * SIGMA**2))
        scores.append(10 * total / ORDERS / len(texts))
    return scores


# ROUGE-L --------------------------------------------------------------------------------------------------------------


def _rouge_rows(predictions: Sequence[str], references: References) -> list[float]:
    """The ROUGE-L of each picture."""
    from rapidfuzz.distance import LCSseq

    scores = []
    for prediction, texts in zip(*_tokenised(predictions, references), strict=True):
        common = [LCSseq.similarity(prediction, text) for text in texts]
        precision = max(common) / max(len(prediction), 1)
        recall = max(length / max(len(text), 1) for length, text in zip(common, texts, strict=True))
        shared = precision and recall
        scores.append((1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if shared else 0.0)
    return scores


def _exact_rows(predictions: Sequence[str], references: References) -> list[float]:
    """Whether each prediction equals one of its references, character by character."""
    check_references(predictions, references)
    return [float(prediction in texts) for prediction, texts in zip(predictions, references, strict=True)]


def _mean_statistics(
    rows: Callable[[Sequence[str], References], list[float]], signature: str | None
) -> Callable[[str, Sequence[str], References], Statistics]:
    """A metric that is the mean of its values on the pictures."""

    def of(name: str, predictions: Sequence[str], references: References) -> Statistics:
        table = np.array([[score, 1.0] for score in rows(predictions, references)])
        return Statistics(name, table, lambda sums: float(sums[0] / sums[1]) if sums[1] else 0.0, True, signature)

    return of


# METEOR ---------------------------------------------------------------------------------------------------------------


def meteor_jar() -> Path:
    """The published program of METEOR 1.5 in the installed package ``pycocoevalcap``, which is not imported."""
    spec = importlib.util.find_spec("pycocoevalcap")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        jar = Path(place, "meteor", "meteor-1.5.jar")
        if jar.is_file():
            if shutil.which("java") is None:
                raise SaccadeError("the metric 'meteor' needs Java: expected the command java, found none")
            return jar
    raise SaccadeError(
        "the metric 'meteor' needs the package 'pycocoevalcap' (and Java): pip install --no-deps pycocoevalcap"
    )


@contextmanager
def _meteor() -> Iterator[Callable[[str], str]]:
    """The running program: a line in, a line out; an empty line in gives the next line out."""
    jar = meteor_jar()
    words = ["java", "-jar", "-Xmx2G", jar.name, "-", "-", "-stdio", "-l", "en", "-norm"]
    with subprocess.Popen(
        words,
        cwd=jar.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    ) as program:
        to_program, from_program = cast(IO[str], program.stdin), cast(IO[str], program.stdout)

        def ask(line: str) -> str:
            try:
                if line:
                    to_program.write(f"{line}\n")
                    to_program.flush()
                answer = from_program.readline().strip()
            except OSError:
                answer = ""
            if not answer:
                raise SaccadeError(f"meteor: expected METEOR 1.5 to answer, found that it ended ({' '.join(words)})")
            return answer

        try:
            yield ask
        finally:
            program.kill()


def meteor(predictions: Sequence[str], references: References) -> Score:
    """METEOR 1.5 by its published program: its score of the summed counts of all captions, as coco-caption states it."""
    candidates, several = _tokenised(predictions, references)
    with _meteor() as ask:
        counts = [
            ask(" ||| ".join(["SCORE", *(" ".join(text) for text in texts), " ".join(candidate)]))
            for candidate, texts in zip(candidates, several, strict=True)
        ]
        ask(" ||| ".join(["EVAL", *counts]))  # the score of each caption …
        for _ in range(len(counts) - 1):
            ask("")
        return Score("meteor", float(ask("")), True, "METEOR 1.5 -l en -norm, 0 to 1")  # … and of all


# All of them ------------------------------------------------------------------------------------------------------------

_STATISTICS: dict[str, Callable[[str, Sequence[str], References], Statistics]] = {
    **{f"bleu_{order}": _bleu_statistics(order, True) for order in (4, 3, 2, 1)},
    **{f"bleu_{order}_no_bp": _bleu_statistics(order, False) for order in (4, 3, 2, 1)},
    "cider": _mean_statistics(_cider_rows, "CIDEr-D, sigma 6, 0 to 10"),
    "rouge_l": _mean_statistics(_rouge_rows, "coco-caption, beta 1.2, 0 to 1"),
    "exact_match": _mean_statistics(_exact_rows, None),
}
PAIRED_CAPTION_METRICS = tuple(_STATISTICS)  # those that have a value, or counts, for each caption
CAPTION_METRICS = (*_STATISTICS, "meteor", "perplexity")  # the task computes the last one from its loss


def caption_scores(names: Sequence[str], predictions: Sequence[str], references: References) -> dict[str, Score]:
    """The named metrics of predictions, each with the list of its references.

    >>> for name, score in caption_scores(["bleu_1", "bleu_1_no_bp"], ["a dog"], [["a dog runs", "the dog"]]).items():
    ...     print(name, round(score.value, 1))
    bleu_1 100.0
    bleu_1_no_bp 100.0
    """
    found: dict[str, Score] = {}
    for name in names:
        if name == "meteor":
            found[name] = meteor(predictions, references)
        else:
            of = caption_statistics(name, predictions, references)
            found[name] = Score(name, of.value, of.higher_is_better, of.signature)
    return found


def caption_statistics(name: str, predictions: Sequence[str], references: References) -> Statistics:
    """The statistics of a metric, for intervals and tests. In a resample, CIDEr-D keeps the document frequencies of the whole
    set."""
    if name not in _STATISTICS:
        known = ", ".join(PAIRED_CAPTION_METRICS)
        raise SaccadeError(f"unknown metric {name!r}: those of captions, computed from texts alone, are {known}")
    return _STATISTICS[name](name, predictions, references)


def check_available(names: Sequence[str]) -> None:
    """Raise if the program of a metric is missing: now, not after hours of training."""
    if "meteor" in names:
        meteor_jar()
