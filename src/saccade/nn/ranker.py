"""Base class of networks that score how well a candidate answers a question.

Legend: B pairs, S tokens of the question, T of the candidate, F features.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.trace.lens import Lens, Site


class Ranker(nn.Module):
    """Base of the networks for the task ``rank``, constructed from ``(config, vocabulary, features)``.

    Attributes:
        sites: where it attends. Their axes are ``question`` and ``candidate``, the words of each, and ``score``, the output.
    """

    sites: tuple[Site, ...] = ()

    def forward(
        self,
        question: Int[Tensor, "B S"],
        question_lengths: Int[Tensor, " B"],
        candidate: Int[Tensor, "B T"],
        candidate_lengths: Int[Tensor, " B"],
        features: Float[Tensor, "B F"],
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, " B"]:
        """The score of each pair: higher is better. Rows are padded on the right; positions beyond a length have no effect.

        ``features`` count the words that both share (:mod:`saccade.data.rankings.word_overlap`); a network may ignore them.
        """
        raise NotImplementedError
