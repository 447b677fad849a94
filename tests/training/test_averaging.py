"""Which networks of a run are averaged, that the mean is what a bundle holds, and that it says so."""

import csv
from pathlib import Path

import pytest
import torch
from torch import nn

from saccade import api
from saccade.training import loop
from saccade.training.averaging import Snapshots, mean_of
from saccade.training.config import Train
from saccade.training.report import Silence
from saccade.training.state import Progress
from tests.tiny import tiny

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def at(network: nn.Linear, number: float) -> nn.Linear:
    nn.init.constant_(network.weight, number)
    return network


def test_the_mean_of_weights_is_taken_number_by_number() -> None:
    mean = mean_of([{"w": torch.tensor([1.0, 5.0])}, {"w": torch.tensor([2.0, 7.0])}])
    assert mean["w"].tolist() == [1.5, 6.0]


def test_the_last_are_those_at_the_ends_of_epochs_or_some_updates_apart() -> None:
    network, progress = nn.Linear(1, 1), Progress()
    by_epoch, by_update = Snapshots(Train(average=2)), Snapshots(Train(average=3, average_every=4))
    for update in range(1, 21):
        progress.update = update
        at(network, update)
        for each in (by_epoch, by_update):
            each.after_update(network, progress)
            each.after_validation(network, progress, 1.0, higher=False)
            if update % 5 == 0:
                each.after_epoch(network, progress)
    assert list(by_epoch.by_update) == [15, 20] and list(by_update.by_update) == [12, 16, 20]
    assert float(mean_of(list(by_update.by_update.values()))["weight"]) == 16
    assert (str(by_epoch), str(by_update)) == ("the last 2 epochs", "3 networks, the last, 4 updates apart")


@pytest.mark.parametrize(("higher", "kept"), [(True, [3, 5]), (False, [1, 4])])
def test_the_best_are_those_with_the_best_figure(higher: bool, kept: list[int]) -> None:
    network, progress = nn.Linear(1, 1), Progress()
    snapshots = Snapshots(Train(average=2, average_of="best"))
    for update, figure in enumerate([2.0, 4.0, 6.0, 1.0, 5.0], start=1):
        progress.update = update
        snapshots.after_validation(at(network, update), progress, figure, higher=higher)
        snapshots.after_epoch(network, progress)
    assert sorted(snapshots.by_update) == kept == sorted(map(int, progress.figures))
    assert float(snapshots.by_update[kept[0]]["weight"]) == kept[0]


@pytest.mark.parametrize("options", [("train.average_every=4",), ("train.average_of=best", "train.evaluate_every=4")])
def test_the_bundle_holds_the_mean_and_its_card_says_so(options: tuple[str, ...], tmp_path: Path, monkeypatch) -> None:
    taken: list[dict[str, torch.Tensor]] = []
    monkeypatch.setattr(loop, "mean_of", lambda weights: taken.extend(weights) or mean_of(weights))
    # Nothing is learnt: all networks match nothing exactly, and a mean that is as good is kept.
    recipe = tiny("train.average=3", "train.watch=exact_match", "train.watch_records=5", "train.lr=1e-6", *options)
    bundle = api.train(recipe, folder=tmp_path / "run", report=Silence())
    updates = bundle.figures["averaged"]
    assert len(taken) == len(updates) == 3
    expected = mean_of(taken)
    for name, tensor in bundle.network.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)
    card = (tmp_path / "run" / "card.md").read_text()
    shown = ", ".join(map(str, updates))
    assert f"- Weights: the mean of 3 networks of one run, those after updates {shown}" in card
    with open(tmp_path / "run" / "log.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) >= max(updates)


def test_a_network_that_is_not_a_mean_does_not_say_so(tmp_path: Path) -> None:
    bundle = api.train(tiny("train.epochs=1"), folder=tmp_path / "run")
    assert "averaged" not in bundle.figures and "mean of" not in (tmp_path / "run" / "card.md").read_text()
