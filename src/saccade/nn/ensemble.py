"""An ensemble: several networks as one, by the mean of their probabilities at each step.

    p(yₜ | y₍<ₜ₎, x) = (1/M) Σₘ pₘ(yₜ | y₍<ₜ₎, x)        computed as log p = logsumexpₘ log pₘ − log M

All members read the same source and write the same vocabulary. The m-th member's attention is recorded, and can be edited,
under its own name: ``1/decoder.attention``, ``2/decoder.attention``, …

Legend: B batch, T target, V vocabulary, M members.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.nn.decoder import EncoderDecoder, keep_outputs
from saccade.nn.language import LanguageModel
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site


class Ensemble(EncoderDecoder):
    """The members in parallel; its memory and its state are the tuples of theirs.

    Shapes: source [B, S], target [B, T] → log-probabilities [B, T, V], which serve as logits (softmax(log p) = p).
    """

    def __init__(self, members: Sequence[EncoderDecoder]) -> None:
        super().__init__()
        if not members:
            raise SaccadeError("an ensemble needs at least one network: got none")
        self.members = nn.ModuleList(members)

    def _each(self, lens: Lens | None) -> Iterator[tuple[EncoderDecoder, Lens | None]]:
        for number, member in enumerate(self.members, start=1):
            yield cast(EncoderDecoder, member), None if lens is None else MemberLens(lens, number)

    def encode(self, source: Tensor, lengths: Int[Tensor, " B"], *, lens: Lens | None = None) -> tuple[Any, ...]:
        if lens is None or not lens.wants("outputs") or not isinstance(self.members[0], LanguageModel):
            return tuple(member.encode(source, lengths, lens=member_lens) for member, member_lens in self._each(lens))
        # A language model's predictions while it reads a prompt are outputs too: of the ensemble, not of each member.
        models = [(cast(LanguageModel, member), member_lens) for member, member_lens in self._each(lens)]
        read = [member.read_prompts(source, lengths, lens=member_lens) for member, member_lens in models]
        pairs = zip(models, read, strict=True)
        logits = [member.write(hidden) for (member, _), (hidden, _) in pairs if hidden is not None]
        if logits:
            keep_outputs(lens, mean_log_prob(logits), 0, self.writes_on)
        return tuple(memory for _, memory in read)

    def start(self, memory: Any) -> tuple[Any, ...]:
        return tuple(member.start(part) for (member, _), part in zip(self._each(None), memory, strict=True))

    @property
    def writes_on(self) -> str:  # type: ignore[override]
        """The axis of the output: the members' own."""
        return cast(EncoderDecoder, self.members[0]).writes_on

    @property
    def shares_memory(self) -> bool:  # type: ignore[override]
        """Whether all members' steps take a memory of fewer rows."""
        return all(cast(EncoderDecoder, member).shares_memory for member in self.members)

    def begin(self, memory: Any, rows: int, bos: int) -> tuple[Int[Tensor, " B"], tuple[Any, ...], tuple[Any, ...]]:
        each = zip(self._each(None), memory, strict=True)
        tokens, states, memories = zip(*(member.begin(part, rows, bos) for (member, _), part in each), strict=True)
        return tokens[0], states, memories  # all members read the same text

    def begun(self, memory: Any) -> int:
        return cast(EncoderDecoder, self.members[0]).begun(memory[0])

    @property
    def longest(self) -> int | None:
        """The most tokens that can be written: the smallest limit of a member; None: no limit."""
        limits = [getattr(member, "longest", None) for member in self.members]
        return min((limit for limit in limits if limit is not None), default=None)

    def make_room(self, state: Any, step: int) -> Any:
        roomy = tuple(member.make_room(own, step) for (member, _), own in zip(self._each(None), state, strict=True))
        return state if all(one is other for one, other in zip(roomy, state, strict=True)) else roomy

    def step(
        self, token: Int[Tensor, " B"], state: Any, memory: Any, *, offset: int, lens: Lens | None = None
    ) -> tuple[Float[Tensor, "B V"], tuple[Any, ...]]:
        logits, states = [], []
        for (member, member_lens), own, part in zip(self._each(lens), state, memory, strict=True):
            row, moved = member.step(token, own, part, offset=offset, lens=member_lens)
            logits.append(row)
            states.append(moved)
        return mean_log_prob(logits), tuple(states)

    def teach(self, memory: Any, target: Int[Tensor, "B T"], *, lens: Lens | None = None) -> Float[Tensor, "B T V"]:
        each = zip(self._each(lens), memory, strict=True)
        return mean_log_prob([member.teach(part, target, lens=member_lens) for (member, member_lens), part in each])

    def forward(
        self, *inputs: Tensor, sampling: float = 0.0, lens: Lens | None = None, **options: Any
    ) -> Float[Tensor, "B T V"]:
        """Log-probabilities [B, T, V] of next tokens; inputs and options are those of the members' own ``forward``."""
        if sampling:
            raise SaccadeError("an ensemble cannot be trained with scheduled sampling: train its members one by one")
        return mean_log_prob([member(*inputs, lens=member_lens, **options) for member, member_lens in self._each(lens)])


def mean_log_prob(logits: Sequence[Float[Tensor, "*rows V"]]) -> Float[Tensor, "*rows V"]:
    """log (1/M) Σₘ softmax(logitsₘ)."""
    log_probs = torch.stack([torch.log_softmax(each.float(), dim=-1) for each in logits])
    return torch.logsumexp(log_probs, dim=0) - math.log(len(logits))


class MemberLens(Lens):
    """A member's lens: passes everything on, with the member's number in the names of sites and signals."""

    def __init__(self, behind: Lens, number: int) -> None:
        super().__init__()
        self.behind, self.number = behind, number

    def _site(self, site: Site) -> Site:
        # The members' outputs are averaged, so none of them is computed from one member's contexts alone.
        return replace(site, name=f"{self.number}/{site.name}", flow=None)

    def wants(self, part: str) -> bool:
        return self.behind.wants(part)

    def edit_scores(self, site: Site, scores: Tensor, offset: int, *, boosting: bool = True) -> Tensor:
        return self.behind.edit_scores(self._site(site), scores, offset, boosting=boosting)

    def boost_weights(self, site: Site, weights: Tensor, offset: int) -> Tensor:
        return self.behind.boost_weights(self._site(site), weights, offset)

    def edit_weights(self, site: Site, weights: Tensor, offset: int) -> Tensor:
        return self.behind.edit_weights(self._site(site), weights, offset)

    def observe(self, site: Site, weights: Tensor, *, offset: int = 0, scores: Tensor | None = None) -> None:
        self.behind.observe(self._site(site), weights, offset=offset, scores=scores)

    def observe_edges(self, site: Site, edges: Tensor, weights: Tensor, *, keys: int) -> None:
        self.behind.observe_edges(self._site(site), edges, weights, keys=keys)

    def signal(self, name: str, axis: str, values: Tensor, *, offset: int = 0, flow: Flow | None = None) -> None:
        self.behind.signal(f"{self.number}/{name}", axis, values, offset=offset)
