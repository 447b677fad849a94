"""Converts output constraints (prefix, required and forbidden phrases) from text to tokens, and unknown words back to text.

A token that begins a word includes the space before it, so an output is the concatenation of its tokens without the first
space. A phrase thus consists of whole words; with characters it is any substring.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError
from saccade.nn.search.beam_search import Hypothesis
from saccade.nn.search.constraints import Constraints, Lattice, holds
from saccade.task import OutputConstraints, check_text

GAP = "\0<unknown>\0"  # placeholder of an unknown token in a decoded text; no token contains it
LETTERS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class TokenConstraints:
    """Constraints in tokens, with the required phrases as given, the forbidden ones in normalised form, and the text of unknown
    tokens of the prefix."""

    constraints: Constraints = field(default_factory=Constraints)
    phrases: tuple[str, ...] = ()
    barred: frozenset[str] = frozenset()
    given: Mapping[int, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """The number of tokens in the prefix and the required phrases."""
        return len(self.constraints.prefix) + sum(len(phrase) for phrase in self.constraints.require)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"prefix: {text!r} is not in the target's vocabulary" for text in self.given.values())

    def missed(self, found: Hypothesis) -> tuple[str, ...]:
        """One note per required phrase that the output lacks."""
        return tuple(f"required but not written: {self.phrases[number]!r}" for number in found.unmet)


class Spelling:
    """The text of every token of a vocabulary, and the tokenisations of phrases."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.space = "" if tokenizer.config.kind == "characters" else " "

    @cached_property
    def texts(self) -> list[str]:
        """The text that each token adds to an output; empty for special tokens."""
        anchor = Tokenizer.UNK + 1  # the first token that is not special
        start = len(self.tokenizer.decode([anchor]))
        return [self.tokenizer.decode([anchor, token])[start:] for token in range(self.tokenizer.size)]

    @cached_property
    def begins(self) -> Tensor | None:
        """[V] the tokens that begin a word or are not part of one; None with characters, where it is unknown."""
        if not self.space:
            return None
        begins = torch.tensor([bool(text) and re.match(r"\w", text) is None for text in self.texts])
        begins[Tokenizer.UNK] = self.tokenizer.config.kind in ("words", "wordpiece")  # there <unk> is a whole word
        return begins

    @cached_property
    def _tokens(self) -> dict[str, list[int]]:
        tokens: dict[str, list[int]] = {}
        for token, text in enumerate(self.texts):
            if text:
                tokens.setdefault(text, []).append(token)
        return tokens

    @cached_property
    def _closing(self) -> frozenset[int]:
        """Tokens after which a word begins even without a space: punctuation."""
        return frozenset(token for token, text in enumerate(self.texts) if text and re.search(r"\w$", text) is None)

    def lattices(self, phrase: str) -> tuple[Lattice, ...]:
        """All tokenisations of a phrase: after a space, and directly after punctuation."""
        text = self.tokenizer.canonical(phrase).strip()
        spellings: list[tuple[str, frozenset[int] | None]] = [(self.space + text, None)]
        if self.tokenizer.config.subwords:
            spellings.append((text, self._closing if re.match(r"\w", text) else None))
        return tuple(self._lattice(spelt, after) for spelt, after in spellings)

    def _lattice(self, text: str, after: frozenset[int] | None) -> Lattice:
        edges = [
            {token: end for end in range(start + 1, len(text) + 1) for token in self._tokens.get(text[start:end], ())}
            for start in range(len(text))
        ]
        return Lattice(tuple(edges), after)

    # Constraints become tokens ---------------------------------------------------------------------------------------

    def wanted(self, wish: OutputConstraints, where: str) -> TokenConstraints:
        """The constraints in tokens; raises if they contradict each other or cannot be met."""
        prefix, closed, given = self._prefix(wish.prefix, where)
        phrases = tuple(dict.fromkeys(check_text(phrase, where, "require", "words").strip() for phrase in wish.require))
        require = tuple(self._phrase(phrase, where) for phrase in phrases)
        forbid: list[Lattice] = []
        for phrase in wish.forbid:
            lattices = self.lattices(check_text(phrase, where, "forbid", "words").strip())
            demanded = [("prefix", prefix, wish.prefix)]
            demanded += [("require", tokens, text) for tokens, text in zip(require, phrases, strict=True)]
            for name, tokens, text in demanded:
                if holds(tokens, lattices) or self.says(text, [phrase]):
                    found = f"{phrase!r}, which is in {name}"
                    raise InputError(
                        where, field="forbid", expected="words that are not in prefix or require", found=found
                    )
            forbid += lattices
        barred = frozenset(self.tokenizer.canonical(phrase.strip()) for phrase in wish.forbid)
        return TokenConstraints(Constraints(prefix, closed, require, tuple(forbid)), phrases, barred, given)

    def says(self, text: str, phrases: Iterable[str]) -> bool:
        """Whether a text contains one of the phrases, as whole words, or with characters as any substring."""
        edge = (r"(?<!\w)", r"(?!\w)") if self.space else ("", "")
        written = self.tokenizer.canonical(text)
        spelt = [re.escape(self.tokenizer.canonical(phrase).strip()) for phrase in phrases]
        return any(re.search(f"{edge[0]}{phrase}{edge[1]}", written) for phrase in spelt)

    def _prefix(self, text: str, where: str) -> tuple[tuple[int, ...], bool, dict[int, str]]:
        """The tokens of a prefix, whether its last word is complete, and the text of its unknown tokens."""
        if not isinstance(text, str):
            raise InputError(where, field="prefix", expected="a text", found=type(text).__name__)
        # A trailing space belongs to the next word: it marks the last word as complete, but is not a token.
        stripped = text.strip() if self.space else text
        tokens = self.tokenizer.encode(stripped)
        spans = self.tokenizer.spans(stripped)
        unknown = [number for number, token in enumerate(tokens) if token == Tokenizer.UNK]
        given = {number: stripped[slice(*spans[number])] for number in unknown}
        closed = bool(self.space) and text != text.rstrip() and bool(tokens)
        return tuple(tokens), closed, given

    def _phrase(self, phrase: str, where: str) -> tuple[int, ...]:
        tokens = tuple(self.tokenizer.encode(phrase))
        if Tokenizer.UNK in tokens:
            raise InputError(
                where,
                field="require",
                expected=f"{self.tokenizer.config.kind} of the target's vocabulary",
                found=repr(phrase),
                hint="the network can only write tokens of its vocabulary",
            )
        return tokens

    # Tokens become a text --------------------------------------------------------------------------------------------

    def written(self, tokens: Sequence[int], replaced: Mapping[int, str]) -> str:
        """The text of an output, with unknown tokens replaced by ``replaced`` and the other unknown ones as <unk>."""
        gaps = [replaced.get(number, "<unk>") for number, token in enumerate(tokens) if token == Tokenizer.UNK]
        parts = self.tokenizer.decode(tokens, unknown=GAP).split(GAP)
        return "".join(part + gap for part, gap in zip(parts, [*gaps, ""], strict=True))


def source_word(text: str, span: tuple[int, int], whole: bool) -> str:
    """The text at ``span``; with ``whole``, the complete word around it."""
    start, end = span
    if whole:
        for word in LETTERS.finditer(text):
            if word.start() <= start < word.end():
                return word.group()
    return text[start:end]
