"""Expands tanh of a sum as a short sum of products, so that additive scores become a matrix product.

On the square |a|, |b| ≤ L, tanh(a + b) is numerically of low rank, and splits by parity into pairs:

    tanh(a + b)  ≈  Σ_r σ_r (e_r(a) o_r(b) + o_r(a) e_r(b))          e_r even, o_r odd, rank R = 2 · pairs
    1 − tanh²    ≈  Σ_r h_r(a) o_r(b) + g_r(a) e_r(b)                h_r odd, g_r even

The e_r and the o_r span the leading right singular vectors of tanh and of its slope together, since gradients want the
slope as exact as scores want tanh. Singular vectors of tanh alone, on evenly weighted nodes, leave ten times the error
in the slope, all of it in the corners of the square; Chebyshev's nodes, denser towards ±L, spread it. Inside the span
the core matrix of tanh is diagonalised, which makes the pairs, and the slope is projected on it by itself: its error is
not that of a derivative. Where a = −b a pair cancels exactly, so tiny sums keep their relative precision.

Every function is a Chebyshev series in y = 2 (x/L)² − 1, the odd ones times x/L. The query's features are
[e_1, o_1, e_2, o_2, …], the key's [o_1, e_1, o_2, e_2, …], each with √σ_r. Legend: J terms, R rank.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import SaccadeError

RANKS = tuple(range(4, 33, 2))

TILED_RANKS = (8, 16, 24, 32)
"""Ranks for the GPU: the float16 features of one number are whole 16-byte accesses, and rows of products are aligned."""

TOLERANCES = {torch.bfloat16: 2e-3, torch.float16: 3e-4, torch.float32: 2e-4}

SMALLEST, LARGEST, STEPS = 2.0**-6, 2.0**3, 8
"""Tables reach from SMALLEST to LARGEST, STEPS to an octave: few enough that a run whose inputs drift makes each once."""

NODES, GRID = 64, 97
SLOPE_WEIGHT = 0.3  # of 1 − tanh² beside tanh in the choice of the span: the errors hardly change from 0.1 to 1
NEGLIGIBLE = 1e-9  # of the largest σ: such a pair is rounding noise, and is left out
TAIL = 1 / 20  # of the tolerance may go to terms that the series leave out


@dataclass(frozen=True, eq=False)
class Series:
    """R functions, Σ_j coefficients[j, r] T_j(2 (x/L)² − 1); every other one is odd and times x/L as well."""

    coefficients: Float[Tensor, "J R"]
    odd_first: bool  # columns 0, 2, … are the odd ones, or else 1, 3, …

    def on(self, device: torch.device) -> Float[Tensor, "J R"]:
        """The coefficients on a device, copied there once."""
        return _on(self, device)


@dataclass(frozen=True, eq=False)
class Table:
    """An expansion: query_r(a) · key_r(b) sum to tanh(a + b), and to its slope with one side's own slope functions.

    tanh(a + b) ≈ Σ_r query_r(a) key_r(b) and 1 − tanh²(a + b) ≈ Σ_r query_slope_r(a) key_r(b) ≈ Σ_r query_r(a)
    key_slope_r(b) for |a|, |b| ≤ reach. `error` and `slope_error` are the largest found on a fine grid.
    """

    reach: float
    rank: int
    error: float
    slope_error: float
    query: Series
    key: Series
    query_slope: Series
    key_slope: Series

    @property
    def terms(self) -> int:
        """J, the length of the series."""
        return self.query.coefficients.shape[0]


def tolerance(dtype: torch.dtype) -> float:
    """The largest allowed error of tanh and of its slope on the square, for inputs of this dtype.

    The expansion's error must be small beside rounding errors. The slope decides: its error is five to ten times that of tanh,
    and its root mean square half of its maximum or less. Eager PyTorch rounds each tanh by up to 2^-9 = 2e-3 in bfloat16 and
    2^-12 = 2.4e-4 in float16, so its slope 1 − tanh² is off by up to twice that, and the slope and its product with the
    gradient are rounded again. A maximum of about one rounding of tanh thus stays well below eager's error of the slope,
    and an order below its error of tanh. float32 is served where TF32's precision is accepted: its 10 bits are float16's.
    """
    if dtype not in TOLERANCES:
        served = ", ".join(str(known).removeprefix("torch.") for known in TOLERANCES)
        raise SaccadeError(
            f"separable additive scores: expected inputs of {served}, found {str(dtype).removeprefix('torch.')}; "
            "the blocked kernel serves every dtype"
        )
    return TOLERANCES[dtype]


def table_for(reach: float, tolerance: float, ranks: tuple[int, ...] = RANKS) -> Table | None:
    """The expansion of the lowest rank in `ranks` that is accurate for all |a|, |b| ≤ `reach`, or None.

    Its `error` is within tolerance · tanh(2 · reach), the largest value there, and its `slope_error` within tolerance.
    """
    if not reach <= LARGEST:  # NaN included
        return None
    step = max(0, math.ceil(STEPS * math.log2(max(reach, SMALLEST) / SMALLEST)))
    return _table(SMALLEST * 2 ** (step / STEPS), tolerance, tuple(sorted(ranks)))


@lru_cache(maxsize=1024)
def _table(reach: float, tolerance: float, ranks: tuple[int, ...]) -> Table | None:
    with torch.inference_mode(False), torch.no_grad():
        for rank in ranks:
            table = _expansion(reach, rank, tolerance)
            if table.error <= tolerance * math.tanh(2 * reach) and table.slope_error <= tolerance:
                return table
    return None


@lru_cache(maxsize=4096)
def _on(series: Series, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return series.coefficients.to(device).contiguous()


def _expansion(reach: float, rank: int, tolerance: float) -> Table:
    x, even, odd = _spans(reach)
    tanh, _, slope_even, slope_odd = _by_parity(x, x)
    even, odd = even[:, : rank // 2], odd[:, : rank // 2]  # [NODES, pairs], orthonormal
    left, sigma, right = torch.linalg.svd(even.T @ tanh @ odd)
    even, odd = even @ left, odd @ right.T

    # The slope's partner on the other side carries √σ, so the slope itself carries the inverse.
    inverse = torch.where(sigma > NEGLIGIBLE * sigma[0], sigma.rsqrt(), 0)
    even_partner, odd_partner = even * inverse, odd * inverse
    even, odd = even_partner * sigma, odd_partner * sigma
    over_x = (reach / x)[:, None]
    features = _interleaved(_chebyshev(even), _chebyshev(odd * over_x))  # [NODES, R]
    slopes = _interleaved(_chebyshev(slope_odd @ odd_partner * over_x), _chebyshev(slope_even @ even_partner))

    partner = _interleaved(odd, even).abs().amax(0)  # [R]
    size = features.abs() / math.tanh(2 * reach) + slopes.abs()
    left_out = (size * partner).sum(1).flip(0).cumsum(0).flip(0)  # [NODES], when cut there
    terms = int((left_out > TAIL * tolerance).sum())
    features, slopes = features[:terms].float(), slopes[:terms].float()
    error, slope_error = _errors(features, slopes, reach)
    return Table(
        reach,
        rank,
        error,
        slope_error,
        query=Series(features, odd_first=False),
        key=Series(_swapped(features), odd_first=True),
        query_slope=Series(slopes, odd_first=True),
        key_slope=Series(_swapped(slopes), odd_first=False),
    )


@lru_cache(maxsize=64)
def _spans(reach: float) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes on [0, L], and orthonormal bases of the even and of the odd functions there, the most useful first.

    The nodes x are the positive half of Chebyshev's, so that y = 2 (x/L)² − 1 are Chebyshev's again.
    """
    angles = (torch.arange(NODES, dtype=torch.float64, device="cpu") + 0.5) * (math.pi / (2 * NODES))
    x = reach * torch.cos(angles)
    tanh_odd, tanh_even, slope_even, slope_odd = _by_parity(x, x)
    _, _, even = torch.linalg.svd(torch.cat([tanh_even, SLOPE_WEIGHT * slope_even]), full_matrices=False)
    _, _, odd = torch.linalg.svd(torch.cat([tanh_odd, SLOPE_WEIGHT * slope_odd]), full_matrices=False)
    return x, even.T, odd.T


