"""Computes metrics of texts: BLEU, chrF and TER, exact match, character and word error rate, and perplexity.

BLEU (Papineni et al. 2002), chrF (Popović 2015) and TER (Snover et al. 2006) by sacrebleu with its signature (Post 2018).

    CER, WER = Σ edits(prediction, reference) / Σ |reference|        perplexity = exp(Σ −log p(token) / tokens)
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from saccade.errors import SaccadeError


@dataclass(frozen=True)
class Score:
    """The value of a metric. BLEU, chrF and TER range from 0 to 100 and have sacrebleu's signature; exact match and error
    rates are fractions."""

    name: str
    value: float
    higher_is_better: bool
    signature: str | None = None

    def __str__(self) -> str:
        number = f"{self.value:.2f}" if self.signature or self.value >= 10 else f"{self.value:.4f}"
        return f"{self.name} {number}" + (f" ({self.signature})" if self.signature else "")


def sacrebleu_metric(name: str, tokenize: str = "13a") -> Any:
    """sacrebleu's ``bleu``, ``chrf`` or ``ter``; BLEU with one of its tokenizers."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name != "bleu":
        return CHRF() if name == "chrf" else TER()
    if tokenize not in BLEU.TOKENIZERS:
        raise SaccadeError(f"bleu_tokenize: expected one of {', '.join(sorted(BLEU.TOKENIZERS))}, found {tokenize!r}")
    try:
        # With "none" texts are tokenised already: force suppresses sacrebleu's warning about that.
        return BLEU(tokenize=tokenize, force=tokenize == "none")
    except (ImportError, RuntimeError, OSError) as fault:  # some tokenizers need a package or a download
        raise SaccadeError(f"bleu_tokenize: {tokenize} cannot be used here: {fault}") from fault


def _by_sacrebleu(name: str, predictions: list[str], references: list[str], tokenize: str = "13a") -> Score:
    check_paired(predictions, references)
    metric = sacrebleu_metric(name, tokenize)
    value = metric.corpus_score(predictions, [references]).score
    return Score(name, value, higher_is_better=name != "ter", signature=str(metric.get_signature()))


def bleu(predictions: list[str], references: list[str], tokenize: str = "13a") -> Score:
    """Corpus BLEU; `tokenize="none"` for texts that are already split by spaces."""
    return _by_sacrebleu("bleu", predictions, references, tokenize)


def chrf(predictions: list[str], references: list[str]) -> Score:
    """Corpus chrF2: the F-score, with recall counted twice, of character n-grams up to 6."""
    return _by_sacrebleu("chrf", predictions, references)


def ter(predictions: list[str], references: list[str]) -> Score:
    """Corpus translation edit rate: insertions, deletions, replacements and shifts of words per 100 reference words."""
    return _by_sacrebleu("ter", predictions, references)


def exact_match(predictions: list[str], references: list[str]) -> Score:
    """The share of predictions that equal their reference, character by character."""
    check_paired(predictions, references)
    hits = sum(prediction == reference for prediction, reference in zip(predictions, references, strict=True))
    return Score("exact_match", hits / len(references), higher_is_better=True)


def edits(name: str, predictions: Sequence[str], references: Sequence[str]) -> list[tuple[int, int]]:
    """(edits, length of the reference) per text, in characters for ``cer``, in words for ``wer``."""
    from rapidfuzz.distance import Levenshtein

    units: Callable[[str], list[str]] = list if name == "cer" else str.split
    pairs = (
        (units(prediction), units(reference)) for prediction, reference in zip(predictions, references, strict=True)
    )
    return [(Levenshtein.distance(prediction, reference), len(reference)) for prediction, reference in pairs]


def _error_rate(name: str, predictions: list[str], references: list[str]) -> Score:
    check_paired(predictions, references)
    distances, lengths = zip(*edits(name, predictions, references), strict=True)
    if not sum(lengths):
        raise SaccadeError(f"{name} needs references with text: all are empty")
    return Score(name, sum(distances) / sum(lengths), higher_is_better=False)


