"""Base class of networks that tag each position of a text, with the loss and the decoding of tags.

    softmax     p(y | x) = Πₜ softmax(Pₜ)(yₜ)                     each tag by itself
    CRF         p(y | x) = exp(s(x, y)) / Z                       the tags of a row together (:mod:`saccade.nn.crf`)

P [B, S, K] are the emissions, the output of :meth:`Tagger.forward`. Only *judged* positions have a tag: the first piece of
each word, no marks and no padding. The previous tag is that of the previous judged position.

Legend: B batch, S positions, L characters of a word, K tags.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.errors import SaccadeError
from saccade.nn.crf import CRF, FORBIDDEN, viterbi
from saccade.nn.recurrent import mask_of
from saccade.trace.lens import Lens, Site

IGNORED = -100  # a position without a tag


class Tagger(nn.Module):
    """Base of the networks for the task ``label``, constructed from ``(config, vocabulary, labels, characters=0)``.

    ``labels`` is the number of tags; ``characters`` the size of the character vocabulary (0 is padding), 0 where there is none.

    Attributes:
        layout: format of the rows: ``plain`` (one word per position), or ``marked`` (pieces of words, a mark before the row and
            one after, as in BERT).
        longest: the most positions it can read, marks included; None: no limit.
        sites: where it attends. Their axes are ``text``, the positions of a row.
        wants_characters: whether it reads the characters of its words.
        crf: scores the tags of a row together; None: each by itself.
        moves: True where a tag may follow another, [from, to]; the last row is the start, the last column the stop. None: any
            may. Set by :meth:`allow`, and not in the ``state_dict``: they follow from the tags' names.
        idle: names of parameters that belong to other tasks and are not trained here.
    """

    layout: ClassVar[Literal["plain", "marked"]] = "plain"
    longest: int | None = None
    sites: tuple[Site, ...] = ()
    wants_characters: bool = False
    crf: CRF | None
    moves: Tensor | None
    idle: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.crf = None  # not a class attribute, which would hide a module of this name
        self.register_buffer("moves", None, persistent=False)

    def allow(self, moves: Bool[Tensor, "K1 K1"] | None) -> None:
        """Forbid the transitions that are False, in training (of a CRF) and in decoding."""
        self.moves = None if moves is None else moves.to(next(self.parameters()).device)

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        *,
        characters: Int[Tensor, "B S L"] | None = None,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B S K"]:
        """Emissions: the score of each tag at each position.

        Rows are padded on the right; positions beyond ``lengths`` have no effect and give 0. ``characters`` are padded on the
        right with 0, in words and rows.
        """
        raise NotImplementedError

    def loss(
        self,
        emissions: Float[Tensor, "B S K"],
        tags: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        *,
        smoothing: float = 0.0,
    ) -> Float[Tensor, ""]:
        """−log p(tags), summed over the batch. ``tags`` are −100 where nothing is judged."""
        judged = mask_of(lengths, tags.shape[1]) & (tags != IGNORED)
        if self.crf is None:
            return functional.cross_entropy(
                emissions.float().flatten(0, 1),
                tags.masked_fill(~judged, IGNORED).flatten(),
                ignore_index=IGNORED,
                reduction="sum",
                label_smoothing=smoothing,
            )
        if smoothing:
            raise SaccadeError(
                f"train.label_smoothing must be 0 with a CRF, which has no smoothed loss: got {smoothing}"
            )
        order, steps = _first_judged(judged)
        emissions, tags = _reordered(emissions, order), tags.gather(1, order)
        return self.crf.loss(emissions, tags, steps, moves=_checked(self.moves, emissions)).sum()

    @torch.no_grad()
    def decode(
        self,
        emissions: Float[Tensor, "B S K"],
        lengths: Int[Tensor, " B"],
        judged: Bool[Tensor, "B S"] | None = None,
        moves: Bool[Tensor, "K1 K1"] | None = None,
    ) -> tuple[Int[Tensor, "B S"], Float[Tensor, "B S K"]]:
        """The likeliest allowed tag sequence of each row, and the probability of every tag.

        The probabilities are the CRF's marginals, or the softmax, which ignores ``moves``. Both are 0 where nothing is judged.
        """
        real = mask_of(lengths, emissions.shape[1])
        judged = real if judged is None else judged & real
        moves = _checked(self.moves if moves is None else moves, emissions)
        order, steps = _first_judged(judged)
        ordered = _reordered(emissions, order)
        if self.crf is not None:
            best, shares = self.crf.decode(ordered, steps, moves=moves)
        else:
            logs = ordered.float().log_softmax(-1)
            shares = logs.exp().masked_fill(~mask_of(steps, logs.shape[1]).unsqueeze(-1), 0.0)
            best = logs.argmax(-1) if moves is None else viterbi(logs, steps, _fixed(moves, logs))
        back = order.unsqueeze(-1).expand_as(shares)
        best = torch.zeros_like(best).scatter(1, order, best).masked_fill(~judged, 0)
        return best, torch.zeros_like(shares).scatter(1, back, shares)


def _checked(moves: Tensor | None, emissions: Tensor) -> Tensor | None:
    size = emissions.shape[2] + 1
    if moves is not None and moves.shape != (size, size):
        expected = f"[{size}, {size}] (tags and start, tags and stop)"
        raise SaccadeError(f"moves must be {expected}: got {list(moves.shape)}")
    return moves


def _fixed(moves: Bool[Tensor, "K1 K1"], like: Tensor) -> Float[Tensor, "K1 K1"]:
    """Transitions that only forbid moves."""
    return like.new_zeros(moves.shape).masked_fill(~moves, FORBIDDEN)


def _first_judged(judged: Bool[Tensor, "B S"]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    """The positions of each row, judged ones first in order, and their number."""
    return (~judged).to(torch.uint8).argsort(dim=1, stable=True), judged.sum(1)


def _reordered(emissions: Float[Tensor, "B S K"], order: Int[Tensor, "B S"]) -> Float[Tensor, "B S K"]:
    return emissions.gather(1, order.unsqueeze(-1).expand_as(emissions))
