"""What a decoder keeps of the tokens it has read, so that a step costs O(T) and not O(T²): their keys and values.

    kₜ, vₜ are computed once, at step t; later steps look at k₁ … kₜ, v₁ … vₜ

:class:`Cache` grows by what is read and changes nothing that was there: states of a search can be kept, reordered and gone
on from twice. :class:`Room` has empty places behind, in which a step writes: its shapes stay, so that steps can be recorded
(:mod:`saccade.nn.cuda_graphs`). Each row stands at its own place, ``read``; what lies beyond it is never looked at.

Legend: B batch, H heads, L places kept, T new tokens, d width of a head.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from saccade.attention.windows import Window, causal, mask, padding

ROOM = 32
"""Places there are at first where steps are recorded; they are doubled when they are full."""


SAME = 8
"""What was read before the first step counts in multiples of this."""


class Cache(NamedTuple):
    """How many tokens each row has read, and the keys and values [B, H, L, d] of every layer."""

    read: Int[Tensor, " B"]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


class Room(NamedTuple):
    """A cache with empty places behind. At step n of a search at most ``begun`` + n places are taken.

    What row b kept at place l lies in row b + ``line[b, l]``: a row that goes on from another does not copy what that one
    kept (:mod:`saccade.kernels.beam_kv.reference`). Rows may be moved in whole groups, or one by one as long as
    none went on from another.
    """

    read: Int[Tensor, " B"]
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    line: Int[Tensor, "B L"]
    begun: int

    def followed(self, rows: Int[Tensor, " B"]) -> Room:
        """As many rows, each of which goes on from one of these."""
        read = self.read.index_select(0, rows)
        moved = (rows - torch.arange(len(rows), device=rows.device)).to(self.line.dtype)
        line = self.line.index_select(0, rows) + moved.unsqueeze(1)
        places = torch.arange(line.shape[1], device=rows.device)
        return self._replace(read=read, line=line.masked_fill_(places >= read.unsqueeze(1), 0))


def empty(batch: int, layers: int, heads: int, width: int, like: Tensor) -> Cache:
    """The cache of ``layers`` layers before anything was read, on the device and in the type of ``like``."""
    nothing = like.new_zeros(batch, heads, 0, width)
    read = torch.zeros(batch, dtype=torch.int64, device=like.device)
    return Cache(read, (nothing,) * layers, (nothing,) * layers)


def make_room(cache: Cache | Room, step: int) -> Room:
    """The same cache with a place for the tokens of step number ``step``; itself, where there is one."""
    taken = cache.keys[0].shape[2]
    # A little more than was taken, so that prompts of many lengths share few recordings.
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
    """Where ``count`` new tokens stand: [1, T] where every row begins at 0, else [B, T]."""
    ahead = torch.arange(count, device=device).unsqueeze(0)
    return ahead if is_empty(cache) or cache is None else cache.read.unsqueeze(1) + ahead


def is_empty(cache: Cache | Room | None) -> bool:
    """Whether nothing was read, as far as the shapes say."""
    return cache is None or cache.keys[0].shape[2] == 0


def window_of(cache: Cache | Room | None, places: Int[Tensor, "b T"]) -> Window:
    """New tokens see those that were read before them, and themselves."""
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
    """A layer's keys and values with the new ones at their places."""
    if cache is None or is_empty(cache):
        return keys, values
    T, found = keys.shape[2], []
    index = places[:, None, :, None].expand_as(keys)
    for old, new in ((cache.keys[layer], keys), (cache.values[layer], values)):
        # In a room the places of a recorded step are its own; elsewhere a state that was given stays as it is.
        grown = old if isinstance(cache, Room) else _padded(old, T)
        found.append(grown.scatter_(2, index, new.to(grown.dtype)))
    return found[0], found[1]


def after(
    cache: Cache | Room | None,
    keys: tuple[Tensor, ...],
    values: tuple[Tensor, ...],
    read: Int[Tensor, " B"] | int,
) -> Cache | Room:
    """The cache when ``read`` tokens more of each row were read, of which every layer made these keys and values."""
    if cache is None:
        count = read if isinstance(read, Tensor) else torch.full((len(keys[0]),), read, device=keys[0].device)
        return Cache(count, keys, values)
    return cache._replace(read=cache.read + read, keys=keys, values=values)


def _padded(part: Float[Tensor, "B H L d"], places: int) -> Float[Tensor, "B H M d"]:
    return functional.pad(part, (0, 0, 0, places))
