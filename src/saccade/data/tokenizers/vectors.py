"""Reads word vectors from a file or a run, to initialise a network's embeddings, and writes those of a run. No torch.

    GloVe (Pennington et al. 2014)        the 0.418 0.24968 -0.41242 …           one word per line, the most frequent first
    word2vec (Mikolov et al. 2013)        400000 50, then lines as above         its first line counts words and numbers

Both may be gzipped or xz'd. A word may have blanks inside: the numbers are the last of a line. A word that is not found as it
is written is looked up in lower case. Instead of a file a run's folder may be named: then its word embeddings are read.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from saccade.data.files.lines import lines_of
from saccade.data.files.records import NOT_UTF8
from saccade.data.paths import locate
from saccade.data.tokenizers.tokenizer import CONTINUES, SPECIAL, Tokenizer, TokenizerConfig
from saccade.data.tokenizers.wordpiece import MARKS, learn_tokenizer, stored_tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.storage import current_file, load_tensors, read_json, read_together, write_bytes

HEADER = re.compile(r"(\d+) (\d+)")
DECIMAL = re.compile(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")  # a number, unlike the word 95
ENTRY, FORMATS = "a word and its numbers", "GloVe's or word2vec's text format, not the binary one"
LARGEST = float(np.finfo(np.float32).max)

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Vectors:
    """The ``data.vectors`` part of a recipe. ``extend``: words of the file that the training texts lack join the vocabulary,
    the file's first ones first, up to ``tokens.size``. ``frozen``: the embeddings stay as they are."""

    file: str
    extend: bool = False
    frozen: bool = False

    def __post_init__(self) -> None:
        if not self.file.strip():
            raise ValueError("file must name a file of vectors or a run's folder: got nothing")


@dataclass(frozen=True)
class VectorMatch:
    """The vectors of a vocabulary: ``matrix`` [V, D], in which the rows that ``known`` [V] names are filled; ``note`` says how
    many, ``where`` they come from."""

    matrix: Matrix
    known: NDArray[np.bool_]
    note: str
    where: str = ""


def as_vectors(vectors: str | Vectors | None) -> Vectors | None:
    """What a recipe says, ``vectors: FILE`` being short for ``vectors: {file: FILE}``."""
    return Vectors(vectors) if isinstance(vectors, str) else vectors


def is_frozen(vectors: str | Vectors | None) -> bool:
    """Whether embeddings that begin with these vectors stay as they are."""
    wanted = as_vectors(vectors)
    return wanted is not None and wanted.frozen


def check_vectors(vectors: str | Vectors | None, tokens: TokenizerConfig) -> None:
    """Raise, as a check of a recipe's fields does, where there are word vectors but texts are not cut into words."""
    if as_vectors(vectors) is not None and tokens.kind != "words":
        raise ValueError(f"vectors must be left out unless tokens.kind is words: got tokens.kind {tokens.kind}")


def learn_words(
    texts: Iterable[str], tokens: TokenizerConfig, vectors: str | Vectors | None
) -> tuple[Tokenizer, VectorMatch | None]:
    """The tokenizer of the training texts, extended where that is asked for, and the vectors of its words."""
    tokenizer, wanted = learn_tokenizer(texts, tokens), as_vectors(vectors)
    if wanted is None:
        return tokenizer, None
    before, folder = tokenizer.size, Path.cwd()
    if wanted.extend:
        tokenizer = extended(tokenizer, words_in(wanted, folder))
    words = {text: number for number, text in enumerate(tokenizer.pieces(range(tokenizer.size)))}
    found = read_vectors(wanted, folder, words)
    if tokenizer.size > before:
        found = replace(found, note=f"{found.note}; {tokenizer.size - before:,} words are not in the training texts")
    return tokenizer, found


def extended(tokenizer: Tokenizer, words: Iterable[str]) -> Tokenizer:
    """The tokenizer with these words added, in their order, as many as ``tokens.size`` has room for; words that do not come out
    as one token are skipped."""
    config, document = tokenizer.config, json.loads(tokenizer.to_json())
    vocabulary = document["model"]["vocab"]
    for word in words:
        if len(vocabulary) >= config.size:
            break
        if word not in vocabulary and _as_normalised(word, config) and tokenizer.spans(word) == [(0, len(word))]:
            vocabulary[word] = len(vocabulary)
    return Tokenizer.from_json(json.dumps(document, ensure_ascii=False))


def _as_normalised(word: str, config: TokenizerConfig) -> bool:
    lowered = word.lower() if config.lower else word
    if config.normalise == "none" or word.isascii():
        return lowered == word
    return unicodedata.normalize("NFC" if config.normalise == "nfc" else "NFKC", lowered) == word


