"""Show, Attend and Tell (Xu et al. 2015): the equations written out in float64, the penalty's scales, and REINFORCE."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from saccade.attention.choice import hard
from saccade.attention.core import read
from saccade.errors import SaccadeError
from saccade.models import show_attend_tell
from saccade.models.show_attend_tell import (
    Config,
    ShowAttendTell,
    coverage_penalty,
    follow,
    reinforce_loss,
)
from saccade.nn.captioner import Looks, PictureCnn, Seen
from saccade.trace import Lens, Mask, Set
from tests.written_out import below, drawn, linear, lstm

B, T, ROWS, COLUMNS, D, V = 3, 5, 2, 3, 7, 11
L = ROWS * COLUMNS
START = 1
TARGET = torch.tensor([[1, 4, 5, 9, 3], [1, 10, 2, 0, 0], [1, 3, 3, 7, 2]])
REAL = torch.tensor([[True] * 5, [True, True, False, False, False], [True] * 4 + [False]])


def features(seed: int = 3, rows: int = B) -> Tensor:
    return torch.randn(rows, L, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(**settings: Any) -> ShowAttendTell:
    torch.manual_seed(2)
    options = {"hidden": 4, "embedding": 5, "alignment": 6, "dropout": 0.0, **settings}
    made = drawn(ShowAttendTell(Config(**options), V, Seen(features=(ROWS, COLUMNS, D)), START))
    with torch.no_grad():
        made.embedding.weight[START] = 0.0
    return made


# The equations ------------------------------------------------------------------------------------------------------


def annotations_to_keys(weights: dict[str, Tensor], cell: Tensor, layers: int) -> Tensor:
    """linear; with two layers a second one and tanh."""
    key = linear(below(weights, "key_layers.0"), cell)
    return key if layers == 1 else torch.tanh(linear(below(weights, "key_layers.1"), key))


def written_out(made: ShowAttendTell, cells: Tensor, words: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [T, V], weights [T, L] and gates [T] of one caption, one step at a time."""
    weights, config = dict(made.state_dict()), made.config
    mean = sum(cells) / len(cells)
    if config.init_layers == 2:
        mean = torch.relu(linear(below(weights, "start_layers.0"), mean))
    hidden = torch.tanh(linear(below(weights, "start_hidden"), mean))
    cell = torch.tanh(linear(below(weights, "start_cell"), mean))
    rows, looked, gates = [], [], []
    for word in words.tolist():
        embedded = weights["embedding.weight"][word]
        query = weights["query_weight"] @ hidden
        keys = [annotations_to_keys(weights, a, config.attention_layers) for a in cells]
        scores = torch.stack([weights["v"] @ torch.tanh(key + query) for key in keys])
        alpha = scores.exp() / scores.exp().sum()
        beta = torch.sigmoid(linear(below(weights, "gate"), hidden)) if config.selector else torch.ones(1).double()
        context = cells[int(alpha.argmax())] if config.attention == "hard" else alpha @ cells
        context = beta * context
        unit = {name.removesuffix("_l0"): part for name, part in below(weights, "cell", "forwards.0", "unit").items()}
        hidden, cell = lstm(unit, torch.cat([embedded, context]), (hidden, cell))
        known = linear(below(weights, "from_state"), hidden)
        known = known + embedded if config.prev2out else known
        known = known + weights["from_context.weight"] @ context if config.ctx2out else known
        rows.append(linear(below(weights, "output"), torch.tanh(known)))
        looked.append(alpha)
        gates.append(beta[0])
    return torch.stack(rows), torch.stack(looked), torch.stack(gates)


@pytest.mark.parametrize("attention", ["soft", "hard"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attention_layers": 1},
        {"init_layers": 1, "selector": False},
        {"prev2out": False},
        {"ctx2out": False, "attention_layers": 1},
    ],
    ids=lambda settings: " ".join(settings) or "all",
)
def test_logits_weights_and_gates_are_those_of_the_equations(attention: str, settings: dict[str, Any]) -> None:
    made, cells = network(attention=attention, **settings), features()
    lens = Lens()
    with torch.no_grad():
        logits = made(cells, None, TARGET, lens=lens)
        for row, trace in enumerate(lens.traces):
            expected, alpha, beta = written_out(made, cells[row], TARGET[row])
            torch.testing.assert_close(logits[row], expected)
            torch.testing.assert_close(trace.maps[0].weights, alpha)
            assert (trace.maps[0].query, trace.maps[0].key) == ("target", "image")
            if made.config.selector:
                assert trace.signals["decoder.gate"].axis == "target"
                torch.testing.assert_close(trace.signals["decoder.gate"].values, beta.unsqueeze(1))
            else:
                assert "decoder.gate" not in trace.signals
            if attention == "hard":
                chosen = trace.signals["decoder.chosen"].values
                assert chosen.squeeze(1).tolist() == alpha.argmax(-1).tolist()


