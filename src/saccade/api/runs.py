"""Records the status of a run (``status.json``) and lists the runs in a folder. Imports no torch.

A status is running, interrupted, failed or done, with the best validation metric so far. It serves people and ``saccade
runs``; training resumes from checkpoints and reads the status only to see whether another process is training the run.
"""

from __future__ import annotations

import csv
import hashlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from saccade.bundle_format import CONFIG, WEIGHTS, Figures, holds_bundle, read_config
from saccade.documents import checked
from saccade.errors import InputError, Interrupted, SaccadeError
from saccade.storage import (
    InUse,
    current_file,
    lock_holder,
    locked,
    now,
    read_bytes,
    read_json,
    read_together,
    stored_tensors,
    write_json,
)

STATUS, LOCK = "status.json", ".lock"
FREE = "a run that no process trains"


class Status:
    """The open status of one run."""

    def __init__(self, folder: Path) -> None:
        self._path, self.reason = folder / STATUS, ""  # why a run that is done ended before its recipe's end
        self._content: dict[str, Any] = {}
        with suppress(SaccadeError):  # a run's first status, or one that was damaged
            self._content = dict(read_json(self._path))

    def write(self, state: str, **more: Any) -> None:
        """Change the state; the best metric so far stays."""
        best = {"best": self._content["best"]} if "best" in self._content else {}
        self._content = {"state": state, "at": now(), "host": socket.gethostname(), "process": os.getpid()}
        self._content |= best | more
        write_json(self._path, self._content)

    def best(self, metric: str, figure: float, *, higher_is_better: bool, epoch: int, update: int) -> None:
        """Record the validation metric of the network that is saved: the best so far, or the last with ``train.keep: last``."""
        best = {"metric": metric, "figure": figure, "higher_is_better": higher_is_better, "epoch": epoch}
        self.write("running", best={**best, "update": update})


@contextmanager
def recorded(folder: Path) -> Iterator[Status]:
    """Status ``running`` inside the block; afterwards done, interrupted or failed. SIGTERM interrupts, as Ctrl-C does."""
    status = Status(folder)
    status.write("running")
    try:
        with terminating():
            yield status
    except BaseException as error:
        stopped = isinstance(error, Interrupted | KeyboardInterrupt)
        reason = str(error) if isinstance(error, SaccadeError) else f"{type(error).__name__}: {error}"
        with suppress(SaccadeError):  # e.g. a full disk: the original error matters more
            status.write("interrupted" if stopped else "failed", reason=" ".join(reason.split()))
        raise
    status.write("done", **({"reason": status.reason} if status.reason else {}))


@contextmanager
def terminating() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt in the block, unless the program has a handler of its own."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def training_alone(folder: Path) -> AbstractContextManager[None]:
    """Lock the folder of a run: two processes would write into it. Raises :class:`InUse` if another one trains it."""
    refuse_if_running(folder)
    return locked(folder / LOCK, where=folder, expected=FREE)


def refuse_if_running(folder: Path) -> None:
    """Raise :class:`InUse` if another process is still training the run in this folder.

    A run of an earlier release has no lock; then its status tells. We cannot tell whether a process on another machine, or on a
    non-POSIX system, is alive: such a run may be resumed.
    """
    with suppress(OSError):  # no lock, or no way to ask
        holder = lock_holder(folder / LOCK)
        if holder is not None:
            raise InUse(folder, expected=FREE, found=f"{holder} at work on it", hint="wait for it or stop it")
        return
    status: Any = None
    with suppress(SaccadeError):  # no status yet, or one that was damaged
        status = read_json(folder / STATUS)
    if not isinstance(status, dict) or status.get("state") != "running" or status.get("host") != socket.gethostname():
        return
    process = status.get("process")
    if os.name != "posix" or process == os.getpid() or not alive(process):
        return  # a restarted container may give this process the id of the one that was killed
    found = f"one that process {process} on {status['host']} still trains"
    hint = f"wait for it or stop it; if that process is another program, delete {folder / STATUS}"
    raise InUse(folder, expected=FREE, found=found, hint=hint)


def alive(process: Any) -> bool:
    """Whether a process of this machine is alive; assumed True on non-POSIX systems, where it cannot be checked safely."""
    if not isinstance(process, int) or process <= 0:
        return False
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    with suppress(OSError, IndexError):  # a zombie has ended, but Linux still lists it
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    return True


