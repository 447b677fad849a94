"""What every network has that reads a text, or two, and says one label: p(label | text) = softmax(logits).

Legend: B batch, S positions, W words of a sentence, C labels.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.trace.lens import Lens, Site


class Classifier(nn.Module):
    """Base of the networks for the task ``classify``, made by ``(config, vocabulary, classes)``.

    Attributes:
        layout: how the network wants its rows: ``plain`` (a text as it is, one mark between two), ``marked`` (a mark before the
            row and one after each text, as BERT reads it), or ``sentences``: tokens [B, S, W] and lengths [B, S], the words of
            each sentence, 0 where a document has no more; segments are None.
        longest: how many positions it can read at most, marks counted; None: any number.
        needs_second: what the second text of a pair is, for a network that cannot do without; None: it reads single texts too.
        sites: where it looks. Their axes are ``text``, the positions of a row, and ``label``, the one answer; of the layout
            ``sentences`` also ``sentences``, and ``text`` are the words of all of them.
    """

    layout: ClassVar[Literal["plain", "marked", "sentences"]] = "plain"
    longest: int | None = None
    needs_second: str | None = None
    sites: tuple[Site, ...] = ()

    def forward(
        self,
        tokens: Int[Tensor, "B S"],
        lengths: Int[Tensor, " B"],
        segments: Int[Tensor, "B S"] | None = None,
        *,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"]:
        """Logits of the labels. Rows are padded on the right; what stands beyond ``lengths`` changes nothing.

        ``segments`` is 0 on the first text and 1 on the second; None where there is one text only.
        """
        raise NotImplementedError
