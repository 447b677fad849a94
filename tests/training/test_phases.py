"""Several phases per update: each changes its own parameters, has its own loss in the log, and resumes bit for bit."""

from __future__ import annotations

import copy
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from saccade.errors import Interrupted, SaccadeError
from saccade.task import Loss, Phase
from saccade.training import stepping
from saccade.training.config import Train
from saccade.training.phases import resolve
from saccade.training.state import checkpoints
from saccade.training.stepping import Stepper
from tests.training.recorders import Repeater
from tests.training.small_tasks import (
    DieAt,
    Died,
    Gan,
    Numbers,
    Regression,
    Reinforce,
    assert_same_run,
    checkpoint,
    log,
    train,
)
from tests.training.test_loop import StopAt

SETTINGS = Train(device="cpu", batch_tokens=None, batch_records=8)


def generator_of(every: int = 1, steps: int = 1) -> Gan:
    task = Gan()
    task.every, task.steps = every, steps
    return task


def copies(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in network.named_parameters()}


def moved(network: nn.Module, before: dict[str, torch.Tensor]) -> set[str]:
    """The parts of a network whose parameters changed."""
    own = network.named_parameters()
    return {name.partition(".")[0] for name, parameter in own if not torch.equal(parameter, before[name])}


def batch_of(task: Any) -> Any:
    return task.batch(task.corpus(), range(8))


# A GAN --------------------------------------------------------------------------------------------------------------------


def test_a_gan_learns_where_its_numbers_lie(tmp_path: Path) -> None:
    task = Gan()
    network, outcome = train(task, tmp_path, task.corpus(), epochs=20)
    assert outcome.progress.update == 240
    with torch.no_grad():
        assert 2 < float(task.generated(network, 500).mean()) < 4, "the real mean is 3, the first generated one near 0"


def test_a_step_changes_the_parameters_of_its_phase_alone_and_leaves_no_gradients() -> None:
    task, network = Gan(), Gan.network()
    stepper, batch = Stepper(task, network, SETTINGS), batch_of(task)
    for phase in stepper.phases:
        before = copies(network)
        loss, norm = stepper.update(batch, 1e-2, phase=phase).read()
        assert math.isfinite(loss) and norm > 0
        assert moved(network, before) == {phase.name}
        assert all(parameter.grad is None and parameter.requires_grad for parameter in network.parameters())


