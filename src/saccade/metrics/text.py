"""How close texts are to their references: BLEU (Papineni et al. 2002), chrF (Popović 2015), TER (Snover et al.
2006) by sacrebleu with its signature (Post 2018), exact match, character and word error rate, and perplexity.

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
    check_paired(predictions, references)
    metric = bleu_by(tokenize)
    value = metric.corpus_score(predictions, [references]).score
    return Score("bleu", value, higher_is_better=True, signature=str(metric.get_signature()))


def bleu_by(tokenize: str) -> Any:
    """sacrebleu's BLEU with one of its tokenizers."""
    from sacrebleu.metrics.bleu import BLEU

    if tokenize not in BLEU.TOKENIZERS:
        raise SaccadeError(f"bleu_tokenize: expected one of {', '.join(sorted(BLEU.TOKENIZERS))}, found {tokenize!r}")
    try:
        # It would warn of texts that look tokenised: with "none" they are meant to be.
        return BLEU(tokenize=tokenize, force=tokenize == "none")
    except (ImportError, RuntimeError, OSError) as fault:  # some need a package or a download
        raise SaccadeError(f"bleu_tokenize: {tokenize} cannot be used here: {fault}") from fault


def chrf(predictions: list[str], references: list[str]) -> Score:
    """Corpus chrF2: the F-score, recall counting twice, of character n-grams up to 6."""
    from sacrebleu.metrics.chrf import CHRF

    check_paired(predictions, references)
    metric = CHRF()
    value = metric.corpus_score(predictions, [references]).score
    return Score("chrf", value, higher_is_better=True, signature=str(metric.get_signature()))


def ter(predictions: list[str], references: list[str]) -> Score:
    """Corpus translation edit rate: insertions, deletions, replacements and shifts of words per 100 reference words."""
    from sacrebleu.metrics.ter import TER

    check_paired(predictions, references)
    metric = TER()
    value = metric.corpus_score(predictions, [references]).score
    return Score("ter", value, higher_is_better=False, signature=str(metric.get_signature()))


def exact_match(predictions: list[str], references: list[str]) -> Score:
    """The share of predictions that equal their reference, character by character."""
    check_paired(predictions, references)
    hits = sum(prediction == reference for prediction, reference in zip(predictions, references, strict=True))
    return Score("exact_match", hits / len(references), higher_is_better=True)


def cer(predictions: list[str], references: list[str]) -> Score:
    """The character error rate of the whole corpus: edits per character of the references (so it may exceed 1)."""
    from rapidfuzz.distance import Levenshtein

    check_paired(predictions, references)
    characters = sum(len(reference) for reference in references)
    if not characters:
        raise SaccadeError("cer needs references with text: all are empty")
    edits = sum(map(Levenshtein.distance, predictions, references))
    return Score("cer", edits / characters, higher_is_better=False)


def wer(predictions: list[str], references: list[str]) -> Score:
    """The word error rate of the whole corpus: edits per word of the references, words being what blanks part. Where the
    words are phonemes, it is the phoneme error rate."""
    from rapidfuzz.distance import Levenshtein

    check_paired(predictions, references)
    predicted, expected = [text.split() for text in predictions], [text.split() for text in references]
    words = sum(map(len, expected))
    if not words:
        raise SaccadeError("wer needs references with text: all are empty")
    return Score("wer", sum(map(Levenshtein.distance, predicted, expected)) / words, higher_is_better=False)


TEXT_METRICS = ("exact_match", "cer", "wer", "bleu", "chrf", "ter", "perplexity")
POINT_METRICS = ("exact_match", "perplexity")
LANGUAGE_METRICS = ("perplexity", "word_perplexity", "bits_per_character")
MASKED_METRICS = ("mlm_accuracy", "mlm_perplexity", "mlm_loss", "nsp_accuracy")
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
    """Raise where a name is not that of a metric of texts."""
    if isinstance(names, str):
        raise SaccadeError(f"expected a list of metrics, found one text: {names!r}")
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise SaccadeError(f"unknown metric {unknown[0]!r}: the known ones are {', '.join(METRICS)}")


def check_available(names: Sequence[str]) -> None:
    """Raise now, not after hours of training, where the package behind a metric is missing."""
    packages = {"bleu": "sacrebleu", "chrf": "sacrebleu", "ter": "sacrebleu", "cer": "rapidfuzz", "wer": "rapidfuzz"}
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


def word_perplexity(nll_sum: float, words: int) -> Score:
    """exp of the mean negative log-likelihood of a word: what blanks part, and the end of each text. However a text is cut
    into tokens, its words are the same, so that models with other tokens compare."""
    return replace(perplexity(nll_sum, words), name="word_perplexity")


def bits_per_character(nll_sum: float, characters: int) -> Score:
    """The mean negative log₂-likelihood of a character, the end of each text counted as one."""
    if characters < 1:
        raise SaccadeError(f"bits_per_character needs at least one character: got {characters}")
    return Score("bits_per_character", nll_sum / math.log(2) / characters, higher_is_better=False)


def check_paired(predictions: Sequence[str], references: Sequence[str]) -> None:
    """Raise unless there is one prediction for each reference, and at least one."""
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
