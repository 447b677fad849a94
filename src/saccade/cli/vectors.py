"""``saccade vectors``: writes a run's word embeddings as a text file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from saccade.cli.options import Force, Json, Run, refuse_existing
from saccade.cli.printing import print


def vectors(
    run: Run,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write; compressed if it ends in .gz or .xz.")],
    side: Annotated[
        Literal["source", "target"] | None, typer.Option(help="Which vocabulary, for networks with two.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a run's word embeddings in GloVe's text format.

    Each line is a word and its vector.

    \b
    saccade train skipgram_topics --out runs/words
    saccade vectors runs/words --out vectors.txt.gz
    saccade train my.yaml data.vectors=vectors.txt.gz
    """
    refuse_existing(out, force=force)
    from saccade.api.vectors import save_vectors

    written = save_vectors(run, out, side=side)
    if as_json:
        print(json.dumps({"file": str(written.file), "words": written.words, "width": written.width}))
        return
    print(f"{written.words:,} words of {written.width} numbers each: {written.file}")
