"""The training loop: batch → loss → step, a look at the validation set each epoch, and a state that can be put back exactly."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from saccade.errors import Interrupted, SaccadeError
from saccade.task import Evaluation, Task
from saccade.training.averaging import Snapshots, mean_of
from saccade.training.config import Train, held_back
from saccade.training.devices import choose_threads
from saccade.training.evaluation import corpus_loss
from saccade.training.logs import Logs
from saccade.training.optimisers import learning_rate, with_width
from saccade.training.report import Report, Silence
from saccade.training.state import Progress, checkpoints, load_checkpoint, save_checkpoint
from saccade.training.stepping import Sent, Stepper

CHECKPOINTS = "checkpoints"


@dataclass
class Job:
    """What is to be trained, on what, and where it is written."""

    task: Task
    network: nn.Module
    train: Any
    valid: Any
    settings: Train
    folder: Path
    how: Any = None
    report: Report = field(default_factory=Silence)
    save_kept: Callable[[Evaluation, Progress], None] = lambda evaluation, progress: None


@dataclass(frozen=True)
class Outcome:
    """How a run ended: how far it got, why it stopped, and on what it ran."""

    progress: Progress
    reason: str
    device: str


@dataclass(frozen=True)
class _Awaited:
    """An update whose loss is not read yet."""

    update: int
    epoch: int
    lr: float
    sent: Sent


def fit(job: Job, *, resume: bool = False) -> Outcome:
    """Train until the recipe's end; with ``resume`` go on from the last checkpoint, bit for bit on the CPU."""
    return _Loop(job, resume).run()


