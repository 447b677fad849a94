"""Base class of networks that assign one label to a text, or to a pair: p(label | text) = softmax(logits).

Legend: B batch, S positions, W words of a sentence, C labels.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.trace.lens import Lens, Site


class Classifier(nn.Module):
    """Base of the networks for the task ``classify``, constructed from ``(config, vocabulary, classes)``.

    Attributes:
        layout: format of the rows: ``plain`` (the text, with one separator between two), ``marked`` (a mark before the row and
            one after each text, as in BERT), or ``sentences``: tokens [B, S, W] and lengths [B, S], the words of each
            sentence, 0 for padding sentences; segments are None.
        longest: the most positions it can read, marks included; None: no limit.
        needs_second: what the second text of a pair is, for a network that requires one; None: it reads single texts too.
        sites: where it attends. Their axes are ``text``, the positions of a row, and ``label``, the output; in the layout
            ``sentences`` also ``sentences``, and ``text`` has the words of all of them.
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
        """Logits of the labels. Rows are padded on the right; positions beyond ``lengths`` have no effect.

        ``segments`` is 0 on the first text and 1 on the second; None for a single text.
        """
        raise NotImplementedError
