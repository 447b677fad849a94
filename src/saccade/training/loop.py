"""Runs the training loop: batch → loss → step, validation after each epoch, checkpoints from which a run resumes exactly."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import nn

from saccade.data.stream import Stream
from saccade.errors import Interrupted, SaccadeError
from saccade.task import Evaluation, Task
from saccade.training.averaging import Snapshots, mean_of
from saccade.training.config import Train, batch_size_warning
from saccade.training.devices import CoreWatch, choose_threads
from saccade.training.evaluation import corpus_loss
from saccade.training.logs import Logs
from saccade.training.optimisers import learning_rate, with_width
from saccade.training.report import Report, Silence
from saccade.training.state import Progress, checkpoints, load_checkpoint, save_checkpoint
from saccade.training.stepping import PendingStep, Stepper

CHECKPOINTS = "checkpoints"
STREAMED_RECORDS = 32  # assumed per batch to choose threads, where a stream's batches are bounded by tokens alone


@dataclass
class Job:
    """A network to train, its data, its settings and its folder. ``train`` may be a :class:`saccade.data.stream.Stream`."""

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
    """How a run ended: its progress, why it stopped, and the device it ran on."""

    progress: Progress
    reason: str
    device: str
    notes: tuple[str, ...] = ()  # warnings


@dataclass(frozen=True)
class _PendingUpdate:
    """An update whose losses are not read yet."""

    update: int
    epoch: int
    steps: list[PendingStep]


def fit(job: Job, *, resume: bool = False) -> Outcome:
    """Train until the recipe's end; ``resume`` continues from the last checkpoint, bit for bit on the CPU."""
    return _Loop(job, resume).run()


