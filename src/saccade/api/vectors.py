"""Writes a run's word embeddings to a file of word vectors, which other programs and ``data.vectors`` read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from saccade.data.tokenizers.vectors import Side, run_vectors, write_vectors


@dataclass(frozen=True)
class Written:
    """A file of word vectors, the number of its words and the width of a vector."""

    file: Path
    words: int
    width: int


def save_vectors(run: str | Path, out: str | Path, *, side: Side | None = None) -> Written:
    """Write the word embeddings of a run in GloVe's text format; ``side`` says which of a translator's two vocabularies.

    A file name that ends in .gz or .xz is compressed. Special tokens such as <pad> and word-internal pieces are left out.

    >>> # save_vectors("runs/skipgram", "vectors.txt.gz")
    """
    words, matrix = run_vectors(Path(run), side)
    write_vectors(out, words, matrix)
    return Written(Path(out), len(words), matrix.shape[1])
