"""What `every_program` gives each family of Triton programs, and what they must answer.

A case is a generator. It yields what the programs launched since the last yield found, beside the reference's answer, which
is computed in float64 on the CPU so that a device runs little else than the programs. Sizes are odd, and larger than a tile
on a GPU; windows have lengths, a band and a mask where the programs take them.

Legend: B batch, H heads, N = B·H items, T queries, S keys, D width of queries and keys, E width of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from saccade.kernels.additive import direct, separable_fused, visible_products
from saccade.kernels.additive.direct import guarded
from saccade.kernels.additive.direct_forms import reach_of
from saccade.kernels.additive.engines import engine
from saccade.kernels.additive.reference import additive_scores
from saccade.kernels.additive.tables import TILED_RANKS, table_for, tolerance
from saccade.kernels.beam_kv import fused as kept
from saccade.kernels.beam_kv import reference as kept_reference
from saccade.kernels.decoder import fused as decoder
from saccade.kernels.decoder import steps as decoder_reference
from saccade.kernels.decoder.steps import Memory
from saccade.kernels.dot.reference import dot_scores
from saccade.kernels.edges import fused as edges
from saccade.kernels.edges import reference as edges_reference
from saccade.kernels.edges.graph import Graph
from saccade.kernels.local import fused as local
from saccade.kernels.local import reference as local_reference
from saccade.kernels.location import fused as location
from saccade.kernels.location import reference as location_reference
from saccade.kernels.programs import launched
from saccade.kernels.statistics import fused as statistics
from saccade.kernels.statistics import reference as statistics_reference
from saccade.kernels.statistics.reference import Wanted
from saccade.kernels.visibility import Visibility

DTYPES = (torch.float32, torch.bfloat16, torch.float16)

ALLOWED = {torch.float32: 2e-5, torch.bfloat16: 1.2e-2, torch.float16: 2e-3}
"""The largest error, as a part of the largest number of the answer: what is rounded once, or added up in float32."""

SEPARABLE = {torch.float32: 4e-3, torch.bfloat16: 1.2e-2, torch.float16: 4e-3}
"""The same where features are float16 whatever the inputs are."""

Answer = dict[str, Tensor]
Part = tuple[Answer, Answer]
"""What was found, and what is exact, by the same names."""


@dataclass(frozen=True)
class Sizes:
    B: int
    H: int
    T: int
    S: int
    D: int
    E: int

    @property
    def N(self) -> int:
        return self.B * self.H


INTERPRETED = Sizes(B=2, H=2, T=5, S=7, D=9, E=5)
ON_A_GPU = Sizes(B=2, H=3, T=71, S=139, D=75, E=37)


@dataclass(frozen=True)
class Draw:
    """Random tensors of one dtype on the device, drawn on the CPU: the same on every device."""

    device: str
    dtype: torch.dtype
    sizes: Sizes
    chance: torch.Generator = field(default_factory=lambda: torch.Generator("cpu").manual_seed(5))

    def uniform(self, *shape: int, within: float = 1.0, dtype: torch.dtype | None = None) -> Tensor:
        drawn = torch.rand(*shape, generator=self.chance, device="cpu")
        return (within * (2 * drawn - 1)).to(dtype or self.dtype).to(self.device)

    def yes(self, *shape: int, share: float = 0.7) -> Tensor:
        return (torch.rand(*shape, generator=self.chance, device="cpu") < share).to(self.device)

    def number(self, *shape: int, below: int) -> Tensor:
        return torch.randint(below, shape, generator=self.chance, device="cpu").to(self.device)

    @property
    def lengths(self) -> Tensor:
        """All keys of the first item, and fewer of each one after it."""
        B, S = self.sizes.B, self.sizes.S
        return torch.tensor([S - S * item // (B + 1) for item in range(B)], device=self.device)

    def seen(self) -> Visibility:
        B, H, T, S = self.sizes.B, self.sizes.H, self.sizes.T, self.sizes.S
        return Visibility(self.lengths, shift=2, before=S // 2, after=3, mask=self.yes(B, H, T, S))


def exactly(tensor: Tensor) -> Tensor:
    """The same numbers in float64 on the CPU."""
    return tensor.detach().cpu().double()


def moved(seen: Visibility) -> Visibility:
    lengths, mask = (None if each is None else each.cpu() for each in (seen.lengths, seen.mask))
    return replace(seen, lengths=lengths, mask=mask)


def softmax(scores: Tensor) -> Tensor:
    blind = (scores == -math.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)


def both_ways(
    ours: Callable[..., Any], theirs: Callable[..., Any], inputs: Mapping[str, Tensor], draw: Draw
) -> Iterator[Part]:
    """Outputs, then gradients: ``ours`` of the inputs, ``theirs`` of the same in float64."""

    def called(function: Callable[..., Any], leaves: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        found = function(**leaves)
        return found if isinstance(found, tuple) else (found,)

    leaves = {name: tensor.detach().requires_grad_() for name, tensor in inputs.items()}
    exact = {name: exactly(tensor).requires_grad_() for name, tensor in inputs.items()}
    found, expected = called(ours, leaves), called(theirs, exact)
    yield numbered(found), numbered(expected)
    grads = [draw.uniform(*output.shape, dtype=output.dtype) for output in found]
    ours_back = torch.autograd.grad(found, list(leaves.values()), grads)
    theirs_back = torch.autograd.grad(expected, list(exact.values()), [exactly(grad) for grad in grads])
    names = [f"∂{name}" for name in inputs]
    yield dict(zip(names, ours_back, strict=True)), dict(zip(names, theirs_back, strict=True))


def numbered(tensors: tuple[Tensor, ...]) -> Answer:
    return {f"output {number}": tensor.detach() for number, tensor in enumerate(tensors)}


# ---- Additive


def of_additive(
    query: Tensor, key: Tensor, v: Tensor, seen: Visibility, grad: Tensor, heads: int
) -> tuple[Tensor, Answer]:
    """Scores, −∞ where not seen, and the three gradients, v's for each item."""
    items = len(query) // len(v)
    inputs = [exactly(each).requires_grad_() for each in (query, key, v.repeat(items, 1))]
    scores = additive_scores(*inputs)
    found = torch.autograd.grad(scores, inputs, exactly(grad))
    return moved(seen).hide(scores.detach(), heads), dict(zip(("∂query", "∂key", "∂v"), found, strict=True))