class _Loop:
    def __init__(self, job: Job, resume: bool) -> None:
        self.job, self.settings = job, with_width(job.settings, job.network)
        settings = self.settings
        self.notes: list[str] = []
        self.stepper = Stepper(job.task, job.network, settings, self._note)
        self._pending = deque[_PendingUpdate]()
        self.device, self.phases = self.stepper.device, self.stepper.phases
        self.progress, self.snapshots = Progress(), Snapshots(settings)
        if isinstance(job.train, Stream):
            self.per_epoch, self.total = _streamed_updates(settings)
            records = float(settings.batch_records or STREAMED_RECORDS)
        else:
            first = self._plan(0)
            self.per_epoch = updates_of(len(first), settings)
            if not resume and (warning := batch_size_warning(settings, first)):
                self._note(warning)
            self.total = int(min(settings.epochs * self.per_epoch, settings.updates or math.inf))
            records = len(job.train) / max(1, len(first))
        if resume:
            self._resume()
        else:
            self.progress.threads = choose_threads(settings, job.network, records)
        self._cores = CoreWatch(self.progress.threads) if self.device.type == "cpu" else None
        if self.device.type == "cpu":
            torch.set_num_threads(self.progress.threads)
        names = [phase.name for phase in self.phases]
        self.logs = Logs(job.folder, since=self.progress.update, tensorboard=settings.tensorboard, phases=names)
        self._clock = time.perf_counter()
        self._before, self._first = self.progress.seconds, self.progress.update

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.job.report.say(text)

    def _resume(self) -> None:
        saved = checkpoints(self.job.folder / CHECKPOINTS)
        if not saved:
            raise SaccadeError(f"{self.job.folder}: expected a checkpoint to resume from, found none: train again")
        self.progress, snapshots = load_checkpoint(saved[-1], self.job.network, self.phases)
        self.snapshots, self.stepper.scaling = Snapshots(self.settings, snapshots), self.progress.scaling
        if isinstance(self.job.train, Stream):
            self.job.train.resume(self.progress.stream)

    def run(self) -> Outcome:
        progress, report = self.progress, self.job.report
        report.begin(self.total, progress.update, self.settings.epochs)
        reason, timed_out = "every epoch was done", False
        if progress.finished:
            reason = f"it had ended before: {self._reason_to_stop() or reason}"
        try:
            with _stop_requests() as stop_requested:
                while progress.epoch < self.settings.epochs and not progress.finished:
                    self._epoch(stop_requested)
                    if self._out_of_time and progress.update < self.total and not self._stands_still:
                        self._validate()
                        reason, timed_out = self._time_limit, True
                        break
                    stop = self._close_epoch()
                    if stop is not None:
                        reason = stop
                        break
                    self._save()
                if not progress.finished:
                    self._average()
                    progress.finished = not timed_out
                    self._save()
                if stop_requested.is_set():  # since the last update
                    raise Interrupted(
                        f"stopped after training, before the test; everything is saved. Continue with: "
                        f"saccade train --resume {self.job.folder}"
                    )
        finally:
            report.end()
            self.logs.close()
        threads = f"{progress.threads} CPU thread{'s' if progress.threads > 1 else ''}"
        return Outcome(progress, reason, threads if self.device.type == "cpu" else str(self.device), tuple(self.notes))

    def _epoch(self, stop_requested: threading.Event) -> None:
        progress, settings = self.progress, self.settings
        batches = self._batches()
        self._validate_if_due()  # of a run that was stopped between an update and its validation
        self.job.network.train()
        while progress.update < self.total and not self._stands_still:
            chosen = list(islice(batches, settings.accumulate))
            if not chosen:
                break
            self._update_watched(chosen)
            self.snapshots.after_update(self.job.network, progress)
            if stop_requested.is_set():
                self._save()
                raise Interrupted(
                    f"stopped after update {progress.update:,}; everything is saved. Continue with: "
                    f"saccade train --resume {self.job.folder}"
                )
            self._validate_if_due()
            if settings.save_every and progress.update % settings.save_every == 0:
                self._save()
            if self._out_of_time:
                break
        self._read(leaving=0)

    @property
    def _out_of_time(self) -> bool:
        """Whether this process has trained for ``train.minutes``; when a run is resumed, the time starts anew."""
        minutes, progressed = self.settings.minutes, self.progress.update > self._first
        return minutes is not None and progressed and time.perf_counter() - self._clock >= 60 * minutes

    @property
    def _time_limit(self) -> str:
        limit = f"the time limit of {self.settings.minutes:g} min (train.minutes) was reached"
        return f"{limit}. Continue with: saccade train --resume {self.job.folder}"

    def _batches(self) -> Iterator[tuple[Any, Sequence[int]]]:
        """The batches of this epoch that are left: a corpus, and row numbers in it."""
        train, settings, progress = self.job.train, self.settings, self.progress
        if isinstance(train, Stream):
            tokens, records = settings.batch_tokens, settings.batch_records
            for rows in train.epoch(progress.epoch, tokens=tokens, records=records, seed=settings.seed):
                yield rows, range(len(rows))
        else:
            for numbers in self._plan(progress.epoch)[progress.batch :]:
                yield train, numbers

    def _validate_if_due(self) -> None:
        every = self.settings.evaluate_every
        if every and self.progress.batch and self.progress.update % every == 0:
            self._validate()

    def _update_watched(self, batches: Sequence[tuple[Any, Sequence[int]]]) -> None:
        """An update; the first ones tell whether the CPU is free."""
        if self._cores is None:
            self._update(batches)
            return
        with self._cores.update():
            self._update(batches)
        if self._cores.done:
            if note := self._cores.note:
                self._note(note)
            self._cores = None

    def _update(self, batches: Sequence[tuple[Any, Sequence[int]]]) -> None:
        progress, settings = self.progress, self.settings
        rate = partial(
            learning_rate,
            update=progress.update,
            per_epoch=self.per_epoch,
            total=self.total,
            shrinks=progress.shrinks,
        )
        made = [self.job.task.batch(corpus, numbers) for corpus, numbers in batches]
        sampling = settings.sampling * progress.update / self.total
        steps = self.stepper.update_phases(made, rate, update=progress.update, sampling=sampling)
        progress.update += 1
        progress.batch += len(batches)
        self._pending.append(_PendingUpdate(progress.update, progress.epoch, steps))
        self._read(leaving=self.stepper.lag)

    def _read(self, leaving: int) -> None:
        """Read and log the losses of pending updates, all but the last few; nothing of a run is saved before that."""
        progress = self.progress
        while len(self._pending) > leaving:
            pending, row = self._pending.popleft(), dict[str, float]()
            for step in pending.steps:
                value, norm = step.read()
                where = f"update {pending.update:,}" + (f", phase {step.phase}" if self._several else "")
                if not math.isfinite(value):
                    self._refuse("loss", value, step.lr, where)
                if not math.isfinite(norm) and self.settings.precision != "16":  # which skips such a gradient
                    self._refuse("gradient", norm, step.lr, where)
                self._add_loss(step, value)
                suffix = f"_{step.phase}" if self._several else ""
                row |= {f"loss{suffix}": value, f"lr{suffix}": step.lr, f"norm{suffix}": norm}
            count = max((step.count for step in pending.steps), default=0)
            progress.tokens += count
            self._tick()
            place = {"update": pending.update, "epoch": pending.epoch}
            self.logs.update({**place, **row, "tokens": count, "seconds": round(progress.seconds, 3)})
            losses = [loss for loss in self._train_losses().values() if not math.isnan(loss)]
            self.job.report.update(pending.update, pending.epoch, losses[-1] if losses else math.nan)

    @property
    def _several(self) -> bool:
        return len(self.phases) > 1

    def _add_loss(self, step: PendingStep, value: float) -> None:
        progress = self.progress
        if self._several:
            total, count = progress.phase_losses.get(step.phase, (0.0, 0))
            progress.phase_losses[step.phase] = [total + value * step.count, count + step.count]
        else:
            progress.loss_total += value * step.count
            progress.loss_count += step.count

    def _train_losses(self) -> dict[str, float]:
        """The mean training loss of this epoch, per phase; NaN of one that has not run."""
        progress = self.progress
        if not self._several:
            return {"train_loss": progress.loss_total / max(1, progress.loss_count)}
        sums = {phase.name: progress.phase_losses.get(phase.name, (math.nan, 1)) for phase in self.phases}
        return {f"train_loss_{name}": total / max(1, count) for name, (total, count) in sums.items()}

    def _refuse(self, what: str, value: float, lr: float, where: str) -> NoReturn:
        complete = checkpoints(self.job.folder / CHECKPOINTS)
        saved = f"the checkpoint of {complete[-1].name} is complete" if complete else "no checkpoint was reached yet"
        raise SaccadeError(
            f"{where}: expected a finite {what}, found {value}; {saved}. "
            f"Try a lower train.lr (now {lr:g}), train.clip (now {self.settings.clip}) or train.precision=32"
        )

    @property
    def _stands_still(self) -> bool:
        """Whether early stopping is due, also after a validation within an epoch."""
        return self.settings.stop_after is not None and self.progress.still >= self.settings.stop_after

    def _close_epoch(self) -> str | None:
        """Validate and move to the next epoch; returns the reason to stop, if any."""
        progress = self.progress
        self._validate()
        self.snapshots.after_epoch(self.job.network, progress)
        progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.loss_total, progress.loss_count, progress.phase_losses = 0.0, 0, {}
        return self._reason_to_stop()

    def _reason_to_stop(self) -> str | None:
        """The reason to stop, if any."""
        progress = self.progress
        if self._stands_still:
            return f"no progress in {progress.still} evaluations"
        return f"{progress.update:,} updates were done" if progress.update >= self.total else None

    def _validate(self) -> None:
        """Evaluate on the validation set; save the network if it is the best so far, or with ``keep: last``."""
        progress, settings = self.progress, self.settings
        if progress.looked == progress.update:
            return
        self._read(leaving=0)
        evaluation = self._evaluate()
        figure = evaluation.figures[settings.watch]
        higher = evaluation.higher_is_better.get(settings.watch, False)
        better = progress.best is None or (figure > progress.best if higher else figure < progress.best)
        progress.looked = progress.update
        self.snapshots.after_validation(self.job.network, progress, figure, higher=higher)
        if better or settings.keep == "last":
            progress.best_epoch, progress.averaged = progress.epoch, []
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
        losses = self._train_losses()
        place = {"update": progress.update, "epoch": progress.epoch}
        self.logs.evaluation({**place, **losses, **evaluation.figures, **self.job.task.monitored(self.job.network)})
        shown = "  ".join(f"{name} {value:.4f}" for name, value in evaluation.figures.items() if name != "loss")
        smoothed = " (smoothed)" if settings.label_smoothing else ""  # the validation loss is not
        trained = ", ".join(f"{name.replace('_', ' ')} {loss:.4f}{smoothed}" for name, loss in losses.items())
        line = f"{trained}  valid loss {evaluation.figures['loss']:.4f}  {shown}"
        self.job.report.evaluated(
            progress.epoch, progress.update, line + ("  ← best" if better and settings.keep == "best" else ""), shown
        )

    def _evaluate(self) -> Evaluation:
        job, watch = self.job, self.settings.watch
        size = {"tokens": self.settings.batch_tokens, "records": self.settings.batch_records}
        total, count = corpus_loss(job.task, job.network, job.valid, **size)
        if not math.isfinite(total):
            where = f"validation after update {self.progress.update:,}"
            self._refuse("loss", total, self.phases[0].optimiser.param_groups[0]["lr"], where)
        figures, higher = {"loss": total / max(1, count)}, {"loss": False}
        if watch != "loss":
            measured = job.task.evaluate(
                job.network, job.valid, how=job.how, metrics=[watch], limit=self.settings.watch_records
            )
            figures |= measured.figures
            higher |= measured.higher_is_better
        return Evaluation(figures, higher_is_better=higher)

    def _average(self) -> None:
        """Replace the saved network by the mean of several, if that is at least as good on the watched metric, or with
        ``keep: last``."""
        snapshots = self.snapshots.by_update
        if len(snapshots) < 2:
            if self.settings.average:
                self._note(f"nothing to average: {self.snapshots.too_few}, so the saved network stays")
            return
        before = {name: tensor.detach().clone() for name, tensor in self.job.network.state_dict().items()}
        self.job.network.load_state_dict(mean_of([snapshots[update] for update in sorted(snapshots)]))
        evaluation = self._evaluate()
        figure, watch = evaluation.figures[self.settings.watch], self.settings.watch
        higher = evaluation.higher_is_better.get(watch, False)
        best = self.progress.best
        better = best is None or self.settings.keep == "last" or (figure >= best if higher else figure <= best)
        verdict = "saved" if better else f"not saved: the best single network has {best:.4f}"
        self.job.report.say(f"average of {self.snapshots}: {watch} {figure:.4f} ({verdict})")
        if better:
            self.progress.best, self.progress.averaged = figure, sorted(snapshots)
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
        if isinstance(self.job.train, Stream):
            self.progress.stream = self.job.train.state()
        save_checkpoint(folder, self.job.network, self.phases, self.progress, self.snapshots.by_update)