def test_a_phase_computes_no_gradients_for_the_parameters_of_others() -> None:
    task, network = Gan(), Gan.network()
    stepper = Stepper(task, network, SETTINGS)
    seen: list[set[str]] = []
    stepper._apply = lambda active, lr: (  # type: ignore[method-assign]
        seen.append({name.partition(".")[0] for name, each in network.named_parameters() if each.grad is not None})
        or active.optimiser.zero_grad()
        or torch.zeros(())
    )
    stepper.update_phases([batch_of(task)], lambda settings: 0.1)
    stepper.update_phases([batch_of(task)] * 2, lambda settings: 0.1)
    assert seen == [{"discriminator"}, {"generator"}] * 2


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"accumulate": 2},
        {"average": 2, "tensorboard": True},
        {"evaluate_every": 4, "schedule": "plateau", "patience": 0},
        {"precision": "bf16"},
    ],
)
def test_a_gan_that_dies_at_an_odd_update_resumes_bit_for_bit(options: dict[str, Any], tmp_path: Path) -> None:
    if "tensorboard" in options:
        pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    task = generator_of(every=2, steps=2)
    train(task, tmp_path / "whole", task.corpus(), **options)
    with pytest.raises(Died):
        train(task, tmp_path / "cut", task.corpus(), report=DieAt(5), **options)
    assert [path.name for path in checkpoints(tmp_path / "cut" / "checkpoints")] == ["update-000000003"]
    torch.manual_seed(99)
    train(task, tmp_path / "cut", task.corpus(), resume=True, **options)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_a_gan_stopped_by_a_signal_resumes_bit_for_bit(tmp_path: Path) -> None:
    task = Gan()
    train(task, tmp_path / "whole", task.corpus())
    with pytest.raises(Interrupted):
        train(task, tmp_path / "cut", task.corpus(), report=StopAt(13, signal.SIGINT))
    train(task, tmp_path / "cut", task.corpus(), resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


def test_each_phase_has_its_columns_and_its_rate(tmp_path: Path) -> None:
    task = generator_of(every=3)
    train(task, tmp_path, task.corpus(), epochs=1, schedule="linear")
    rows = log(tmp_path)
    assert list(rows[0]) == [
        "update", "epoch", "loss_discriminator", "loss_generator", "lr_discriminator", "lr_generator",
        "norm_discriminator", "norm_generator", "tokens",
    ]  # fmt: skip
    assert all(float(row["loss_discriminator"]) > 0 and row["tokens"] == "8" for row in rows)
    assert [row["update"] for row in rows if row["loss_generator"]] == ["3", "6", "9", "12"]
    assert [bool(row["lr_generator"]) for row in rows] == [bool(row["norm_generator"]) for row in rows]
    assert float(rows[11]["lr_discriminator"]) == pytest.approx(2e-2 / 12)
    (evaluation,) = log(tmp_path, "evaluations.csv")
    assert list(evaluation) == ["update", "epoch", "train_loss_discriminator", "train_loss_generator", "loss"]
    mean = sum(float(row["loss_generator"] or 0) for row in rows) / 4
    assert float(evaluation["train_loss_generator"]) == pytest.approx(mean)


def test_a_phase_that_has_not_run_yet_has_no_loss(tmp_path: Path) -> None:
    task = generator_of(every=99)
    before = copies(task.network())
    network, _ = train(task, tmp_path, task.corpus(), epochs=1)
    assert log(tmp_path, "evaluations.csv")[0]["train_loss_generator"] == "nan"
    assert moved(network, before) == {"discriminator"}


def test_several_steps_per_update_follow_one_another() -> None:
    torch.manual_seed(3)
    task, network = generator_of(steps=3), Gan.network()
    once = copy.deepcopy(network)
    stepper, by_hand = Stepper(task, network, SETTINGS), Stepper(Gan(), once, SETTINGS)
    torch.manual_seed(3)
    stepper.update_phases([batch_of(task)], lambda settings: settings.lr)
    torch.manual_seed(3)
    discriminator, generator = by_hand.phases
    for phase in (discriminator, generator, generator, generator):
        by_hand.update(batch_of(task), phase.settings.lr, phase=phase)
    for one, other in zip(network.parameters(), once.parameters(), strict=True):
        assert torch.equal(one, other)


def test_phases_have_their_own_settings() -> None:
    stepper = Stepper(Gan(), Gan.network(), replace(SETTINGS, clip=0.7))
    discriminator, generator = stepper.phases
    assert (discriminator.settings.clip, generator.settings.clip) == (None, 0.7)
    assert generator.optimiser.param_groups[0]["betas"] == (0.5, 0.9)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_recorded_phases_make_the_updates_of_eager_ones(accumulate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    task, network, recorder = Gan(), Gan.network(), Repeater()
    eager = copy.deepcopy(network)
    found = []
    for each, chosen in ((network, recorder), (eager, None)):
        monkeypatch.setattr(stepping, "recorder_for", lambda device, chosen=chosen: chosen)
        said: list[str] = []
        stepper = Stepper(task, each, SETTINGS, said.append)
        torch.manual_seed(3)
        made = [
            [list(step.read()) for step in stepper.update_phases([batch_of(task)] * accumulate, lambda own: own.lr)]
            for _ in range(4)
        ]
        found.append(torch.tensor(made))
        assert said == []
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=1e-6)
    assert (recorder.recorded, recorder.repeated) == (2, 8 * accumulate), "one graph per phase"
    for one, other in zip(network.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def rated(rates: dict[str, float]) -> Any:
    """A task of one phase, some of whose parameters have rates of their own."""

    class Rated(Regression):
        def phases(self, network: Any) -> tuple[Phase, ...]:
            return (Phase("train", self.loss, rates=rates),)

    return Rated()


def test_parameters_with_a_rate_of_their_own_follow_the_schedule_too() -> None:
    task, network = rated({"*bias": 0.4, "0": 0.1}), Regression.network()
    stepper, before = Stepper(task, network, replace(SETTINGS, optimiser="sgd", lr=0.2, clip=None)), copies(network)
    stepper.update(Numbers(torch.randn(8, 3), 8), 0.02)  # a tenth of train.lr
    rates = {"0.weight": 0.01, "0.bias": 0.04, "3.weight": 0.02, "3.bias": 0.04}  # the first pattern counts
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.any())
        torch.testing.assert_close(before[name] - parameter.detach(), rates[name] * parameter.grad)


def test_rates_of_parameters_that_are_not_there_or_frozen_are_refused() -> None:
    with pytest.raises(SaccadeError, match=r"phase 'train'.*such as 0, 3.*'decoder'"):
        Stepper(rated({"decoder": 0.1}), Regression.network(), SETTINGS)
    with pytest.raises(SaccadeError, match=r"phase 'train'.*all of them are frozen"):
        Stepper(rated({"3": 0.1}), Regression.network(), replace(SETTINGS, freeze=("3",)))


def test_a_loss_that_is_not_finite_names_its_phase(tmp_path: Path) -> None:
    class Steep(Gan):
        def loss(self, network: Any, batch: Any, **options: float) -> Loss:
            loss = super().loss(network, batch, **options)
            return Loss(loss.total * math.inf, loss.count)

    with pytest.raises(SaccadeError, match="update 1, phase generator: expected a finite loss, found inf"):
        train(Steep(), tmp_path, Gan.corpus())


def test_a_checkpoint_of_other_phases_is_refused(tmp_path: Path) -> None:
    class Renamed(Gan):
        def phases(self, network: Any) -> tuple[Phase, ...]:
            first, second = super().phases(network)
            return first, replace(second, name="painter")

    class Single(Gan):
        def phases(self, network: Any) -> tuple[Phase, ...]:
            return (Phase("train", self.loss),)

    train(Gan(), tmp_path / "two", Gan.corpus(), epochs=1)
    train(Single(), tmp_path / "one", Gan.corpus(), epochs=1)
    for task, folder, expected, found in (
        (Renamed(), "two", "discriminator, painter", "discriminator, generator"),
        (Single(), "two", "train", "discriminator, generator"),
        (Gan(), "one", "discriminator, generator", "one phase"),
    ):
        with pytest.raises(SaccadeError, match=f"phases {expected}.*{found}"):
            train(task, tmp_path / folder, Gan.corpus(), epochs=2, resume=True)


# REINFORCE ----------------------------------------------------------------------------------------------------------------


def test_reinforce_learns_with_a_baseline_that_a_checkpoint_holds(tmp_path: Path) -> None:
    task = Reinforce()
    _, outcome = train(task, tmp_path / "whole", task.corpus(), epochs=8, lr=0.05)
    evaluations = [float(row["loss"]) for row in log(tmp_path / "whole", "evaluations.csv")]
    assert evaluations[-1] < 0.5 * evaluations[0]
    assert float(checkpoint(tmp_path / "whole")["phases.policy.state.baseline"]) > 0.7, "most choices are right by now"
    assert list(log(tmp_path / "whole")[0]) == ["update", "epoch", "loss", "lr", "norm", "tokens"]
    with pytest.raises(Died):
        train(task, tmp_path / "cut", task.corpus(), epochs=8, lr=0.05, report=DieAt(17))
    train(task, tmp_path / "cut", task.corpus(), epochs=8, lr=0.05, resume=True)
    assert_same_run(tmp_path / "cut", tmp_path / "whole")
    assert outcome.progress.update == 96


# What is refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([], "at least one training phase"),
        ([("a", ("discriminator",), {}), ("a", ("generator",), {})], "'a' in"),
        ([("a b", ("*",), {})], "'a b'"),
        ([("a", ("decoder",), {})], "phase 'a'.*generator, discriminator.*'decoder'"),
        ([("a", ("generator",), {})], "4 in none, such as 'discriminator.0.weight'"),
        ([("a", ("*",), {"epochs": 3})], "phase 'a'.*optimiser, lr.*found epochs"),
        ([("a", ("*",), {"lr": -1.0})], "phase 'a': lr must be positive: got -1.0"),
    ],
)
def test_phases_that_contradict_the_network_are_refused(phases: list[Any], message: str) -> None:
    made = [Phase(name, lambda *given, **options: None, parameters, settings) for name, parameters, settings in phases]
    with pytest.raises(SaccadeError, match=message):
        resolve(made, Gan.network(), SETTINGS)


@pytest.mark.parametrize("field", ["every", "steps"])
def test_a_phase_runs_at_least_once(field: str) -> None:
    with pytest.raises(SaccadeError, match=f"phase 'a': {field} must be at least 1: got 0"):
        resolve([replace(Phase("a", Regression().loss), **{field: 0})], Gan.network(), SETTINGS)


def test_a_phase_whose_parameters_are_all_frozen_is_refused() -> None:
    with pytest.raises(SaccadeError, match=r"phase 'generator'.*frozen"):
        Stepper(Gan(), Gan.network(), replace(SETTINGS, freeze=("generator",)))