def _by_parity(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """tanh(a + b) in the parts that are odd and even in b, and 1 − tanh²(a + b) in those even and odd in b."""
    plus, minus = torch.tanh(a[:, None] + b), torch.tanh(a[:, None] - b)
    slope_plus, slope_minus = 1 - plus**2, 1 - minus**2
    return (plus - minus) / 2, (plus + minus) / 2, (slope_plus + slope_minus) / 2, (slope_plus - slope_minus) / 2


def _chebyshev(values: Tensor) -> Tensor:
    """Coefficients [NODES, …] of the series through values at Chebyshev's nodes, by their discrete orthogonality."""
    order = torch.arange(NODES, dtype=torch.float64, device="cpu")
    transform = torch.cos(order[:, None] * (order + 0.5) * (math.pi / NODES)) * (2 / NODES)
    transform[0] /= 2
    return transform @ values


def _interleaved(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack([first, second], -1).flatten(-2)


def _swapped(columns: Tensor) -> Tensor:
    """Every pair of columns the other way round."""
    return columns.view(len(columns), -1, 2).flip(-1).flatten(1)


def _errors(features: Tensor, slopes: Tensor, reach: float) -> tuple[float, float]:
    """The largest errors of tanh and of its slope over a grid on [0, L] × [−L, L]; the other half mirrors it."""
    a = torch.linspace(0, reach, GRID, dtype=torch.float64, device="cpu")
    b = torch.cat([-a.flip(0), a])
    tanh = torch.tanh(a[:, None] + b)
    key = evaluated(Series(_swapped(features).double(), True), b, reach).T
    error = evaluated(Series(features.double(), False), a, reach) @ key - tanh
    slope_error = evaluated(Series(slopes.double(), True), a, reach) @ key - (1 - tanh**2)
    return error.abs().max().item(), slope_error.abs().max().item()


def evaluated(series: Series, x: Float[Tensor, "*shape"], reach: float) -> Float[Tensor, "*shape R"]:
    """The R functions at x, term by term: for tests, and for measuring a table's errors."""
    y = 2 * (x / reach) ** 2 - 1
    order = torch.arange(series.coefficients.shape[0], dtype=x.dtype, device=x.device)
    values = torch.cos(order * torch.arccos(y.clamp(-1, 1))[..., None]) @ series.coefficients.to(x)
    odd = slice(0, None, 2) if series.odd_first else slice(1, None, 2)
    values[..., odd] *= (x / reach)[..., None]
    return values
