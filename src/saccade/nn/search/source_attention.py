"""Where each hypothesis looks on the source: for the coverage penalty and for unknown words.

    cp(x; y) = β Σₛ log min(Σₜ aₜₛ, 1)        over the source's words s      (Wu et al. 2016, eq. 14)

aₜₛ is the mean over heads, over sites (the layers of a decoder) and over the members of an ensemble. The rows of all
steps count, that of the end mark with them; padding and the source's own end mark are no words. A word that received less
than 1e-6 counts as one that received 1e-6: local windows and sparse weights leave words out, and log 0 would make all
outputs equally bad.

Legend: R rows (lanes × places), H heads, S source positions.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.trace.lens import Lens, Site

LEAST = 1e-6


class SourceAttention(Lens):
    """Hands everything on to the lens behind it, where there is one, and keeps the weights on the source."""

    def __init__(self, behind: Lens | None) -> None:
        super().__init__()
        self.behind = behind
        self.looks: list[Tensor] = []

    def wants(self, part: str) -> bool:
        return self.behind is not None and self.behind.wants(part)

    def edit_scores(self, site: Site, scores: Tensor, offset: int) -> Tensor:
        return scores if self.behind is None else self.behind.edit_scores(site, scores, offset)

    def edit_weights(self, site: Site, weights: Tensor, offset: int) -> Tensor:
        return weights if self.behind is None else self.behind.edit_weights(site, weights, offset)

    def observe(self, site: Site, weights: Tensor, *, offset: int = 0, scores: Tensor | None = None) -> None:
        if (site.query, site.key) == ("target", "source"):
            self.looks.append(weights[:, :, -1])  # [R, H, S]
        if self.behind is not None:
            self.behind.observe(site, weights, offset=offset, scores=scores)

    def observe_edges(self, site: Site, edges: Tensor, weights: Tensor, *, keys: int) -> None:
        if self.behind is not None:
            self.behind.observe_edges(site, edges, weights, keys=keys)

    def signal(self, name: str, axis: str, values: Tensor, *, offset: int = 0) -> None:
        if self.behind is not None:
            self.behind.signal(name, axis, values, offset=offset)

    def weights(self, network: str, wanted: str) -> Float[Tensor, "R S"]:
        """The mean of all looks at the source in this step; ``wanted`` says in an error what asked for it."""
        if not self.looks:
            raise SaccadeError(
                f"{wanted} needs a network that looks back at its source: {network} looked nowhere "
                "(no site whose query is 'target' and whose key is 'source')"
            )
        return torch.cat(self.looks, dim=1).float().mean(dim=1)


class Looked:
    """What each live hypothesis has looked at so far: Σₜ aₜₛ, and the strongest word of each step."""

    def __init__(self, words: Bool[Tensor, "R S"] | None) -> None:
        self.words = words
        self.sums: Tensor | None = None

    def add(self, weights: Float[Tensor, "R S"]) -> Int[Tensor, " R"]:
        """One more step; the position each row looked at most, −1 where it looked at no word."""
        if self.words is None:
            self.words = torch.ones_like(weights, dtype=torch.bool)
        if self.words.shape != weights.shape:
            raise SaccadeError(
                f"the weights lie on {weights.shape[1]} source positions: expected {self.words.shape[1]}, as many as words="
            )
        self.sums = weights if self.sums is None else self.sums + weights
        strongest, place = weights.masked_fill(~self.words, 0.0).max(dim=-1)
        return place.masked_fill(~(strongest > 0), -1)

    def covered(self) -> Float[Tensor, " R"]:
        """Σₛ log min(Σₜ aₜₛ, 1) of each row."""
        if self.sums is None or self.words is None:
            raise SaccadeError("nothing was looked at yet: add() comes first")
        return self.sums.clamp(LEAST, 1.0).log().masked_fill(~self.words, 0.0).sum(dim=-1)

    def follow(self, rows: Int[Tensor, " R"]) -> None:
        """The hypotheses now in these rows; all rows of a lane have the same source, so ``words`` stays as it is."""
        if self.sums is not None:
            self.sums = self.sums.index_select(0, rows)
