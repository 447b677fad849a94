"""Where a token stands, for networks that would not know: sinusoids, learned vectors, rotated queries and keys.

    sinusoidal   PE(p, 2i) = sin(p / 10000^(2i/d)),  PE(p, 2i + 1) = cos(p / 10000^(2i/d))        (Vaswani et al. 2017)
    learned      a vector a place, up to a longest
    rotary       (x₂ᵢ, x₂ᵢ₊₁) turned by the angle p / 10000^(2i/d), queries and keys alike         (Su et al. 2021)

Sines and cosines take turns, as both papers print them; tensor2tensor puts all sines first, so its weights do not fit.

Legend: B batch (1 where all rows stand at the same places), T tokens, H heads, d width.
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
    """p / 10000^(2i/d) for i = 0 … ⌈d/2⌉ − 1; never in less than float32, in which large places would run together."""
    wide = dtype if dtype == torch.float64 else torch.float32
    exponents = torch.arange(0, width, 2, device=places.device, dtype=wide) / width
    return places.unsqueeze(-1).to(wide) * SLOWEST**-exponents


def sinusoids(places: Int[Tensor, "... T"], width: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "... T d"]:
    """The vectors of these places, sines and cosines in turn.

    >>> [round(number, 5) for number in sinusoids(torch.tensor([1]), 4)[0].tolist()]
    [0.84147, 0.5403, 0.01, 0.99995]
    """
    turned = angles(places, width, dtype)
    paired = torch.stack([turned.sin(), turned.cos()], dim=-1).flatten(-2)
    return paired[..., :width].to(dtype)  # an odd width ends with a sine


class Rotation(NamedTuple):
    """By how much the pairs of queries and keys are turned, [B, 1, T, d/2] each."""

    cosine: Float[Tensor, "B 1 T half"]
    sine: Float[Tensor, "B 1 T half"]

    def turn(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T d"]:
        """Each pair (x₂ᵢ, x₂ᵢ₊₁) turned by its angle; what a query and a key have in common then depends on their distance."""
        even, odd = x[..., 0::2], x[..., 1::2]
        turned = [even * self.cosine - odd * self.sine, even * self.sine + odd * self.cosine]
        return torch.stack(turned, dim=-1).flatten(-2).to(x.dtype)


class Sinusoidal(nn.Module):
    """Sinusoids on top of the embeddings; any place, no parameters. Shapes: [B, T, d] → [B, T, d]."""

    longest: int | None = None

    def add(self, embedded: Float[Tensor, "B T d"], places: Int[Tensor, "b T"]) -> Float[Tensor, "B T d"]:
        return embedded + sinusoids(places, embedded.shape[-1], embedded.dtype)

    def rotation(self, places: Int[Tensor, "b T"], dtype: torch.dtype) -> Rotation | None:
        return None


class Learned(nn.Module):
    """A learned vector for each of the first ``places`` places. Shapes: [B, T, d] → [B, T, d].

    A row that goes on beyond the last place stays there: a search takes the rows that are done along with the others, and
    nobody looks at what they write. How long a live row may be (``longest``) is the search's limit to keep.
    """

    def __init__(self, places: int, width: int) -> None:
        super().__init__()
        self.longest: int | None = places
        self.table = nn.Embedding(places, width)
        nn.init.normal_(self.table.weight, std=width**-0.5)

    def add(self, embedded: Float[Tensor, "B T d"], places: Int[Tensor, "b T"]) -> Float[Tensor, "B T d"]:
        if places.shape[1] > self.table.num_embeddings:
            raise SaccadeError(
                f"model.places: expected at most {self.table.num_embeddings:,} tokens, for so many places were learned, "
                f"found {places.shape[1]:,}: raise model.places, or lower data.max_length (language models: data.chunk)"
            )
        learned: Tensor = self.table(places.clamp_max(self.table.num_embeddings - 1))
        return embedded + learned

    def rotation(self, places: Int[Tensor, "b T"], dtype: torch.dtype) -> Rotation | None:
        return None


class Rotary(nn.Module):
    """Nothing on top of the embeddings; queries and keys of ``head_width`` are turned. Any place, no parameters."""

    longest: int | None = None

    def __init__(self, head_width: int) -> None:
        super().__init__()
        if head_width % 2:
            raise SaccadeError(f"rotary positions turn pairs, so a head's width must be even: got {head_width}")
        self.head_width = head_width

    def add(self, embedded: Float[Tensor, "B T d"], places: Int[Tensor, "b T"]) -> Float[Tensor, "B T d"]:
        return embedded

    def rotation(self, places: Int[Tensor, "b T"], dtype: torch.dtype) -> Rotation | None:
        turned = angles(places, self.head_width, dtype).unsqueeze(1)  # [B, 1, T, d/2]
        return Rotation(turned.cos().to(dtype), turned.sin().to(dtype))


def positions_of(kind: PositionsName, *, width: int, heads: int, places: int) -> Sinusoidal | Learned | Rotary:
    """The positions that a recipe names; ``places`` is how many are learned."""
    match kind:
        case "learned":
            return Learned(places, width)
        case "rotary":
            return Rotary(width // heads)
        case _:
            return Sinusoidal()
