"""Positional encodings: sinusoids, learned vectors, rotated queries and keys.

    sinusoidal   PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i + 1) = cos(p / 10000^(2i/d))        (Vaswani et al. 2017)
    learned      one vector per position, up to a maximum
    rotary       (x₂ᵢ, x₂ᵢ₊₁) rotated by the angle p / 10000^(2i/d), queries and keys alike        (Su et al. 2021)

Sines and cosines alternate, as in both papers; tensor2tensor puts all sines first, so its weights are not compatible.

Legend: B batch (1 where all rows have the same positions), T tokens, H heads, d width.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import SaccadeError

PositionsName = Literal["sinusoidal", "learned", "rotary"]
SLOWEST = 10_000.0  # the wavelengths grow from 2π to 2π times this


def angles(places: Int[Tensor, "... T"], width: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "... T half"]:
    """p / 10000^(2i/d) for i = 0 … ⌈d/2⌉ − 1; at least in float32, to tell large positions apart."""
    wide = dtype if dtype == torch.float64 else torch.float32
    exponents = torch.arange(0, width, 2, device=places.device, dtype=wide) / width
    return places.unsqueeze(-1).to(wide) * SLOWEST**-exponents


def sinusoids(places: Int[Tensor, "... T"], width: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "... T d"]:
    """The vectors of these positions, sines and cosines alternating.

    >>> [round(number, 5) for number in sinusoids(torch.tensor([1]), 4)[0].tolist()]
    [0.84147, 0.5403, 0.01, 0.99995]
    """
    turned = angles(places, width, dtype)
    paired = torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)
    return paired[..., :width].to(dtype)  # an odd width ends with a sine


class Rotation(NamedTuple):
    """Cosine and sine of the rotation of each pair of queries and keys, [B, 1, T, d/2] each."""

    cosine: Float[Tensor, "B 1 T half"]
    sine: Float[Tensor, "B 1 T half"]

    def turn(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """Each pair (x₂ᵢ, x₂ᵢ₊₁) rotated by its angle; the dot product of a query and a key then depends on their distance."""
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * self.cosine - odd * self.sine, even * self.sine + odd * self.cosine]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


class Sinusoidal(nn.Module):
    """Sinusoids added to the embeddings; no limit of positions, no parameters. Shapes: [B, T, d] → [B, T, d]."""

    longest: int | None = None

    def add(self, embedded: Float[Tensor, "B T d"], places: Int[Tensor, "b T"]) -> Float[Tensor, "B T d"]:
        return embedded + sinusoids(places, embedded.shape[-1], embedded.dtype)

    def rotation(self, places: Int[Tensor, "b T"], dtype: torch.dtype) -> Rotation | None:
        return None


class Learned(nn.Module):
    """A learned vector for each of the first ``places`` positions. Shapes: [B, T, d] → [B, T, d].

    Positions beyond the last are clamped to it: a search keeps stepping rows that are finished, and ignores their output.
    The search must respect ``longest`` for the others.
    """

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.longest: int | None = places
        self.table = nn.Embedding(places, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def add(self, embedded: Float[Tensor, "B T d"], places: Int[Tensor, "b T"]) -> Float[Tensor, "B T d"]:
        if places.shape[1] > self.table.num_embeddings:
            raise SaccadeError(
                f"model.places: expected at most {self.table.num_embeddings:,} tokens (that many positions are learned), "
                f"found {places.shape[1]:,}: raise model.places, or lower data.max_length (language models: data.chunk)"
            )
        learned: Tensor = self.table(places.clamp_max(self.table.num_embeddings - 1))
        return embedded + learned

    def rotation(self, places: Int[Tensor, "b T"], dtype: torch.dtype) -> Rotation | None:
        return None


class Rotary(nn.Module):
    """Rotates queries and keys of ``head_width`` and leaves embeddings alone; no limit of positions, no parameters."""

    longest: int | None = None

    def __init__(self, head_width: int) -> None:
        super().__init__()
        if head_width % 2:
            raise SaccadeError(f"rotary positions rotate pairs, so a head's width must be even: got {head_width}")
        self.head_width = head_width

    def add(self, embedded: Float[Tensor, "B T d"], places: Int[Tensor, "b T"]) -> Float[Tensor, "B T d"]:
        return embedded

    def rotation(self, places: Int[Tensor, "b T"], dtype: torch.dtype) -> Rotation | None:
        turned = angles(places, self.head_width, dtype).unsqueeze(1)  # [B, 1, T, d/2]
        return Rotation(turned.cos().to(dtype), turned.sin().to(dtype))


def positions_of(kind: PositionsName, *, width: int, heads: int, places: int) -> Sinusoidal | Learned | Rotary:
    """The positional encoding that a recipe names; ``places`` is the number of learned positions."""
    match kind:
        case "learned":
            return Learned(places, width)
        case "rotary":
            return Rotary(width // heads)
        case _:
            return Sinusoidal()
