"""What every network has that says how well a candidate answers a question: a score, by which candidates are ordered.

Legend: B pairs, S tokens of the question, T of the candidate, F features.
"""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.trace.lens import Lens, Site


class Ranker(nn.Module):
    """Base of the networks for the task ``rank``, made by ``(config, vocabulary, features)``.

    Attributes:
        sites: where it looks. Their axes are ``question`` and ``candidate``, the words of each, and ``score``, the one answer.
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
        """The score of each pair: the higher, the better it answers. Rows are padded on the right; what stands beyond a length
        changes nothing.

        ``features`` count the words that both share (:mod:`saccade.data.rankings.word_overlap`); a network may ignore them.
        """
        raise NotImplementedError
