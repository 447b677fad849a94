"""The loop: same seed, same numbers; stopped and resumed, the same numbers still."""

import csv
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from rich.console import Console

import saccade
from saccade import api
from saccade.errors import Interrupted, SaccadeError
from saccade.storage import load_tensors
from saccade.task import Loss
from saccade.tasks.translate import Translate
from saccade.training import devices, stepping
from saccade.training.report import Silence, Terminal
from tests.tiny import tiny
from tests.training.recorders import Repeater

ROOT = Path(__file__).parents[2]
KILLED_AT = 15  # 11 updates an epoch, a checkpoint every 4: in mid-epoch, between two checkpoints


def losses(folder: Path) -> list[tuple[str, str, str, str]]:
    with open(folder / "log.csv", newline="") as file:
        return [(row["update"], row["loss"], row["lr"], row["norm"]) for row in csv.DictReader(file)]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """The weights of the last checkpoint: where the run ended, not its best epoch."""
    state = sorted((folder / "checkpoints").glob("update-*"))[-1] / "state.safetensors"
    return {name: tensor for name, tensor in load_tensors(state)[0].items() if not name.startswith("random")}


class StopAt(Silence):
    """Sends a signal to this process after an update."""

    def __init__(self, update: int, number: int) -> None:
        self.at, self.number = update, number

    def update(self, done: int, epoch: int, loss: float) -> None:
        if done == self.at:
            os.kill(os.getpid(), self.number)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    api.train(tiny(), folder=folder)
    return folder


def assert_same_run(folder: Path, whole: Path) -> None:
    assert losses(folder) == losses(whole)
    expected = weights(whole)
    found = weights(folder)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


def test_the_same_seed_gives_the_same_numbers(whole, tmp_path):
    api.train(tiny(), folder=tmp_path / "again")
    assert_same_run(tmp_path / "again", whole)


def test_another_seed_gives_other_numbers(whole, tmp_path):
    api.train(tiny("train.seed=2"), folder=tmp_path / "other")
    assert losses(tmp_path / "other") != losses(whole)


def test_a_run_killed_in_mid_epoch_and_resumed_equals_an_uninterrupted_one(whole, tmp_path):
    program = (
        "import signal; from saccade import api; from tests.tiny import tiny; from tests.training.test_loop import StopAt; "
        f"api.train(tiny(), folder={str(tmp_path / 'killed')!r}, report=StopAt({KILLED_AT}, signal.SIGKILL))"
    )
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(losses(tmp_path / "killed")) < len(losses(whole))
    api.resume(tmp_path / "killed")
    assert_same_run(tmp_path / "killed", whole)


def test_ctrl_c_saves_and_says_how_to_resume(whole, tmp_path):
    with pytest.raises(Interrupted, match=r"saccade train --resume .*interrupted"):
        api.train(tiny(), folder=tmp_path / "interrupted", report=StopAt(6, signal.SIGINT))
    assert len(losses(tmp_path / "interrupted")) == 6
    api.resume(tmp_path / "interrupted")
    assert_same_run(tmp_path / "interrupted", whole)


def test_a_time_limit_ends_a_run_with_its_best_network_and_resuming_continues(tmp_path):
    free, limited = tmp_path / "free", tmp_path / "limited"
    api.train(tiny("train.updates=3"), folder=free)
    recipe = tiny("train.updates=3", "train.minutes=1e-9")
    bundle = api.train(recipe, folder=limited)
    for update in (1, 2, 3):
        run = api.read_run(limited)
        assert (run.state, run.update, bundle.figures["updates"]) == ("done", update, update)
        assert ("train.minutes" in run.reason and f"--resume {limited}" in run.reason) is (update < 3)
        assert bundle.figures["test"] and bundle.figures["valid"] and saccade.load(limited).figures == bundle.figures
        bundle = api.resume(limited)
    assert_same_run(limited, free)
    assert [row["update"] for row in csv.DictReader(open(limited / "evaluations.csv"))] == ["1", "2", "3"]  # noqa: SIM115
    assert api.plan(recipe).minutes == 1e-9


def test_a_time_limit_may_fall_on_the_end_of_an_epoch(tmp_path):
    sizes = ("data.dates.train=64", "train.epochs=2", "train.batch_records=32", "train.average=2")
    api.train(tiny(*sizes), folder=tmp_path / "free")
    api.train(tiny(*sizes, "train.minutes=1e-9"), folder=tmp_path / "limited")
    for _ in range(3):
        assert api.read_run(tmp_path / "limited").reason
        bundle = api.resume(tmp_path / "limited")
    assert not api.read_run(tmp_path / "limited").reason and bundle.figures["updates"] == 4
    assert_same_run(tmp_path / "limited", tmp_path / "free")