# ----------------------------------------------------------------------------------------------------
# The runs in a folder: what they are, their status and their metrics. Reads JSON files only.
#
# A run's folder is recognised by the files that training writes. A run whose files contradict each other or cannot be read
# is listed as damaged, with the reason: a damaged run never makes the listing fail.

RUN, FIGURES, ORIGIN, SWEEP, CHECKPOINTS = "run.json", "metrics.json", "origin.json", "sweep.json", "checkpoints"
MARKS = (RUN, FIGURES, STATUS, CHECKPOINTS)  # any of them, or a bundle, makes a folder a run's
LOWER_IS_BETTER = ("loss", "perplexity", "cer", "wer", "ter", "ece", "brier", "nll", "seconds", "parameters")


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        state: done, running, interrupted, failed, or damaged; ``reason`` may explain it.
        when: when it started, as ISO 8601 (for a damaged run: when its folder last changed).
        update: the number of updates, by its newest checkpoint or, when done, at its end.
        watch: the validation metric that selects the network; ``valid`` has its value for the saved network, ``test`` the
            metrics on the test set.
        origin: the folder of the run that it started from.
        notes: what was said of its data at its start.
    """

    folder: Path
    name: str
    state: str
    reason: str = ""
    when: str = ""
    task: str = ""
    model: str = ""
    parameters: int | None = None
    update: int | None = None
    watch: str | None = None
    higher_is_better: bool = False
    valid: Mapping[str, float] = field(default_factory=dict)
    test: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    origin: str | None = None
    notes: Sequence[str] = ()

    def to_plain(self) -> dict[str, Any]:
        """The run as plain data, for JSON."""
        return {**asdict(self), "folder": str(self.folder)}

    def figure(self, name: str) -> float | None:
        """A metric by its name: ``bleu`` of the validation set, ``test.bleu``, ``seconds`` or ``parameters``."""
        if name in ("seconds", "parameters"):
            return getattr(self, name)  # type: ignore[no-any-return]
        if name.startswith("test."):
            return self.test.get(name.removeprefix("test."))
        return self.valid.get(name.removeprefix("valid."))


# ---- Finding


def find_runs(folder: str | Path) -> list[Run]:
    """The runs in a folder, and in the sweeps in it, newest first."""
    folder = Path(folder)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise InputError(folder, expected="a folder of runs", found=found)
    runs = [read_run(path) for path in _run_folders(folder)]
    return sorted(runs, key=lambda run: (_seconds_of(run.when), str(run.folder)), reverse=True)


def is_run(folder: Path) -> bool:
    """Whether training, or ``bundle.save``, wrote into this folder."""
    return holds_bundle(folder) or any(os.path.exists(folder / mark) for mark in MARKS)


def checksum_of_data(folder: Path) -> str | None:
    """The checksum of a run's data at its start; None if none was saved."""
    return _start_of(folder).get("data")


def checksum_of_test(folder: Path) -> str | None:
    """The checksum of a run's test records; None if none was saved."""
    held_out = _start_of(folder).get("held_out")
    return held_out.get("test") if isinstance(held_out, dict) else None


def _start_of(folder: Path) -> dict[str, Any]:
    about = read_json(folder / RUN) if (folder / RUN).is_file() else None
    return about if isinstance(about, dict) else {}


def _run_folders(folder: Path) -> Iterator[Path]:
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError as error:
        raise InputError(folder, expected="a readable folder", found=str(error.strerror)) from None
    for path in inside:
        if os.path.exists(path / SWEEP):
            yield from _run_folders(path)
        elif is_run(path):
            yield path


def order(runs: Sequence[Run], figure: str) -> list[Run]:
    """Best first by a metric (see :meth:`Run.figure`); runs without it come last."""
    known = {name for run in runs for name in (*run.valid, *(f"test.{metric}" for metric in run.test))}
    known |= {"seconds", "parameters"}
    if figure.removeprefix("valid.") not in known:
        raise SaccadeError(f"--sort: expected one of {', '.join(sorted(known))}, found {figure!r}")
    plain = figure.removeprefix("valid.").removeprefix("test.")
    watched = [run for run in runs if run.watch == plain and run.figure(figure) is not None]
    lower = plain in LOWER_IS_BETTER or any(not run.higher_is_better for run in watched)

    def place(run: Run) -> tuple[bool, float]:
        value = run.figure(figure)
        return value is None, 0.0 if value is None else value if lower else -value

    return sorted(runs, key=place)


