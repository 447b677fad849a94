"""Temperature scaling (Guo et al. 2017): one number, fitted after training, that calibrates probabilities.

    p = softmax(z / T)           T = argmin_T  1/N Σ_i −ln softmax(z_i / T)[y_i]

T > 1 makes a network less confident, T < 1 more; the order of the labels, and so the accuracy, stays. In β = 1 / T the sum is
convex; its slope is the mean of Σ_c p_i(c) z_i(c) − z_i(y_i), so T is where the slope changes sign, found by bisection.

Legend: N records, C labels.
"""

from __future__ import annotations

import math

from jaxtyping import Float, Int
from torch import Tensor

from saccade.errors import SaccadeError

COLDEST, HOTTEST = 0.01, 100.0
HALVINGS = 60


def tempered(logits: Float[Tensor, "*B C"], temperature: float) -> Float[Tensor, "*B C"]:
    """softmax(z / T) in double precision, so that different logits stay different."""
    return (logits.double() / temperature).softmax(-1)


def fit_temperature(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> float:
    """The temperature under which these labels are likeliest, between ``COLDEST`` and ``HOTTEST``.

    A network no better than chance gets ``HOTTEST``. Where every record is correct there is no best temperature (the likelihood
    grows without bound), and that is an error.
    """
    if not len(labels):
        raise SaccadeError("fitting a temperature needs records: got none")
    exact = logits.detach().double().cpu()
    true = exact.gather(1, labels.cpu().unsqueeze(1)).squeeze(1)  # [N]

    def slope(cold: float) -> float:
        likely = (exact * cold).softmax(-1)
        return float(((likely * exact).sum(-1) - true).mean())

    if bool((true == exact.amax(-1)).all()):
        raise SaccadeError(
            f"all of the {len(labels):,} records are classified correctly, so no temperature is optimal: "
            "calibrate on records that include some errors"
        )
    low, high = -math.log(HOTTEST), -math.log(COLDEST)  # of ln β
    if slope(math.exp(low)) > 0:
        return HOTTEST
    if slope(math.exp(high)) < 0:
        return COLDEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(math.exp(middle)) < 0 else (low, middle)
    return math.exp(-(low + high) / 2)