def words_in(vectors: Vectors, folder: Path) -> Iterator[str]:
    """The words that a file has vectors of, in its order; relative paths start at ``folder``."""
    place = locate(vectors.file, folder)
    if place.is_dir():
        yield from run_vectors(place)[0]
        return
    for _, word, _ in _entries(place):
        yield word


def read_vectors(vectors: Vectors, folder: Path, words: Mapping[str, int]) -> VectorMatch:
    """The vectors of ``words`` (word → its row); relative paths start at ``folder``. Marks such as <pad> are not counted."""
    place = locate(vectors.file, folder)
    rows = _of_run(place, words) if place.is_dir() else _of_file(place, words)
    counted = [word for word in words if word not in SPECIAL]
    have = {word: row for word in words if (row := rows.get(word, rows.get(word.lower()))) is not None}
    hits = sum(word in have for word in counted)
    if not hits:
        hint = "vectors of another language, or words of another spelling?"
        raise InputError(place, expected="vectors of words in the training texts", found="none of them", hint=hint)
    width = len(next(iter(have.values())))
    size = max(words.values()) + 1
    matrix, known = np.zeros((size, width), dtype=np.float32), np.zeros(size, dtype=bool)
    for word, row in have.items():
        matrix[words[word]], known[words[word]] = row, True
    share = f"{hits:,} of {len(counted):,} words ({hits / len(counted):.1%})".replace("%", " %")
    rest = f"; {len(counted) - hits:,} begin at random" if hits < len(counted) else ""
    return VectorMatch(matrix, known, f"data.vectors: {share} have a vector of {width} numbers{rest}", str(place))


def _of_run(place: Path, words: Mapping[str, int]) -> dict[str, Matrix]:
    spelt, matrix = run_vectors(place)
    wanted = {*words, *(word.lower() for word in words)}
    return {word: row for word, row in zip(spelt, matrix, strict=True) if word in wanted}


def _of_file(path: Path, words: Mapping[str, int]) -> dict[str, Matrix]:
    """The vectors of these words, and of the same in lower case; of a word that is there twice, the first."""
    wanted, found = {*words, *(word.lower() for word in words)}, dict[str, Matrix]()
    for line, word, numbers in _entries(path):
        if word in wanted and word not in found:
            found[word] = _row(numbers, path, line)
    return found


def _entries(path: Path) -> Iterator[tuple[int, str, list[str]]]:
    """Line, word and numbers, still as text, of every line."""
    width, counted, seen = None, None, 0
    for line in lines_of(path, bounded=False):
        text = line.text.rstrip("\r\n \t").replace("\t", " ")
        if line.fault is not None and line.fault.reason != NOT_UTF8:
            raise line.fault.error
        header = HEADER.fullmatch(text) if line.number == 1 else None
        if header is not None:
            counted, width = int(header[1]), int(header[2])
            continue
        if not text.strip():
            continue
        seen += 1
        if line.fault is not None:
            if seen == 1:
                raise InputError(path, line=line.number, expected=ENTRY, found="bytes that are not text", hint=FORMATS)
            continue  # other programs cut long words within a character: no text contains such a word
        width = width or _width(text, path, line.number)
        word, *numbers = text.rsplit(" ", width)
        _check_entry(word, numbers, width, path, line.number)
        yield line.number, word, numbers
    if not seen:
        raise InputError(path, expected="a word and its numbers a line", found="nothing")
    if counted is not None and seen < counted:
        expected = f"{counted:,} words, as its first line says"
        raise InputError(path, expected=expected, found=f"{seen:,}", hint="was it copied whole?")


def _width(text: str, path: Path, line: int) -> int:
    """How many numbers the first line ends with; what stands before them is its word, which may be a number too."""
    _, *rest = text.split(" ")
    width = 0
    while width < len(rest) and _is_number(rest[-1 - width]):
        width += 1
    if not width:
        raise InputError(path, line=line, expected=ENTRY, found=repr(text[:40]), hint=FORMATS)
    return width


