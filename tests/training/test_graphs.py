"""Recorded updates are the live ones: over padded batches, with the same random numbers, or not at all."""

from __future__ import annotations

import copy
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from saccade.data.pairs.batch import Batch, collate
from saccade.models.luong import Config as LuongConfig
from saccade.models.luong import Luong
from saccade.models.rnnsearch import Config, RNNSearch
from saccade.models.seq2seq import Config as Seq2SeqConfig
from saccade.models.seq2seq import Seq2Seq
from saccade.models.transformer import Config as TransformerConfig
from saccade.models.transformer import Transformer
from saccade.nn.cuda_graphs import Unrecordable
from saccade.tasks.translate import Translate
from saccade.training import graphs, stepping
from saccade.training.config import Train
from saccade.training.graphs import Graphs, why_not
from saccade.training.recording import refusing_draws
from saccade.training.stepping import Stepper
from tests.training.recorders import Repeater

SOURCE, TARGET = 17, 13  # words
NETWORKS = {
    "rnnsearch": lambda dropout=0.0: RNNSearch(Config(5, 3, 4, dropout=dropout, init="torch"), SOURCE, TARGET),
    "rnnsearch, as published": lambda: RNNSearch(Config(5, 3, 4, cell="paper", init="torch"), SOURCE, TARGET),
    "luong": lambda: Luong(LuongConfig(6, 3, bidirectional=True, init="torch"), SOURCE, TARGET),
    "luong, deep and reversed": lambda: Luong(LuongConfig(5, 3, 2, reverse=True, window="local-p"), SOURCE, TARGET),
    "luong, no feeding": lambda: Luong(LuongConfig(5, 3, cell="gru", score="concat", input_feeding=False), SOURCE, TARGET),
    "transformer": lambda: Transformer(TransformerConfig(8, 2, 12, 2, dropout=0.0), SOURCE, TARGET),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(5, 3, cell="lstm", context="start", reverse=True, init="torch"), SOURCE, TARGET),
}  # fmt: skip
TASK = Translate.__new__(Translate)  # its loss asks nothing of its vocabularies


def batch(rows: int = 3, source: int = 7, target: int = 5, seed: int = 0) -> Batch:
    """Rows of up to so many tokens; the first has all of them."""
    draw = torch.Generator().manual_seed(seed)

    def ids(most: int, words: int, number: int) -> list[int]:
        count = most if number == 0 else int(torch.randint(1, most + 1, (), generator=draw))
        return torch.randint(4, words, (count,), generator=draw).tolist()

    return collate([(ids(source, SOURCE, n), ids(target, TARGET, n)) for n in range(rows)], range(rows))


def network(name: str = "rnnsearch", **options: Any) -> nn.Module:
    torch.manual_seed(3)
    return NETWORKS[name](**options)


def loss_and_gradients(net: nn.Module, given: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    net.zero_grad()
    loss = TASK.loss(net, given, smoothing=0.1).mean
    loss.backward()
    return loss.detach(), {name: each.grad for name, each in net.named_parameters() if each.grad is not None}


def stepper(
    monkeypatch: pytest.MonkeyPatch,
    net: nn.Module,
    recorder: Repeater | None,
    said: list[str] | None = None,
    **train: Any,
) -> Stepper:
    monkeypatch.setattr(stepping, "recorder_for", lambda device: recorder)
    settings = Train(device="cpu", label_smoothing=0.1, weight_decay=0.3, optimiser="adamw", **train)
    return Stepper(TASK, net, settings, said.append if said is not None else lambda text: None)


def run(each: Stepper, batches: list[Batch]) -> list[list[float]]:
    torch.manual_seed(11)
    return [list(each.update(one, 1e-2).read()) for one in batches]


MANY = [batch(3, 7, 5), batch(5, 6, 8, seed=1), batch(2, 7, 5, seed=2), batch(4, 7, 9, seed=3), batch(3, 7, 5, seed=4)]

# A batch in one of few shapes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_padding_to_a_bucket_changes_neither_the_loss_nor_its_gradient(name: str) -> None:
    net, given = network(name), batch(3, 6, 4)
    padded = given.bucketed()
    assert padded.source.shape == (8, 8) and padded.target_in.shape == (8, 6), "every side is padded here"
    loss, gradients = loss_and_gradients(net, given)
    padded_loss, padded_gradients = loss_and_gradients(net, padded)
    torch.testing.assert_close(padded_loss, loss, rtol=1e-6, atol=1e-6)
    assert padded_gradients.keys() == gradients.keys()
    for key, gradient in gradients.items():
        torch.testing.assert_close(padded_gradients[key], gradient, rtol=1e-5, atol=1e-6, msg=key)


@pytest.mark.parametrize("name", NETWORKS)
def test_an_update_never_asks_the_device_for_a_number(name: str) -> None:
    # A meta tensor has no numbers to give, as a device that is being recorded has none.
    loss = TASK.loss(network(name).to("meta"), batch().to("meta"), smoothing=0.1)
    loss.mean.backward()


# Recorded and live --------------------------------------------------------------------------------------------------------


def test_recorded_updates_give_the_losses_norms_and_weights_of_live_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    live, recorder = copy.deepcopy(net), Repeater()
    expected = run(stepper(monkeypatch, live, None), MANY)
    found = run(stepper(monkeypatch, net, recorder), MANY)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)
    for (name, one), other in zip(net.named_parameters(), live.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, msg=name)
    # Five batches of two shapes: each is recorded once, and repeated whenever it comes.
    assert (recorder.recorded, recorder.repeated) == (2, 5)