class _Loop:
    def __init__(self, job: Job, resume: bool) -> None:
        self.job, self.settings = job, with_width(job.settings, job.network)
        settings = self.settings
        self.stepper = Stepper(job.task, job.network, settings, job.report.say)
        self._awaited = deque[_Awaited]()
        self.device, self.optimiser = self.stepper.device, self.stepper.optimiser
        self.progress, self.snapshots = Progress(), Snapshots(settings)
        first = self._plan(0)
        self.per_epoch = updates_of(len(first), settings)
        if not resume and (told := held_back(settings, first)):
            job.report.say(told)
        self.total = min(settings.epochs * self.per_epoch, settings.updates or math.inf)
        if resume:
            self._resume()
        else:
            self.progress.threads = choose_threads(settings, job.network, len(job.train) / max(1, len(first)))
        if self.device.type == "cpu":
            torch.set_num_threads(self.progress.threads)
        self.logs = Logs(job.folder, since=self.progress.update, tensorboard=settings.tensorboard)
        self._clock = time.perf_counter()
        self._before = self.progress.seconds

    def _resume(self) -> None:
        found = checkpoints(self.job.folder / CHECKPOINTS)
        if not found:
            raise SaccadeError(f"{self.job.folder}: expected a checkpoint to resume from, found none: train afresh")
        self.progress, kept = load_checkpoint(found[-1], self.job.network, self.optimiser)
        self.snapshots, self.stepper.scaling = Snapshots(self.settings, kept), self.progress.scaling

    def run(self) -> Outcome:
        progress, report = self.progress, self.job.report
        report.begin(int(self.total), progress.update, self.settings.epochs)
        reason = "every epoch was done"
        if progress.finished:
            reason = f"it had ended before: {self._enough() or reason}"
        try:
            with _listening() as asked_to_stop:
                while progress.epoch < self.settings.epochs and not progress.finished:
                    self._epoch(asked_to_stop)
                    enough = self._close_epoch()
                    if enough is not None:
                        reason = enough
                        break
                    self._save()
            if not progress.finished:
                self._average()
                progress.finished = True
                self._save()
        finally:
            report.end()
            self.logs.close()
        threads = f"{progress.threads} CPU thread{'s' if progress.threads > 1 else ''}"
        return Outcome(progress, reason, threads if self.device.type == "cpu" else str(self.device))

    def _epoch(self, asked_to_stop: threading.Event) -> None:
        progress, settings = self.progress, self.settings
        batches = self._plan(progress.epoch)
        self._look_if_due()  # a run that was stopped between an update and its evaluation
        self.job.network.train()
        while progress.batch < len(batches) and progress.update < self.total and not self._stands_still:
            self._update(batches[progress.batch : progress.batch + settings.accumulate])
            self.snapshots.after_update(self.job.network, progress)
            if asked_to_stop.is_set():
                self._save()
                raise Interrupted(
                    f"stopped after update {progress.update:,}; everything is saved. Go on with: "
                    f"saccade train --resume {self.job.folder}"
                )
            self._look_if_due()
            if settings.save_every and progress.update % settings.save_every == 0:
                self._save()
        self._read(leaving=0)

    def _look_if_due(self) -> None:
        every = self.settings.evaluate_every
        if every and self.progress.batch and self.progress.update % every == 0:
            self._look()

    def _update(self, batches: list[list[int]]) -> None:
        progress, settings = self.progress, self.settings
        lr = learning_rate(settings, progress.update, self.per_epoch, int(self.total), progress.shrinks)
        made = [self.job.task.batch(self.job.train, numbers) for numbers in batches]
        sampling = settings.sampling * progress.update / self.total
        sent = self.stepper.update_by(made, lr, sampling=sampling)
        progress.update += 1
        progress.batch += len(batches)
        self._awaited.append(_Awaited(progress.update, progress.epoch, lr, sent))
        self._read(leaving=self.stepper.behind)

    def _read(self, leaving: int) -> None:
        """Read and log the losses of updates that were sent, all but the last few; nothing is kept of a run before that."""
        progress = self.progress
        while len(self._awaited) > leaving:
            awaited = self._awaited.popleft()
            count, (value, norm) = awaited.sent.count, awaited.sent.read()
            where = f"update {awaited.update:,}"
            if not math.isfinite(value):
                self._refuse("loss", value, awaited.lr, where)
            if not math.isfinite(norm) and self.settings.precision != "16":  # which leaves such a gradient out
                self._refuse("gradient", norm, awaited.lr, where)
            progress.loss_total += value * count
            progress.loss_count += count
            progress.tokens += count
            self._tick()
            self.logs.update(
                {"update": awaited.update, "epoch": awaited.epoch, "loss": value, "lr": awaited.lr, "norm": norm,
                 "tokens": count, "seconds": round(progress.seconds, 3)}
            )  # fmt: skip
            self.job.report.update(awaited.update, awaited.epoch, progress.loss_total / progress.loss_count)

    def _refuse(self, what: str, value: float, lr: float, where: str) -> NoReturn:
        whole = checkpoints(self.job.folder / CHECKPOINTS)
        kept = f"the checkpoint of {whole[-1].name} is whole" if whole else "no checkpoint was reached yet"
        raise SaccadeError(
            f"{where}: expected a finite {what}, found {value}; {kept}. "
            f"Try a lower train.lr (now {lr:g}), train.clip (now {self.settings.clip}) or train.precision=32"
        )

    @property
    def _stands_still(self) -> bool:
        """Whether the recipe's early stopping has come, which an evaluation within an epoch may bring."""
        return self.settings.stop_after is not None and self.progress.still >= self.settings.stop_after

    def _close_epoch(self) -> str | None:
        """Look at the validation set, open the next epoch, and say why to stop, if there is a reason."""
        progress = self.progress
        self._look()
        self.snapshots.after_epoch(self.job.network, progress)
        progress.epoch, progress.batch, progress.loss_total, progress.loss_count = progress.epoch + 1, 0, 0.0, 0
        return self._enough()

    def _enough(self) -> str | None:
        """Why no epoch follows the last one, if there is a reason."""
        progress = self.progress
        if self._stands_still:
            return f"no progress in {progress.still} evaluations"
        return f"{progress.update:,} updates were done" if progress.update >= self.total else None

    def _look(self) -> None:
        """Evaluate, and keep the network if it is the best so far, or if the last is wanted."""
        progress, settings = self.progress, self.settings
        if progress.looked == progress.update:
            return
        self._read(leaving=0)
        evaluation = self._evaluate()
        figure = evaluation.figures[settings.watch]
        higher = evaluation.higher_is_better.get(settings.watch, False)
        better = progress.best is None or (figure > progress.best if higher else figure < progress.best)
        progress.looked = progress.update
        self.snapshots.after_look(self.job.network, progress, figure, higher=higher)
        if better or settings.keep == "last":
            progress.best_epoch = progress.epoch
            self._tick()
            self.job.save_kept(evaluation, progress)
        if better:
            progress.best, progress.still, progress.plateau = figure, 0, 0
        else:
            progress.still += 1
            progress.plateau += 1
            if progress.plateau > settings.patience:
                progress.shrinks += 1
                progress.plateau = 0
        train_loss = progress.loss_total / max(1, progress.loss_count)
        row = {"update": progress.update, "epoch": progress.epoch, "train_loss": train_loss}
        self.logs.evaluation({**row, **evaluation.figures})
        shown = "  ".join(f"{name} {value:.4f}" for name, value in evaluation.figures.items() if name != "loss")
        smoothed = " (smoothed)" if settings.label_smoothing else ""  # the other is not, and so compares
        line = f"train loss {train_loss:.4f}{smoothed}  valid loss {evaluation.figures['loss']:.4f}  {shown}"
        self.job.report.evaluated(
            progress.epoch, progress.update, line + ("  ← best" if better and settings.keep == "best" else ""), shown
        )

    def _evaluate(self) -> Evaluation:
        job, watch = self.job, self.settings.watch
        size = {"tokens": self.settings.batch_tokens, "records": self.settings.batch_records}
        total, count = corpus_loss(job.task, job.network, job.valid, **size)
        if not math.isfinite(total):
            where = f"validation after update {self.progress.update:,}"
            self._refuse("loss", total, self.optimiser.param_groups[0]["lr"], where)
        figures, higher = {"loss": total / max(1, count)}, {"loss": False}
        if watch != "loss":
            measured = job.task.evaluate(
                job.network, job.valid, how=job.how, metrics=[watch], limit=self.settings.watch_records
            )
            figures |= measured.figures
            higher |= measured.higher_is_better
        return Evaluation(figures, higher_is_better=higher)

    def _average(self) -> None:
        """The mean of several networks takes the kept one's place: if it is at least as good on the watched figure, or if
        nothing is picked by that."""
        kept = self.snapshots.kept
        if len(kept) < 2:
            if self.settings.average:
                self.job.report.say(f"nothing to average: {self.snapshots.too_few}, so the kept one stays")
            return
        before = {name: tensor.detach().clone() for name, tensor in self.job.network.state_dict().items()}
        self.job.network.load_state_dict(mean_of([kept[update] for update in sorted(kept)]))
        evaluation = self._evaluate()
        figure, watch = evaluation.figures[self.settings.watch], self.settings.watch
        higher = evaluation.higher_is_better.get(watch, False)
        best = self.progress.best
        better = best is None or self.settings.keep == "last" or (figure >= best if higher else figure <= best)
        verdict = "kept" if better else f"not kept: the best single one has {best:.4f}"
        self.job.report.say(f"average of {self.snapshots}: {watch} {figure:.4f} ({verdict})")
        if better:
            self.progress.best, self.progress.averaged = figure, sorted(kept)
            self.job.save_kept(evaluation, self.progress)
        self.job.network.load_state_dict(before)

    def _plan(self, epoch: int) -> list[list[int]]:
        settings = self.settings
        return self.job.task.plan(
            self.job.train,
            tokens=settings.batch_tokens,
            records=settings.batch_records,
            seed=settings.seed,
            epoch=epoch,
        )

    def _tick(self) -> None:
        self.progress.seconds = self._before + time.perf_counter() - self._clock

    def _save(self) -> None:
        self._read(leaving=0)
        self._tick()
        self.logs.flush()
        self.progress.scaling = self.stepper.scaling
        folder = self.job.folder / CHECKPOINTS
        save_checkpoint(folder, self.job.network, self.optimiser, self.progress, self.snapshots.kept)


def epoch_ends(settings: Train, batches: Callable[[int], int]) -> list[int]:
    """The updates after which :func:`fit` ends an epoch, unless it stops early; the last is how many it makes in all.

    ``batches`` says how many an epoch has: those of the next may be a few more or fewer.
    """
    total = int(min(settings.epochs * updates_of(batches(0), settings), settings.updates or math.inf))
    ends, update = list[int](), 0
    while update < total and len(ends) < settings.epochs:
        update = min(total, update + updates_of(batches(len(ends)), settings))
        ends.append(update)
    return ends


def updates_of(batches: int, settings: Train) -> int:
    """How many updates so many batches of an epoch make; the last may have fewer batches than the others."""
    return -(-batches // settings.accumulate)


@contextmanager
def _listening() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM ask to stop after the update at hand; a second Ctrl-C stops at once."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def on_signal(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