def test_resuming_a_finished_run_changes_nothing(whole):
    before = losses(whole)
    api.resume(whole)
    assert losses(whole) == before


def test_resuming_with_other_data_is_refused(tmp_path):
    pairs = [(f"quelle {number}", f"ziel {number}") for number in range(40)]
    recipe = tiny("train.epochs=1")
    api.train(recipe, pairs, folder=tmp_path / "run")
    with pytest.raises(SaccadeError, match="the data that the run started with"):
        api.resume(tmp_path / "run", [("anders", "x"), *pairs])


def test_a_loss_that_is_not_finite_stops_the_run_and_says_what_to_try(tmp_path):
    with pytest.raises(SaccadeError, match=r"update \d+: expected a finite loss, found (nan|inf).*train\.lr"):
        api.train(tiny("train.lr=1e30", "train.clip=null", "train.optimiser=sgd"), folder=tmp_path / "run")


def test_a_validation_loss_that_is_not_finite_stops_the_run_too(tmp_path):
    recipe = tiny(
        "train.lr=1e30", "train.clip=null", "train.optimiser=sgd", "train.updates=1", "train.watch=exact_match"
    )
    with pytest.raises(SaccadeError, match=r"validation after update 1: expected a finite loss, found (nan|inf)"):
        api.train(recipe, folder=tmp_path / "run")


def test_early_stopping_stops_when_nothing_improves(tmp_path):
    recipe = tiny("train.epochs=9", "train.stop_after=2", "train.lr=1e-12")
    bundle = api.train(recipe, folder=tmp_path / "run")
    assert bundle.figures["updates"] < 9 * 11

    class Told(Silence):
        said: ClassVar[list[str]] = []

        def say(self, text: str) -> None:
            self.said.append(text)

    api.resume(tmp_path / "run", report=Told())
    assert any(text.endswith("; it had ended before: no progress in 2 evaluations") for text in Told.said)
    assert "every epoch" not in " ".join(Told.said)


def test_early_stopping_need_not_wait_for_the_end_of_an_epoch(tmp_path):
    recipe = tiny("train.stop_after=2", "train.evaluate_every=2", "train.lr=1e-30")
    bundle = api.train(recipe, folder=tmp_path / "run")
    assert bundle.figures["updates"] == 6, "the first is the best, and two more are no better"


def test_the_validation_set_is_looked_at_every_so_many_updates_and_at_the_end_of_an_epoch(tmp_path):
    api.train(tiny("train.evaluate_every=5"), folder=tmp_path / "run")
    with open(tmp_path / "run" / "evaluations.csv", newline="") as file:
        assert [row["update"] for row in csv.DictReader(file)] == ["5", "10", "11", "15", "20", "22"]


def test_updates_bound_a_run(tmp_path):
    bundle = api.train(tiny("train.updates=5"), folder=tmp_path / "run")
    assert bundle.figures["updates"] == 5 == len(losses(tmp_path / "run"))


def test_averaging_keeps_the_mean_only_if_it_is_better(tmp_path):
    class Heard(Silence):
        said: list[str] = []  # noqa: RUF012

        def say(self, text: str) -> None:
            self.said.append(text)

    recipe = tiny("train.average=2", "train.epochs=3")
    api.train(recipe, folder=tmp_path / "run", report=Heard())
    assert any("average of the last 2 epochs: loss" in text for text in Heard.said)


WILD = ("model.init=torch", "train.epochs=6", "train.lr=0.3")  # the validation loss goes up and down


@pytest.mark.parametrize(
    ("how", "taken"), [((), "one network was"), (("train.average_every=99",), "no network was")], ids=["one", "none"]
)
def test_a_run_with_nothing_to_average_says_so(tmp_path, how, taken):
    said: list[str] = []

    class Heard(Silence):
        def say(self, text: str) -> None:
            said.append(text)

    bundle = api.train(tiny("train.average=3", "train.epochs=1", *how), folder=tmp_path / "run", report=Heard())
    assert f"nothing to average: train.average is 3, but {taken} copied for it, so the saved network stays" in said
    assert "averaged" not in bundle.figures


