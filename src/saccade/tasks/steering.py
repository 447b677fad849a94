"""Wishes of outputs, from text to tokens: what they must begin with, hold and not hold; and unknown words, from tokens to text.

Tokens that begin a word carry the space before it, so an output is what its tokens spell, less the first space. A phrase is
thus a piece of text between two ends of words; with characters it is a string, wherever it stands.
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
from saccade.task import OutputConstraints

GAP = "\0<unknown>\0"  # stands for an unknown token while a text is put together; no token spells it
LETTERS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class TokenConstraints:
    """A wish in tokens; the required phrases as they were written, the forbidden ones as an output would write them, and
    the text of the prefix's unknown tokens."""

    constraints: Constraints = field(default_factory=Constraints)
    phrases: tuple[str, ...] = ()
    barred: frozenset[str] = frozenset()
    given: Mapping[int, str] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Tokens that the wish alone asks for."""
        return len(self.constraints.prefix) + sum(len(phrase) for phrase in self.constraints.require)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"prefix: {text!r} is not in the target's vocabulary" for text in self.given.values())

    def missed(self, found: Hypothesis) -> tuple[str, ...]:
        """What the output lacks, in words."""
        return tuple(f"required but not written: {self.phrases[number]!r}" for number in found.unmet)


class Spelling:
    """What each token of a vocabulary adds to a text, and how phrases are spelt with them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.space = "" if tokenizer.config.kind == "characters" else " "

    @cached_property
    def texts(self) -> list[str]:
        """The text that each token adds after another; special tokens add nothing."""
        anchor = Tokenizer.UNK + 1  # the first token that is not special
        start = len(self.tokenizer.decode([anchor]))
        return [self.tokenizer.decode([anchor, token])[start:] for token in range(self.tokenizer.size)]

    @cached_property
    def begins(self) -> Tensor | None:
        """[V] the tokens that begin a word, or are no part of one; None with characters, where nothing tells."""
        if not self.space:
            return None
        begins = torch.tensor([bool(text) and re.match(r"\w", text) is None for text in self.texts])
        begins[Tokenizer.UNK] = self.tokenizer.config.kind in ("words", "wordpiece")  # there it stands for a whole word
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
        """All ways in which a phrase can come about: after a space, and right after punctuation."""
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

    # A wish becomes tokens -------------------------------------------------------------------------------------------

    def wanted(self, wish: OutputConstraints, where: str) -> TokenConstraints:
        """The wish in tokens; one that cannot come true is an error that says why."""
        prefix, closed, given = self._prefix(wish.prefix, where)
        phrases = tuple(dict.fromkeys(_checked(phrase, "require", where) for phrase in wish.require))
        require = tuple(self._phrase(phrase, where) for phrase in phrases)
        forbid: list[Lattice] = []
        for phrase in wish.forbid:
            lattices = self.lattices(_checked(phrase, "forbid", where))
            asked = [("prefix", prefix, wish.prefix)]
            asked += [("require", tokens, text) for tokens, text in zip(require, phrases, strict=True)]
            for name, tokens, text in asked:
                if holds(tokens, lattices) or self.says(text, [phrase]):
                    found = f"{phrase!r}, which {name} asks for"
                    raise InputError(where, field="forbid", expected="words that no other wish asks for", found=found)
            forbid += lattices
        barred = frozenset(self.tokenizer.canonical(phrase.strip()) for phrase in wish.forbid)
        return TokenConstraints(Constraints(prefix, closed, require, tuple(forbid)), phrases, barred, given)

    def says(self, text: str, phrases: Iterable[str]) -> bool:
        """Whether a text holds one of the phrases: as whole words, or with characters anywhere."""
        edge = (r"(?<!\w)", r"(?!\w)") if self.space else ("", "")
        written = self.tokenizer.canonical(text)
        spelt = [re.escape(self.tokenizer.canonical(phrase).strip()) for phrase in phrases]
        return any(re.search(f"{edge[0]}{phrase}{edge[1]}", written) for phrase in spelt)

    def _prefix(self, text: str, where: str) -> tuple[tuple[int, ...], bool, dict[int, str]]:
        """Its tokens, whether a word is closed after them, and the text of those that are unknown."""
        if not isinstance(text, str):
            raise InputError(where, field="prefix", expected="a text", found=type(text).__name__)
        # A space after the last word belongs to the next one: it says that the word is whole, and is no token.
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
                hint="the network cannot write what it never saw in training",
            )
        return tokens

    # Tokens become a text --------------------------------------------------------------------------------------------

    def written(self, tokens: Sequence[int], replaced: Mapping[int, str]) -> str:
        """The text of an output whose unknown tokens are written as ``replaced`` says, the others as <unk>."""
        gaps = [replaced.get(number, "<unk>") for number, token in enumerate(tokens) if token == Tokenizer.UNK]
        parts = self.tokenizer.decode(tokens, unknown=GAP).split(GAP)
        return "".join(part + gap for part, gap in zip(parts, [*gaps, ""], strict=True))


def _checked(phrase: str, name: str, where: str) -> str:
    if not isinstance(phrase, str):
        raise InputError(where, field=name, expected="words", found=type(phrase).__name__)
    if not phrase.strip():
        raise InputError(where, field=name, expected="words", found="nothing" if not phrase else "blanks only")
    return phrase.strip()


def source_word(text: str, span: tuple[int, int], whole: bool) -> str:
    """What stands at ``span``; ``whole``: the word around it, where it is a part of one."""
    start, end = span
    if whole:
        for word in LETTERS.finditer(text):
            if word.start() <= start < word.end():
                return word.group()
    return text[start:end]
