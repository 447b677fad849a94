"""Cuts text into pieces as BERT does (Devlin et al. 2019): WordPiece with the marks [PAD], [CLS], [SEP], [UNK] and [MASK].

Text is cleaned, lower-cased and stripped of its accents (``lower``), split at blanks, punctuation and Chinese characters, and
each word is cut into the longest pieces that the vocabulary has, from the left; "##" begins a piece inside a word. A word that
cannot be cut so is [UNK] as a whole. The vocabulary is learnt, or that of a ``vocab.txt``, one piece per line.

No text can spell a mark: a written "[SEP]" is three tokens. :meth:`WordPieces.blanked` reads a written [MASK] as the mark.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Tokenizer as Pipeline
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from saccade.data.files.lines import text_lines, without_end
from saccade.data.paths import locate
from saccade.data.tokenizers.tokenizer import CONTINUES, Tokenizer, TokenizerConfig, stored_config
from saccade.errors import InputError, SaccadeError

MARKS = ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")
BLANK = "[MASK]"
ALPHABET = 1000  # characters at most; those beyond are [UNK]
LONGEST_WORD = 100  # characters, as BERT has it; a longer word is [UNK]


class WordPieces(Tokenizer):
    """A tokenizer whose marks have the ids of its vocabulary: read ``PAD``, ``BOS`` ([CLS]), ``EOS`` ([SEP]), ``UNK`` and
    ``MASK`` from the instance.

    >>> pieces = WordPieces.of([*MARKS, "un", "##able", "a"], TokenizerConfig(kind="bert", lower=True))
    >>> pieces.encode("Unable [SEP]"), pieces.blanked("a [MASK]")[0]
    ([5, 6, 3, 3, 3], [7, 4])
    """

    MASK: int

    def __init__(self, pipeline: Pipeline, config: TokenizerConfig) -> None:
        super().__init__(pipeline, config)
        self.PAD, self.BOS, self.EOS, self.UNK, self.MASK = (pipeline.get_vocab()[mark] for mark in MARKS)

    @classmethod
    def of(cls, vocabulary: Sequence[str], config: TokenizerConfig, where: str | Path = "vocabulary") -> WordPieces:
        """The tokenizer of these pieces, in this order."""
        first: dict[str, int] = {}
        for line, piece in enumerate(vocabulary, start=1):
            if piece in first:
                found = f"{piece!r} again, after line {first[piece]}"
                raise InputError(where, line=line, expected="a piece of its own", found=found)
            first[piece] = line
        missing = [mark for mark in MARKS if mark not in first]
        if missing:
            raise InputError(where, expected=f"the marks {', '.join(MARKS)}, a line each", found=f"no {missing[0]}")
        numbers = {piece: number for number, piece in enumerate(vocabulary)}
        return cls(_pipeline(numbers, config), replace(config, vocabulary=None, size=len(numbers)))

    @classmethod
    def read(cls, path: str | Path, config: TokenizerConfig) -> WordPieces:
        """The tokenizer of a ``vocab.txt``."""
        lines = [without_end(line) for line in text_lines(Path(path))]
        while lines and not lines[-1]:
            lines.pop()
        return cls.of(lines, config, path)

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> WordPieces:
        """Learn the pieces from texts; the marks come first, so that here too padding is 0."""
        if isinstance(texts, str):
            raise SaccadeError("a tokenizer learns from a list of texts: got one text")
        return cls.of(_learnt(list(texts), config), config)

    def blanked(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """The ids of a text and where each stands in it, a written [MASK] being the mark."""
        ids, spans, start = list[int](), list[tuple[int, int]](), 0
        for number, part in enumerate(text.split(BLANK)):
            if number:
                ids.append(self.MASK)
                spans.append((start, start + len(BLANK)))
                start += len(BLANK)
            encoding = self._encoding(part)
            ids += encoding.ids
            spans += [(start + first, start + last) for first, last in encoding.offsets]
            start += len(part)
        return ids, spans

    def decode(self, ids: Iterable[int], unknown: str = "") -> str:
        marks = (self.PAD, self.BOS, self.EOS)
        kept = [
            unknown if index == self.UNK else self._texts[index] for index in self._checked(ids) if index not in marks
        ]
        written = [
            piece.removeprefix(CONTINUES) if piece.startswith(CONTINUES) else f" {piece}" for piece in kept if piece
        ]
        return "".join(written).removeprefix(" ")

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._texts[index] for index in self._checked(ids)]

    def canonical(self, text: str) -> str:
        return self.decode(self.encode(text), "[UNK]")

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(first, last) for first, last in self._encoding(text).offsets]

    @staticmethod
    def _expected(config: TokenizerConfig) -> Pipeline:
        return _pipeline({}, config)

    @staticmethod
    def _check_vocabulary(vocabulary: dict[str, int], where: str) -> None:
        missing = [mark for mark in MARKS if mark not in vocabulary]
        if missing or sorted(vocabulary.values()) != list(range(len(vocabulary))):
            found = f"no {missing[0]}" if missing else "gaps between them"
            raise InputError(where, expected=f"ids 0, 1, 2, … with {', '.join(MARKS)}", found=found)

    @property
    def vocabulary(self) -> list[str]:
        """Every piece, in the order of the ids: the lines of a ``vocab.txt``."""
        return list(self._texts)


def learn_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """The tokenizer that ``data.tokens`` asks for: learnt from the texts, or that of a file of pieces."""
    if config.kind != "bert":
        return Tokenizer.train(texts, config)
    if config.vocabulary is not None:
        return WordPieces.read(locate(config.vocabulary, Path.cwd()), config)
    return WordPieces.train(texts, config)


def stored_tokenizer(text: str, where: str = "tokenizer.json") -> Tokenizer:
    """The tokenizer that a bundle keeps, of whatever kind."""
    kind = WordPieces if stored_config(text, where).kind == "bert" else Tokenizer
    return kind.from_json(text, where)


def _pipeline(numbers: dict[str, int], config: TokenizerConfig) -> Pipeline:
    model = models.WordPiece(
        numbers, unk_token="[UNK]", max_input_chars_per_word=LONGEST_WORD, continuing_subword_prefix=CONTINUES
    )
    pipeline = Pipeline(model)
    pipeline.normalizer = normalizers.BertNormalizer(lowercase=config.lower)
    pipeline.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pipeline.decoder = decoders.WordPiece(prefix=CONTINUES)
    return pipeline


def _learnt(texts: list[str], config: TokenizerConfig) -> list[str]:
    """Marks, then pieces. The same texts give the same pieces in every process."""
    normalise = normalizers.BertNormalizer(lowercase=config.lower)
    clean = [normalise.normalize_str(text) for text in texts]
    counts = Counter[str]()
    for text in clean:
        counts.update(text)
    seen = [character for character, count in counts.items() if count >= config.min_count and not character.isspace()]
    if not seen:
        raise SaccadeError(f"a tokenizer needs texts to learn from: found no character seen {config.min_count} times")
    room = min(ALPHABET, max(1, (config.size - len(MARKS)) // 2))
    alphabet = sorted(seen, key=lambda character: (-counts[character], character))[:room]
    rare = dict.fromkeys((ord(character) for character in counts.keys() - set(alphabet)), " ")
    # The trainer breaks ties by numbers that it gives to the characters inside words as a hash map happens to yield them,
    # unless it is given them.
    inside = [CONTINUES + character for character in sorted(alphabet) if not _stands_alone(character)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.size,
        min_frequency=max(2, config.min_count),
        special_tokens=[*MARKS, *inside],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    learner = Pipeline(models.WordPiece(unk_token="[UNK]"))
    learner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    learner.train_from_iterator((text.translate(rare) for text in clean), trainer)
    vocabulary: dict[str, int] = learner.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _stands_alone(character: str) -> bool:
    """Whether a character is a token by itself wherever it stands, so that no piece continues with it."""
    ascii_symbol = character.isascii() and not character.isalnum()
    return ascii_symbol or unicodedata.category(character).startswith("P") or "一" <= character <= "鿿"
