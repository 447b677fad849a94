"""What a calibrated task keeps: the temperature that its logits are divided by, and what that changed.

    p(label) = softmax(logits / T)

A bundle keeps it as ``calibration.json``, one of the task's files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import InputError
from saccade.metrics.calibration import PROBABILITY_METRICS, Bins, probability_scores, reliability
from saccade.nn.temperature import fit_temperature, tempered

CALIBRATION = "calibration.json"
BEFORE, AFTER = "before", "after"
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Calibration:
    """A temperature and where it comes from.

    Attributes:
        temperature: what logits are divided by.
        records: how many it was fitted by, and ``fitted_on`` which: ``valid``, or the name of a file.
        figures: by data set and ``before`` or ``after``: accuracy, ece, brier, nll.
    """

    temperature: float
    records: int
    fitted_on: str
    figures: Figures = field(default_factory=dict)

    def to_json(self) -> str:
        """What a bundle keeps."""
        return json.dumps({"method": "temperature", **asdict(self)}, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def among(cls, files: Mapping[str, str]) -> Calibration | None:
        """The calibration among a bundle's files; None where it has none."""
        if CALIBRATION not in files:
            return None
        try:
            kept = json.loads(files[CALIBRATION])
            method, temperature = kept["method"], float(kept["temperature"])
            found = cls(temperature, int(kept["records"]), str(kept["fitted_on"]), kept["figures"])
        except (KeyError, TypeError, ValueError) as fault:
            expected, what = "a method, a temperature and where it comes from", f"a file that lacks them ({fault})"
            raise InputError(CALIBRATION, expected=expected, found=what) from None
        if method != "temperature":
            raise InputError(CALIBRATION, field="method", expected="'temperature'", found=repr(method))
        if not (temperature > 0 and math.isfinite(temperature)):
            raise InputError(CALIBRATION, field="temperature", expected="a number above 0", found=str(temperature))
        return found

    @property
    def files(self) -> dict[str, str]:
        """The calibration as files of a bundle."""
        return {CALIBRATION: self.to_json()}

    @property
    def described(self) -> str:
        """The calibration in a sentence, for the model's card."""
        reached = [
            f"; ece on {where} {each[BEFORE]['ece']:.4f} before, {each[AFTER]['ece']:.4f} after"
            for where, each in self.figures.items()
        ]
        by = f"{self.records:,} records ({self.fitted_on})"
        return f"Calibrated: logits are divided by {self.temperature:.4f}, fitted by {by}{''.join(reached[-1:])}"


def shares_of(logits: Float[Tensor, "B C"], calibration: Calibration | None) -> Float[Tensor, "B C"]:
    """The probabilities of the labels, calibrated where that was asked for."""
    return logits.float().softmax(-1) if calibration is None else tempered(logits.cpu(), calibration.temperature)


def fitted(logits: Float[Tensor, "N C"], labels: Sequence[int], fitted_on: str) -> Calibration:
    """A calibration by these records; it has no figures yet."""
    return Calibration(fit_temperature(logits, torch.tensor(labels)), len(labels), fitted_on)


def differences(
    calibration: Calibration, logits: Float[Tensor, "N C"], labels: Sequence[int]
) -> tuple[dict[str, dict[str, float]], dict[str, Bins]]:
    """What calibration changes on some records: figures, and bins of confidence, before it and after."""
    true = np.array(labels)
    figures, bins = {}, {}
    for name, asked in ((BEFORE, None), (AFTER, calibration)):
        shares = shares_of(logits, asked).double().cpu().numpy()
        scores = probability_scores(PROBABILITY_METRICS, shares, true)
        accuracy = float((shares.argmax(1) == true).mean())
        figures[name] = {"accuracy": accuracy, **{metric: score.value for metric, score in scores.items()}}
        bins[name] = reliability(shares, true)
    return figures, bins