def test_one_step_after_the_other_gives_what_teaching_gives() -> None:
    for attention in ("soft", "hard", "mean"):
        made, cells = network(attention=attention), features()
        with torch.no_grad():
            memory = made.encode(cells)
            state, rows = made.start(memory), []
            for offset in range(T):
                row, state = made.step(TARGET[:, offset], state, memory, offset=offset)
                rows.append(row)
            torch.testing.assert_close(torch.stack(rows, dim=1), made(cells, None, TARGET))


def test_teaching_has_the_gradients_of_one_step_after_the_other() -> None:
    made, cells = network(attention="soft"), features().requires_grad_()
    memory = made.encode(cells)
    state, rows = made.start(memory), []
    for offset in range(T):
        row, state = made.step(TARGET[:, offset], state, memory, offset=offset)
        rows.append(row)
    stepped = _gradients(made, cells, torch.stack(rows, dim=1))
    means = network(attention="hard", expected=1.0).train()  # which always gets the mean in place of a drawn cell
    for taught in (made, means):
        for one, other in zip(_gradients(taught, cells, taught(cells, None, TARGET)), stepped, strict=True):
            torch.testing.assert_close(one, other)


def _gradients(made: ShowAttendTell, cells: Tensor, logits: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(logits.log_softmax(-1).square().sum(), [cells, *made.parameters()])


def test_without_attention_every_word_gets_the_mean_of_the_cells() -> None:
    made, cells = network(attention="mean", selector=False), features()
    assert made.sites == () and network().sites[0].name == "decoder.attention"
    shuffled = cells[:, torch.tensor([5, 1, 0, 2, 4, 3])]
    with torch.no_grad():
        torch.testing.assert_close(made(shuffled, None, TARGET), made(cells, None, TARGET))


def test_the_word_before_the_first_is_zero_and_stays_so() -> None:
    made = network().train()
    made(features(), None, TARGET).square().sum().backward()
    assert not made.embedding.weight[START].any() and not made.embedding.weight.grad[START].any()
    assert made.embedding.weight.grad[4].any()


def test_hard_attention_that_is_told_where_to_look_reads_that_cell() -> None:
    made, cells = network(attention="hard", selector=False), features(rows=1)
    told = torch.zeros(L)
    told[4] = 1.0
    lens = Lens(edits=[Set(told.tolist(), site="decoder.attention", step=2)])
    with torch.no_grad():
        edited = made(cells, None, TARGET[:1], lens=lens)
        plain = Lens()
        free = made(cells, None, TARGET[:1], lens=plain)
    assert lens.trace.signals["decoder.chosen"].values[2] == 4
    before = plain.trace.signals["decoder.chosen"].values
    assert before[2] != 4, "the edit must have something to change"
    torch.testing.assert_close(edited[:, :2], free[:, :2])
    assert not torch.allclose(edited[:, 2], free[:, 2])
    with torch.no_grad():  # a hidden cell is not chosen
        masked = Lens(edits=[Mask([int(before[0])], site="decoder.attention")])
        made(cells, None, TARGET[:1], lens=masked)
    assert int(before[0]) not in masked.trace.signals["decoder.chosen"].values.flatten().tolist()


# The network of a picture -------------------------------------------------------------------------------------------


def test_what_a_cell_sees_lies_around_its_own_part_of_the_picture() -> None:
    torch.manual_seed(0)
    cnn = PictureCnn((3, 5), 40).double().eval()
    assert cnn.grid == (10, 10) and cnn.width == 5
    pictures = (torch.rand(1, 3, 40, 40, generator=torch.Generator().manual_seed(1)) * 2 - 1).double().requires_grad_()
    for row, column in ((4, 5), (5, 4)):
        (seen,) = torch.autograd.grad(cnn(pictures)[0, 10 * row + column].sum(), pictures, retain_graph=True)
        for axis, cell in ((0, row), (1, column)):
            along = seen[0].abs().sum((0, 2 - axis)).nonzero().flatten().tolist()
            reach = 7  # of 5 · 2ⁿ − 2 = 18 pixels the cell's own 4 are in the middle
            assert (along[0], along[-1]) == (4 * cell - reach, 4 * cell + 3 + reach)


def test_a_picture_gives_the_same_alone_and_in_a_batch() -> None:
    cnn = PictureCnn((4, 6), 16).double().eval()
    pixels = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(1)) * 2 - 1
    torch.testing.assert_close(cnn(pixels)[1:2], cnn(pixels[1:2]))


