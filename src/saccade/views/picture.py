"""Draws attention over the patches of an image on the image itself.

Soft attention is shown as a halo: each patch is a Gaussian, as in the figures of Xu et al. (2015), whose standard deviation is
20 of 224 pixels. Hard attention shows the one patch that was read. The patches may lie on a part of the image, the box of the
grid; what lies outside was not seen.

Legend: h, w patches; H, W pixels; u, v the place of a pixel in patches from the box's left or top side.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy import ndarray
from torch import Tensor

from saccade.trace.axes import WHOLE

SPREAD = 20 / 224  # the halo's standard deviation: a share of the box's side
NARROWEST, WIDEST = 0.5, 1.25  # patches; 1.25 is the share above of 14 patches
VEILED = 0.14  # how much of the image shows where nothing was looked at


def seen_at(
    weights: Float[ndarray, "h w"],
    size: tuple[int, int],
    box: tuple[float, float, float, float] = WHOLE,
    *,
    chosen: float | None = None,
    halo: bool = True,
) -> Float[ndarray, "H W"]:
    """How much each pixel of an image of this size was looked at; 0 outside the box.

    Where hard attention read one patch, its number is ``chosen`` (NaN where none was read): that patch is seen, whatever the
    weights. Without ``halo`` a pixel has the weight of its patch. With it, the sum of the patches' Gaussians

        field(u, v) = Σ_ij weights[i, j] exp(−(v − i − ½)² / 2σ_v² − (u − j − ½)² / 2σ_u²)

    scaled so that its maximum is the greatest weight. Weights that are not numbers count as 0.
    """
    weights = np.nan_to_num(weights, nan=0.0, posinf=1.0, neginf=0.0)
    if chosen is not None and np.isfinite(chosen) and weights.size:
        weights, halo = np.zeros_like(weights), False
        weights.flat[int(chosen) % weights.size] = 1.0
    (h, w), (H, W) = weights.shape, size
    left, top, right, bottom = box
    u = ((np.arange(W) + 0.5) / W - left) / (right - left) * w
    v = ((np.arange(H) + 0.5) / H - top) / (bottom - top) * h
    inside = ((v >= 0) & (v < h))[:, None] & ((u >= 0) & (u < w))
    if not halo or not weights.size:
        rows, columns = (np.clip(np.floor(at).astype(int), 0, most - 1) for at, most in ((v, h), (u, w)))
        return np.where(inside, weights[rows[:, None], columns] if weights.size else 0.0, 0.0)
    field = _gaussians(v, h) @ weights @ _gaussians(u, w).T
    field = np.where(inside, field, 0.0)
    return np.asarray(field * (weights.max() / (field.max() or 1.0)))


def _gaussians(at: Float[ndarray, " n"], patches: int) -> Float[ndarray, "n patches"]:
    """The height of each patch's Gaussian, along one side, at places counted in patches."""
    deviation = min(max(patches * SPREAD, NARROWEST), WIDEST)
    return np.asarray(np.exp(-0.5 * ((at[:, None] - np.arange(patches) - 0.5) / deviation) ** 2))


def under_veil(
    image: Float[ndarray, "H W 3"], seen: Float[ndarray, "H W"], veil: tuple[float, float, float]
) -> Float[ndarray, "H W 3"]:
    """The image (from 0 to 1) under a veil of this colour: clear where ``seen`` is 1, nearly hidden where it is 0."""
    clear = (VEILED + (1 - VEILED) * seen.clip(0, 1))[..., None]
    return np.asarray((1 - clear) * np.array(veil) + clear * image).clip(0, 1)


def resampled(image: UInt8[Tensor, "H W 3"], rows: int, columns: int) -> Float[ndarray, "rows columns 3"]:
    """The image in this many pixels, from 0 to 1, each the mean of what it covers."""
    planes = image.detach().cpu().float().permute(2, 0, 1)
    means = torch.nn.functional.adaptive_avg_pool2d(planes, (rows, columns))
    return np.asarray((means / 255).permute(1, 2, 0).numpy())


def shrunk(image: UInt8[ndarray, "H W 3"], longest: int) -> UInt8[ndarray, "R C 3"]:
    """The image with its longer side at most ``longest``: each pixel is the mean of a square."""
    factor = -(-max(image.shape[:2]) // longest)
    if factor <= 1:
        return image
    # The shorter side of a thin strip may be smaller than a square.
    down, across = (min(factor, size) for size in image.shape[:2])
    rows, columns = image.shape[0] // down, image.shape[1] // across
    squares = image[: rows * down, : columns * across].reshape(rows, down, columns, across, 3)
    return np.asarray(np.rint(squares.mean((1, 3))), np.uint8)
