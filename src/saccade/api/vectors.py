"""A run's word embeddings as a file of word vectors, which other programs and ``data.vectors`` read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from saccade.data.tokenizers.vectors import Side, run_vectors, write_vectors


@dataclass(frozen=True)
class Written:
    """A file of word vectors: how many words, and of how many numbers each."""

    file: Path
    words: int
    width: int


def save_vectors(run: str | Path, out: str | Path, *, side: Side | None = None) -> Written:
    """Write the word embeddings of a run in GloVe's text format; ``side`` says which of a translator's two vocabularies.

    A name that ends in .gz or .xz is packed. Marks such as <pad> and pieces inside words are left out.

    >>> # save_vectors("runs/skipgram", "vectors.txt.gz")
    """
    words, matrix = run_vectors(Path(run), side)
    write_vectors(out, words, matrix)
    return Written(Path(out), len(words), matrix.shape[1])
