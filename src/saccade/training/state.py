"""Saves and restores the exact state of a training run, in safetensors and JSON: a resumed run continues bit for bit.

Network, optimisers, phase states, random number generators, position in the data, running sums, the best figure so far, the
weights stored for averaging. A checkpoint is one file, written atomically, before the older ones are removed: a complete one
exists at every moment.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import InputError, SaccadeError
from saccade.nn.language import CARRIED
from saccade.storage import load_tensors, save_tensors
from saccade.training.phases import ActivePhase

FORMAT = "saccade-checkpoint"
VERSION = 1
FILE = "state.safetensors"


@dataclass
class Progress:
    """How far a run has come. ``batch`` counts the batches of this epoch that are done."""

    epoch: int = 0
    batch: int = 0
    update: int = 0
    loss_total: float = 0.0  # over this epoch, where there is one phase
    loss_count: int = 0
    tokens: int = 0  # trained on, in all
    seconds: float = 0.0  # of training, without the time between resumed parts
    best: float | None = None
    best_epoch: int = 0  # of the saved network
    looked: int = 0  # the update of the last validation
    still: int = 0  # validations since the best
    plateau: int = 0  # validations since the best or the last shrink
    shrinks: int = 0
    threads: int = 1
    finished: bool = False
    figures: dict[str, float] = field(default_factory=dict)  # by update, the watched figure of the best networks
    averaged: list[int] = field(default_factory=list)  # the updates whose networks' mean is the best, if it is
    scaling: dict[str, float] = field(default_factory=dict)  # of losses in float16
    phase_losses: dict[str, list[float]] = field(default_factory=dict)  # with several phases: sum and count per phase
    stream: dict[str, Any] = field(default_factory=dict)  # the position in streamed training data


OPTIONAL = ("phase_losses", "stream")
"""Fields of :class:`Progress` that a checkpoint has only where they are not empty."""


def save_checkpoint(
    folder: Path,
    network: nn.Module,
    phases: Sequence[ActivePhase],
    progress: Progress,
    snapshots: Mapping[int, Mapping[str, Tensor]],
) -> Path:
    """Write ``folder/update-N``, then remove the older ones.

    The optimiser of a single phase is stored as ``optimiser.…``; of several each as ``phases.NAME.optimiser.…``.
    """
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    scalars: dict[str, Any] = {}
    for phase in phases:
        prefix = "" if len(phases) == 1 else f"phases.{phase.name}."
        optimiser_tensors, scalars[phase.name] = _pack(phase.optimiser)
        tensors |= {f"{prefix}optimiser.{name}": tensor for name, tensor in optimiser_tensors.items()}
        tensors |= {f"phases.{phase.name}.state.{name}": tensor for name, tensor in phase.phase.state.items()}
    for update, weights in snapshots.items():
        tensors |= {f"kept.{update}.{name}": tensor for name, tensor in weights.items()}
    tensors |= {f"carried.{name}": tensor for name, tensor in _carried(network).items()}
    tensors |= _random_state()
    plain = {name: value for name, value in asdict(progress).items() if value or name not in OPTIONAL}
    header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "progress": plain}
    header |= {"optimiser": scalars[phases[0].name]} if len(phases) == 1 else {"phases": scalars}
    final = folder / f"update-{progress.update:09d}"
    try:
        save_tensors(final / FILE, tensors, header)
    except SaccadeError as error:
        with suppress(OSError):
            final.rmdir()  # unless it has the checkpoint of this update
        raise SaccadeError(f"the checkpoint could not be saved: {error}; the one before it is whole") from error
    for other in folder.iterdir():  # older ones, and what a killed process left
        if other != final:
            shutil.rmtree(other, ignore_errors=True)
    return final


def _pack(optimiser: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, dict[str, Any]]]:
    """An optimiser's state: tensors by ``NUMBER.NAME`` of the parameter, and the rest by number and name."""
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, dict[str, Any]] = {}
    for number, state in optimiser.state_dict()["state"].items():
        for name, content in state.items():
            if isinstance(content, Tensor):
                tensors[f"{number}.{name}"] = content
            else:
                scalars.setdefault(str(number), {})[name] = content
    return tensors, scalars


def _unpack(
    optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor], scalars: Mapping[str, Mapping[str, Any]]
) -> None:
    states: dict[int, dict[str, Any]] = {int(number): dict(state) for number, state in scalars.items()}
    for name, tensor in tensors.items():
        number, _, rest = name.partition(".")
        states.setdefault(int(number), {})[rest] = tensor
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    for parameter, state in optimiser.state.items():
        for name, content in state.items():  # files hold rows in order; a fused step needs the parameter's own order
            if isinstance(content, Tensor) and content.shape == parameter.shape:
                state[name] = torch.empty_like(parameter, dtype=content.dtype).copy_(content)


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("update-*") if (path / FILE).is_file())


def load_checkpoint(
    path: Path, network: nn.Module, phases: Sequence[ActivePhase]
) -> tuple[Progress, dict[int, dict[str, Tensor]]]:
    """Restore everything, random number generators included; returns the progress and the weights stored for averaging."""
    tensors, header = load_tensors(path / FILE)
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("version") != VERSION:
        raise InputError(path / FILE, expected=f"a checkpoint of version {VERSION}", found="another file")
    parts = _by_prefix(tensors)
    network.load_state_dict(parts["network"])
    saved = (
        {phases[0].name: header["optimiser"]} if len(phases) == 1 and "phases" not in header else header.get("phases")
    )
    if saved is None or set(saved) != {phase.name for phase in phases}:
        expected = f"a checkpoint of the phases {', '.join(phase.name for phase in phases)}"
        raise InputError(path / FILE, expected=expected, found=", ".join(saved or ["one phase"]))
    by_phase = {name: _by_prefix(rest) for name, rest in _by_prefix(parts.get("phases", {})).items()}
    for phase in phases:
        own = by_phase.get(phase.name, {})
        optimiser = parts.get("optimiser", {}) if len(phases) == 1 else own.get("optimiser", {})
        _unpack(phase.optimiser, optimiser, saved[phase.name])
        state = own.get("state", {})
        if set(state) != set(phase.phase.state):
            expected = f"the state of phase {phase.name}: {', '.join(phase.phase.state) or 'none'}"
            raise InputError(path / FILE, expected=expected, found=", ".join(state) or "none")
        for name, tensor in state.items():
            phase.phase.state[name].copy_(tensor)
    snapshots = {int(update): weights for update, weights in _by_prefix(parts.get("kept", {})).items()}
    for name, tensor in parts.get("carried", {}).items():
        network.get_buffer(name).copy_(tensor)
    _restore_random_state(parts["random"])
    return Progress(**header["progress"]), snapshots


def _by_prefix(tensors: Mapping[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """Tensors grouped by the first word of their names, under the rest of them."""
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        prefix, _, rest = name.partition(".")
        parts.setdefault(prefix, {})[rest] = tensor
    return parts


def _carried(network: nn.Module) -> dict[str, Tensor]:
    """Recurrent states that a network carries from batch to batch, which are not part of its learnt weights."""
    return {name: tensor for name, tensor in network.named_buffers() if CARRIED in name.rpartition(".")[2]}


def _random_state() -> dict[str, Tensor]:
    state = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["random.cuda"] = torch.cuda.get_rng_state()
    if torch.backends.mps.is_available():
        state["random.mps"] = torch.mps.get_rng_state()
    return state


def _restore_random_state(state: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    if "mps" in state and torch.backends.mps.is_available():
        torch.mps.set_rng_state(state["mps"])
