"""Extracts word alignments from a trained model's attention and scores them against gold alignments (Och & Ney 2003).

The decoder is fed the reference target (teacher forcing) instead of searching, so that the links belong to the words of the
reference and can be compared with a gold alignment.

    alignments = saccade.api.align(bundle, pairs)
    alignments[0].links                                   # {(0, 0), (1, 2), …}: (source word, target word), from 0
    saccade.api.alignment_error(bundle, pairs, gold).error_rate

Legend: J target words, I source words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from numpy import ndarray

from saccade.api.bundle import Bundle, threads
from saccade.data.pairs.gold import Gold, has_words, is_jsonl, read_word_pairs
from saccade.data.pairs.records import FORMATS, Pair
from saccade.data.tokenizers.tokenizer import Tokenizer
from saccade.errors import InputError, SaccadeError
from saccade.metrics.alignment import (
    AlignmentScore,
    Symmetry,
    alignment_error_rate,
    links_of,
    symmetrise,
    word_weights,
    words,
)
from saccade.task import eval_mode
from saccade.trace.axes import Tokens
from saccade.trace.lens import Lens
from saccade.trace.maps import Trace

TOGETHER = 64  # pairs in a batch


@dataclass(frozen=True, eq=False)
class Alignment:
    """The words of a pair, the attention of each target word on each source word [J, I], and the resulting links."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: frozenset[tuple[int, int]]
    weights: Float[ndarray, "J I"] = field(repr=False)


def read_pairs_to_align(bundle: Bundle, path: str | Path) -> list[Pair]:
    """Pairs from any file that the recipe could train on, from lines of ``source ||| target``, or from JSONL of words."""
    path = Path(path)
    suffixes = {suffix.lower().removeprefix(".") for suffix in path.suffixes[-2:]}
    if (is_jsonl(path) and has_words(path)) or not suffixes.intersection(FORMATS):
        return read_word_pairs(path)
    return list(bundle.task.read_file(path, bundle.recipe.data))


def forced_traces(bundle: Bundle, pairs: Sequence[Pair], lens: Lens | None = None) -> list[Trace]:
    """The attention of the network for each pair, with its target fed in; both axes are labelled with the tokens."""
    _check_task(bundle)
    task: Any = bundle.task
    lens = lens or Lens()
    device = next(bundle.network.parameters()).device
    traces: dict[int, Trace] = {}
    with threads(bundle.threads), eval_mode(bundle.network), torch.no_grad():
        corpus = task.corpus(pairs, "pairs")
        for numbers in task.plan(corpus, tokens=None, records=TOGETHER, seed=0, epoch=0):
            batch, recorder = task.batch(corpus, numbers).to(device), lens.fresh()
            bundle.network(batch.source, batch.source_lengths, batch.target_in, lens=recorder)
            if not recorder.records:
                raise SaccadeError(
                    f"{bundle.folder}: {bundle.recipe.model_name} has no attention on its input, so it gives no alignment"
                )
            for number, trace in zip(numbers, recorder.traces, strict=True):
                axes = {"source": task.source_axis(pairs[number].source), "target": _axis(task, pairs[number].target)}
                if "prefix" in trace.axes:
                    axes["prefix"] = task.prefix_axis(axes["target"])
                traces[number] = trace.labelled(axes, input=pairs[number].source, output=pairs[number].target)
    return [traces[number] for number in range(len(pairs))]


def cut_note(bundle: Bundle, pairs: Sequence[Any]) -> str:
    """Says how many pairs exceed the maximum length, so that their last words get no links; empty if none does."""
    note: str = bundle.task.corpus(bundle.task.records(pairs, bundle.recipe.data), "pairs").note
    return note


def align(
    bundle: Bundle, pairs: Sequence[Any], *, site: str | None = None, threshold: float | None = None
) -> list[Alignment]:
    """The word alignment of each pair (records, or (source, target)); words are separated by whitespace.

    Args:
        site: the attention layer to read, for networks that attend to their source in several.
        threshold: link every source word of at least this weight, instead of the one with the largest weight.
    """
    _check_task(bundle)
    records = bundle.task.records(pairs, bundle.recipe.data)
    alignments = []
    for pair, trace in zip(records, forced_traces(bundle, records), strict=True):
        weights = word_weights(trace, site=site)
        source, target = (tuple(text[start:end] for start, end in words(text)) for text in (pair.source, pair.target))
        alignments.append(Alignment(source, target, links_of(weights, threshold), weights))
    return alignments


def align_both_ways(
    forward: Bundle, backward: Bundle, pairs: Sequence[Any], how: Symmetry = "grow-diag-final", **options: Any
) -> list[Alignment]:
    """As :func:`align`, symmetrised with the links of a second model that was trained in the other direction."""
    _check_task(forward)
    records = forward.task.records(pairs, forward.recipe.data)  # once: pairs may be a generator
    ahead = align(forward, records, **options)
    behind = align(backward, [Pair(pair.target, pair.source) for pair in records], **options)
    return [
        replace(one, links=symmetrise(one.links, {(i, j) for j, i in other.links}, how))
        for one, other in zip(ahead, behind, strict=True)
    ]


def alignment_error(
    bundle: Bundle,
    pairs: Sequence[Any],
    gold: Sequence[Gold],
    *,
    site: str | None = None,
    threshold: float | None = None,
) -> AlignmentScore:
    """AER, precision and recall of the model's links against gold ones (:func:`saccade.data.pairs.gold.read_gold`)."""
    return score_alignments(align(bundle, pairs, site=site, threshold=threshold), gold)


def score_alignments(alignments: Sequence[Alignment], gold: Sequence[Gold], where: str = "gold") -> AlignmentScore:
    """AER, precision and recall; a gold link beyond the words of its pair is an error, not a miss."""
    if len(alignments) != len(gold):
        raise InputError(where, expected=f"links for {len(alignments):,} pairs", found=f"{len(gold):,} lines")
    for number, (alignment, true) in enumerate(zip(alignments, gold, strict=True), start=1):
        I, J = len(alignment.source), len(alignment.target)
        beyond = [link for link in true.possible if link[0] >= I or link[1] >= J]
        if beyond:
            expected = f"links within {I} source and {J} target words"
            hint = "do its words count from 0 or from 1, and is its first side the source?"
            raise InputError(where, line=number, expected=expected, found=f"{beyond[0]} (from 0)", hint=hint)
    return alignment_error_rate(
        [alignment.links for alignment in alignments], [true.sure for true in gold], [true.possible for true in gold]
    )


def _check_task(bundle: Bundle) -> None:
    if not bundle.task.aligns:
        raise SaccadeError(f"expected a text-to-text task to align words, found {bundle.recipe.task}")


def _axis(task: Any, text: str) -> Tokens:
    """The target as it is fed to the network, followed by EOS."""
    spans = task.target.spans(text)[: task.data.max_length]
    labels = (*(text[start:end] or "·" for start, end in spans), *task.target.pieces([Tokenizer.EOS]))
    return Tokens(labels, text=text, spans=(*spans, (len(text), len(text))), special=(len(spans),))