@pytest.mark.parametrize(
    ("model", "given", "width"),
    [
        ("transformer, layers: 1, width: 6, heads: 3", "", 6),
        ("transformer, layers: 1, width: 6, heads: 3", ", width: 512", 512),
        ("rnnsearch, hidden: 5", "", 512),
    ],
    ids=["own", "given", "none"],
)
def test_noam_reckons_by_the_models_own_width_unless_one_is_given(tmp_path, model, given, width):
    (tmp_path / "my.yaml").write_text(
        "task: translate\ndata: {source: dates, dates: {train: 40, valid: 5, test: 5}}\n"
        f"model: {{name: {model}}}\n"
        f"train: {{schedule: noam, lr: 1.0, warmup: 7, epochs: 1, updates: 3, device: cpu{given}}}\n"
    )
    bundle = api.train(tmp_path / "my.yaml", folder=tmp_path / "run")
    rates = [float(lr) for _, _, lr, _ in losses(tmp_path / "run")]
    assert rates == pytest.approx([width**-0.5 * update * 7**-1.5 for update in range(1, len(rates) + 1)])
    assert bundle.recipe.train.width == (512 if given else None)


def test_the_last_network_is_kept_where_it_is_asked_for_though_an_earlier_one_was_better(tmp_path):
    best = api.train(tiny(*WILD), folder=tmp_path / "best")
    last = api.train(tiny(*WILD, "train.keep=last"), folder=tmp_path / "last")
    assert best.figures["valid"]["loss"] < last.figures["valid"]["loss"], "the run must be one that gets worse"
    assert best.figures["epoch"] < last.figures["epoch"] == 6
    told = "Weights: the last of the run; the validation records were not used to choose them"
    assert [told in (tmp_path / name / "card.md").read_text() for name in ("best", "last")] == [False, True]
    there = weights(tmp_path / "last")
    for name, tensor in last.network.state_dict().items():
        assert torch.equal(tensor, there[f"network.{name}"]), name


def test_a_run_that_keeps_its_last_network_continues_after_an_interrupt(tmp_path):
    whole = api.train(tiny(*WILD, "train.keep=last"), folder=tmp_path / "whole")
    with pytest.raises(Interrupted):
        api.train(tiny(*WILD, "train.keep=last"), folder=tmp_path / "cut", report=StopAt(KILLED_AT, signal.SIGTERM))
    again = api.resume(tmp_path / "cut")
    assert again.figures["epoch"] == 6
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name]), name


@pytest.mark.parametrize(
    ("keep", "verdict"), [("best", "(not saved: the best single network has "), ("last", "(saved)")]
)
def test_with_the_last_network_an_average_is_kept_though_it_is_worse(tmp_path, keep, verdict):
    class Heard(Silence):
        said: ClassVar[list[str]] = []

        def say(self, text: str) -> None:
            self.said.append(text)

    Heard.said.clear()
    bundle = api.train(
        tiny("train.average=3", "train.epochs=3", f"train.keep={keep}"), folder=tmp_path / "run", report=Heard()
    )
    assert any(text.startswith("average of the last 3 epochs: loss") and verdict in text for text in Heard.said), (
        Heard.said
    )
    assert ("averaged" in bundle.figures) == (keep == "last")


