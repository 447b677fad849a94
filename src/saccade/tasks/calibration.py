"""Calibrates the probabilities of a classifier by a temperature: p(label) = softmax(logits / T).

A bundle stores the calibration as ``calibration.json``, one of the task's files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.documents import Count, checked, parse
from saccade.errors import InputError
from saccade.metrics.calibration import PROBABILITY_METRICS, Bins, probability_scores, reliability
from saccade.nn.temperature import fit_temperature, tempered

CALIBRATION = "calibration.json"
BEFORE, AFTER = "before", "after"
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Calibration:
    """A temperature and the records that it was fitted on.

    Attributes:
        temperature: what logits are divided by.
        records: the number of records it was fitted on; ``fitted_on`` names them: ``valid``, or a file.
        figures: metrics by data set and ``before`` or ``after``: accuracy, ece, brier, nll.
    """

    temperature: float
    records: int
    fitted_on: str
    figures: Figures = field(default_factory=dict)

    def to_json(self) -> str:
        """The content of ``calibration.json``."""
        return json.dumps({"method": "temperature", **asdict(self)}, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def among(cls, files: Mapping[str, str]) -> Calibration | None:
        """The calibration among a bundle's files; None where it has none."""
        if CALIBRATION not in files:
            return None
        saved = checked(_Stored, parse(files[CALIBRATION], CALIBRATION), CALIBRATION)
        if not (saved.temperature > 0 and math.isfinite(saved.temperature)):
            raise InputError(
                CALIBRATION, field="temperature", expected="a number above 0", found=str(saved.temperature)
            )
        return cls(saved.temperature, saved.records, saved.fitted_on, saved.figures)

    @property
    def files(self) -> dict[str, str]:
        """The calibration as files of a bundle."""
        return {CALIBRATION: self.to_json()}

    @property
    def described(self) -> str:
        """The calibration in a sentence, for the model's card."""
        reached = [
            f"; ece on {where} {metrics[BEFORE]['ece']:.4f} before, {metrics[AFTER]['ece']:.4f} after"
            for where, metrics in self.figures.items()
        ]
        by = f"{self.records:,} records ({self.fitted_on})"
        return f"Calibrated: logits are divided by {self.temperature:.4f}, fitted on {by}{''.join(reached[-1:])}"


@dataclass(frozen=True)
class _Stored:
    """The schema of ``calibration.json``."""

    method: Literal["temperature"]
    temperature: float
    records: Count
    fitted_on: str
    figures: dict[str, dict[str, dict[str, float]]]


def shares_of(logits: Float[Tensor, "B C"], calibration: Calibration | None) -> Float[Tensor, "B C"]:
    """The probabilities of the labels, calibrated unless ``calibration`` is None."""
    return logits.float().softmax(-1) if calibration is None else tempered(logits.cpu(), calibration.temperature)


def fitted(logits: Float[Tensor, "N C"], labels: Sequence[int], fitted_on: str) -> Calibration:
    """The calibration fitted on these records, without metrics."""
    return Calibration(fit_temperature(logits, torch.tensor(labels)), len(labels), fitted_on)


def differences(
    calibration: Calibration, logits: Float[Tensor, "N C"], labels: Sequence[int]
) -> tuple[dict[str, dict[str, float]], dict[str, Bins]]:
    """Metrics and reliability bins on some records, before and after calibration."""
    true = np.array(labels)
    figures, bins = {}, {}
    for name, applied in ((BEFORE, None), (AFTER, calibration)):
        shares = shares_of(logits, applied).double().cpu().numpy()
        scores = probability_scores(PROBABILITY_METRICS, shares, true)
        accuracy = float((shares.argmax(1) == true).mean())
        figures[name] = {"accuracy": accuracy, **{metric: score.value for metric, score in scores.items()}}
        bins[name] = reliability(shares, true)
    return figures, bins