def _check_entry(word: str, numbers: Sequence[str], width: int, path: Path, line: int) -> None:
    last = word.rpartition(" ")[2]
    if len(numbers) == width and not (last != word and DECIMAL.fullmatch(last)):
        return
    count = len(numbers) if len(numbers) < width else width + 1
    raise InputError(path, line=line, expected=f"a word and {width} numbers, as in the lines before", found=f"{count}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _row(numbers: Sequence[str], path: Path, line: int) -> Matrix:
    try:
        row = np.array(numbers, dtype=np.float64)
    except ValueError:
        wrong = next(text for text in numbers if not _is_number(text))
        raise InputError(path, line=line, expected="numbers behind the word", found=repr(wrong[:40])) from None
    if not (np.abs(row) <= LARGEST).all():
        wrong = numbers[int(np.argmin(np.abs(row) <= LARGEST))]
        raise InputError(path, line=line, expected="finite numbers behind the word", found=repr(wrong[:40]))
    return row.astype(np.float32)


# ----------------------------------------------------------------------------------------------------
# The word embeddings of a trained run as words and their vectors, and a file of them that other programs read.
#
#     the 0.418 0.24968 -0.41242 …        GloVe's text format: a word a line, in the order of the vocabulary
#
# A word is a token that stands for a whole word: marks such as <pad>, and pieces inside words, are left out.

Side = Literal["source", "target"]
CONFIG, WEIGHTS, ONE = "config.json", "model.safetensors", "tokenizer.json"
NAMES = ("embedding", "words", "source_embedding", "target_embedding")  # what networks call their word embeddings


def run_vectors(folder: Path, side: Side | None = None) -> tuple[list[str], Matrix]:
    """The words of a run and their embeddings [V, D]; ``side`` says which of a translator's two vocabularies."""
    return read_together(folder, CONFIG, lambda: _run_vectors(folder, side))


def _run_vectors(folder: Path, side: Side | None) -> tuple[list[str], Matrix]:
    config = _config(folder)
    files = [name for name in config.get("files", {}) if name.startswith("tokenizer")]
    tokenizer = _tokenizer(folder, files, side)
    matrix = _embedding(folder, tokenizer.size, side)
    kept = [(word, number) for number in range(tokenizer.size) if (word := _word(tokenizer, number)) is not None]
    if not kept:
        raise InputError(folder, expected="a vocabulary of words", found=f"tokens of the kind {tokenizer.config.kind}")
    return [word for word, _ in kept], matrix[[number for _, number in kept]]


def write_vectors(path: str | Path, words: Sequence[str], matrix: Matrix) -> None:
    """A file in GloVe's text format, from which float32 numbers are read back as they were; .gz and .xz are packed."""
    path = Path(path)
    if path.is_dir():
        raise InputError(path, expected="the name of a file to write", found="a folder")
    raw = "".join(_lines(words, matrix)).encode("utf-8")
    packed = io.BytesIO()
    match path.suffix.lower():
        case ".gz":
            # Without a time of writing, the same vectors are the same file.
            with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
                file.write(raw)
        case ".xz":
            packed.write(lzma.compress(raw))
        case _:
            packed.write(raw)
    write_bytes(path, packed.getvalue())


def _lines(words: Sequence[str], matrix: Matrix) -> Iterator[str]:
    numbers = " %.9g" * matrix.shape[1]  # nine digits tell any two float32 apart
    for word, row in zip(words, matrix, strict=True):
        yield f"{word}{numbers % tuple(row.tolist())}\n"


def _config(folder: Path) -> dict[str, Any]:
    if not current_file(folder, CONFIG).is_file():
        found = f"no {CONFIG} in it" if folder.is_dir() else "no such folder"
        raise InputError(folder, expected="a trained run's folder", found=found)
    config = read_json(current_file(folder, CONFIG))
    if not isinstance(config, dict) or config.get("format") != "saccade-bundle":
        raise InputError(folder / CONFIG, expected="the config of a saccade bundle", found="another JSON document")
    return config


def _tokenizer(folder: Path, files: Sequence[str], side: Side | None) -> Tokenizer:
    if not files:
        raise InputError(folder, expected="a run that reads words", found="one without a tokenizer")
    name = ONE if ONE in files else f"tokenizer.{side}.json"
    if name not in files:
        hint = "saccade vectors RUN --side source, or target, writes one to a file"
        raise InputError(folder, expected="one vocabulary", found=f"{' and '.join(sorted(files))}", hint=hint)
    return stored_tokenizer(current_file(folder, name).read_text(encoding="utf-8"), str(folder / name))


def _embedding(folder: Path, size: int, side: Side | None) -> Matrix:
    tensors, _ = load_tensors(current_file(folder, WEIGHTS))
    names = NAMES if side is None else (f"{side}_embedding", *NAMES)
    for name in names:
        for key in sorted(tensors, key=len):  # the outermost first
            tensor = tensors[key]
            if f".{key}".endswith(f".{name}.weight") and tensor.dim() == 2 and tensor.shape[0] == size:
                return np.asarray(tensor.float().numpy())
    raise InputError(folder, expected=f"word embeddings ({', '.join(NAMES)})", found="none in its network")


def _word(tokenizer: Tokenizer, number: int) -> str | None:
    """How a token is written where it is a word."""
    token = str(tokenizer._pipeline.id_to_token(number))
    if token in (MARKS if tokenizer.config.kind == "bert" else SPECIAL):
        return None
    if tokenizer.config.kind == "characters":
        raise SaccadeError("expected a run that reads words or pieces of words, found one that reads characters")
    if tokenizer.config.kind == "words":
        return token
    if tokenizer.config.kind == "bert":
        return None if token.startswith(CONTINUES) else token
    # The other pieces hold the blank before the word that they begin.
    return token[1:] if token.startswith(" ") and token.strip() else None