def cer(predictions: list[str], references: list[str]) -> Score:
    """The character error rate of the corpus: edits per character of the references (so it may exceed 1)."""
    return _error_rate("cer", predictions, references)


def wer(predictions: list[str], references: list[str]) -> Score:
    """The word error rate of the corpus: edits per word of the references, split by spaces. If the words are phonemes, it
    is the phoneme error rate."""
    return _error_rate("wer", predictions, references)


TEXT_METRICS = ("exact_match", "cer", "wer", "bleu", "chrf", "ter", "perplexity")
POINT_METRICS = ("exact_match", "perplexity")
LANGUAGE_METRICS = ("perplexity", "word_perplexity", "bits_per_character")
MASKED_METRICS = ("mlm_accuracy", "mlm_perplexity", "mlm_loss", "nsp_accuracy")
VECTOR_METRICS = ("pair_loss", "pair_accuracy", "neighbours")
METRICS: dict[str, Callable[[list[str], list[str]], Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "exact_match": exact_match,
    "cer": cer,
    "wer": wer,
}


def score(
    names: Sequence[str], predictions: Sequence[str], references: Sequence[str], *, bleu_tokenize: str = "13a"
) -> dict[str, Score]:
    """The named metrics of the predictions."""
    check_known(names)
    check_paired(predictions, references)
    predicted, expected = list(predictions), list(references)
    return {
        name: bleu(predicted, expected, bleu_tokenize) if name == "bleu" else METRICS[name](predicted, expected)
        for name in names
    }


def check_known(names: Sequence[str]) -> None:
    """Raise unless all names are metrics of texts."""
    if isinstance(names, str):
        raise SaccadeError(f"expected a list of metrics, found one text: {names!r}")
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise SaccadeError(f"unknown metric {unknown[0]!r}: expected one of {', '.join(METRICS)}")


def check_available(names: Sequence[str]) -> None:
    """Raise if the package of a metric is missing: now, not after hours of training."""
    packages = {"bleu": "sacrebleu", "chrf": "sacrebleu", "ter": "sacrebleu", "cer": "rapidfuzz", "wer": "rapidfuzz"}
    for name in names:
        package = packages.get(name)
        if package is not None and importlib.util.find_spec(package) is None:
            raise SaccadeError(f"the metric {name!r} needs the package {package!r}: pip install {package}")


def perplexity(nll_sum: float, tokens: int) -> Score:
    """exp of the mean negative log-likelihood (natural logarithm) per token."""
    if tokens < 1:
        raise SaccadeError(f"perplexity needs at least one token: got {tokens}")
    try:
        value = math.exp(nll_sum / tokens)
    except OverflowError:
        value = math.inf
    return Score("perplexity", value, higher_is_better=False)


def word_perplexity(nll_sum: float, words: int) -> Score:
    """exp of the mean negative log-likelihood per word (split by spaces), the end of each text counted as one. Independent of
    the tokenizer, so that models with different ones can be compared."""
    return replace(perplexity(nll_sum, words), name="word_perplexity")


def bits_per_character(nll_sum: float, characters: int) -> Score:
    """The mean negative log₂-likelihood per character, the end of each text counted as one."""
    if characters < 1:
        raise SaccadeError(f"bits_per_character needs at least one character: got {characters}")
    return Score("bits_per_character", nll_sum / math.log(2) / characters, higher_is_better=False)


def check_paired(predictions: Sequence[str], references: Sequence[str]) -> None:
    """Raise unless there is one prediction per reference, and at least one."""
    for name, texts in (("predictions", predictions), ("references", references)):
        if isinstance(texts, str):
            raise SaccadeError(f"{name}: expected a list of texts, found one text")
    if len(predictions) != len(references):
        raise SaccadeError(
            f"expected one prediction per reference: got {len(predictions)} predictions "
            f"and {len(references)} references"
        )
    if not predictions:
        raise SaccadeError("expected at least one prediction to score, found none")