def additive_inputs(draw: Draw, within: float) -> tuple[Tensor, Tensor, Tensor, Visibility, Tensor]:
    size, seen = draw.sizes, draw.seen()
    query = draw.uniform(size.N, size.T, size.D, within=within)
    key = draw.uniform(size.N, size.S, size.D, within=within)
    grad = draw.uniform(size.N, size.T, size.S, dtype=torch.float32).cpu()
    grad = grad.masked_fill(moved(seen).hide(grad, size.H) == -math.inf, 0.0).to(draw.device)
    return query, key, draw.uniform(size.H, size.D), seen, grad


def by_direct(draw: Draw, form: str, within: float) -> Iterator[Part]:
    query, key, v, seen, grad = additive_inputs(draw, within)
    how: dict[str, Any] = {"heads": draw.sizes.H, "form": form}
    scores, gradients = of_additive(query, key, v, seen, grad, draw.sizes.H)
    yield {"scores": direct.scores(query, key, v, seen, **how)}, {"scores": scores}
    yield dict(zip(gradients, direct.gradients(query, key, v, grad, seen, **how), strict=True)), gradients


def by_separable(draw: Draw) -> Iterator[Part]:
    query, key, v, seen, grad = additive_inputs(draw, within=1.5)
    heads = draw.sizes.H
    reach = torch.tensor(reach_of(query, key), dtype=torch.float64)
    yield {"reach": reach}, {"reach": torch.stack([exactly(each).abs().max() for each in (query, key)])}
    table = table_for(reach.max().item(), tolerance(draw.dtype), TILED_RANKS)
    if table is None:
        raise RuntimeError(f"no expansion reaches {reach.max().item():.3g} in {draw.dtype}")
    scores, gradients = of_additive(query, key, v, seen, grad, heads)
    yield {"scores": separable_fused.scores(query, key, v, seen, heads=heads, table=table)}, {"scores": scores}
    raw = separable_fused.products(*separable_fused.features(query, key, v, table))
    sums = raw.new_empty(raw.shape[:2])
    weights, rounded = separable_fused.weights(raw, v, seen, heads, draw.dtype, sums)
    exact = {"weights": softmax(scores), "rounded": softmax(scores), "sums": torch.logsumexp(scores, -1)}
    yield {"weights": weights, "rounded": rounded, "sums": sums}, exact
    found = separable_fused.gradients(query, key, v, grad, seen, heads=heads, table=table)
    yield dict(zip(gradients, found, strict=True)), gradients


