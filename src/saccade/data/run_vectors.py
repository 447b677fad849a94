"""The word embeddings of a trained run as words and their vectors, and a file of them that other programs read.

    the 0.418 0.24968 -0.41242 …        GloVe's text format: a word a line, in the order of the vocabulary

A word is a token that stands for a whole word: marks such as <pad>, and pieces inside words, are left out.
"""

from __future__ import annotations

import gzip
import io
import lzma
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from saccade.data.text import CONTINUES, SPECIAL, Tokenizer
from saccade.data.wordpieces import MARKS, stored_tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.storage import load_tensors, read_json, write_bytes

Side = Literal["source", "target"]
CONFIG, WEIGHTS, ONE = "config.json", "model.safetensors", "tokenizer.json"
NAMES = ("embedding", "words", "source_embedding", "target_embedding")  # what networks call their word embeddings

Matrix = NDArray[np.float32]


def run_vectors(folder: Path, side: Side | None = None) -> tuple[list[str], Matrix]:
    """The words of a run and their embeddings [V, D]; ``side`` says which of a translator's two vocabularies."""
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
    if not (folder / CONFIG).is_file():
        found = f"no {CONFIG} in it" if folder.is_dir() else "no such folder"
        raise InputError(folder, expected="a trained run's folder", found=found)
    config = read_json(folder / CONFIG)
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
    return stored_tokenizer((folder / name).read_text(encoding="utf-8"), str(folder / name))


def _embedding(folder: Path, size: int, side: Side | None) -> Matrix:
    tensors, _ = load_tensors(folder / WEIGHTS)
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