def test_scheduled_sampling_label_smoothing_and_tensorboard_run(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    options = ("train.sampling=0.5", "train.label_smoothing=0.1", "train.tensorboard=true", "train.epochs=1")
    api.train(tiny(*options), folder=tmp_path / "run")
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


def test_mixed_precision_runs_on_the_cpu(tmp_path):
    bundle = api.train(tiny("train.precision=bf16", "train.epochs=1"), folder=tmp_path / "run")
    assert next(bundle.network.parameters()).dtype == torch.float32


def test_how_losses_are_scaled_in_float16_continues_where_it_was(tmp_path, monkeypatch):
    """A CPU does not train in float16; a scaler stands in for it there."""
    made, seen = stepping.make_fabric, list[float]()

    def scaled(settings):
        fabric = made(settings)
        fabric.strategy.precision.scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        return fabric

    monkeypatch.setattr(stepping, "make_fabric", scaled)
    update = stepping.Stepper.update_by

    def watched(self, *args, **options):
        seen.append(self.scaling["scale"])
        return update(self, *args, **options)

    monkeypatch.setattr(stepping.Stepper, "update_by", watched)
    recipe = tiny("train.precision=bf16", "train.epochs=1", "train.optimiser=sgd")
    api.train(recipe, folder=tmp_path / "whole")
    whole = list(seen)
    assert whole[:5] == [8.0, 8.0, 16.0, 16.0, 32.0]
    seen.clear()
    with pytest.raises(Interrupted):
        api.train(recipe, folder=tmp_path / "again", report=StopAt(5, signal.SIGTERM))
    api.resume(tmp_path / "again")
    assert seen == whole


def test_float16_is_refused_on_a_cpu(tmp_path):
    with pytest.raises(SaccadeError, match=r"train\.precision: expected 32 or bf16 on a CPU, .* found '16'"):
        api.train(tiny("train.precision=16"), folder=tmp_path / "run")


def test_a_run_is_evaluated_and_returned_on_the_device_that_its_recipe_names(tmp_path, monkeypatch):
    from saccade.api import bundle

    place, asked = bundle._device, []
    monkeypatch.setattr(bundle, "_device", lambda name: asked.append(name) or place(name))
    api.train(tiny("train.updates=1"), folder=tmp_path / "run")
    assert asked == ["cpu"]


def test_an_absent_device_is_named(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so cuda is no absent device")
    with pytest.raises(SaccadeError, match=r"train\.device: expected one of this machine's devices \(cpu"):
        api.train(tiny("train.device=cuda"), folder=tmp_path / "run")


def test_a_full_disk_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    import saccade.storage as storage

    real, full = os.fsync, []

    def fsync(handle: int) -> None:
        if full:
            raise OSError(28, "No space left on device")
        real(handle)

    class FillsUp(Silence):
        def update(self, done: int, epoch: int, loss: float) -> None:
            if done == 6:
                full.append(True)

    monkeypatch.setattr(storage.os, "fsync", fsync)
    with pytest.raises(SaccadeError, match="No space left on device"):
        api.train(tiny(), folder=tmp_path / "run", report=FillsUp())
    full.clear()
    assert [path.name for path in (tmp_path / "run" / "checkpoints").iterdir()] == ["update-000000004"]
    assert isinstance(api.resume(tmp_path / "run"), saccade.Bundle)


def test_a_run_stopped_between_an_update_and_its_evaluation_evaluates_before_it_continues(tmp_path):
    recipe = tiny("train.evaluate_every=2", "train.schedule=plateau", "train.patience=0", "train.epochs=1")
    api.train(recipe, folder=tmp_path / "whole")
    with pytest.raises(Interrupted):
        api.train(recipe, folder=tmp_path / "stopped", report=StopAt(4, signal.SIGINT))
    api.resume(tmp_path / "stopped")
    assert_same_run(tmp_path / "stopped", tmp_path / "whole")
    assert (tmp_path / "whole/evaluations.csv").read_text() == (tmp_path / "stopped/evaluations.csv").read_text()


# Where losses are read late, as on a GPU ----------------------------------------------------------------------------------


def test_losses_that_are_read_late_are_logged_whole_and_in_order(tmp_path, monkeypatch):
    plain = ("train.epochs=1", "model.dropout=0", "train.save_every=null")
    api.train(tiny(*plain), folder=tmp_path / "at once")
    recorder = Repeater()
    monkeypatch.setattr(stepping, "recorder_for", lambda device: recorder)

    class Watching(Silence):
        waiting: ClassVar[list[int]] = []

        def update(self, done: int, epoch: int, loss: float) -> None:
            self.waiting.append(recorder.sent - done)

    api.train(tiny(*plain), folder=tmp_path / "late", report=Watching())
    late, at_once = losses(tmp_path / "late"), losses(tmp_path / "at once")
    assert [row[0] for row in late] == [row[0] for row in at_once]
    for one, other in zip(late, at_once, strict=True):
        assert [float(number) for number in one] == pytest.approx([float(number) for number in other], rel=1e-4)
    # The next update is sent before the loss of one is read; at the end of the epoch none is left unread.
    assert Watching.waiting == [1] * (len(late) - 1) + [0]
    assert recorder.repeated == len(late) > recorder.recorded


@pytest.mark.parametrize("save_every", [2, 3])
def test_a_loss_that_is_not_finite_is_refused_before_anything_is_kept_of_it(save_every, tmp_path, monkeypatch):
    monkeypatch.setattr(stepping, "recorder_for", lambda device: Repeater())
    recipe = tiny("train.lr=1e30", "train.clip=null", "train.optimiser=sgd", f"train.save_every={save_every}")
    with pytest.raises(
        SaccadeError, match=r"update 2: expected a finite loss, found (nan|inf); no checkpoint was reached"
    ):
        api.train(recipe, folder=tmp_path / "run")
    assert not list((tmp_path / "run").glob("checkpoints/update-*"))
    assert [row[0] for row in losses(tmp_path / "run")] == ["1"]


@pytest.mark.parametrize("late", [False, True])
def test_a_gradient_that_is_not_finite_is_refused_before_the_network_it_spoilt_is_saved(late, tmp_path, monkeypatch):
    plain, taught = Translate.loss, []

    def steep(task, network, batch, **options):
        loss = plain(task, network, batch, **options)
        taught.append(batch)
        # √x is 0 at 0, and infinitely steep: the loss is finite, its gradient is not.
        return Loss(loss.total + (loss.total * 0).sqrt(), loss.count) if len(taught) == 4 else loss

    monkeypatch.setattr(Translate, "loss", steep)
    if late:
        monkeypatch.setattr(stepping, "recorder_for", lambda device: Repeater())
    recipe = tiny("train.save_every=1", "train.graphs=off")
    with pytest.raises(
        SaccadeError, match=r"update 4: expected a finite gradient, found nan; .*update-0+3 is complete"
    ):
        api.train(recipe, folder=tmp_path / "run")
    tensors, _ = load_tensors(next((tmp_path / "run" / "checkpoints").glob("update-*/state.safetensors")))
    assert all(bool(tensor.isfinite().all()) for tensor in tensors.values())
    assert [row[0] for row in losses(tmp_path / "run")] == ["1", "2", "3"]


def test_a_run_whose_losses_are_read_late_is_stopped_and_resumed_without_a_gap(tmp_path, monkeypatch):
    monkeypatch.setattr(stepping, "recorder_for", lambda device: Repeater())
    with pytest.raises(Interrupted):
        api.train(tiny("train.epochs=1"), folder=tmp_path / "run", report=StopAt(6, signal.SIGINT))
    stopped = len(losses(tmp_path / "run"))
    assert stopped == 7, "the seventh was on its way when the sixth was read"
    api.resume(tmp_path / "run")
    assert [int(row[0]) for row in losses(tmp_path / "run")] == list(range(1, 12))


def test_the_terminal_says_that_it_tests_and_how_far_it_is() -> None:
    console = Console(file=io.StringIO(), width=100)
    report = Terminal(console)
    report.testing(0, 950)
    report.testing(950, 950)
    assert console.file.getvalue() == "testing on 950 held-out records\n"  # type: ignore[attr-defined]
    screen = Console(file=io.StringIO(), width=100, force_terminal=True)
    report = Terminal(screen)
    report.testing(0, 950)
    report.testing(128, 950)
    report._bar.refresh()  # type: ignore[union-attr]
    assert "128/950" in screen.file.getvalue()  # type: ignore[attr-defined]
    report.testing(950, 950)
    assert report._bar is None


def test_labels_that_look_like_markup_are_printed_as_they_are() -> None:
    for terminal in (False, True):
        screen = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)
        report = Terminal(screen, name="train.freeze=[red],[/blue]")
        report.begin(2, 0, 1)
        report.update(1, 0, 0.5)
        report.say("labels [red] 3, [/blue] 4")
        report.evaluated(0, 1, "best of [/blue]", "[/blue]")
        report.end()
        shown = screen.file.getvalue()  # type: ignore[attr-defined]
        assert "labels [red] 3, [/blue] 4" in shown and "best of [/blue]" in shown
        assert not terminal or "train.freeze=[red],[/blue] epoch" in shown


def test_a_busy_machine_is_reported_once_and_changes_no_number(whole, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(devices, "WATCHED_SECONDS", 0.0)
    monkeypatch.setattr(devices, "FREE", 2.0)  # no thread has a core for twice the time
    said: list[str] = []
    report = Silence()
    monkeypatch.setattr(report, "say", said.append)
    api.train(tiny(), folder=tmp_path / "busy", report=report)
    assert sum(text.startswith(devices.BUSY) for text in said) == 1
    assert losses(tmp_path / "busy") == losses(whole)
    assert all(torch.equal(tensor, weights(whole)[name]) for name, tensor in weights(tmp_path / "busy").items())
