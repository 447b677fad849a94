"""``saccade.look``: records the attention of models that were not written with saccade.

    look(model, tokenizer, inputs)  →  a trace

Works on transformers models (encoders, decoders, both, vision models, and during ``generate()``) and on every module that
contains ``torch.nn.MultiheadAttention``. The model runs unchanged, except that our attention function replaces its own.

During ``generate()`` each step adds a row: row i of the axis ``output`` wrote output token i; its keys are the axis
``prefix``, everything read before it. In a beam search the rows follow the winning hypothesis.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, overload

import torch
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.foreign import huggingface, labels, multihead
from saccade.foreign.inputs import ModelInputs, encode_target, listed_texts, prepare_inputs
from saccade.foreign.session import LookSession, places_of
from saccade.trace.axes import Axis
from saccade.trace.edits import Edit
from saccade.trace.lens import Keep, Lens, Record, assemble
from saccade.trace.maps import Trace


@overload
def look(model: nn.Module, tokenizer: Any, inputs: list[Any], **options: Any) -> list[Trace]: ...


@overload
def look(model: nn.Module, tokenizer: Any, inputs: Any, **options: Any) -> Trace: ...


def look(
    model: nn.Module,
    tokenizer: Any,
    inputs: Any,
    *,
    keep: Keep = "all",
    k: int | None = None,
    edits: Iterable[Edit] = (),
    lens: Lens | None = None,
    target: str | list[str] | None = None,
    generate: Mapping[str, Any] | None = None,
    axes: Mapping[str, Axis | Sequence[str]] | None = None,
    **options: Any,
) -> Trace | list[Trace]:
    """Trace the attention of a model on ``inputs``, or while it generates.

    The model runs once, in eval mode and without gradients, and is left unchanged. Every attention module that runs is in
    the trace, or the call raises.

    Args:
        model: a transformers model, or any module that contains ``nn.MultiheadAttention``.
        tokenizer: its tokenizer or processor; None if ``inputs`` are tensors.
        inputs: a text; two texts in a tuple; an image; a mapping with the processor's or the model's arguments; a tensor; or
            a tuple of tensors, the model's first arguments. A list of any of these gives a list of traces, as does a generator
            or a Series of texts.
        keep: ``"all"`` weights; the ``"top"`` k of each row; or ``"statistics"``. The last two allocate no T × S numbers.
        k: weights per row with ``keep="top"``; 16 by default.
        edits: ``Mask``, ``Boost``, ``Set`` and ``Even`` of :mod:`saccade.trace`, to change the attention.
        lens: instead of ``keep``, ``k`` and ``edits``. The records of a single input stay in it.
        target: for an encoder–decoder, the output to force; a list for a list of inputs.
        generate: call ``generate`` with these options: ``{"max_new_tokens": 20}``.
        axes: labels of axes by name: ``{"input": ["a", "b", "c"]}``. Axes without labels are numbered.
        options: further arguments of the model's ``forward``.

    >>> import torch
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> trace = look(layer, None, torch.randn(1, 3, 8), axes={"input": ["to", "be", "or"]})
    >>> trace.map("encoder.self", head=1).weights.shape
    torch.Size([3, 3])
    """
    if lens is not None and (edits or keep != "all" or k is not None):
        raise SaccadeError("pass lens=, or keep=, k= and edits=, not both: a lens has its own")
    if k is not None and keep in ("all", "statistics"):
        raise SaccadeError(f"k is the number of weights per row with keep='top': got k={k!r} with keep={keep!r}")
    if generate is not None and not isinstance(generate, Mapping):
        found = f"found {generate!r}"
        raise SaccadeError(
            f"generate: expected options of the model's generate, such as {{'max_new_tokens': 20}}, {found}"
        )
    _refuse_misspelt(model, options)
    if lens is None:
        lens = Lens(keep, edits=edits) if k is None else Lens(keep, k=k, edits=edits)
    inputs = listed_texts(inputs)
    targets = _targets(inputs, target)
    rest: dict[str, Any] = {"generate": generate, "axes": axes or {}, "options": options}
    if isinstance(inputs, list):
        pairs = zip(inputs, targets, strict=True)
        return [_look(model, tokenizer, single, lens.fresh(), target=own, **rest) for single, own in pairs]
    fresh = lens.fresh()  # the given lens may hold other records
    trace = _look(model, tokenizer, inputs, fresh, target=targets[0], **rest)
    lens.records += fresh.records
    return trace


def _look(
    model: nn.Module,
    tokenizer: Any,
    inputs: Any,
    lens: Lens,
    *,
    target: str | None,
    generate: Mapping[str, Any] | None,
    axes: Mapping[str, Axis | Sequence[str]],
    options: Mapping[str, Any],
) -> Trace:
    model = getattr(model, "_orig_mod", model)  # torch.compile: trace the original module
    if not isinstance(model, nn.Module):
        raise SaccadeError(f"model: expected a torch.nn.Module, found {type(model).__name__}")
    models = huggingface.hosts(model)
    host = models[0] if len(models) == 1 else None
    found = prepare_inputs(model, host, tokenizer, inputs)
    found.named.update(options)
    pairs = _has_two_parts(model, host)
    _add_target(found, host, tokenizer, target, generate, pairs)
    vision = getattr(host, "main_input_name", "") == "pixel_values"
    places = places_of(model, vision=vision)
    ways: dict[str, Any] = {"writes": generate is not None, "pairs": pairs, "shifted": target is not None}
    session = LookSession(lens, model, places, **ways, options=found.named)
    with _eval(model), _seen(model, models, session), _unreadable(session.name, host), torch.no_grad():
        if generate is None:
            model(*found.positional, **found.named)
        else:
            found = _generate(model, host, tokenizer, found, session, generate)
    sizes = sorted({record.size for record in lens.records})
    if sizes != [1]:
        one = all(
            part.shape[:1] == (1,) for part in (*found.positional, *found.named.values()) if isinstance(part, Tensor)
        )
        why = "the model splits one input into a batch of parts, which cannot be told apart" if one else ""
        raise SaccadeError(
            f"{session.name}: expected one input, found attention over {sizes[-1]} at once: "
            + (why or "pass inputs one at a time, as a list")
        )
    about = {
        "model": session.name,
        **found.about,
        "sites": {place.name: place.path for place in session.places.values()},
    }
    return labels.labelled(assemble(lens.records, 0), {**found.axes, **labels.given(axes)}, chosen=axes, **about)


@contextlib.contextmanager
def _seen(model: nn.Module, models: list[Any], session: LookSession) -> Iterator[None]:
    """Route all attention of the model through the session; attention that bypasses it is an error."""
    with (
        huggingface.switched(models, session),
        multihead.replaced(multihead.multiheads(model), session),
        session.counting(),
    ):
        yield


def _refuse_misspelt(model: Any, options: Mapping[str, Any]) -> None:
    """Raise for an option that is nearly one of ours: many models silently accept any argument."""
    own = [name for name, part in inspect.signature(look).parameters.items() if part.kind is part.KEYWORD_ONLY]
    for name in options:
        near = get_close_matches(name, own, 1, cutoff=0.7)
        if near and isinstance(model, nn.Module) and name not in inspect.signature(model.forward).parameters:
            raise SaccadeError(
                f"{name}: expected an option of look or of the model, found neither (did you mean {near[0]!r}?)"
            )


def _targets(inputs: Any, target: Any) -> list[str | None]:
    """The forced output of each input."""
    several = isinstance(inputs, list)
    if isinstance(target, list) and (not several or len(target) != len(inputs)):
        found = f"{len(target)} for {f'a list of {len(inputs)}' if several else 'one input'}"
        raise SaccadeError(f"target: expected one text, or a list with one for each of a list of inputs, found {found}")
    targets = list(target) if isinstance(target, list) else [target] * (len(inputs) if several else 1)
    wrong = [each for each in targets if not (each is None or isinstance(each, str))]
    if wrong:
        raise SaccadeError(f"target: expected a text, found {type(wrong[0]).__name__} {wrong[0]!r}")
    return targets


@contextlib.contextmanager
def _unreadable(name: str, host: Any) -> Iterator[None]:
    """Turn a model's error on an input it cannot read into one that names the model and its limits."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (AssertionError, IndexError, RuntimeError, TypeError, ValueError) as error:
        config = getattr(host, "config", None)
        limits = {"positions": "max_position_embeddings", "tokens in its vocabulary": "vocab_size"}
        known = [f"{getattr(config, field)} {what}" for what, field in limits.items() if hasattr(config, field)]
        hint = f": it has {' and '.join(known)}" if known else ""
        message = (str(error).splitlines() or [type(error).__name__])[0]
        raise SaccadeError(f"{name}: an input or option that it cannot take ({message}){hint}") from error


