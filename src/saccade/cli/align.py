"""``saccade align``: extracts word alignments from attention, and computes their error rate."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from saccade.cli.options import Json, Run, Trust, trained_runs
from saccade.cli.printing import print
from saccade.errors import SaccadeError

if TYPE_CHECKING:
    from saccade.api.alignment import Alignment
    from saccade.metrics.alignment import AlignmentScore

Backward = Annotated[
    Path | None,
    typer.Option(help="A run of the opposite direction, to symmetrise links.", autocompletion=trained_runs),
]
Symmetrise = Annotated[
    str, typer.Option(metavar="HOW", help="intersection, union, grow-diag, grow-diag-final or grow-diag-final-and.")
]


def align(
    run: Run,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Pairs: TSV, CSV, JSONL, or lines of source ||| target.")
    ],
    gold: Annotated[
        Path | None, typer.Option(help="Gold links, one line per pair (3-4 sure, 3p4 possible), or JSONL.")
    ] = None,
    first_word: Annotated[
        int | None, typer.Option(min=0, max=1, help="Number of the first word in the gold file: 0 or 1.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the links here instead of printing them.")] = None,
    backward: Backward = None,
    symmetrise: Symmetrise = "grow-diag-final",
    threshold: Annotated[
        float | None, typer.Option(help="Link every source word with at least this weight, not only the greatest.")
    ] = None,
    site: Annotated[str | None, typer.Option(help="The attention site, for networks with several.")] = None,
    trust: Trust = None,
    as_json: Json = False,
) -> None:
    """Align the words of translated pairs by attention. Targets are given: decoding is forced.

    Prints one line per pair, such as 0-0 1-2: source word 0 with target word 0, 1 with 2. With --gold, the alignment error
    rate is printed on standard error.

    \b
    saccade align runs/rnnsearch pairs.tsv --out links.txt
    saccade align runs/rnnsearch enfr.src-tgt --gold enfr.gold --first-word 1
    """
    from saccade.api import alignment as alignments
    from saccade.api import load
    from saccade.data.pairs.gold import is_jsonl, read_gold
    from saccade.metrics.alignment import Symmetry

    if symmetrise not in get_args(Symmetry):
        raise SaccadeError(f"--symmetrise: expected one of {', '.join(get_args(Symmetry))}, found {symmetrise!r}")
    if backward is None and symmetrise != "grow-diag-final":
        raise SaccadeError("--symmetrise: expected --backward RUN too, found none")
    if gold is not None and first_word is None and not is_jsonl(gold):
        raise SaccadeError(
            f"{gold}: expected --first-word 0 or --first-word 1, the number of its first word, found neither"
        )
    marked = None if gold is None else read_gold(gold, first=first_word)
    bundle = load(run, trust=trust or ())
    pairs = alignments.read_pairs_to_align(bundle, file)
    if note := alignments.cut_note(bundle, pairs):
        print(f"note: {note}: further words get no links", file=sys.stderr)
    how = {"site": site, "threshold": threshold}
    if backward is None:
        aligned = alignments.align(bundle, pairs, **how)  # type: ignore[arg-type]
    else:
        other = load(backward, trust=trust or ())
        aligned = alignments.align_both_ways(bundle, other, pairs, symmetrise, **how)  # type: ignore[arg-type]
    score = None if marked is None else alignments.score_alignments(aligned, marked, str(gold))
    _write(aligned, score, out, as_json)


def _write(aligned: Sequence[Alignment], score: AlignmentScore | None, out: Path | None, as_json: bool) -> None:
    from saccade.data.pairs.gold import write_links
    from saccade.storage import write_text

    lines = [write_links(each.links) for each in aligned]
    if out is not None:
        write_text(out, "".join(f"{line}\n" for line in lines))
    if as_json:
        plain = [{"source": each.source, "target": each.target, "links": sorted(each.links)} for each in aligned]
        print(json.dumps({"pairs": plain, "score": None if score is None else _plain(score)}, ensure_ascii=False))
        return
    if out is None:
        print("\n".join(lines))
    if score is not None:
        counts = f"{score.links:,} links, {score.sure:,} sure and {score.possible:,} possible in {score.pairs:,} pairs"
        figures = f"aer {score.error_rate:.4f}  precision {score.precision:.4f}  recall {score.recall:.4f}"
        print(f"{figures}  ({counts})", file=sys.stderr)


def _plain(score: AlignmentScore) -> dict[str, float]:
    return {"aer" if name == "error_rate" else name: figure for name, figure in asdict(score).items()}
