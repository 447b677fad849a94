"""Base class of networks that predict outcomes from visits, each a set of codes with a time.

    p(outcome d | visits 1 … i) = σ(logit_d),      logit_d = Σ_{j ≤ i} Σ_{k ∈ visit j} ω_d(j, k) + b_d

The sum holds for networks whose logit is a sum over codes.

Legend: B batch, T visits, K codes per visit, N codes of all visits, C outcomes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.errors import SaccadeError
from saccade.nn.recurrent import at_end, mask_of
from saccade.trace.lens import Lens, Site

NO_CODE = 0  # the number of a place in ``codes`` that is padding
CODES, VISITS = "codes", "visits"  # the axes of what a lens keeps: codes lie in visits
CONTRIBUTIONS, RISK = "contributions", "risk"  # the signals over them


class VisitNetwork(nn.Module):
    """Base of the networks for the task ``visits``, made by ``(config, codes, outcomes)``.

    Under a lens a network also records ``risk`` [T, C], the probabilities after each visit, and, where its logit is a sum over
    codes, ``contributions`` [N, C] of the codes to the logits after the last visit, in the order of the visits.

    Attributes:
        sites: where it looks. Both axes are ``visits``: row i is the prediction made after visit i.
    """

    sites: tuple[Site, ...] = ()

    def forward(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B T C"]:
        """Logits after the last visit; after every visit, where ``every``, each from the visits up to it.

        ``codes`` is 0 in padding; ``times`` are in days. Values beyond ``lengths`` change nothing. The logits of a record
        without a visit are the bias.
        """
        raise NotImplementedError

    def contributions(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
    ) -> Float[Tensor, "B T K C"] | Float[Tensor, "B Q T K C"]:
        """ω: what each code of each visit adds to the logits, which are their sum and the bias; 0 where there is no code.

        With ``every``, axis Q says after which visit.
        """
        raise SaccadeError(f"{type(self).__name__}: its logit is not a sum over codes, so there are no contributions")


def intervals(times: Float[Tensor, "B T"]) -> Float[Tensor, "B T 1"]:
    """log(1 + days since the visit before); 0 for the first visit.

    >>> intervals(torch.tensor([[3.0, 3.0, 4.0]])).squeeze().tolist()
    [0.0, 0.0, 0.6931471824645996]
    """
    gaps = times.diff(dim=1, prepend=times[:, :1])
    return gaps.clamp(min=0).log1p().unsqueeze(-1)


def last_of(
    logits: Float[Tensor, "B T C"], lengths: Int[Tensor, " B"], bias: Float[Tensor, " C"]
) -> Float[Tensor, "B C"]:
    """The logits after the last visit; the bias for a record without one."""
    return torch.where(lengths.unsqueeze(-1) > 0, at_end(logits, lengths), bias)


def record_risk(lens: Lens, logits: Float[Tensor, "B T C"]) -> None:
    """Keep the probabilities after each visit."""
    lens.signal(RISK, VISITS, torch.sigmoid(logits))


def record_contributions(
    lens: Lens, contributions: Float[Tensor, "B T K C"], codes: Int[Tensor, "B T K"], lengths: Int[Tensor, " B"]
) -> None:
    """Keep the contributions of the codes that are there, [N, C]: visit by visit, in the order of ``codes``."""
    real = ((codes != NO_CODE) & mask_of(lengths, codes.shape[1]).unsqueeze(-1)).flatten(1)  # [B, T · K]
    most = int(real.sum(1).max()) if len(real) else 0
    order = (~real).long().argsort(dim=1, stable=True)[:, :most]  # [B, N]
    flat = contributions.flatten(1, 2)
    lens.signal(CONTRIBUTIONS, CODES, flat.gather(1, order.unsqueeze(-1).expand(-1, -1, flat.shape[-1])))
