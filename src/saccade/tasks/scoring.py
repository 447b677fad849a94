"""Scores a choice among labels or candidates under a lens, and counts tokens that are not in a vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log
from typing import Any

from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import SaccadeError
from saccade.nn.search.beam_search import Search
from saccade.task import Scored, Task
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

TINY = 1e-300  # the smallest probability whose logarithm is taken
FIXED = "The vocabulary is fixed: if they matter, train from scratch on old and new data together"


def choice_scorer(task: Task, network: Any, given: Any, choice: Any) -> Callable[[Lens], Scored]:
    """A function of a lens: the probability of one of the choices in a prediction's ``probabilities``, by default the best."""
    if choice is None:
        choice = task.predict(network, [given], how=Search())[0].value

    def score(lens: Lens) -> Scored:
        prediction = task.predict(network, [given], how=Search(), lens=lens)[0]
        if choice not in prediction.probabilities:
            choices = ", ".join(list(prediction.probabilities)[:8]) or "that the task chooses among"
            raise SaccadeError(f"expected one of the outputs {choices}, found {str(choice)[:60]!r}")
        return Scored((log(max(prediction.probabilities[choice], TINY)),), prediction.trace or Trace())

    return score


def unknown_share(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """A sentence on how many tokens of the training texts are not in the vocabulary, if any."""
    unknown = ids.count(tokenizer.UNK)
    return [f"{share('data.train', unknown, len(ids))} and are read as one unknown. {FIXED}"] if unknown else []


def share(where: str, unknown: int, tokens: int) -> str:
    """``data.train: 3 of 100 tokens (3.00%) are not in the vocabulary``."""
    return f"{where}: {unknown:,} of {tokens:,} tokens ({unknown / max(tokens, 1):.2%}) are not in the vocabulary"
