"""Turns text into ids and back: characters, words, or subwords learnt by BPE (Sennrich et al. 2016), WordPiece (Schuster and
Nakajima 2012) or a unigram model (Kudo 2018). Hugging Face `tokenizers` does the work, and its file is our file.

Three rules hold for every kind. The ids 0 to 3 are <pad>, <bos>, <eos> and <unk>, and no text can spell them: a written
"<eos>" is punctuation and letters. What the vocabulary does not hold becomes <unk>; it is never dropped. The same texts
give the same ids in every process.

Subword pieces keep the space before their word (" house"), and a text gets one in front, so a word is the same piece
wherever it stands and joining the pieces gives the text back, spaces included.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Literal, Self, get_args

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Pipeline

from saccade.documents import checked, fields_of, parse
from saccade.errors import InputError, SaccadeError

Kind = Literal["characters", "words", "bpe", "wordpiece", "unigram", "bert"]
Form = Literal["none", "nfc", "nfkc"]

SPECIAL = ("<pad>", "<bos>", "<eos>", "<unk>")
CONTINUES = "##"  # how WordPiece writes a piece that does not begin a word

LONGEST_WORD = 1000  # characters; WordPiece's own limit of 100 makes <unk> of a sentence in a script without spaces

CHARACTER = r"[\s\S]"
WORD = r"\w+|[^\w\s]"
# Punctuation stands alone, so that no piece can be learnt that reads "<eos>" or begins with WordPiece's "##".
SUBWORD = r" ?\w+| ?[^\w\s]|\s+(?!\S)|\s+"
UNBROKEN = re.compile(r"\S*")


@dataclass(frozen=True)
class TokenizerConfig:
    """How text is cut: `size` is the largest vocabulary, the four special tokens included; characters, words and merges
    seen fewer than `min_count` times are left out. `bert` is BERT's WordPiece (:mod:`saccade.data.tokenizers.wordpiece`), whose
    `vocabulary` may be a vocab.txt instead of being learnt. Strings that `whole` lists are one word each wherever they
    stand, whatever the letters and signs in them, and have an entry in the vocabulary: "<e1>", "n't"."""

    kind: Kind = "characters"
    lower: bool = False
    size: int = 8000
    min_count: int = 1
    normalise: Form = "nfc"
    vocabulary: str | None = None
    whole: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "whole", tuple(self.whole))  # a stored one is a list
        for name, value, known in (("kind", self.kind, Kind), ("normalise", self.normalise, Form)):
            if value not in get_args(known):
                raise SaccadeError(f"tokens.{name}: expected one of {', '.join(get_args(known))}, found {value!r}")
        for name, number, least in (("size", self.size, len(SPECIAL) + 1), ("min_count", self.min_count, 1)):
            if not isinstance(number, int) or number < least:
                raise SaccadeError(f"tokens.{name}: expected a whole number of at least {least}, found {number!r}")
        if self.vocabulary is not None and self.kind != "bert":
            raise SaccadeError(f"tokens.vocabulary: expected a file with kind bert only, found it with {self.kind}")
        self._check_whole()

    def _check_whole(self) -> None:
        if self.whole and self.kind != "words":
            raise SaccadeError(f"tokens.whole: expected with kind words only, found it with {self.kind}")
        for text in self.whole:
            written = unicodedata.normalize("NFKC", text).lower() if isinstance(text, str) else ""
            if not written or text != text.strip() or written in SPECIAL:  # as it may be once it is normalised
                expected = f"strings without blanks around them, none of {', '.join(SPECIAL)} among them"
                raise SaccadeError(f"tokens.whole: expected {expected}, found {text!r}")
        if self.whole and len(SPECIAL) + len(self.whole) >= self.size:
            found = f"{self.size} with {len(self.whole)} strings kept whole"
            raise SaccadeError(f"tokens.size: expected room for words beside those of tokens.whole, found {found}")

    @property
    def subwords(self) -> bool:
        return self.kind in ("bpe", "wordpiece", "unigram")


@dataclass(frozen=True)
class WordTokens(TokenizerConfig):
    """How documents are cut: into words, unless another kind is named."""

    kind: Kind = "words"
    size: int = 20_000


def unknown_notes(ids: Sequence[int], unknown: int) -> list[str]:
    """Notes on an input with tokens that are not in the vocabulary, which have the id ``unknown``."""
    count = ids.count(unknown)
    return [f"{count} of {len(ids)} tokens not in the vocabulary"] if count else []


class Tokenizer:
    """Turns texts into ids and ids into texts; `train` learns it, `to_json` and `from_json` keep it.

    >>> tokenizer = Tokenizer.train(["ab", "b"], TokenizerConfig())
    >>> tokenizer.encode("bad"), tokenizer.decode([4, 5, 2])
    ([4, 5, 3], 'ba')
    """

    PAD, BOS, EOS, UNK = range(len(SPECIAL))

    def __init__(self, pipeline: Pipeline, config: TokenizerConfig) -> None:
        self.config = config
        self.size: int = pipeline.get_vocab_size()
        self._pipeline = pipeline
        self._texts = [_text_of(str(pipeline.id_to_token(index)), config) for index in range(self.size)]

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
        """Learn a vocabulary from the texts."""
        if isinstance(texts, str):
            raise SaccadeError("a tokenizer learns from a list of texts: got one text")
        if config.kind == "bert":
            raise SaccadeError(
                "tokens.kind: expected another than bert here, which serves the tasks pretrain and classify"
            )
        normalised = _normalised(texts, config)
        model = _train_subwords(normalised, config) if config.subwords else _train_whole(normalised, config)
        return cls(_pipeline(model, config), config)

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without <bos> or <eos>."""
        return list(self._encoding(text).ids)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, quickly."""
        try:
            return self._all_characters(texts) if self.config.kind == "characters" else self._all(texts)
        except (TypeError, UnicodeEncodeError):
            return [self.encode(text) for text in texts]  # names the text that is at fault

    def decode(self, ids: Iterable[int], unknown: str = "") -> str:
        """The text of the ids; special ids are skipped, and <unk> is written as `unknown`."""
        kept = [index for index in self._checked(ids) if index not in (self.PAD, self.BOS, self.EOS)]
        # WordPiece gives up a whole word, the space before it too; the other kinds of subwords a piece of one.
        unknown = f" {unknown}" if unknown and self.config.kind == "wordpiece" else unknown
        texts = [unknown if index == self.UNK else self._texts[index] for index in kept]
        written = [text for text in texts if text]  # an empty one would leave a second space between words
        if not self.config.subwords:
            return (" " if self.config.kind == "words" else "").join(written)
        return "".join(written).removeprefix(" ")

    @property
    def raw_tokens(self) -> list[str]:
        """The tokens of the vocabulary in order, as it spells them: those of subwords with the marks of their kind."""
        return [str(self._pipeline.id_to_token(index)) for index in range(self.size)]

    @property
    def merges(self) -> Any:
        """What subwords are made by: the merges of BPE, the scores of unigram pieces; nothing of other kinds."""
        model = json.loads(self._pipeline.to_str())["model"]
        return model.get("merges") or (model["vocab"] if isinstance(model["vocab"], list) else None)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """A label for each id: its text as a reader sees it, without the space before a subword's word."""
        texts = [self._texts[index] for index in self._checked(ids)]
        if not self.config.subwords:
            return texts
        return [text.removeprefix(" ") if text.strip() else text for text in texts]

    def canonical(self, text: str) -> str:
        """The text as `decode` would give it back if every token were known: what an output is compared with."""
        normalised = _normalised([text], self.config)[0]
        if self.config.kind == "words":
            return " ".join(_words([normalised], self.config))
        return normalised.removeprefix(" ") if self.config.subwords else normalised

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each token of `encode(text)` stands in the text, so that an <unk> can be shown as what was written."""
        encoding = self._encoding(text)
        offsets = [*encoding.offsets, (len(text), len(text))]
        spans = [self._span(text, start, end, after) for (start, end), (after, _) in pairwise(offsets)]
        if self.config.subwords and encoding.tokens[:1] == [" "]:
            spans[0] = (0, 0)  # the space put in front of the text: nobody wrote it
        return spans

    def to_json(self) -> str:
        """The text of a Hugging Face tokenizer.json; other readers of that format ignore our settings in it."""
        document = json.loads(self._pipeline.to_str())
        # Unknown fields are refused at the top of the file and ignored inside the pre-tokenizer.
        document["pre_tokenizer"]["saccade"] = asdict(self.config)
        return json.dumps(document, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, where: str = "tokenizer.json") -> Self:
        """Read what `to_json` wrote; `where` names the file in errors."""
        config, document = stored_config(text, where), parse(text, where)
        stored = checked(_Stored, document, where)
        vocabulary = _vocabulary(stored.model, where)
        cls._check_vocabulary(vocabulary, where)
        longest = max(vocabulary, key=len)
        if len(longest) > LONGEST_TOKEN:
            expected, length = f"tokens of at most {LONGEST_TOKEN:,} characters", f"one of {len(longest):,}"
            raise InputError(where, field="model.vocab", expected=expected, found=length)
        # Other parts could make texts grow without end, or match patterns that take years: only our own are used.
        ours = json.loads(cls._expected(config).to_str())
        model = {name: value for name, value in ours["model"].items() if name not in LEARNT}
        theirs: dict[str, Any] = {"model": {name: document["model"].get(name, model[name]) for name in model}}
        theirs |= {part: document.get(part, ours[part]) for part in PARTS}
        theirs["pre_tokenizer"] = {name: value for name, value in theirs["pre_tokenizer"].items() if name != "saccade"}
        for part, value in theirs.items():
            if value != (model if part == "model" else ours[part]):
                expected = f"as saccade writes it for the kind {config.kind}"
                raise InputError(where, field=part, expected=expected, found=json.dumps(value)[:80])
        learnt = {name: document["model"][name] for name in LEARNT if name in document["model"]}
        try:
            pipeline = Pipeline.from_str(json.dumps({**ours, "model": {**model, **learnt}}))
        except BaseException as fault:
            # The library raises plain Exception for what is wrong with a file, or PanicException, which is none.
            if not (isinstance(fault, Exception) or type(fault).__name__ == "PanicException"):
                raise
            found = f"a broken one: {fault}"[:400]
            raise InputError(where, expected="a Hugging Face tokenizer", found=found) from fault
        return cls(pipeline, config)

    @staticmethod
    def _expected(config: TokenizerConfig) -> Pipeline:
        """A tokenizer of these settings, whatever its vocabulary."""
        return _pipeline(_BLANK[config.kind](), config)

    @staticmethod
    def _check_vocabulary(vocabulary: dict[str, int], where: str) -> None:
        firsts = sorted(vocabulary, key=vocabulary.__getitem__)[: len(SPECIAL)]
        if firsts != list(SPECIAL) or sorted(vocabulary.values()) != list(range(len(vocabulary))):
            expected = f"ids 0, 1, 2, … beginning with {', '.join(SPECIAL)}"
            raise InputError(where, expected=expected, found=f"{len(vocabulary)} tokens: {', '.join(firsts)} …")

    def __repr__(self) -> str:
        return f"Tokenizer({self.config.kind}, size={self.size})"

    def _all(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._pipeline.encode_batch_fast(list(texts), add_special_tokens=False)]

    def _all_characters(self, texts: Sequence[str]) -> list[list[int]]:
        # Looking characters up here is several times faster than the library's splitting by a pattern.
        normalise = self._pipeline.normalizer.normalize_str
        find = {text: index for index, text in enumerate(self._texts)}.get
        return [[find(character, self.UNK) for character in normalise(text)] for text in texts]

    def _encoding(self, text: str) -> Any:
        try:
            return self._pipeline.encode(text, add_special_tokens=False)
        except TypeError as fault:
            raise SaccadeError(_not_text(text)) from fault

    def _checked(self, ids: Iterable[int]) -> Iterator[int]:
        for index in ids:
            if not 0 <= index < self.size:  # a negative index would quietly count from the end
                raise SaccadeError(f"expected ids from 0 to {self.size - 1}, found {index}")
            yield index

    def _span(self, text: str, start: int, end: int, after: int) -> tuple[int, int]:
        # Composing (e + ◌́ → é) leaves the mark outside the token's offsets: what is left up to a space belongs to it.
        rest = UNBROKEN.match(text, end, max(end, after))
        end = end if rest is None else rest.end()
        if self.config.subwords and text[start:end].startswith(" ") and text[start:end].strip():
            start += 1
        return start, end


LONGEST_TOKEN = 100_000  # characters
LEARNT = ("vocab", "merges")  # what a model has learnt; its other fields are settings
PARTS = ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")


@dataclass(frozen=True)
class _Model:
    """What the model of a stored tokenizer has learnt: words with their ids, or pieces with their scores; and merges."""

    vocab: dict[str, int] | tuple[tuple[str, float], ...]
    merges: tuple[tuple[str, str] | str, ...] = ()


@dataclass(frozen=True)
class _Stored:
    """The schema of a stored tokenizer, beside the parts that must be ours."""

    model: _Model
    pre_tokenizer: dict[str, Any]


def _vocabulary(model: _Model, where: str) -> dict[str, int]:
    if isinstance(model.vocab, dict):
        return model.vocab
    if not all(math.isfinite(score) for _, score in model.vocab):
        raise InputError(where, field="model.vocab", expected="finite scores", found="others")
    vocabulary = {piece: number for number, (piece, _) in enumerate(model.vocab)}
    if len(vocabulary) < len(model.vocab):
        raise InputError(where, field="model.vocab", expected="each piece once", found="one again")
    return vocabulary


def counting(config: TokenizerConfig) -> Callable[[str], int] | None:
    """A function that counts the tokens of a text; None where the count depends on pieces that are still to be learnt.

    >>> count = counting(TokenizerConfig("words", whole=("<e1>",)))
    >>> count("a <e1>storm!") if count else None
    4
    """
    if config.subwords or config.kind == "bert":
        return None
    normalise = _normalizer(config).normalize_str
    if config.kind == "characters":
        return lambda text: len(normalise(text))
    split = _splitter(config).pre_tokenize_str
    return lambda text: len(split(normalise(text)))


def splitting(config: TokenizerConfig) -> Callable[[str], list[tuple[str, tuple[int, int]]]]:
    """A function that splits a text into words, each with where it stands in the normal form of the text.

    >>> splitting(TokenizerConfig("words"))("a, b")
    [('a', (0, 1)), (',', (1, 2)), ('b', (3, 4))]
    """
    normalise, split = _normalizer(config).normalize_str, _splitter(config).pre_tokenize_str
    return lambda text: split(normalise(text))


def _text_of(token: str, config: TokenizerConfig) -> str:
    """The text of a token of the vocabulary."""
    return token.removeprefix(CONTINUES) if config.kind == "wordpiece" else token


def _not_text(value: object) -> str:
    if not isinstance(value, str):
        return f"expected a text, found {type(value).__name__}"
    return f"expected a text of whole characters, found half of a surrogate pair in {value[:60]!r}"


def _normalizer(config: TokenizerConfig) -> normalizers.Normalizer:
    forms: dict[Form, list[normalizers.Normalizer]]
    forms = {"none": [], "nfc": [normalizers.NFC()], "nfkc": [normalizers.NFKC()]}
    lower = [normalizers.Lowercase()] if config.lower else []
    space = [normalizers.Prepend(" ")] if config.subwords else []
    return normalizers.Sequence([*forms[config.normalise], *lower, *space])


def _splitter(config: TokenizerConfig) -> pre_tokenizers.PreTokenizer:
    if config.kind == "words":
        kept = sorted(_whole(config), key=len, reverse=True)  # of two that begin alike the longer
        return pre_tokenizers.Split(Regex("|".join([*map(re.escape, kept), WORD])), "removed", invert=True)
    return pre_tokenizers.Split(Regex(SUBWORD if config.subwords else CHARACTER), "isolated")


def _whole(config: TokenizerConfig) -> list[str]:
    """The strings that are kept whole, as they stand in a text that was normalised."""
    return list(dict.fromkeys(_normalised(config.whole, config)))


def _decoder(config: TokenizerConfig) -> decoders.Decoder | None:
    """The decoder that does as `Tokenizer.decode`, for other readers of the file."""
    if config.kind == "words":
        return None  # the library's own default joins by spaces
    continues = [decoders.Replace(Regex(f"^{CONTINUES}"), "")] if config.kind == "wordpiece" else []
    space = [decoders.Strip(" ", 1, 0)] if config.subwords else []
    return decoders.Sequence([*continues, decoders.Fuse(), *space])


def _pipeline(model: models.Model, config: TokenizerConfig) -> Pipeline:
    pipeline = Pipeline(model)  # special tokens live in the model's vocabulary alone: nothing looks for them in texts
    pipeline.normalizer = _normalizer(config)
    pipeline.pre_tokenizer = _splitter(config)
    decoder = _decoder(config)
    if decoder is not None:
        pipeline.decoder = decoder
    return pipeline


def _normalised(texts: Iterable[str], config: TokenizerConfig) -> list[str]:
    normalizer = _normalizer(config)
    normalised = []
    for text in texts:
        try:
            normalised.append(normalizer.normalize_str(text))
        except (TypeError, UnicodeEncodeError) as fault:
            raise SaccadeError(_not_text(text)) from fault
    return normalised


def _words(texts: Iterable[str], config: TokenizerConfig) -> Iterator[str]:
    splitter = _splitter(config)
    return (word for text in texts for word, _ in splitter.pre_tokenize_str(text))


def _commonest(counts: Counter[str], config: TokenizerConfig, room: int) -> list[str]:
    """The most frequent first; equals in the order of their text, so that the order is always the same."""
    kept = [text for text, count in counts.items() if count >= config.min_count]
    if not kept:
        seen = f"no {config.kind} seen {config.min_count} times" if counts else "no text"
        raise SaccadeError(f"a tokenizer needs texts to learn from: found {seen}")
    return sorted(kept, key=lambda text: (-counts[text], text))[:room]


def _train_whole(texts: list[str], config: TokenizerConfig) -> models.Model:
    """Characters and words: the vocabulary is a count."""
    counts = Counter(_words(texts, config)) if config.kind == "words" else Counter[str]()
    for text in texts if config.kind == "characters" else ():
        counts.update(text)
    first = [*SPECIAL, *_whole(config)]
    for token in first:
        counts.pop(token, None)
    vocabulary = [*first, *_commonest(counts, config, room=config.size - len(first))]
    return models.WordLevel({token: index for index, token in enumerate(vocabulary)}, unk_token="<unk>")


def _train_subwords(texts: list[str], config: TokenizerConfig) -> models.Model:
    counts = Counter[str]()
    for text in texts:
        counts.update(text)
    # WordPiece knows each character twice: at the start of a word and inside one.
    room = (config.size - len(SPECIAL)) // (2 if config.kind == "wordpiece" else 1)
    alphabet = set(_commonest(counts, config, max(room, 1)))
    unknown = dict.fromkeys((ord(character) for character in counts if character not in alphabet), " ")
    texts = [text.translate(unknown) for text in texts] if unknown else texts
    train = {"bpe": _train_bpe, "wordpiece": _train_wordpiece, "unigram": _train_unigram}[config.kind]
    return train(texts, config)


_BLANK: dict[str, Callable[[], models.Model]] = {
    "characters": lambda: models.WordLevel({}, unk_token=SPECIAL[Tokenizer.UNK]),
    "words": lambda: models.WordLevel({}, unk_token=SPECIAL[Tokenizer.UNK]),
    "bpe": lambda: models.BPE(unk_token=SPECIAL[Tokenizer.UNK]),
    "wordpiece": lambda: models.WordPiece(unk_token=SPECIAL[Tokenizer.UNK], max_input_chars_per_word=LONGEST_WORD),
    "unigram": lambda: models.Unigram([(token, 0.0) for token in SPECIAL], Tokenizer.UNK, False),
}


def _learn(texts: list[str], model: models.Model, trainer: trainers.Trainer, config: TokenizerConfig) -> models.Model:
    learner = Pipeline(model)
    learner.pre_tokenizer = _splitter(config)
    learner.train_from_iterator(texts, trainer)
    learnt: models.Model = learner.model
    return learnt


def _train_bpe(texts: list[str], config: TokenizerConfig) -> models.Model:
    trainer = trainers.BpeTrainer(
        vocab_size=config.size, min_frequency=config.min_count, special_tokens=list(SPECIAL), show_progress=False
    )
    return _learn(texts, _BLANK["bpe"](), trainer, config)


def _train_wordpiece(texts: list[str], config: TokenizerConfig) -> models.Model:
    # The trainer numbers the characters inside words as its hash map happens to yield them, and breaks ties by these
    # numbers. Tokens that it is given come first and in our order, so it is given them.
    inside = sorted({character for word in _words(texts, config) for character in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.size,
        min_frequency=config.min_count,
        special_tokens=[*SPECIAL, *(CONTINUES + character for character in inside)],
        continuing_subword_prefix=CONTINUES,
        show_progress=False,
    )
    return _learn(texts, _BLANK["wordpiece"](), trainer, config)


def _train_unigram(texts: list[str], config: TokenizerConfig) -> models.Model:
    trainer = trainers.UnigramTrainer(
        vocab_size=config.size, special_tokens=list(SPECIAL), unk_token="<unk>", show_progress=False
    )
    learnt = _learn(texts, models.Unigram(), trainer, config)
    return models.Unigram(_in_one_order(_scores(learnt), config.size), Tokenizer.UNK, False)


def _scores(model: models.Model) -> list[tuple[str, float]]:
    document = json.loads(Pipeline(model).to_str())
    return [(piece, score) for piece, score in document["model"]["vocab"]]


def _in_one_order(vocabulary: list[tuple[str, float]], size: int) -> list[tuple[str, float]]:
    """The trainer sums in the order of a hash map: its scores differ from run to run in the last digits, and characters
    that it adds at the end, 0.0001 apart, in their order. Rounding and sorting leave one vocabulary. Where the
    characters alone fill it, the trainer goes beyond the size: the least probable longer pieces go."""
    special, pieces = vocabulary[: len(SPECIAL)], vocabulary[len(SPECIAL) :]
    lowest = min(score for _, score in pieces)
    characters = sum(len(piece) == 1 for piece, _ in pieces)

    def settled(piece: str, score: float) -> float:
        steps = (score - lowest) / 1e-4
        added = len(piece) == 1 and steps < characters and abs(steps - round(steps)) < 1e-6
        return round(lowest if added else score, 4)

    settled_pieces = sorted(((piece, settled(piece, score)) for piece, score in pieces), key=_probable_first)
    longer = [item for item in settled_pieces if len(item[0]) > 1][: max(0, size - len(special) - characters)]
    single = [item for item in settled_pieces if len(item[0]) == 1]
    return [*special, *sorted([*single, *longer], key=_probable_first)]


def _probable_first(item: tuple[str, float]) -> tuple[float, str]:
    piece, score = item
    return -score, piece


def stored_config(text: str, where: str) -> TokenizerConfig:
    """The settings that a stored tokenizer keeps beside its pieces."""
    document = parse(text, where)
    splitter = document.get("pre_tokenizer") if isinstance(document, dict) else None
    stored = splitter.get("saccade") if isinstance(splitter, dict) else None
    if not isinstance(stored, dict) or stored.keys() - fields_of(TokenizerConfig):
        expected = "a tokenizer that saccade wrote"
        raise InputError(where, field="pre_tokenizer.saccade", expected=expected, found=repr(stored)[:80])
    return checked(TokenizerConfig, stored, where, "pre_tokenizer.saccade")