def _has_two_parts(model: nn.Module, host: Any) -> bool:
    if host is not None:  # the encoder of such a model shares its configuration
        both = bool(getattr(host.config, "is_encoder_decoder", False))
        return both and "decoder_input_ids" in inspect.signature(host.forward).parameters
    return any(isinstance(part, nn.Transformer | nn.TransformerDecoder) for part in model.modules())


def _add_target(
    found: ModelInputs, host: Any, tokenizer: Any, target: str | None, generate: Mapping[str, Any] | None, pairs: bool
) -> None:
    if host is None or not pairs:
        if target is not None:
            raise SaccadeError("target= is for models of transformers with an encoder and a decoder: leave it out")
        return
    if target is not None and generate is not None:
        raise SaccadeError("pass target= to force an output, or generate= to generate one, not both")
    if target is not None:
        found.named["decoder_input_ids"], axes = encode_target(host, tokenizer, target)
        found.axes.update(axes)
        found.about["output"] = target
    elif generate is None and not {"decoder_input_ids", "decoder_inputs_embeds", "labels"} & found.named.keys():
        raise SaccadeError(
            f"{type(host).__name__} has a decoder: pass target='…' to force an output, or generate={{…}} to generate one"
        )


@contextlib.contextmanager
def _eval(model: nn.Module) -> Iterator[None]:
    """In eval mode there is no dropout, and every run is the same."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _generate(
    model: nn.Module, host: Any, tokenizer: Any, found: ModelInputs, session: LookSession, options: Mapping[str, Any]
) -> ModelInputs:
    """Call ``generate`` within the session; return the inputs with the axes of the output."""
    if host is None or not hasattr(model, "generate") or not host.can_generate():
        raise SaccadeError(f"{session.name} cannot generate: leave out generate=")
    if _option(host, options, "num_return_sequences") != 1:
        raise SaccadeError("generate: num_return_sequences must be 1: a trace has one output")
    beams = _option(host, options, "num_beams")
    settings = {"disable_compile": True, **options, "return_dict_in_generate": True, "output_scores": beams > 1}
    try:
        result = model.generate(*found.positional, **found.named, **settings)  # type: ignore[operator]
    except (TypeError, ValueError) as error:
        raise SaccadeError(f"{session.name}.generate: {str(error).strip().splitlines()[0]}") from error
    rows = getattr(result, "beam_indices", None)
    return _follow(found, tokenizer, session, result.sequences[0].cpu(), None if rows is None else rows[0].cpu())


def _option(host: Any, options: Mapping[str, Any], name: str) -> int:
    """An option of ``generate``: given, from the given configuration, or from the model's; 1 by default."""
    configured = (getattr(each, name, None) for each in (options.get("generation_config"), host.generation_config))
    return int(next((each for each in (options.get(name), *configured) if each is not None), 1))


