"""Defines the ``train`` section of a recipe. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Train:
    """How a network is trained. An update takes ``accumulate`` batches; an epoch visits every record once."""

    from_: str | None = None  # ``from``: a run whose network and vocabulary this one starts from
    freeze: tuple[str, ...] = ()  # modules or parameters, by name, that are not trained

    epochs: int = 10
    updates: int | None = None  # stop after so many updates, if that comes first
    minutes: float | None = None  # stop at the first update after so long, if that comes first; resuming goes on
    batch_tokens: int | None = 4096  # tokens per batch on the longer side, padding included
    batch_records: int | None = None  # records per batch; one of the two must be given
    accumulate: int = 1  # batches per update: their gradients are averaged, each token with the same weight

    optimiser: Literal["adam", "adamw", "sgd", "adadelta", "adagrad"] = "adam"
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)  # adam, adamw
    epsilon: float = 1e-8  # adam, adamw, adadelta, adagrad
    rho: float = 0.95  # adadelta
    momentum: float = 0.0  # sgd
    weight_decay: float = 0.0  # added to the gradient (L2), but adamw shrinks the weights themselves

    schedule: Literal["constant", "noam", "inverse_root", "linear", "cosine", "plateau", "halving"] = "constant"
    warmup: int = 0  # updates from 0 to lr (noam: until its peak)
    width: int | None = None  # noam: the width D; by default that of a model with heads, else 512
    patience: int = 2  # plateau: evaluations without progress before lr shrinks
    factor: float = 0.5  # plateau, halving: what lr is multiplied by
    halve_after: float = 5.0  # halving: epochs at full lr …
    halve_every: float = 1.0  # … then once per so many epochs

    label_smoothing: float = 0.0  # ε: the share of the target that is spread evenly over all V tokens
    clip: float | None = 1.0  # the gradient's L2 norm is scaled down to this
    sampling: float = 0.0  # scheduled sampling: the rate reached at the end, from 0, linearly

    watch: str = "loss"  # the validation metric that picks the best network
    keep: Literal["best", "last"] = "best"  # last: ignores that metric, so few validation records suffice
    watch_records: int | None = None  # validation records that the metric is computed on; all by default
    evaluate_every: int | None = None  # updates between evaluations, beside the one at the end of each epoch
    stop_after: int | None = None  # early stopping: evaluations without progress
    average: int = 0  # networks averaged at the end; the mean is saved if it is as good (or with keep: last)
    average_of: Literal["last", "best"] = "last"  # the last ones, or those with the best watched metric
    average_every: int | None = None  # last: updates between them; by default the ends of epochs
    calibrate: bool = False  # classify: fit a temperature to the validation records after training

    seed: int = 1
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    precision: Literal["32", "tf32", "bf16", "16"] = "32"
    graphs: Literal["auto", "off"] = "auto"  # auto: a GPU replays recorded CUDA graphs where possible
    threads: int | None = None  # of the CPU; by default chosen by the network's size
    save_every: int | None = 200  # updates between checkpoints; one more at the end of each epoch
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if self.batch_tokens is None and self.batch_records is None:
            raise ValueError("batch_tokens or batch_records must be given")
        if self.from_ is not None and not self.from_.strip():
            raise ValueError("from must name the folder of a run: got nothing")
        at_least = {"epochs": 1, "updates": 1, "batch_tokens": 1, "batch_records": 1, "patience": 0, "stop_after": 1}
        at_least |= {"warmup": 0, "width": 1, "average": 0, "threads": 1, "save_every": 1, "watch_records": 1}
        at_least |= {"evaluate_every": 1, "accumulate": 1, "average_every": 1}
        for name, least in at_least.items():
            number = getattr(self, name)
            if number is not None and number < least:
                raise ValueError(f"{name} must be at least {least}: got {number}")
        for name in ("lr", "epsilon", "halve_every"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive: got {getattr(self, name)}")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be positive: got {self.minutes}")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"clip must be positive (or null for none): got {self.clip}")
        for name in ("label_smoothing", "sampling", "factor", "rho", "momentum"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1: got {getattr(self, name)}")
        if self.schedule in ("noam", "inverse_root") and self.warmup < 1:
            raise ValueError(f"warmup must be at least 1 with the {self.schedule} schedule: got {self.warmup}")
        if self.schedule == "noam" and self.lr < 0.01:
            raise ValueError(f"lr must be the factor of the noam schedule, 1 in the paper: got {self.lr}")
        if self.keep == "last" and self.stop_after is not None:
            raise ValueError(f"stop_after must be left out with keep last: got {self.stop_after}")
        if self.keep == "last" and self.average and self.average_of == "best":
            raise ValueError("average_of must be last with keep last: got best")
        if self.average_every is not None and not self.average:
            raise ValueError(f"average_every must be left out without average: got {self.average_every}")
        if self.average_every is not None and self.average_of == "best":
            raise ValueError(f"average_every must be left out with average_of best: got {self.average_every}")


PURPOSES = {"best": "to choose by", "last": "to watch"}
"""The purpose of validation records, by ``train.keep``."""


def batch_size_warning(settings: Train, batches: Sequence[Sequence[int]]) -> str:
    """A warning where batch_tokens keeps an epoch's batches well below batch_records; else empty."""
    tokens, records = settings.batch_tokens, settings.batch_records
    if tokens is None or records is None:
        return ""
    count = sum(map(len, batches))
    if len(batches) <= 1.1 * -(-count // records) + 1:  # the last of each pool may have fewer
        return ""
    return (
        f"batches have {count / len(batches):.1f} records in the mean, not train.batch_records ({records}): "
        f"train.batch_tokens ({tokens:,}) limits them; raise it, or set it to null"
    )