def test_dropout_draws_the_numbers_that_it_would_draw_live(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [replace(one, **vars(one.bucketed())) for one in MANY]  # padded in both runs, so that both draw as many
    net, recorder = network(dropout=0.3), Repeater()
    live = copy.deepcopy(net)
    expected = run(stepper(monkeypatch, live, None), whole)
    found = run(stepper(monkeypatch, net, recorder), whole)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)
    assert (recorder.recorded, recorder.repeated) == (2, 5)


class Idle(RNNSearch):
    """One parameter takes part only where the source is long."""

    def __init__(self) -> None:
        super().__init__(Config(5, 3, 4), SOURCE, TARGET)
        self.idle = nn.Parameter(torch.ones(()))

    def forward(self, source: Tensor, *args: Any, **options: Any) -> Tensor:
        logits = super().forward(source, *args, **options)
        return logits * self.idle if source.shape[1] > 8 else logits


def test_a_parameter_without_a_gradient_is_left_alone_by_the_optimiser(monkeypatch: pytest.MonkeyPatch) -> None:
    long, short = batch(3, 9, 5), batch(3, 6, 5)
    net = Idle()
    each = stepper(monkeypatch, net, Repeater())
    run(each, [short, short])
    assert net.idle.item() == 1.0, "weight decay must not touch it"
    run(each, [long])
    moved = net.idle.item()
    assert moved != 1.0
    run(each, [short])
    assert net.idle.item() == moved


def test_beyond_the_most_shapes_batches_are_computed_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST", 1)
    net, recorder = network(), Repeater()
    live = copy.deepcopy(net)
    found = run(stepper(monkeypatch, net, recorder), MANY)
    expected = run(stepper(monkeypatch, live, None), MANY)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected), rtol=1e-5, atol=1e-6)
    assert (recorder.recorded, recorder.repeated) == (1, 3)


# What cannot be recorded --------------------------------------------------------------------------------------------------


class Moody(RNNSearch):
    """Every call is another function: what was recorded of one is not the next."""

    def __init__(self) -> None:
        super().__init__(Config(5, 3, 4), SOURCE, TARGET)
        self.calls = 0

    def forward(self, *args: Any, **options: Any) -> Tensor:
        self.calls += 1
        return super().forward(*args, **options) * self.calls


class Restless(RNNSearch):
    """Its buffer is another tensor after each call."""

    def __init__(self) -> None:
        super().__init__(Config(5, 3, 4), SOURCE, TARGET)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, *args: Any, **options: Any) -> Tensor:
        self.seen = self.seen + 1
        return super().forward(*args, **options)


