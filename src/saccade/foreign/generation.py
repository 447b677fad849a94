"""Looking while a model writes: ``generate()`` of transformers, whose every step is a row.

Row i of the axis ``output`` is the look that wrote output token i; its keys are the axis ``prefix``, everything that was read
before it. In a beam search rows follow the hypothesis that won.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.foreign import labels
from saccade.foreign.inputs import Given
from saccade.foreign.session import LookSession
from saccade.trace.lens import Record


def write(
    model: nn.Module, host: Any, tokenizer: Any, found: Given, gaze: LookSession, options: Mapping[str, Any]
) -> Given:
    """Let the model write under ``gaze``; what was given, with the axes of what was written."""
    if host is None or not hasattr(model, "generate") or not host.can_generate():
        raise SaccadeError(f"{gaze.name} does not write: leave out generate=")
    if _option(host, options, "num_return_sequences") != 1:
        raise SaccadeError("generate: num_return_sequences must be 1: one trace is of one output")
    beams = _option(host, options, "num_beams")
    settings = {"disable_compile": True, **options, "return_dict_in_generate": True, "output_scores": beams > 1}
    try:
        result = model.generate(*found.positional, **found.named, **settings)  # type: ignore[operator]
    except (TypeError, ValueError) as error:
        raise SaccadeError(f"{gaze.name}.generate: {str(error).strip().splitlines()[0]}") from error
    rows = getattr(result, "beam_indices", None)
    return _follow(found, tokenizer, gaze, result.sequences[0].cpu(), None if rows is None else rows[0].cpu())


def _option(host: Any, options: Mapping[str, Any], name: str) -> int:
    """A number that ``generate`` takes by name, in a configuration, or from the model's own; 1 where none says it."""
    configured = (getattr(each, name, None) for each in (options.get("generation_config"), host.generation_config))
    return int(next((each for each in (options.get(name), *configured) if each is not None), 1))


def _follow(found: Given, tokenizer: Any, gaze: LookSession, sequence: Tensor, rows: Tensor | None) -> Given:
    steps = max((gaze.calls[name] for name in gaze.prompts), default=0)
    prompt = max(gaze.prompts.values(), default=0)
    written = min(steps, len(sequence)) if rows is None else int((rows >= 0).sum())
    if written > steps:
        raise SaccadeError(f"{gaze.name}: {written} tokens were written in {steps} steps: one a step can be looked at")
    gaze.lens.records[:] = [each for record in gaze.lens.records for each in _kept(record, gaze, written, rows)]
    words = getattr(tokenizer, "tokenizer", tokenizer)
    words = words if hasattr(words, "convert_ids_to_tokens") else None
    # After the hypothesis that won, its row is filled up to the longest of the beam.
    end = len(sequence) if rows is None else min(len(sequence), prompt + written)
    output, before = sequence[end - written : end].tolist(), sequence[: end - written].tolist()
    axes = {**found.axes, "output": labels.exactly(labels.tokens(words, output, _text(words, output)))}
    if len(before) == prompt:
        axes["prompt"] = labels.exactly(labels.tokens(words, before))
        read = (before + output)[: prompt + written - 1]
        axes["prefix"] = _at_least(labels.tokens(words, read))
    return replace(found, axes=axes, about={**found.about, "output": _text(words, output)})


def _kept(record: Record, gaze: LookSession, written: int, rows: Tensor | None) -> list[Record]:
    """A record as it belongs to what was written: of a step, the row of the beam that led to it, if any did."""
    if record.site.query not in ("output", "prompt"):
        return [record]
    step = record.offset if record.site.query == "output" else 0
    if step >= written:
        return []
    if rows is None:
        return [record]
    place = torch.tensor([int(rows[step])], device=next(iter(record.tensors.values())).device)
    return [record.select(place)]


def _at_least(axis: Any) -> labels.Labeller:
    """A cache of a fixed size has keys beyond those that were read, which weigh nothing."""
    return lambda size: axis if size >= len(axis) else None


def _text(words: Any, ids: list[int]) -> str:
    return "" if words is None else str(words.decode(ids, skip_special_tokens=True))
