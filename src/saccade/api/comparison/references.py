"""What the outputs of several runs are compared with: one reference text for all of them, or a clear refusal.

A run's figures are of *its* text: a tokenizer that lower-cases, or cuts words apart, makes an easier or another text of the
same reference. Two forms are fair:

    own       each run's own text, where that is the same for all of them
    common    the coarsest form that all can be brought to: lower-cased if any run lower-cases, cut into words if any run
              does, Unicode-normalised as the strongest does; outputs and references alike
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from saccade.api.bundle import Bundle
from saccade.data.tokenizers.tokenizer import Tokenizer, TokenizerConfig
from saccade.errors import SaccadeError

Form = Literal["own", "common"]
UNKNOWN, MARK = "<unk>", "\ufffd"  # an unknown word stays one word in every form


@dataclass(frozen=True)
class References:
    """The reference texts, how an output is written to be compared with them, how BLEU cuts words, and in which form."""

    texts: list[str]
    written: Callable[[Any], str]
    bleu_tokenize: str
    form: str
    are_texts: bool = True


def shared_references(
    bundles: Sequence[Bundle], names: Sequence[str], records: Sequence[Any], form: Form
) -> References:
    """The references that every run can be held to."""
    if form not in get_args(Form):
        raise SaccadeError(f"text: expected one of {', '.join(get_args(Form))}, found {form!r}")
    tokenizers = [bundle.task.output_tokenizer for bundle in bundles]
    raw = [record.target for record in records]
    if form == "common":
        return _common(raw, [tokenizer.config for tokenizer in tokenizers if tokenizer is not None])
    texts = [[tokenizer.canonical(text) for text in raw] for tokenizer in tokenizers if tokenizer is not None]
    for name, other in zip(names[1:], texts[1:], strict=True):
        different = next((number for number, text in enumerate(other) if text != texts[0][number]), None)
        if different is not None:
            raise SaccadeError(
                f"{names[0]} and {name} write the same references differently, so their figures do not compare: "
                f"{texts[0][different][:60]!r} and {other[different][:60]!r} (--text common compares a form of both)"
            )
    # Words are already cut by spaces where every run cuts them.
    words = all(tokenizer.config.kind == "words" for tokenizer in tokenizers if tokenizer is not None)
    return References(texts[0], str, "none" if words else "13a", _form(tokenizers[0].config if tokenizers[0] else None))


def _common(raw: list[str], configs: Sequence[TokenizerConfig]) -> References:
    words = any(config.kind == "words" for config in configs)
    forms = [config.normalise for config in configs]
    common = TokenizerConfig(
        kind="words" if words else "characters",
        lower=any(config.lower for config in configs),
        normalise="nfkc" if "nfkc" in forms else "nfc" if "nfc" in forms else "none",
    )
    tokenizer = Tokenizer.train(raw, common)

    def written(text: str) -> str:
        return tokenizer.canonical(text.replace(UNKNOWN, MARK)).replace(MARK, UNKNOWN)

    return References([tokenizer.canonical(text) for text in raw], written, "none" if words else "13a", _form(common))


def _form(config: TokenizerConfig | None) -> str:
    if config is None:
        return "as it is"
    parts = ["lower-cased"] if config.lower else []
    return ", ".join([*parts, *(["cut into words"] if config.kind == "words" else [])]) or "as it is"
