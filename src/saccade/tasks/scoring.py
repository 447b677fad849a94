"""How likely a choice among labels or candidates is under a lens, and how much of a corpus a vocabulary lacks."""

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

TINY = 1e-300  # a probability that its logarithm can be taken of
FIXED = "A vocabulary does not grow: if they matter, train from scratch on old and new data together"


def choice_scorer(task: Task, network: Any, given: Any, choice: Any) -> Callable[[Lens], Scored]:
    """How likely one of the choices is that a prediction lists in ``probabilities``; the likeliest unless given."""

    def score(lens: Lens) -> Scored:
        prediction = task.predict(network, [given], how=Search(), lens=lens)[0]
        asked = prediction.value if choice is None else choice
        if asked not in prediction.probabilities:
            choices = ", ".join(list(prediction.probabilities)[:8])
            raise SaccadeError(f"expected one of the outputs {choices}, found {str(asked)[:60]!r}")
        return Scored((log(max(prediction.probabilities[asked], TINY)),), prediction.trace or Trace())

    if choice is None:
        choice = task.predict(network, [given], how=Search())[0].value
    return score


def unknown_share(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """A sentence on how many tokens of the training texts the vocabulary lacks, if any."""
    unknown = ids.count(tokenizer.UNK)
    return [f"{share('data.train', unknown, len(ids))} and are read as one unknown. {FIXED}"] if unknown else []


def share(where: str, unknown: int, tokens: int) -> str:
    """``data.train: 3 of 100 tokens (3.00%) are not in the vocabulary``."""
    return f"{where}: {unknown:,} of {tokens:,} tokens ({unknown / max(tokens, 1):.2%}) are not in the vocabulary"
