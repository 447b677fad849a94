"""Turns given words into ids: each looked up whole, or cut into BERT's pieces; and spells their characters. No torch.

    word        Confidence    in     1990      as written, or by data.tokens in lower case, every digit a 0
    id          17            4      0000 → 9  <unk> where training had it fewer than min_count times
    characters  C o n f i d e n c e            always with their case: a network that reads them sees capitals and endings

The vocabulary is kept as a tokenizer of kind ``words``, so that readers of those find the words of this one too; words that it
would split ("don't") are looked up whole here.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from saccade.data.tokenizers.tokenizer import SPECIAL, Tokenizer, TokenizerConfig
from saccade.data.tokenizers.vectors import VectorMatch, Vectors, as_vectors, read_vectors, words_in
from saccade.data.tokenizers.wordpiece import WordPieces, learn_tokenizer, stored_tokenizer
from saccade.documents import checked, parse
from saccade.errors import InputError, SaccadeError

VOCABULARY, SPELLING = "tokenizer.json", "characters.json"
UNKNOWN = 1  # a character that training did not have; 0 is padding
DIGIT = re.compile(r"\d")

Letters = NDArray[np.int64]


@dataclass(frozen=True)
class TagTokens(TokenizerConfig):
    """How the words of a file become tokens: each is one (``words``), or is cut to BERT's pieces (``bert``).

    ``digits`` makes every digit 0 before a word is looked up or spelled. ``characters`` is how many characters of a word a
    network may read; of a longer one the first and the last."""

    kind: Literal["words", "bert"] = "words"
    size: int = 50_000
    digits: bool = False
    characters: int = 24

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.characters <= 1000:
            raise ValueError(f"characters must be between 2 and 1000: got {self.characters}")
        if self.whole:
            raise ValueError("whole must be left out: words are taken as they are given")


@dataclass(frozen=True)
class Cut:
    """The ids of a sentence, and where each word's first piece stands among them."""

    ids: list[int]
    places: list[int]


@dataclass(frozen=True)
class _Spelling:
    characters: tuple[str, ...]