def epoch_ends(settings: Train, batches: Callable[[int], int]) -> list[int]:
    """The updates after which :func:`fit` ends an epoch, unless it stops early; the last is the total number of updates.

    ``batches`` gives the number of batches of an epoch, which may differ a little from epoch to epoch.
    """
    total = int(min(settings.epochs * updates_of(batches(0), settings), settings.updates or math.inf))
    ends, update = list[int](), 0
    while update < total and len(ends) < settings.epochs:
        update = min(total, update + updates_of(batches(len(ends)), settings))
        ends.append(update)
    return ends


def updates_of(batches: int, settings: Train) -> int:
    """The number of updates in an epoch of so many batches; the last may have fewer batches than the others."""
    return -(-batches // settings.accumulate)


def _streamed_updates(settings: Train) -> tuple[int, int]:
    """Updates per epoch and in all, for a stream, whose length is unknown."""
    if settings.updates is None:
        raise SaccadeError("train.updates: expected the number of updates, since training data is streamed, found none")
    if settings.schedule == "halving":
        raise SaccadeError(
            "train.schedule: expected one that does not count epochs, since training data is streamed, found 'halving'"
        )
    return settings.updates, settings.updates


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event, to stop after the current update; a second Ctrl-C stops at once."""
    requested = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return

    def on_signal(number: int, frame: Any) -> None:
        if requested.is_set():
            raise KeyboardInterrupt
        requested.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requested
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