def _follow(
    found: ModelInputs, tokenizer: Any, session: LookSession, sequence: Tensor, rows: Tensor | None
) -> ModelInputs:
    steps = max((session.calls[name] for name in session.prompts), default=0)
    prompt = max(session.prompts.values(), default=0)
    written = min(steps, len(sequence)) if rows is None else int((rows >= 0).sum())
    if written > steps:
        raise SaccadeError(
            f"{session.name}: {written} tokens were written in {steps} steps: expected one token per step"
        )
    session.lens.records[:] = [
        each for record in session.lens.records for each in _kept(record, session, written, rows)
    ]
    words = getattr(tokenizer, "tokenizer", tokenizer)
    words = words if hasattr(words, "convert_ids_to_tokens") else None
    # The winning hypothesis is padded to the longest of the beam.
    end = len(sequence) if rows is None else min(len(sequence), prompt + written)
    output, before = sequence[end - written : end].tolist(), sequence[: end - written].tolist()
    axes = {**found.axes, "output": labels.exactly(labels.tokens(words, output, _text(words, output)))}
    if len(before) == prompt:
        axes["prompt"] = labels.exactly(labels.tokens(words, before))
        read = (before + output)[: prompt + written - 1]
        axes["prefix"] = _at_least(labels.tokens(words, read))
    return replace(found, axes=axes, about={**found.about, "output": _text(words, output)})


def _kept(record: Record, session: LookSession, written: int, rows: Tensor | None) -> list[Record]:
    """The part of a record that belongs to the output: of a step, the row of the winning hypothesis; none beyond its end."""
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
    """A cache of fixed size has further keys, whose weight is 0."""
    return lambda size: axis if size >= len(axis) else None


def _text(words: Any, ids: list[int]) -> str:
    return "" if words is None else str(words.decode(ids, skip_special_tokens=True))