class WordReader:
    """A vocabulary of words or pieces, and one of characters (empty where pieces are read)."""

    def __init__(self, tokenizer: Tokenizer, config: TagTokens, characters: Sequence[str] = ()) -> None:
        self.tokenizer, self.config, self.characters = tokenizer, config, tuple(characters)
        self._pieces: dict[str, list[int]] = {}
        if config.kind == "words":
            self._numbers = {word: number for number, word in enumerate(tokenizer.pieces(range(tokenizer.size)))}
            self._numbers |= dict.fromkeys(SPECIAL, tokenizer.UNK)  # no text can spell a mark
        self._letters = {character: number for number, character in enumerate(self.characters, start=UNKNOWN + 1)}

    @classmethod
    def learn(
        cls, sentences: Sequence[Sequence[str]], config: TagTokens, vectors: str | Vectors | None = None
    ) -> tuple[WordReader, VectorMatch | None]:
        """The reader of these sentences, and the vectors of its words where some are named."""
        if config.kind == "bert":
            plain = plain_tokens(config)
            return cls(learn_tokenizer((" ".join(words) for words in sentences), plain), config), None
        counts = Counter(written(word, config) for words in sentences for word in words)
        kept = [word for word, count in counts.items() if count >= config.min_count and word not in SPECIAL]
        if not kept:
            raise SaccadeError(f"a vocabulary needs words to learn from: found none seen {config.min_count} times")
        ordered = sorted(kept, key=lambda word: (-counts[word], word))[: config.size - len(SPECIAL)]
        wanted, known, before = as_vectors(vectors), dict.fromkeys(ordered), len(ordered)
        if wanted is not None and wanted.extend:
            for word in words_in(wanted, Path.cwd()):
                if len(known) >= config.size - len(SPECIAL):
                    break
                if written(word, config) == word and word not in SPECIAL:
                    known.setdefault(word)
        reader = cls(_vocabulary([*SPECIAL, *known], config), config, _characters(sentences, config))
        if wanted is None:
            return reader, None
        found = read_vectors(wanted, Path.cwd(), {word: n for n, word in enumerate([*SPECIAL, *known])})
        if len(known) > before:
            found = replace(found, note=f"{found.note}; {len(known) - before:,} of them are not in the training texts")
        return reader, found

    @classmethod
    def restore(cls, files: dict[str, str], config: TagTokens) -> WordReader:
        """The reader that :meth:`files` kept; of a run that was pre-trained there are no characters."""
        if VOCABULARY not in files:
            raise InputError(VOCABULARY, expected="a file of the bundle", found="no such file")
        tokenizer = stored_tokenizer(files[VOCABULARY], VOCABULARY)
        if isinstance(tokenizer, WordPieces) != (config.kind == "bert"):
            hint = "set data.tokens.kind"
            raise InputError(
                VOCABULARY, expected=f"tokens of the kind {config.kind}", found=tokenizer.config.kind, hint=hint
            )
        if config.kind == "bert":
            return cls(tokenizer, config)
        if SPELLING not in files:
            raise InputError(SPELLING, expected="the characters of the bundle's words", found="no such file")
        return cls(tokenizer, config, checked(_Spelling, parse(files[SPELLING], SPELLING), SPELLING).characters)

    def files(self) -> dict[str, str]:
        """The files that a bundle keeps."""
        kept = {VOCABULARY: self.tokenizer.to_json()}
        if self.config.kind == "words":
            kept[SPELLING] = json.dumps({"characters": self.characters}, ensure_ascii=False)
        return kept

    @property
    def alphabet(self) -> int:
        """Number of characters, padding and the unknown one included; 0 where none are read."""
        return 0 if self.config.kind == "bert" else len(self.characters) + UNKNOWN + 1

    def cut(self, words: Sequence[str]) -> Cut:
        """The ids of a sentence."""
        if self.config.kind == "words":
            unknown = self.tokenizer.UNK
            ids = [self._numbers.get(written(word, self.config), unknown) for word in words]
            return Cut(ids, list(range(len(ids))))
        new = [word for word in dict.fromkeys(words) if word not in self._pieces]
        self._pieces.update(zip(new, self.tokenizer.encode_all(new), strict=True))
        ids, places = list[int](), list[int]()
        for word in words:
            places.append(len(ids))
            ids += self._pieces[word] or [self.tokenizer.UNK]  # a word may be nothing once it is normalised
        return Cut(ids, places)

    def spelled(self, words: Sequence[str]) -> Letters:
        """The characters of each word [words, characters], padded with 0; of a long word the first and the last."""
        most = self.config.characters
        table = np.zeros((len(words), most), dtype=np.int64)
        for row, word in enumerate(words):
            shown = _shown(word, self.config)
            shown = shown if len(shown) <= most else shown[: most // 2] + shown[most // 2 - most :]
            table[row, : len(shown)] = [self._letters.get(character, UNKNOWN) for character in shown]
        return table


def plain_tokens(config: TagTokens) -> TokenizerConfig:
    """The settings that a tokenizer keeps."""
    return TokenizerConfig(**{field.name: getattr(config, field.name) for field in fields(TokenizerConfig)})


def written(word: str, config: TagTokens) -> str:
    """A word as it is looked up."""
    shown = _shown(word, config)
    return shown.lower() if config.lower else shown


def _shown(word: str, config: TagTokens) -> str:
    shown = word
    if config.normalise != "none" and not word.isascii():
        shown = unicodedata.normalize("NFC" if config.normalise == "nfc" else "NFKC", word)
    return DIGIT.sub("0", shown) if config.digits else shown


def _vocabulary(words: Iterable[str], config: TagTokens) -> Tokenizer:
    """A tokenizer of just these words, in their order."""
    plain = plain_tokens(config)
    document = json.loads(Tokenizer.train(["a"], replace(plain, min_count=1)).to_json())
    document["pre_tokenizer"]["saccade"]["min_count"] = plain.min_count
    document["model"]["vocab"] = {word: number for number, word in enumerate(words)}
    return Tokenizer.from_json(json.dumps(document, ensure_ascii=False))


def _characters(sentences: Sequence[Sequence[str]], config: TagTokens) -> list[str]:
    """The characters of the training words, the most frequent first."""
    counts = Counter[str]()
    for words in sentences:
        for word in words:
            counts.update(_shown(word, config))
    return sorted(counts, key=lambda character: (-counts[character], character))
