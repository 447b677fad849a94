"""Key-value caches of decoders, so that a step costs O(T) and not O(T²).

    kₜ, vₜ are computed once, at step t; later steps attend to k₁ … kₜ, v₁ … vₜ

:class:`Cache` is immutable: reading tokens makes a new one, so states of a search can be kept, reordered and continued twice.
:class:`Room` has empty positions at the end, which a step writes in place: its shapes stay, so that steps can be captured in
CUDA graphs (:mod:`saccade.nn.cuda_graphs`). Row b has read ``read[b]`` tokens; positions beyond are never attended to.

Legend: B batch, H heads, L cached positions, T new tokens, d width of a head.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from saccade.attention.windows import Window, causal, mask, padding

ROOM = 32
"""Initial number of positions where steps are captured; doubled when they are full."""

SAME = 8
"""The number of tokens before the first step is rounded up to a multiple of this."""


class Cache(NamedTuple):
    """The number of tokens each row has read, and the keys and values [B, H, L, d] of every layer."""

    read: Int[Tensor, " B"]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


class Room(NamedTuple):
    """A cache with empty positions at the end. At step n of a search at most ``begun`` + n positions are used.

    What row b cached at position l lies in row b + ``line[b, l]``: a row that continues another does not copy its cache
    (:mod:`saccade.kernels.beam_kv.reference`). Rows may be moved in whole groups, or one by one as long as none continues
    another.
    """

    read: Int[Tensor, " B"]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    line: Int[Tensor, "B L"]
    begun: int

    def followed(self, rows: Int[Tensor, " B"]) -> Room:
        """As many rows, each of which continues one of these."""
        read = self.read.index_select(0, rows)
        moved = (rows - torch.arange(len(rows), device=rows.device)).to(self.line.dtype)
        line = self.line.index_select(0, rows) + moved.unsqueeze(1)
        places = torch.arange(line.shape[1], device=rows.device)
        return self._replace(read=read, line=line.masked_fill_(places >= read.unsqueeze(1), 0))


def empty(batch: int, layers: int, heads: int, width: int, like: Tensor) -> Cache:
    """An empty cache of ``layers`` layers, on the device and in the dtype of ``like``."""
    nothing = like.new_zeros(batch, heads, 0, width)
    read = torch.zeros(batch, dtype=torch.int64, device=like.device)
    return Cache(read, (nothing,) * layers, (nothing,) * layers)


def make_room(cache: Cache | Room, step: int) -> Room:
    """The same cache with a position for the tokens of step number ``step``; itself, if it has one."""
    taken = cache.keys[0].shape[2]
    # Rounded up, so that prompts of many lengths share few captured graphs.
    begun = cache.begun if isinstance(cache, Room) else -(-(taken - step) // SAME) * SAME
    if isinstance(cache, Room) and begun + step < taken:
        return cache
    size = ROOM
    while size <= begun + step:
        size *= 2
    grown = [tuple(_padded(part, size - taken) for part in parts) for parts in (cache.keys, cache.values)]
    line = cache.line if isinstance(cache, Room) else cache.read.new_zeros(len(cache.read), taken, dtype=torch.int32)
    return Room(cache.read, grown[0], grown[1], functional.pad(line, (0, size - taken)), begun)


def places_of(cache: Cache | Room | None, count: int, device: torch.device) -> Int[Tensor, "b T"]:
    """The positions of ``count`` new tokens: [1, T] where every row starts at 0, else [B, T]."""
    ahead = torch.arange(count, device=device).unsqueeze(0)
    return ahead if is_empty(cache) or cache is None else cache.read.unsqueeze(1) + ahead


def is_empty(cache: Cache | Room | None) -> bool:
    """Whether the cache has no positions."""
    return cache is None or cache.keys[0].shape[2] == 0


def window_of(cache: Cache | Room | None, places: Int[Tensor, "b T"]) -> Window:
    """New tokens see themselves and all tokens before them."""
    if cache is None or is_empty(cache):
        return causal
    if places.shape[1] == 1:
        return padding(cache.read + 1)
    size = cache.keys[0].shape[2] + (0 if isinstance(cache, Room) else places.shape[1])
    return mask(torch.arange(size, device=places.device) <= places.unsqueeze(-1))  # [B, T, L + T]


def written(
    cache: Cache | Room | None, layer: int, keys: Float[Tensor, "B H T d"], values: Float[Tensor, "B H T d"],
    places: Int[Tensor, "b T"],
) -> tuple[Float[Tensor, "B H L d"], Float[Tensor, "B H L d"]]:  # fmt: skip
    """A layer's keys and values with the new ones written at their positions."""
    if cache is None or is_empty(cache):
        return keys, values
    T, updated = keys.shape[2], []
    index = places[:, None, :, None].expand_as(keys)
    for old, new in ((cache.keys[layer], keys), (cache.values[layer], values)):
        # A room is written in place; a cache is copied, so that the given state stays as it is.
        grown = old if isinstance(cache, Room) else _padded(old, T)
        updated.append(grown.scatter_(2, index, new.to(grown.dtype)))
    return updated[0], updated[1]


def after(
    cache: Cache | Room | None,
    keys: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
    read: Int[Tensor, " B"] | int,
) -> Cache | Room:
    """The cache after ``read`` more tokens per row, with these keys and values of every layer."""
    if cache is None:
        count = read if isinstance(read, Tensor) else torch.full((len(keys[0]),), read, device=keys[0].device)
        return Cache(count, keys, values)
    return cache._replace(read=cache.read + read, keys=keys, values=values)


def _padded(part: Float[Tensor, "B H L d"], places: int) -> Float[Tensor, "B H M d"]:
    return functional.pad(part, (0, 0, 0, places))