def test_a_picture_that_cannot_be_halved_so_often_is_refused() -> None:
    with pytest.raises(SaccadeError, match="3 halvings leave whole, found 20 pixels"):
        PictureCnn((4, 4, 4), 20)


def test_an_untrained_model_guesses_among_all_words() -> None:
    torch.manual_seed(1)
    made = ShowAttendTell(Config(channels=(8, 16), hidden=32, embedding=16), 10_000, Seen(pixels=32), START).eval()
    pixels = torch.rand(5, 3, 32, 32) * 2 - 1
    target = torch.randint(2, 10_000, (5, 7))
    with torch.no_grad():
        loss = functional.cross_entropy(made(pixels, None, target).flatten(0, 1), target.flatten())
    assert float(loss) == pytest.approx(math.log(10_000), abs=0.1)  # 9.21


# The penalty --------------------------------------------------------------------------------------------------------


def all_real(weights: Tensor) -> Tensor:
    return torch.ones(weights.shape[:2], dtype=torch.bool)


@pytest.mark.parametrize(("weights", "expected"), [([[0.75, 0.25], [0.25, 0.75]], 0.0), ([[1, 0], [1, 0]], 2.0)])
def test_the_penalty_of_the_hand_cases(weights: list[list[float]], expected: float) -> None:
    given = torch.tensor([weights], dtype=torch.float64)
    assert float(coverage_penalty(given, all_real(given))) == pytest.approx(expected)


def test_even_coverage_is_the_floor_of_the_penalty() -> None:
    even = torch.full((1, 10, 196), 1 / 196, dtype=torch.float64)
    assert float(coverage_penalty(even, all_real(even))) == pytest.approx(176.51, abs=0.01)
    other = torch.softmax(torch.randn(1, 10, 196, dtype=torch.float64), dim=-1)
    assert float(coverage_penalty(other, all_real(other))) > 176.52


def test_the_scales_of_the_penalty() -> None:
    weights = torch.softmax(torch.randn(3, 5, 7, dtype=torch.float64), dim=-1)
    paper = float(coverage_penalty(weights, all_real(weights)))
    assert paper == pytest.approx(float(((1 - weights.sum(1)) ** 2).sum()))
    # The authors' program: sum(0) over the batch, mean over cells of the mean caption's loss, so B times that of the sum.
    program = ((1 - weights.sum(1)) ** 2).sum(0).mean()
    assert float(coverage_penalty(weights, all_real(weights), "released")) == pytest.approx(3 * float(program))
    assert float(coverage_penalty(weights, all_real(weights), "mean")) == pytest.approx(paper / 7)


@pytest.mark.parametrize("scale", ["paper", "released", "mean"])
def test_padded_steps_and_padded_rows_add_nothing_to_the_penalty(scale: Any) -> None:
    weights = torch.softmax(torch.randn(2, 3, 7, dtype=torch.float64), dim=-1)
    real = torch.tensor([[True, True, True], [True, False, False]])
    alone = coverage_penalty(weights[:1], real[:1], "paper") + coverage_penalty(weights[1:, :1], real[1:, :1], "paper")
    factor = {"paper": 1.0, "released": 2 / 7, "mean": 1 / 7}[scale]
    padded = torch.cat([weights, torch.rand(4, 3, 7)])
    none = torch.cat([real, torch.zeros(4, 3, dtype=torch.bool)])
    for given, shown in ((weights, real), (padded, none)):
        assert float(coverage_penalty(given, shown, scale)) == pytest.approx(float(alone) * factor)


def test_the_regulariser_of_soft_attention_is_the_weighted_penalty() -> None:
    made, looks = network(penalty=0.7).train(), Looks()
    logits = made(features(), None, TARGET, looks=looks)
    nothing = logits.new_zeros(B, T)
    weights = torch.stack(looks.weights, dim=1)
    found = made.regulariser(looks, nothing, REAL, made.state_of_training())
    expected = sum(((1 - weights[row][REAL[row]].sum(0)) ** 2).sum() for row in range(B))
    torch.testing.assert_close(found.double(), 0.7 * expected, rtol=1e-5, atol=1e-5)
    assert made.state_of_training() == {}


# Hard attention -----------------------------------------------------------------------------------------------------

