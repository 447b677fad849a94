"""The exact state of a training run, in safetensors and JSON: what is loaded goes on as if nothing had happened.

Network, optimiser, random number generators, place in the data, running sums, the best so far, the weights kept for
averaging. A checkpoint is written to a fresh folder and renamed: there is a whole one at every moment.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.errors import InputError, SaccadeError
from saccade.nn.language import CARRIED
from saccade.storage import load_tensors, save_tensors

FORMAT = "saccade-checkpoint"
VERSION = 1
FILE = "state.safetensors"


@dataclass
class Progress:
    """Where a run stands. ``batch`` counts the batches of this epoch that are done."""

    epoch: int = 0
    batch: int = 0
    update: int = 0
    loss_total: float = 0.0  # over this epoch
    loss_count: int = 0
    tokens: int = 0  # trained on, in all
    seconds: float = 0.0  # of training proper
    best: float | None = None
    best_epoch: int = 0  # of the network that is kept
    looked: int = 0  # the update after which the validation set was last looked at
    still: int = 0  # evaluations since the best
    plateau: int = 0  # evaluations since the best or the last shrink
    shrinks: int = 0
    threads: int = 1
    finished: bool = False
    figures: dict[str, float] = field(
        default_factory=dict
    )  # the watched figure of networks kept as the best, by update
    averaged: list[int] = field(default_factory=list)  # the updates whose networks' mean is the best; else none
    scaling: dict[str, float] = field(default_factory=dict)  # in float16, how losses are scaled; else nothing


def save_checkpoint(
    folder: Path,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    kept: Mapping[int, Mapping[str, Tensor]],
) -> Path:
    """Write ``folder/update-N`` whole, then drop the older ones."""
    tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
    packed = optimiser.state_dict()
    scalars: dict[str, dict[str, Any]] = {}
    for number, state in packed["state"].items():
        for name, content in state.items():
            if isinstance(content, Tensor):
                tensors[f"optimiser.{number}.{name}"] = content
            else:
                scalars.setdefault(str(number), {})[name] = content
    for update, weights in kept.items():
        tensors |= {f"kept.{update}.{name}": tensor for name, tensor in weights.items()}
    tensors |= {f"carried.{name}": tensor for name, tensor in _carried(network).items()}
    tensors |= _random_state()
    header = {"format": FORMAT, "version": VERSION, "progress": asdict(progress), "optimiser": scalars}
    fresh, final = folder / f".update-{progress.update:09d}.partial", folder / f"update-{progress.update:09d}"
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        save_tensors(fresh / FILE, tensors, header)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(fresh, final)
    except (OSError, SaccadeError) as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise SaccadeError(f"the checkpoint could not be saved: {error}; the one before it is whole") from error
    for older in checkpoints(folder)[:-1]:
        shutil.rmtree(older, ignore_errors=True)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    return sorted(path for path in folder.glob("update-*") if (path / FILE).is_file())


def load_checkpoint(
    path: Path, network: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[Progress, dict[int, dict[str, Tensor]]]:
    """Put everything back, random number generators included."""
    tensors, header = load_tensors(path / FILE)
    if not isinstance(header, dict) or header.get("format") != FORMAT or header.get("version") != VERSION:
        raise InputError(path / FILE, expected=f"a checkpoint of version {VERSION}", found="another file")
    parts: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        part, _, rest = name.partition(".")
        parts.setdefault(part, {})[rest] = tensor
    network.load_state_dict(parts["network"])
    packed = optimiser.state_dict()
    states: dict[int, dict[str, Any]] = {int(number): dict(state) for number, state in header["optimiser"].items()}
    for name, tensor in parts.get("optimiser", {}).items():
        number, _, rest = name.partition(".")
        states.setdefault(int(number), {})[rest] = tensor
    optimiser.load_state_dict({"state": states, "param_groups": packed["param_groups"]})
    kept: dict[int, dict[str, Tensor]] = {}
    for name, tensor in parts.get("kept", {}).items():
        update, _, rest = name.partition(".")
        kept.setdefault(int(update), {})[rest] = tensor
    for name, tensor in parts.get("carried", {}).items():
        network.get_buffer(name).copy_(tensor)
    _restore_random_state(parts["random"])
    return Progress(**header["progress"]), kept


def _carried(network: nn.Module) -> dict[str, Tensor]:
    """What a network carries from batch to batch; it is no part of what it learnt."""
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