# ---- Reading one


def read_run(folder: str | Path) -> Run:
    """The run in a folder; for a damaged one, ``reason`` says what is wrong."""
    folder = Path(folder)
    try:
        return _read(folder)
    except (SaccadeError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        message = str(error).removeprefix(f"{folder}{os.sep}")
        reason = message if isinstance(error, SaccadeError) else f"unexpected content: {type(error).__name__}: {error}"
        return Run(folder, folder.name, "damaged", reason, when=_changed(folder))


def _read(folder: Path) -> Run:
    about = _document(folder, RUN)
    status = _document(folder, STATUS)
    figures = _document(folder, FIGURES)
    config = read_config(folder) if holds_bundle(folder) else {}
    if figures and not config:
        raise InputError(folder / CONFIG, expected="the config of a trained model", found="no such file")
    if not (about or config or status):
        raise InputError(folder / RUN, expected="the record of a run's start", found="no such file")
    for name in config.get("files", {}):
        if not (current_file(folder, name).exists() or (folder / name).exists()):
            raise InputError(folder / name, expected="a file of the bundle", found="no such file")
    recipe = config.get("recipe", {})
    figures = figures or config.get("figures", {})
    watch = about.get("watch") or recipe.get("train", {}).get("watch")
    best = status.get("best", {})
    valid = _numbers(figures.get("valid", {})) or _numbers({best["metric"]: best["figure"]} if best else {})
    origin = _document(folder, ORIGIN).get("folder") or recipe.get("train", {}).get("from")
    run = Run(
        folder=folder,
        name=str(about.get("name") or config.get("name") or folder.name),
        state="",
        when=str(about.get("began") or _changed(folder)),
        task=str(about.get("task") or recipe.get("task", "")),
        model=str(about.get("model") or recipe.get("model", {}).get("name", "")),
        parameters=_whole(about.get("parameters", config.get("parameters"))),
        update=_whole(figures.get("updates", _newest_checkpoint(folder))),
        watch=watch,
        higher_is_better=bool(best.get("higher_is_better", watch not in LOWER_IS_BETTER)),
        valid=valid,
        test=_in_order(_numbers(figures.get("test", {})), recipe.get("metrics", ())),
        seconds=_number(figures.get("seconds")),
        origin=origin,
        notes=tuple(map(str, about.get("notes", ()))),
    )
    state, reason = _state(run, about, status)
    return replace(run, state=state, reason=reason)


def _state(run: Run, about: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, str]:
    """The state of a run and the reason: by its status, or by its files if it is an older run or was killed."""
    state, reason = str(status.get("state", "")), str(status.get("reason", ""))
    if state == "running":
        if status.get("host") != socket.gethostname():
            return "running", f"on {status.get('host')}, unless it was killed there"
        if _trains(run.folder, status):
            return "running", f"process {status.get('process')}"
        state = ""
    if state == "failed":
        return state, reason
    if run.test or (not about and not status):  # a saved bundle has no record of its training
        return "done", reason if state == "done" else ""
    if run.update is None:
        return "interrupted", "before its first checkpoint: train again"
    return "interrupted", f"saccade train --resume {run.folder}"


def _trains(folder: Path, status: Mapping[str, Any]) -> bool:
    """Whether the process of a status that says "running" still trains: by the run's lock, or else by its number."""
    with suppress(OSError):
        return lock_holder(folder / LOCK) is not None
    return alive(status.get("process"))


def _document(folder: Path, name: str) -> dict[str, Any]:
    if not os.path.exists(folder / name):
        return {}
    document = read_json(folder / name)
    if not isinstance(document, dict):
        raise InputError(folder / name, expected="a JSON object", found=f"a {type(document).__name__}")
    checked(_SCHEMAS[name], document, folder / name)
    return document


@dataclass(frozen=True)
class _Start:
    """The schema of ``run.json``."""

    name: str = ""
    folder: str = ""
    data: str = ""
    began: str = ""
    task: str = ""
    model: str = ""
    watch: str | None = None
    parameters: int | None = None
    changed: tuple[str, ...] = ()
    records: dict[str, int | None] | None = None


@dataclass(frozen=True)
class _Best:
    metric: str = ""
    figure: float | None = None
    higher_is_better: bool = False
    epoch: int | None = None
    update: int | None = None


@dataclass(frozen=True)
class _Status:
    """The schema of ``status.json``."""

    state: str = ""
    at: str = ""
    host: str = ""
    process: int | None = None
    reason: str = ""
    best: _Best | None = None


@dataclass(frozen=True)
class _Origin:
    """The schema of ``origin.json``."""

    folder: str = ""
    weights: str = ""
    files: dict[str, str] = field(default_factory=dict)


_SCHEMAS: dict[str, Any] = {RUN: _Start, STATUS: _Status, FIGURES: Figures, ORIGIN: _Origin}


def _newest_checkpoint(folder: Path) -> int | None:
    files = [path for path in _paths(folder / CHECKPOINTS) if path.name.startswith("state.")]
    numbers = [path.parent.name.removeprefix("update-") for path in files]
    return max((int(number) for number in numbers if number.isdigit()), default=None)


def _paths(folder: Path) -> list[Path]:
    """The files below a folder; what a training process removes meanwhile, or nobody may read, is left out."""
    return sorted(Path(place) / name for place, _, names in os.walk(folder) for name in names)


def _changed(folder: Path) -> str:
    try:
        return datetime.fromtimestamp(folder.stat().st_mtime).astimezone().isoformat(timespec="seconds")
    except OSError:
        return ""


def _seconds_of(when: str) -> float:
    try:
        return datetime.fromisoformat(when).timestamp()
    except ValueError:
        return 0.0


def _numbers(figures: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(figure) for name, figure in figures.items()}


def _in_order(figures: dict[str, float], names: Sequence[str]) -> dict[str, float]:
    """The metrics in the recipe's order."""
    return {name: figures[name] for name in dict.fromkeys([*names, *figures]) if name in figures}


def _number(figure: Any) -> float | None:
    return None if figure is None else float(figure)


def _whole(figure: Any) -> int | None:
    return None if figure is None else int(figure)


# ---- Describing one


def describe(folder: str | Path) -> dict[str, Any]:
    """Everything about one run as plain data: its line in the listing, recipe, signatures, evaluations and files."""
    folder = Path(folder)
    if not is_run(folder):
        found = "a folder without one" if folder.is_dir() else "no such folder"
        raise InputError(folder, expected="a run's folder, or a folder of runs", found=found)
    plain = read_run(folder).to_plain()
    config, about, origin = {}, {}, {}
    with suppress(SaccadeError):  # read_run has reported it
        config = read_config(folder) if holds_bundle(folder) else {}
        about, origin = _document(folder, RUN), _document(folder, ORIGIN)
    altered = read_together(folder, CONFIG, lambda: _altered(folder))
    if altered and plain["state"] != "damaged":
        plain |= {"state": "damaged", "reason": f"{altered}: expected the file as it was saved, found another"}
    figures = config.get("figures", {})
    plain |= {"epoch": figures.get("epoch"), "tokens": figures.get("tokens"), "records": about.get("records")}
    plain |= {"signatures": figures.get("signatures", {}), "changed": about.get("changed", [])}
    plain |= {"origin_weights": origin.get("weights"), "recipe": config.get("recipe")}
    return {**plain, "evaluations": _evaluations(folder), "files": _files(folder)}


def _altered(folder: Path) -> str | None:
    """The first file of the bundle whose checksum differs from its config's; too slow for a listing."""
    digests: Mapping[str, str] = {}
    with suppress(SaccadeError):  # read_run has reported it
        digests = read_config(folder).get("files", {}) if holds_bundle(folder) else {}
    for name, digest in digests.items():
        path = current_file(folder, name)
        try:
            if name != WEIGHTS:
                found = hashlib.sha256(read_bytes(path)).hexdigest()
            else:
                stored_tensors(path)  # a header that fits the size of the file
                with open(path, "rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
        except (SaccadeError, OSError):
            return name
        if found != digest:
            return name
    return None


def _evaluations(folder: Path) -> list[dict[str, float]]:
    """The rows of ``evaluations.csv``; an incomplete row, as a killed run may leave, is skipped."""
    try:
        with open(folder / "evaluations.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        return []
    whole = []
    for row in rows:
        try:
            whole.append({str(name): float(text) for name, text in row.items()})
        except (TypeError, ValueError):
            continue
    return whole


def _files(folder: Path) -> dict[str, int]:
    """File → size in bytes, recursively."""
    sizes = {}
    for path in _paths(folder):
        try:
            if path.is_file():
                sizes[path.relative_to(folder).as_posix()] = path.stat().st_size
        except OSError:
            continue
    return sizes