VALUES = torch.tensor([[0.9, -0.4], [-1.2, 0.7]], dtype=torch.float64)  # two cells
READOUT = torch.tensor([[0.8, 0.3], [-0.5, 1.1], [0.2, -0.9]], dtype=torch.float64)  # three words
TRUE, SAMPLES = 1, 100_000


def sampled(theta: Tensor, readout: Tensor, baseline: float, count: int) -> tuple[Tensor, Tensor]:
    """Per sample the gradient of −log p(y | s̃) with REINFORCE's term, of θ [N, 2] and of the readout [N, 3, 2]."""
    scores = theta.repeat(count, 1).requires_grad_()
    outputs = readout.repeat(count, 1, 1).requires_grad_()
    choice = hard(torch.softmax(scores, dim=-1).unsqueeze(1), sample=True)
    context = read(choice, VALUES.expand(count, 2, 2)).squeeze(1)
    log_p = torch.log_softmax((outputs @ context.unsqueeze(-1)).squeeze(-1), dim=-1)[:, TRUE]
    everywhere = torch.ones(count, dtype=torch.bool)
    extra = reinforce_loss(choice.log_prob.squeeze(1), log_p.detach(), torch.tensor(baseline).double(), everywhere)
    (-log_p.sum() + extra).backward()
    return scores.grad, outputs.grad


def exact() -> tuple[Tensor, Tensor, float]:
    """The gradient of −Σ_s p(s) log p(y | s), and its value."""
    theta, readout = THETA.clone().requires_grad_(), READOUT.clone().requires_grad_()
    log_p = torch.log_softmax(VALUES @ readout.T, dim=-1)[:, TRUE]  # of each cell
    bound = (torch.softmax(theta, dim=-1) * log_p).sum()
    (-bound).backward()
    return theta.grad, readout.grad, float(bound.detach())


THETA = torch.tensor([0.4, -0.3], dtype=torch.float64)


def test_the_mean_of_many_reinforce_gradients_is_the_exact_gradient_and_a_baseline_lowers_their_variance() -> None:
    torch.manual_seed(7)
    of_theta, of_readout, bound = exact()
    variances = []
    for baseline in (0.0, bound):
        found, outputs = sampled(THETA, READOUT, baseline, SAMPLES)
        for gradients, expected in ((found, of_theta), (outputs.flatten(1), of_readout.flatten())):
            error = gradients.std(0) / SAMPLES**0.5
            away = (gradients.mean(0) - expected).abs() / error.clamp_min(1e-12)
            assert (away < 4).all(), f"{away.tolist()} standard errors from the exact gradient"
        variances.append(float(found.var(0).sum()))
    without, with_baseline = variances
    assert with_baseline < 0.7 * without
    assert float(of_theta.abs().min()) > 20 * (without / SAMPLES) ** 0.5, "noise would hide a wrong sign"


def test_the_networks_own_objective_has_that_gradient() -> None:
    """Two cells, one word: the mean over many pictures equals the gradient of −Σ_s p(s) log p(y | s), cell by cell."""
    torch.manual_seed(3)
    config = Config(hidden=3, embedding=2, dropout=0.0, attention="hard", reinforce=1.0, entropy=0.0, penalty=0.0,
                    expected=0.0, reward="sum", attention_layers=1)  # fmt: skip
    made = drawn(ShowAttendTell(config, 5, Seen(features=(1, 2, 2)), START), scale=1.2)
    cells = torch.randn(1, 2, 2, dtype=torch.float64)
    word, target = torch.tensor([[START]]), torch.tensor([[3]])

    def log_p(rows: Tensor, **options: Any) -> Tensor:
        logits = made(rows, None, word.expand(len(rows), 1), **options)
        return torch.log_softmax(logits, dim=-1)[:, :, 3]

    lens = Lens()
    log_p(cells, lens=lens)
    memory = made.encode(cells)
    scores = made.score(memory.hidden.unsqueeze(1), show_attend_tell.Prepared(memory.keys))
    alpha = torch.softmax(scores, dim=-1).flatten()
    torch.testing.assert_close(lens.trace.maps[0].weights[0], alpha.detach())
    each = [log_p(cells, lens=Lens(edits=[Set(row, site="decoder.attention")])) for row in ([1.0, 0.0], [0.0, 1.0])]
    (-(alpha[0] * each[0].sum() + alpha[1] * each[1].sum())).backward()
    expected = {name: part.grad.clone() for name, part in made.named_parameters() if part.grad is not None}
    made.train()
    state = made.state_of_training()
    state["baseline"] -= 1.0  # any number that does not depend on the draw
    draws, chunk = [], 1000
    for _ in range(60):
        made.zero_grad(set_to_none=True)
        looks = Looks()
        rows = log_p(cells.expand(chunk, 2, 2), looks=looks)
        fixed = {"baseline": state["baseline"].clone().double()}
        extra = made.regulariser(looks, rows.detach(), torch.ones(chunk, 1, dtype=torch.bool), fixed)
        ((-rows.sum() + extra) / chunk).backward()
        draws.append({name: part.grad.clone() for name, part in made.named_parameters() if part.grad is not None})
    assert target[0, 0] == 3
    for name in ("v", "query_weight", "key_layers.0.weight", "output.weight", "cell.forwards.0.unit.weight_ih_l0"):
        gradients = torch.stack([draw[name].flatten() for draw in draws])
        error = (gradients.std(0) / len(draws) ** 0.5).clamp_min(1e-9)
        away = (gradients.mean(0) - expected[name].flatten()).abs() / error
        assert (away < 5).all(), (name, away.max())


