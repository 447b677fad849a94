"""A network whose every probability and every weight is known, for tests of searches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from saccade.nn.decoder import EncoderDecoder
from saccade.nn.search.beam_search import Hypothesis, Search, search
from saccade.trace import Lens, Site

BOS, EOS = 0, 1
LONGEST = 16


class Looking(EncoderDecoder):
    """p(next | everything written so far) and where it looks are drawn once for each item and prefix.

    Item i has ``lengths[i]`` source positions. Every step signals the prefix it is at. ``sites`` looks of ``heads`` each.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        size: int = 4,
        ends: float = 0.0,
        sharpness: float = 1.0,
        lengths: tuple[int, ...] = (3, 5, 4),
        heads: int = 2,
        sites: int = 1,
    ) -> None:
        super().__init__()
        self.seed, self.size, self.ends, self.sharpness = seed, size, ends, sharpness
        self.lengths, self.heads, self.looks = lengths, heads, sites
        self.steps = 0

    def _random(self, what: int, item: int, prefix: tuple[int, ...]) -> torch.Generator:
        return torch.Generator().manual_seed(hash((self.seed, what, item, prefix)) % 2**31)

    def logits(self, item: int, prefix: tuple[int, ...]) -> Tensor:
        logits = torch.randn(self.size, generator=self._random(0, item, prefix)) * self.sharpness
        logits[EOS] += self.ends
        return logits

    def weights(self, item: int, prefix: tuple[int, ...], site: int = 0) -> Tensor:
        """[H, S] over the item's own positions."""
        scores = torch.randn(self.heads, self.lengths[item], generator=self._random(1 + site, item, prefix))
        return torch.softmax(2 * scores, -1)

    def encode(self, source: Tensor, lengths: Tensor, *, lens: Lens | None = None) -> Any:
        return (source[:, 0], torch.zeros(len(source), max(self.lengths)))

    def start(self, memory: Any) -> Any:
        return (torch.full((len(memory[0]), LONGEST), -1),)

    def step(
        self, token: Tensor, state: Any, memory: Any, *, offset: int, lens: Lens | None = None
    ) -> tuple[Tensor, Any]:
        self.steps += 1
        written = state[0].clone()
        written[:, offset] = token
        prefixes = [tuple(token for token in row[1:] if token >= 0) for row in written.tolist()]
        rows = list(zip(memory[0].tolist(), prefixes, strict=True))
        if lens is not None:
            lens.signal("prefix", "target", written.unsqueeze(1).float(), offset=offset)
            for site in range(self.looks):
                weights = torch.zeros(len(rows), self.heads, 1, memory[1].shape[1])
                for row, (item, prefix) in enumerate(rows):
                    weights[row, :, 0, : self.lengths[item]] = self.weights(item, prefix, site)
                name = Site(f"look.{site}", "target", "source")
                weights = lens.edit_weights(name, weights, offset)
                lens.observe(name, weights, offset=offset)
        return torch.stack([self.logits(item, prefix) for item, prefix in rows]), (written,)

    # What a search must find ---------------------------------------------------------------------------------------

    def log_prob(self, item: int, tokens: tuple[int, ...]) -> float:
        """Of an output, its end counted where it is among the tokens."""
        steps = [torch.log_softmax(self.logits(item, tokens[:t]), -1)[token] for t, token in enumerate(tokens)]
        return float(sum(steps))

    def coverage(self, item: int, tokens: tuple[int, ...], words: int) -> float:
        """Σₛ log min(Σₜ aₜₛ, 1) over the first ``words`` positions, a the mean over sites and heads."""
        steps = [
            torch.stack([self.weights(item, tokens[:t], site) for site in range(self.looks)]).mean((0, 1))
            for t in range(len(tokens))
        ]
        return float(torch.stack(steps).sum(0)[:words].clamp(1e-6, 1.0).log().sum())

    def run(
        self, how: Search, limits: list[int], items: list[int] | None = None, **options: Any
    ) -> list[list[Hypothesis]]:
        """Search for the items (all unless given) with these limits."""
        numbers = list(range(len(limits))) if items is None else items
        memory = self.encode(torch.tensor(numbers).unsqueeze(1), torch.ones(len(numbers), dtype=torch.int64))
        return search(self, memory, limits, how, bos=BOS, eos=EOS, forbidden=(BOS,), **options)

    def best(
        self,
        item: int,
        how: Search,
        limit: int,
        *,
        allowed: Callable[[tuple[int, ...]], bool] = lambda tokens: True,
        words: int = 0,
    ) -> list[tuple[int, ...]]:
        """Every output that ends within the limit and is allowed, best first, by looking at all of them."""
        letters = range(2, self.size)
        outputs = [tokens for n in range(limit) for tokens in itertools.product(letters, repeat=n) if allowed(tokens)]

        def score(tokens: tuple[int, ...]) -> float:
            whole = (*tokens, EOS)
            covered = how.coverage * self.coverage(item, whole, words) if how.coverage else 0.0
            return how.rank(self.log_prob(item, whole), len(whole), covered)

        return sorted(outputs, key=score, reverse=True)


def words_of(lengths: tuple[int, ...]) -> Tensor:
    """Each item's source positions but its last, which is the end mark."""
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1) - 1