@pytest.mark.parametrize(
    ("build", "refuse", "reason"),
    [
        (lambda: network(dropout=0.3), "waiting", "RuntimeError: called a synchronizing CUDA operation"),
        (lambda: network(dropout=0.3), "recording", "RuntimeError: operation not permitted when stream is capturing"),
        (Moody, "", "a replayed update differs from the eager one (loss"),
        (Restless, "", "the network replaces its buffers by other tensors"),
    ],
)
def test_what_cannot_be_recorded_is_computed_live_with_one_line(
    build: Any, refuse: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(3)
    net, said = build(), list[str]()
    live = copy.deepcopy(net)
    found = run(stepper(monkeypatch, net, Repeater(refuse), said), MANY)
    assert len(said) == 1 and said[0].startswith(f"training without CUDA graphs: {reason}"), said
    if not isinstance(net, Moody):  # which was called more often
        assert found == run(stepper(monkeypatch, live, None), MANY), "as if nothing had been tried"


def test_random_numbers_of_the_host_are_not_recorded() -> None:
    with refusing_draws():
        torch.zeros(3).exp()
    for draw in (lambda: torch.rand(()), random.random):
        with pytest.raises(Unrecordable, match="on the host"), refusing_draws():
            draw()


def test_counters_of_a_network_count_an_update_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(RNNSearch):
        def __init__(self) -> None:
            super().__init__(Config(5, 3, 4), SOURCE, TARGET)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, *args: Any, **options: Any) -> Tensor:
            self.seen += 1
            return super().forward(*args, **options)

    net, said = Counting(), list[str]()
    run(stepper(monkeypatch, net, Repeater(), said), MANY)
    assert (float(net.seen), said) == (len(MANY), [])


@pytest.mark.parametrize(
    ("train", "reason"),
    [
        (Train(), None),
        (Train(precision="bf16"), None),
        (Train(graphs="off"), "train.graphs is off"),
        (Train(sampling=0.1), "train.sampling"),
        (Train(precision="16"), "train.precision=16"),
    ],
)
def test_a_recipe_may_forbid_graphs_and_it_is_said_why(train: Train, reason: str | None) -> None:
    found = why_not(train)
    assert found is None if reason is None else found is not None and reason in found


@pytest.mark.parametrize(("options", "lines"), [({"sampling": 0.2}, 1), ({"graphs": "off"}, 0)])
def test_where_they_are_forbidden_a_line_says_so_unless_it_was_asked_for(
    options: dict[str, Any], lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, said = Repeater(), list[str]()
    run(stepper(monkeypatch, network(), recorder, said, **options), MANY)
    assert (len(said), recorder.recorded) == (lines, 0)


def test_a_batch_that_comes_in_any_shape_is_computed_live(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loose:
        tokens = 3

    said: list[str] = []
    each = Graphs(Repeater(), TASK, network(), Train(), backward=lambda loss: loss.backward(), say=said.append)
    assert each.gradient(Loose()) is None and each.gradient(Loose()) is None
    assert said == ["training without CUDA graphs: batches of the task 'translate' come in any shape"]


def test_a_loss_that_is_not_finite_is_returned_and_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    net, recorder, said = network(), Repeater(), list[str]()
    with torch.no_grad():
        net.output.bias.fill_(float("inf"))
    ((loss, _),) = run(stepper(monkeypatch, net, recorder, said), MANY[:1])
    assert loss != loss and (recorder.recorded, said) == (0, [])


# Several batches an update ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
def test_several_batches_make_the_update_that_one_of_all_their_rows_makes(recorded: bool, monkeypatch) -> None:
    """Every token counts the same, whatever batch it is in; live and recorded."""
    draw = torch.Generator().manual_seed(5)
    pairs = [(torch.randint(4, SOURCE, (7,), generator=draw).tolist(),
              torch.randint(4, TARGET, (length,), generator=draw).tolist()) for length in (2, 9, 4, 3, 8)]  # fmt: skip
    whole = collate(pairs, range(5))
    parts = [collate(pairs[:1], range(1)), collate(pairs[1:3], range(2)), collate(pairs[3:], range(2))]
    together, apart = network(), network()
    one = stepper(monkeypatch, together, None, clip=0.5)
    many = stepper(monkeypatch, apart, Repeater() if recorded else None, clip=0.5)
    for _ in range(3):
        expected = one.update_by([whole], 1e-2).read()
        sent = many.update_by(parts, 1e-2)
        assert sent.count == whole.tokens
        assert list(sent.read()) == pytest.approx(list(expected), rel=1e-4)
    for (name, ours), theirs in zip(apart.named_parameters(), together.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, msg=name)
