"""RETAIN (Choi et al. 2016): the hand-worked case, the exact sum of contributions, and time that runs backwards."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.errors import SaccadeError
from saccade.models.retain import Config, Retain
from saccade.models.visit_baselines import GruConfig, LogisticConfig, VisitGru, VisitLogistic
from saccade.trace import Lens, Mask, Set
from tests.written_out import below, close, drawn, gru, linear, look, run, unit_of

B, T, K, V, C = 3, 7, 5, 11, 2
LENGTHS = torch.tensor([7, 1, 4])
Inputs = tuple[Tensor, Tensor, Tensor]


def inputs(seed: int = 3) -> Inputs:
    """Codes with gaps at the ends of visits, one visit without codes, and zeros behind the lengths; times that grow."""
    draw = torch.Generator().manual_seed(seed)
    codes = torch.randint(1, V, (B, T, K), generator=draw)
    codes[torch.arange(K) >= torch.randint(1, K + 1, (B, T, 1), generator=draw)] = 0
    codes[2, 1] = 0
    codes[torch.arange(T) >= LENGTHS[:, None]] = 0
    return codes, torch.rand(B, T, generator=draw, dtype=torch.float64).cumsum(1) * 100, LENGTHS


def network(seed: int = 1, **settings: Any) -> Retain:
    torch.manual_seed(seed)
    made = Retain(Config(embedding=5, alpha=3, beta=7, **settings), V, C).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(10)
        made.output.bias.copy_(torch.tensor([0.5, -2.0]))
        made.beta.bias.normal_()
    return made


EVERY = [network, lambda: network(time="log"), lambda: network(time="log", half=True, seed=2)]


def test_the_hand_case() -> None:
    made = Retain(Config(embedding=2, alpha=3, beta=3), 3, 1).double().eval()
    with torch.no_grad():
        made.embedding.weight.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]]))
        made.beta.weight.zero_()
        made.beta.bias.fill_(1e3)  # β = 1
        made.output.weight.copy_(torch.tensor([[1.0, -1.0]]))
        made.output.bias.zero_()
    codes, times, lengths = torch.tensor([[[1, 0], [1, 2]]]), torch.zeros(1, 2, dtype=torch.float64), torch.tensor([2])
    lens = Lens(edits=[Set([0.25, 0.75], site="visits", step=1)])
    torch.testing.assert_close(made(codes, times, lengths, lens=lens), torch.tensor([[1.75]], dtype=torch.float64))
    contributions = lens.trace.signals["contributions"]
    assert contributions.axis == "codes"
    torch.testing.assert_close(contributions.values, torch.tensor([[0.25], [0.75], [0.75]], dtype=torch.float64))


def visits_of(weights: dict[str, Tensor], codes: Tensor) -> list[Tensor]:
    """Σ E[k] over the codes of each visit."""
    nothing = torch.zeros(weights["embedding.weight"].shape[1], dtype=torch.float64)
    return [sum((weights["embedding.weight"][k] for k in visit if k), start=nothing) for visit in codes]


def timed(visits: list[Tensor], times: Tensor) -> list[Tensor]:
    """[v; log(1 + days since the visit before)]."""
    gaps = [0.0, *(float(later - earlier) for earlier, later in itertools.pairwise(times))]
    return [
        torch.cat([v, torch.tensor([math.log(1 + gap)], dtype=torch.float64)])
        for v, gap in zip(visits, gaps, strict=False)
    ]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("time", ["none", "log"])
@torch.no_grad()
def test_the_equations_written_out(time: str, half: bool) -> None:
    """Each prediction by itself: both GRUs from its visit back to the first."""
    made, (codes, times, lengths) = drawn(Retain(Config(5, 3, 7, time, half), V, C), 0.4), inputs()  # type: ignore[arg-type]
    made.embedding.weight[0] = 0
    weights, factor = made.state_dict(), 0.5 if half else 1.0
    every, last, lens = made(codes, times, lengths, every=True), made(codes, times, lengths), Lens()
    made(codes, times, lengths, lens=lens)
    contributions = made.contributions(codes, times, lengths)
    for item, length in enumerate(lengths.tolist()):
        visits = visits_of(weights, codes[item, :length])
        given = timed(visits, times[item, :length]) if time == "log" else visits
        for end in range(1, length + 1):
            g, h = (
                run(gru, unit_of(below(weights, name)), given[:end][::-1])[0][::-1]
                for name in ("alpha_rnn", "beta_rnn")
            )
            betas = [torch.tanh(linear(below(weights, "beta"), factor * state)) for state in h]
            products = [beta * v for beta, v in zip(betas, visits, strict=False)]
            alpha, c = look([weights["alpha.weight"][0] @ (factor * state) for state in g], products)
            close(every[item, end - 1], linear(below(weights, "output"), c))
            close(lens.traces[item].map("visits").weights[end - 1, :end], alpha, check_dtype=False)
        close(last[item], linear(below(weights, "output"), c))
        for j in range(length):
            for place, k in enumerate(codes[item, j].tolist()):
                omega = alpha[j] * (weights["output.weight"] @ (betas[j] * weights["embedding.weight"][k]))
                close(contributions[item, j, place], omega)


@pytest.mark.parametrize("time", ["none", "log"])
@torch.no_grad()
def test_the_gru_it_is_measured_against_written_out(time: str) -> None:
    made, (codes, times, lengths) = drawn(VisitGru(GruConfig(5, 3, time), V, C)), inputs()  # type: ignore[arg-type]
    made.embedding.weight[0] = 0
    weights, every = made.state_dict(), made(codes, times, lengths, every=True)
    for item, length in enumerate(lengths.tolist()):
        visits = visits_of(weights, codes[item, :length])
        states, _ = run(
            gru, unit_of(below(weights, "encoder")), timed(visits, times[item]) if time == "log" else visits
        )
        close(every[item, :length], torch.stack([linear(below(weights, "output"), h) for h in states]))
        close(made(codes, times, lengths)[item], every[item, length - 1])


@pytest.mark.parametrize("make", EVERY, ids=["plain", "time", "half"])
def test_contributions_and_the_bias_add_up_to_the_logit_exactly(make) -> None:
    made = make()
    for seed in range(5):
        given = inputs(seed)
        at_the_end = made.contributions(*given)
        assert at_the_end.shape == (B, T, K, C)
        gap = made(*given) - at_the_end.sum((1, 2)) - made.output.bias
        assert gap.abs().max() < 1e-12
        at_every = made.contributions(*given, every=True)
        assert at_every.shape == (B, T, T, K, C)
        gap = made(*given, every=True) - at_every.sum((2, 3)) - made.output.bias
        assert gap.abs().max() < 1e-12
        assert not at_the_end[given[0] == 0].any()
        assert at_the_end[given[0] != 0].all()


@pytest.mark.parametrize("make", EVERY, ids=["plain", "time", "half"])
def test_the_prediction_after_a_visit_is_that_of_the_record_cut_there(make) -> None:
    made, (codes, times, lengths) = make(), inputs()
    every = made(codes, times, lengths, every=True)
    for item in range(B):
        for end in range(1, int(lengths[item]) + 1):
            alone = made(codes[item : item + 1, :end], times[item : item + 1, :end], torch.tensor([end]))
            torch.testing.assert_close(every[item, end - 1], alone[0])
    torch.testing.assert_close(every[torch.arange(B), lengths - 1], made(codes, times, lengths))


@pytest.mark.parametrize("make", EVERY, ids=["plain", "time", "half"])
def test_padding_and_companions_change_nothing(make) -> None:
    made, (codes, times, lengths) = make(), inputs()
    together = made(codes, times, lengths)
    beyond = torch.arange(T) >= lengths[:, None]
    codes, times = codes.clone(), times.clone()
    codes[beyond], times[beyond] = 4, 9999.0
    torch.testing.assert_close(made(codes, times, lengths), together, rtol=0, atol=0)
    for item, length in enumerate(lengths.tolist()):
        alone = made(codes[item : item + 1, :length], times[item : item + 1, :length], torch.tensor([length]))
        torch.testing.assert_close(alone[0], together[item])


def test_the_grus_read_from_the_last_visit_to_the_first() -> None:
    """By hand: each row is turned round alone, read, and its states are turned back."""
    made, (codes, times, lengths) = network(time="log"), inputs()
    visits = made.embedding(codes).sum(2)
    alpha, beta = made.weights(visits, times, lengths.unsqueeze(1))
    gaps = times.diff(dim=1, prepend=times[:, :1]).log1p().unsqueeze(-1)
    for item, length in enumerate(lengths.tolist()):
        row = torch.cat([visits, gaps], -1)[item, :length].flip(0).unsqueeze(0)
        g, h = made.alpha_rnn(row)[0][0].flip(0), made.beta_rnn(row)[0][0].flip(0)
        torch.testing.assert_close(alpha[item, 0, :length], (g @ made.alpha.weight[0]).softmax(0))
        torch.testing.assert_close(beta[item, 0, :length], torch.tanh(made.beta(h)))
        assert not alpha[item, 0, length:].any()


def test_a_visit_is_a_set_and_visits_are_a_sequence() -> None:
    made, (codes, times, lengths) = network(), inputs()
    torch.testing.assert_close(made(codes.flip(2), times, lengths), made(codes, times, lengths))
    assert not torch.allclose(made(codes.flip(1)[:1], times[:1], lengths[:1]), made(codes[:1], times[:1], lengths[:1]))


def test_times_reach_the_grus_only_where_asked_for() -> None:
    codes, times, lengths = inputs()
    plain, timed = network(), network(time="log")
    assert torch.equal(plain(codes, times, lengths), plain(codes, 2 * times, lengths))
    assert not torch.allclose(timed(codes, times, lengths)[0], timed(codes, 2 * times, lengths)[0])
    torch.testing.assert_close(timed(codes, times + 50, lengths), timed(codes, times, lengths))  # only intervals count


def test_half_halves_the_states_and_not_the_bias_of_beta() -> None:
    whole, half = network(), network(half=True)
    half.load_state_dict(whole.state_dict())
    with torch.no_grad():
        half.alpha.weight.mul_(2)
        half.beta.weight.mul_(2)
    torch.testing.assert_close(half(*inputs()), whole(*inputs()))


def test_parameters_begin_uniform_and_biases_zero() -> None:
    made = Retain(Config(embedding=64, alpha=32, beta=32), 50, 1)
    for name, parameter in made.named_parameters():
        if "bias" in name:
            assert not parameter.any(), name
        else:
            assert parameter.abs().max() <= 0.1 and parameter.std() > 0.04, name
            assert parameter.numel() < 100 or parameter.abs().max() > 0.095, name
    assert not made.embedding.weight[0].any()


def test_a_lens_sees_alpha_contributions_and_risk_and_changes_nothing() -> None:
    made, given = network(time="log"), inputs()
    lens = Lens()
    torch.testing.assert_close(made(*given, lens=lens), made(*given))
    every, contributions = made(*given, every=True), made.contributions(*given)
    for item, trace in enumerate(lens.traces):
        length, real = int(LENGTHS[item]), given[0][item] != 0
        weights = trace.map("visits").weights
        assert weights.shape == (T, T) and not weights.triu(1).any()
        torch.testing.assert_close(weights[:length].sum(1), torch.ones(length, dtype=torch.float64))
        risk = trace.signals["risk"]
        assert risk.axis == "visits"
        torch.testing.assert_close(risk.values[:length], torch.sigmoid(every[item, :length]))
        kept = trace.signals["contributions"].values[: int(real.sum())]
        torch.testing.assert_close(kept, contributions[item][real])


def test_an_edit_of_alpha_changes_the_logit_and_its_contributions() -> None:
    made, (codes, times, lengths) = network(), inputs()
    lens = Lens(edits=[Mask([6], site="visits")])
    one = (codes[:1], times[:1], lengths[:1])
    edited = made(*one, lens=lens)
    lens.check()
    kept = lens.trace.signals["contributions"].values
    assert not torch.allclose(edited, made(*one))
    torch.testing.assert_close(kept.sum(0) + made.output.bias, edited[0])
    last = int((codes[0, 6] != 0).sum())
    assert not kept[-last:].any() and kept[:-last].all()


def test_contributions_are_refused_in_training() -> None:
    with pytest.raises(SaccadeError, match="eval"):
        network().train().contributions(*inputs())


def test_dropout_acts_on_visits_and_on_the_context() -> None:
    for setting in ("dropout_embedding", "dropout_context"):
        made = network(**{"dropout_embedding": 0.0, "dropout_context": 0.0, setting: 0.5}).train()
        assert not torch.equal(made(*inputs()), made(*inputs()))
    still = network(dropout_embedding=0.0, dropout_context=0.0).train()
    assert torch.equal(still(*inputs()), still(*inputs()))


@pytest.mark.parametrize("setting", [{"embedding": 0}, {"dropout_context": 1.0}])
def test_settings_that_mean_nothing_are_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        Config(**setting)


def test_gradients_are_finite_and_reach_every_parameter_but_the_padding() -> None:
    made = network(time="log").train()
    made(*inputs()).sum().backward()
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all() and parameter.grad.any(), name
    assert not made.embedding.weight.grad[0].any()


# The networks it is measured against ------------------------------------------------------------------------------


def baselines() -> list[Any]:
    torch.manual_seed(5)
    made = [VisitGru(GruConfig(5, 3, time="log"), V, C), VisitLogistic(LogisticConfig(), V, C)]
    torch.nn.init.normal_(made[1].embedding.weight[1:])
    torch.nn.init.normal_(made[1].bias)
    return [each.double().eval() for each in made]


@pytest.mark.parametrize("made", baselines(), ids=["gru", "logistic"])
def test_baselines_read_each_record_alone_and_up_to_each_visit(made) -> None:
    codes, times, lengths = inputs()
    together, every, lens = made(codes, times, lengths), made(codes, times, lengths, every=True), Lens()
    torch.testing.assert_close(made(codes, times, lengths, lens=lens), together)
    beyond = torch.arange(T) >= lengths[:, None]
    full = codes.masked_fill(beyond.unsqueeze(-1), 4)
    torch.testing.assert_close(made(full, times, lengths), together)
    for item, length in enumerate(lengths.tolist()):
        for end in range(1, length + 1):
            alone = made(codes[item : item + 1, :end], times[item : item + 1, :end], torch.tensor([end]))
            torch.testing.assert_close(every[item, end - 1], alone[0])
        torch.testing.assert_close(
            lens.traces[item].signals["risk"].values[:length], torch.sigmoid(every[item, :length])
        )


def test_the_regression_counts_codes_and_the_gru_has_no_contributions() -> None:
    gru, logistic = baselines()
    codes, times, lengths = inputs()
    counts = torch.stack([torch.bincount(row.flatten(), minlength=V) for row in codes]).double()
    counts[:, 0] = 0
    torch.testing.assert_close(logistic(codes, times, lengths), counts @ logistic.embedding.weight + logistic.bias)
    for every in (False, True):
        found = logistic.contributions(codes, times, lengths, every=every)
        total = logistic(codes, times, lengths, every=every)
        sums = found.sum((-3, -2)) + logistic.bias
        real = torch.arange(T) < lengths[:, None] if every else slice(None)
        torch.testing.assert_close(sums[real], total[real])
    with pytest.raises(SaccadeError, match="VisitGru"):
        gru.contributions(codes, times, lengths)
