"""Distances between a set of generated pictures and a set of real ones.

    pixel_distance      Fréchet distance of pictures that are averaged to 4 × 4 cells
    feature_distance    Fréchet distance of what a classifier computes of pictures before its last layer
    judged_accuracy     the share of generated pictures in which that classifier sees the class that was asked for

The Fréchet distance is that of two normal distributions with the means and the covariances of the two sets:

    d² = |μ₁ − μ₂|² + tr(Σ₁ + Σ₂ − 2 (Σ₁^½ Σ₂ Σ₁^½)^½)

With the features of Inception it is the FID (Heusel et al. 2017). These features are of a classifier that you trained, so the
numbers compare with each other and with no published FID. Both distances are smaller the more pictures they are computed of.

Legend: N pictures of each set, D features.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from saccade.errors import SaccadeError
from saccade.metrics.significance import Statistics

PICTURE_METRICS = ("pixel_distance", "feature_distance", "judged_accuracy")
JUDGED = PICTURE_METRICS[1:]  # those that need a classifier


def frechet_distance(ours: Float[ndarray, "N D"], theirs: Float[ndarray, "M D"]) -> float:
    """d² of two sets of features.

    >>> frechet_distance(np.array([[0.0], [2.0]]), np.array([[3.0], [7.0]]))  # (1 − 5)² + (1 − 2)²
    17.0
    """
    if ours.ndim != 2 or theirs.ndim != 2 or ours.shape[1] != theirs.shape[1]:
        raise SaccadeError(f"expected features [N, D] and [M, D], found {list(ours.shape)} and {list(theirs.shape)}")
    means, covariances = zip(*(_moments(features) for features in (ours, theirs)), strict=True)
    root = _root(covariances[0])
    # The eigenvalues of a product of covariances are not negative, but for rounding.
    shared = np.sqrt(np.clip(np.linalg.eigvalsh(root @ covariances[1] @ root), 0, None)).sum()
    traces = sum(np.trace(covariance) for covariance in covariances)
    return float(max(0.0, ((means[0] - means[1]) ** 2).sum() + traces - 2 * shared))


def _moments(features: Float[ndarray, "N D"]) -> tuple[Float[ndarray, " D"], Float[ndarray, "D D"]]:
    mean = features.mean(0, dtype=np.float64)
    centred = features - mean
    return mean, centred.T @ centred / len(features)


def _root(covariance: Float[ndarray, "D D"]) -> Float[ndarray, "D D"]:
    values, vectors = np.linalg.eigh(covariance)
    root: ndarray = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
    return root


def distance_statistics(
    name: str, generated: Float[ndarray, "N D"], real: Float[ndarray, "N D"], signature: str
) -> Statistics:
    """The statistics of a distance. A resample draws pairs of a real picture and the generated one of its class."""
    D = generated.shape[1]
    return Statistics(
        name,
        np.concatenate([generated, real], axis=1),
        lambda rows: frechet_distance(rows[:, :D], rows[:, D:]),
        higher_is_better=False,
        signature=signature,
        of_set=True,
    )