def by_guarded(draw: Draw, within: float) -> Iterator[Part]:
    """The direct engine as a CUDA graph has it: made for |q|, |k| ≤ 1, and given what is within that or far beyond."""
    query, key, v, seen, grad = additive_inputs(draw, within)
    heads, watched = draw.sizes.H, guarded(engine("direct", (1.0, 1.0), query))
    scores, gradients = of_additive(query, key, v, seen, grad, heads)
    yield {"scores": watched.scores(query, key, v, seen, heads)}, {"scores": scores}
    yield dict(zip(gradients, watched.gradients(query, key, v, grad, seen, heads=heads), strict=True)), gradients


def by_seen_products(draw: Draw, described: bool) -> Iterator[Part]:
    """Products of features, and sums of features with weights that are 0 where nothing is seen, by queries and by keys."""
    size, seen = draw.sizes, replace(draw.seen(), mask=None)
    K, W = 8 * size.D, -(-size.S // 8) * 8  # features of a row, and columns that descriptors take
    of_query, of_key = draw.uniform(size.N, size.T, K), draw.uniform(size.N, size.S, K)
    hidden = moved(seen).hide(torch.zeros(size.N, size.T, size.S, device="cpu"), size.H) == -math.inf
    tile = replace(visible_products.score_tiles(size.N, size.T, size.S), described=described)
    exact = (exactly(of_query) @ exactly(of_key).mT).masked_fill(hidden, 0.0)
    yield {"scores": visible_products.scores_of(of_query, of_key, seen, size.H, tile=tile)}, {"scores": exact}
    weights = torch.nn.functional.pad(
        draw.uniform(size.N, size.T, size.S).cpu().masked_fill(hidden, 0.0), (0, W - size.S)
    )
    plain = exactly(weights)[..., : size.S]
    weights = weights.to(draw.device)
    tile = replace(visible_products.weighted_tiles(size.T, K), described=described)
    found = visible_products.weighted(weights, of_key, seen, size.H, tile=tile)
    yield {"by queries": found}, {"by queries": plain @ exactly(of_key)}
    out = of_key.new_empty(size.N, size.S, K)
    visible_products.weighted(weights, of_query, seen, size.H, True, out=out, tile=tile)
    yield {"by keys": out}, {"by keys": plain.mT @ exactly(of_query)}


# ---- Statistics of dot scores


def by_statistics(draw: Draw) -> Iterator[Part]:
    size, seen, scale = draw.sizes, draw.seen(), 0.7
    query, key = draw.uniform(size.N, size.T, size.D), draw.uniform(size.N, size.S, size.D)
    wanted = Wanted(top=3, entropy=True, maximum=True, received=True)
    found = statistics.statistics(query, key, seen, scale=scale, wanted=wanted, heads=size.H).tensors()
    scores = moved(seen).hide(dot_scores(exactly(query), exactly(key), scale), size.H)
    exact = statistics_reference.of_scores(scores, wanted).tensors()
    # Of two keys whose weights are all but equal either may come first: what counts is how much the one named weighs.
    weights, places = softmax(scores), {"top_index": "top_weights", "argmax": "maximum"}
    for index, of in places.items():
        at = found.pop(index).cpu()
        named = weights.gather(-1, at if at.dim() == 3 else at.unsqueeze(-1)).view(at.shape)
        found[index], exact[index] = named.masked_fill(found[of].cpu() == 0, 0.0), exact[of]
    yield found, exact


# ---- Edges


def by_edges(draw: Draw, act: Any) -> Iterator[Part]:
    size = draw.sizes
    N, M, count = size.T, size.S, 3 * size.S
    pairs = torch.stack([draw.number(count, below=N - 1), draw.number(count, below=M)])  # the last receiver sees nobody
    graph = Graph.of(pairs, receivers=N, senders=M)
    plain, gain = graph.to("cpu"), draw.yes(count, size.H).float() / 0.7
    inputs = {
        "query": draw.uniform(N, size.H, size.D), "key": draw.uniform(M, size.H, size.D),
        "value": draw.uniform(M, size.H, size.E), "a": draw.uniform(size.H, size.D),
    }  # fmt: skip
    yield from both_ways(
        partial(edges.edge_attention, graph=graph, act=act, gain=gain),
        partial(edges_reference.edge_attention, graph=plain, act=act, gain=exactly(gain)),
        inputs,
        draw,
    )
    query, key, a = inputs["query"], inputs["key"], inputs["a"]
    found = edges.edge_weights(query, key, a, graph, act=act)
    exact = edges_reference.edge_weights(exactly(query), exactly(key), exactly(a), plain, act=act)
    yield {"weights": found}, {"weights": exact}


# ---- Location-aware scores


def by_location(draw: Draw) -> Iterator[Part]:
    size, filters, taps = draw.sizes, 5, 7
    inputs = {
        "query": draw.uniform(size.B, size.H, 1, size.D),
        "key": draw.uniform(size.B, size.H, size.S, size.D),
        "v": draw.uniform(size.H, size.D),
        "previous": draw.uniform(size.B, size.H, 1, size.S).abs(),
        "filters": draw.uniform(filters, taps),
        "location_weight": draw.uniform(size.D, filters),
    }
    ours, theirs = location.location_aware_scores, location_reference.location_aware_scores
    yield from both_ways(ours, theirs, inputs, draw)


# ---- Local attention


def by_local(draw: Draw, where: str) -> Iterator[Part]:
    """A causal band of additive scores, or centres of dot scores with a gain, at which queries meet."""
    size = draw.sizes
    inputs = {
        "query": draw.uniform(size.B, size.T, size.D),
        "key": draw.uniform(size.B, size.S, size.D),
        "value": draw.uniform(size.B, size.S, size.E),
    }
    options: dict[str, Any] = {"radius": max(2, size.S // 5)}
    if where == "band":
        inputs["v"] = draw.uniform(size.D)
        options |= {"ahead": 1, "shift": 2}
    else:
        inputs["centre"] = draw.uniform(size.B, size.T, within=size.S / 3) + size.S / 2
        options |= {"sigma": 1.5, "scale": 0.7}
    lengths = draw.lengths
    plain = {**options, "lengths": lengths.cpu()}
    options["lengths"] = lengths
    ours = partial(local.local_attention, **options)
    yield from both_ways(ours, partial(local_reference.local_attention, **plain), inputs, draw)


# ---- A decoder's steps


def decoder_inputs(draw: Draw, score: str) -> dict[str, Tensor]:
    size = draw.sizes
    inputs = {
        "query": draw.uniform(size.B, size.D),
        "key": draw.uniform(size.B, size.S, size.D),
        "value": draw.uniform(size.B, size.S, size.E),
    }
    return {**inputs, "v": draw.uniform(size.D)} if score == "additive" else inputs


def by_step(draw: Draw, score: str) -> Iterator[Part]:
    real, lengths = draw.yes(draw.sizes.B, draw.sizes.S), draw.lengths
    scale = None if score == "additive" else 0.7

    def ours(query: Tensor, key: Tensor, value: Tensor, v: Tensor | None = None) -> tuple[Tensor, Tensor]:
        options = {"v": v, "scale": scale, "real": real, "lengths": lengths}
        return Memory.of(key, value, **options, steps=1, arithmetic=decoder).step(query)

    theirs = partial(decoder_reference.step_attention, scale=scale, real=real.cpu(), lengths=lengths.cpu())
    yield from both_ways(ours, theirs, decoder_inputs(draw, score), draw)


def by_loop(draw: Draw) -> Iterator[Part]:
    """Three steps over one memory, each of which asks with what the last one was told."""
    real = draw.yes(draw.sizes.B, draw.sizes.S)

    def turned(query: Tensor, context: Tensor) -> Tensor:
        return query + 0.1 * context.sum(-1, keepdim=True)

    def ours(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        memory, contexts = Memory.of(key, value, v=v, real=real, steps=3, arithmetic=decoder), []
        for _ in range(3):
            context, _ = memory.step(query)
            contexts.append(context)
            query = turned(query, context)
        return tuple(contexts)

    def theirs(query: Tensor, key: Tensor, value: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        contexts = []
        for _ in range(3):
            context, _ = decoder_reference.step_attention(query, key, value, v=v, real=real.cpu())
            contexts.append(context)
            query = turned(query, context)
        return tuple(contexts)

    yield from both_ways(ours, theirs, decoder_inputs(draw, "additive"), draw)


def by_kept(draw: Draw, line: bool) -> Iterator[Part]:
    """Rows with lines of descent, or as many rows to an item as there are heads."""
    size = draw.sizes
    rows, items = (size.N, size.N) if line else (size.N, size.B)
    inputs = {name: draw.uniform(items, size.H, size.S, size.D) for name in ("key", "value")}
    inputs["query"] = draw.uniform(rows, size.H, size.D)
    plain: dict[str, Any] = {"counts": draw.number(items, below=size.S + 1)}
    if line:
        plain["line"] = draw.number(rows, size.S, below=rows) - torch.arange(rows, device=draw.device).unsqueeze(1)
    found = kept.cached_attention(**inputs, **plain, scale=0.7)
    exact = {name: exactly(tensor) for name, tensor in inputs.items()}
    whole = {name: tensor.cpu() for name, tensor in plain.items()}
    yield {"context": found}, {"context": kept_reference.cached_attention(**exact, **whole, scale=0.7)}


def by_trial(draw: Draw) -> Iterator[Part]:
    yield {"one": launched(torch.device(draw.device))}, {"one": torch.ones(1, dtype=torch.float64, device="cpu")}


# ---- All of them


@dataclass(frozen=True)
class Case:
    family: str  # the folder of saccade.kernels
    name: str
    parts: Callable[[Draw], Iterator[Part]]
    dtypes: tuple[torch.dtype, ...] = DTYPES
    allowed: Mapping[torch.dtype, float] = field(default_factory=lambda: ALLOWED)


SINGLE, HALF = (torch.float32,), (torch.float16,)

CASES = (
    Case("additive", "direct, small", partial(by_direct, form="small", within=0.5), SINGLE),
    Case("additive", "direct, moderate", partial(by_direct, form="moderate", within=4.0)),
    Case("additive", "direct, wide", partial(by_direct, form="wide", within=15.0), SINGLE),
    Case("additive", "direct, large", partial(by_direct, form="large", within=40.0), SINGLE),
    Case("additive", "separable", by_separable, allowed=SEPARABLE),
    Case("additive", "guarded, within", partial(by_guarded, within=1.0), SINGLE),
    Case("additive", "guarded, beyond", partial(by_guarded, within=40.0), SINGLE),
    Case("additive", "seen products", partial(by_seen_products, described=False), HALF),
    Case("additive", "seen products, described", partial(by_seen_products, described=True), HALF),
    Case("statistics", "of a dot score", by_statistics),
    Case("edges", "leaky_relu", partial(by_edges, act="leaky_relu")),
    Case("edges", "tanh", partial(by_edges, act="tanh"), SINGLE),
    Case("location", "one query", by_location),
    Case("local", "band", partial(by_local, where="band")),
    Case("local", "centres", partial(by_local, where="centres")),
    Case("decoder", "one step, additive", partial(by_step, score="additive")),
    Case("decoder", "one step, dot", partial(by_step, score="dot"), SINGLE),
    Case("decoder", "a loop", by_loop),
    Case("kept", "lines of descent", partial(by_kept, line=True)),
    Case("kept", "shared items", partial(by_kept, line=False)),
    Case("trial", "one", by_trial, SINGLE),
)
