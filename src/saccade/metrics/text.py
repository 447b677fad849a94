"""How close texts are to their references: BLEU (Papineni et al. 2002), chrF (Popović 2015), TER (Snover et al.
2006) by sacrebleu with its signature (Post 2018), exact match, character error rate, and perplexity.

    CER = Σ edits(prediction, reference) / Σ |reference|        perplexity = exp(Σ −log p(token) / tokens)
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from saccade.errors import SaccadeError


@dataclass(frozen=True)
class Score:
    """A measured number. BLEU, chrF and TER are on their scale of 0 to 100 and carry sacrebleu's signature; exact match
    and the character error rate are fractions."""

    name: str
    value: float
    higher_is_better: bool
    signature: str | None = None

    def __str__(self) -> str:
        number = f"{self.value:.2f}" if self.signature or self.value >= 10 else f"{self.value:.4f}"
        return f"{self.name} {number}" + (f" ({self.signature})" if self.signature else "")


def bleu(predictions: list[str], references: list[str], tokenize: str = "13a") -> Score:
    """Corpus BLEU; `tokenize="none"` takes the texts as already cut by spaces."""
    from sacrebleu.metrics.bleu import BLEU

    _check(predictions, references)
    if tokenize not in BLEU.TOKENIZERS:
        raise SaccadeError(f"bleu_tokenize: expected one of {', '.join(sorted(BLEU.TOKENIZERS))}, found {tokenize!r}")
    try:
        metric = BLEU(tokenize=tokenize)
    except (ImportError, RuntimeError, OSError) as fault:  # some need a package or a download
        raise SaccadeError(f"bleu_tokenize: {tokenize} cannot be used here: {fault}") from fault
    value = metric.corpus_score(predictions, [references]).score
    return Score("bleu", value, higher_is_better=True, signature=str(metric.get_signature()))


def chrf(predictions: list[str], references: list[str]) -> Score:
    """Corpus chrF2: the F-score, recall counting twice, of character n-grams up to 6."""
    from sacrebleu.metrics.chrf import CHRF

    _check(predictions, references)
    metric = CHRF()
    value = metric.corpus_score(predictions, [references]).score
    return Score("chrf", value, higher_is_better=True, signature=str(metric.get_signature()))


def ter(predictions: list[str], references: list[str]) -> Score:
    """Corpus translation edit rate: insertions, deletions, replacements and shifts of words per 100 reference words."""
    from sacrebleu.metrics.ter import TER

    _check(predictions, references)
    metric = TER()
    value = metric.corpus_score(predictions, [references]).score
    return Score("ter", value, higher_is_better=False, signature=str(metric.get_signature()))


def exact_match(predictions: list[str], references: list[str]) -> Score:
    """The share of predictions that equal their reference, character by character."""
    _check(predictions, references)
    hits = sum(prediction == reference for prediction, reference in zip(predictions, references, strict=True))
    return Score("exact_match", hits / len(references), higher_is_better=True)


def cer(predictions: list[str], references: list[str]) -> Score:
    """The character error rate of the whole corpus: edits per character of the references (so it may exceed 1)."""
    from rapidfuzz.distance import Levenshtein

    _check(predictions, references)
    characters = sum(len(reference) for reference in references)
    if not characters:
        raise SaccadeError("cer needs references with text: all are empty")
    edits = sum(map(Levenshtein.distance, predictions, references))
    return Score("cer", edits / characters, higher_is_better=False)


METRICS: dict[str, Callable[[list[str], list[str]], Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "exact_match": exact_match,
    "cer": cer,
}


def score(
    names: Sequence[str], predictions: Sequence[str], references: Sequence[str], *, bleu_tokenize: str = "13a"
) -> dict[str, Score]:
    """The named metrics of the predictions."""
    if isinstance(names, str):
        raise SaccadeError(f"expected a list of metrics, found one text: {names!r}")
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise SaccadeError(f"unknown metric {unknown[0]!r}: the known ones are {', '.join(METRICS)}")
    _check(predictions, references)
    predicted, expected = list(predictions), list(references)
    return {
        name: bleu(predicted, expected, bleu_tokenize) if name == "bleu" else METRICS[name](predicted, expected)
        for name in names
    }


def check_available(names: Sequence[str]) -> None:
    """Raise now, not after hours of training, where the package behind a metric is missing."""
    packages = {"bleu": "sacrebleu", "chrf": "sacrebleu", "ter": "sacrebleu", "cer": "rapidfuzz"}
    for name in names:
        package = packages.get(name)
        if package is not None and importlib.util.find_spec(package) is None:
            raise SaccadeError(f"the metric {name!r} needs the package {package!r}: pip install {package}")


def perplexity(nll_sum: float, tokens: int) -> Score:
    """exp of the mean negative log-likelihood (natural logarithm) of a token."""
    if tokens < 1:
        raise SaccadeError(f"perplexity needs at least one token: got {tokens}")
    try:
        value = math.exp(nll_sum / tokens)
    except OverflowError:
        value = math.inf
    return Score("perplexity", value, higher_is_better=False)


def _check(predictions: Sequence[str], references: Sequence[str]) -> None:
    for name, texts in (("predictions", predictions), ("references", references)):
        if isinstance(texts, str):
            raise SaccadeError(f"{name}: expected a list of texts, found one text")
    if len(predictions) != len(references):
        raise SaccadeError(
            f"expected one prediction for each reference: got {len(predictions)} predictions "
            f"and {len(references)} references"
        )
    if not predictions:
        raise SaccadeError("there is nothing to score: got no predictions and no references")