def test_the_baseline_follows_the_rewards_of_drawn_rows() -> None:
    baseline = torch.tensor(-2.0)
    follow(baseline, torch.tensor([-1.0, -9.0, -3.0]), torch.tensor([True, False, True]))
    assert float(baseline) == pytest.approx(0.9 * -2.0 + 0.1 * -2.0)
    follow(baseline, torch.tensor([-12.0]), torch.tensor([True]))
    assert float(baseline) == pytest.approx(-3.0)
    follow(baseline, torch.tensor([5.0]), torch.tensor([False]))
    assert float(baseline) == pytest.approx(-3.0)


def test_a_better_caption_than_the_baseline_makes_its_cells_likelier() -> None:
    """Gradient descent on the term raises log p(s̃) where R > b: the sign that implementations get wrong."""
    log_prob = torch.tensor([-1.0, -1.0], requires_grad=True)
    reinforce_loss(log_prob, torch.tensor([-0.5, -4.0]), torch.tensor(-2.0), torch.ones(2, dtype=torch.bool)).backward()
    assert log_prob.grad.tolist() == pytest.approx([-1.5, 2.0])


@pytest.mark.parametrize(("expected", "count"), [(0.0, 0), (1.0, 400), (0.5, 200)])
def test_half_of_the_pictures_get_the_mean_in_place_of_a_drawn_cell(expected: float, count: int) -> None:
    torch.manual_seed(5)
    made, cells = network(attention="hard", expected=expected, selector=False).train(), features(rows=1)
    looks = Looks()
    with torch.no_grad():
        drawn_at = made(cells.expand(400, -1, -1), None, TARGET[:1, :1].expand(400, 1), looks=looks)
        soft = network(attention="soft", selector=False)
        soft.load_state_dict(made.state_dict())
        mean = soft(cells, None, TARGET[:1, :1])
    alike = (drawn_at - mean).abs().flatten(1).amax(1) < 1e-12
    assert abs(int(alike.sum()) - count) <= 45
    assert torch.equal(alike, ~looks.drawn)


def test_the_regulariser_of_hard_attention_is_written_out() -> None:
    settings = {"reinforce": 0.3, "entropy": 0.05, "penalty": 0.2, "penalty_scale": "mean", "reward": "mean"}
    torch.manual_seed(4)
    made, looks = network(attention="hard", expected=0.5, **settings).train(), Looks()
    made(features(), None, TARGET, looks=looks)
    assert 0 < int(looks.drawn.sum()) < B, "both kinds of rows"
    log_likelihood = -torch.rand(B, T, dtype=torch.float64)
    state = {"baseline": torch.tensor(-0.4, dtype=torch.float64)}
    found = made.regulariser(looks, log_likelihood, REAL, state)
    expected, rewards = 0.0, []
    for row in range(B):
        steps = range(int(REAL[row].sum()))
        alphas = [looks.weights[t][row] for t in steps]
        expected += 0.2 / L * sum((1 - sum(alpha[i] for alpha in alphas)) ** 2 for i in range(L))
        expected -= 0.05 * sum(-(alpha * alpha.log()).sum() for alpha in alphas)
        if looks.drawn[row]:
            reward = sum(log_likelihood[row, t] for t in steps) / len(steps)
            expected -= 0.3 * (reward + 0.4) * sum(looks.log_probs[t][row] for t in steps)
            rewards.append(float(reward))
    assert float(found.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert float(state["baseline"]) == pytest.approx(0.9 * -0.4 + 0.1 * sum(rewards) / len(rewards))
    assert not made.eval()._looks(B, torch.device("cpu")).drawn
