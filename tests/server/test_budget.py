"""A request's work ends when nobody waits for it, and is refused when it would take too long or hold too much."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest
import torch
from torch import nn

pytest.importorskip("fastapi", reason="FastAPI is not installed")
pytest.importorskip("httpx2", reason="httpx2, of the test client, is not installed")

from fastapi.testclient import TestClient

from saccade.attention import attend
from saccade.attention.own import OwnScore
from saccade.progress import report
from saccade.server import Limits, create_app
from saccade.server.app import Worker
from saccade.server.budget import Budget, Pace, resident
from saccade.server.requests import Refusal
from saccade.trace import Lens

ADDRESS = "/v1/models/my/predict"
FORCED = "the dog is " * 180  # 540 tokens that must be written


def endless() -> None:
    while True:
        report(0.0)
        time.sleep(0.001)


async def ended(worker: Worker) -> None:
    while worker.busy:
        await asyncio.sleep(0.005)


def test_work_that_missed_its_deadline_stops_and_the_next_request_is_served() -> None:
    async def asked() -> str:
        worker = Worker("my", Limits(seconds=0.05))
        with pytest.raises(Refusal) as refusal:
            await worker.do(endless)
        assert refusal.value.status == 504
        await asyncio.wait_for(ended(worker), 100)
        worker.limits = Limits()
        return await worker.do(lambda: "served")

    assert asyncio.run(asked()) == "served"


def test_running_work_stops_when_its_client_is_gone() -> None:
    async def asked() -> None:
        worker, begun = Worker("my", Limits()), threading.Event()

        def work() -> None:
            begun.set()
            endless()

        waiting = asyncio.ensure_future(worker.do(work))
        await asyncio.to_thread(begun.wait, 100)
        waiting.cancel()
        await asyncio.wait_for(ended(worker), 100)

    asyncio.run(asked())


def test_work_stops_between_the_layers_of_one_step() -> None:
    reached: list[int] = []

    class Layer(nn.Module):
        def forward(self, number: int) -> int:
            reached.append(number)
            budget.abandoned = number == 2
            return number + 1

    budget = Budget(Limits(), Pace())
    with pytest.raises(Refusal, match="abandoned"):
        budget.run(lambda: nn.Sequential(*(Layer() for _ in range(5)))(0))
    assert reached == [0, 1, 2]


def post(bundle, monkeypatch, limits: Limits, slow: float = 0.0, **ask):
    """The answer, and how many steps the network took for it, each ``slow`` seconds longer than usual."""
    taken, step = [], bundle.network.step

    def counted(*words, **options):
        taken.append(1)
        time.sleep(slow)
        return step(*words, **options)

    monkeypatch.setattr(bundle.network, "step", counted)
    with TestClient(create_app({"my": bundle}, page=False, limits=limits), base_url="http://localhost") as client:
        return client.post(ADDRESS, json=ask), len(taken)


@pytest.mark.parametrize("ask", [{"inputs": ["der hund ist alt"] * 63}, {"inputs": ["der hund"] * 7, "trace": True}])
def test_a_wide_beam_over_many_inputs_and_a_long_prefix_is_refused_by_its_estimated_time(
    bundle, monkeypatch, ask
) -> None:
    wide = {**ask, "prefix": FORCED, "search": {"beam": 9}}
    answer, steps = post(bundle, monkeypatch, Limits(seconds=8), slow=0.05, **wide)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 422 and "at most 8 seconds, estimated" in message, "not at the deadline: 504"
    assert 1 < steps < 150


def test_what_earlier_requests_took_refuses_a_hopeless_one_before_its_first_step(bundle, monkeypatch) -> None:
    pace = Pace()
    pace.best = 0.01
    monkeypatch.setattr("saccade.server.app.Pace", lambda: pace)
    many = {"inputs": ["der hund"] * 31, "search": {"beam": 63}, "prefix": FORCED}
    answer, steps = post(bundle, monkeypatch, Limits(), **many)
    assert (answer.status_code, steps) == (422, 0)
    assert "at most 60 seconds, estimated" in answer.json()["error"]["message"]


def test_a_pace_is_learnt_from_requests_that_compute_enough() -> None:
    pace = Pace()

    def work(positions: int) -> None:
        report(0.0, positions=positions)
        time.sleep(0.02)
        report(0.5)

    Budget(Limits(), pace).run(lambda: work(300))
    assert pace.best is None, "small requests say little of large ones"
    Budget(Limits(), pace).run(lambda: work(4000))
    assert pace.best is not None and pace.best >= 0.02 / 2000


def test_the_inputs_of_several_batches_are_estimated_together(bundle, monkeypatch) -> None:
    monkeypatch.setattr("saccade.tasks.decoding.ROWS_TOGETHER", 6)
    seen: list[float] = []

    def check(budget: Budget, progress) -> None:
        seen.extend([] if progress.share is None else [progress.share])

    monkeypatch.setattr(Budget, "_check", check)
    post(bundle, monkeypatch, Limits(), inputs=["der hund ist alt"] * 7, search={"beam": 3})
    assert (
        seen == sorted(seen) and seen[0] == 0 and len({share for share in seen if share in (2 / 7, 4 / 7, 6 / 7)}) == 3
    )


@pytest.mark.parametrize("trace", [False, True])
def test_a_search_that_would_hold_too_much_is_refused(bundle, monkeypatch, trace) -> None:
    ask = {"inputs": ["der hund ist alt"] * 5, "trace": trace, "prefix": FORCED, "search": {"beam": 63}}
    answer, steps = post(bundle, monkeypatch, Limits(memory=100_000), **ask)
    message = answer.json()["error"]["message"]
    assert answer.status_code == 422 and "at most 0.0 GB, " in message
    assert steps < 20


def test_work_without_a_search_that_holds_too_much_is_refused_between_its_steps() -> None:
    if not resident():
        pytest.skip("this system does not tell how much memory a process takes")
    held: list[torch.Tensor] = []

    def work() -> None:
        for _ in range(31):
            held.append(torch.ones(13_000_000))  # 52 MB
            report()

    budget = Budget(Limits(memory=300_000_000), Pace())
    with pytest.raises(Refusal, match=r"expected work in at most 0\.3 GB, found 0\.\d GB"):
        budget.run(work)
    assert 3 < len(held) < 20


@pytest.mark.parametrize("lens", [None, Lens("top")])
def test_attention_over_a_long_input_is_refused_before_its_scores_are_computed(lens) -> None:
    computed: list[int] = []

    class Dot(nn.Module):
        def forward(self, query, key):
            computed.append(1)
            return query @ key.mT

    score = OwnScore(Dot(), 5, 5)
    sequence = torch.zeros(1, 3, 1001, 5)
    budget = Budget(Limits(memory=20_000_000), Pace())  # the scores alone take 12 MB
    with pytest.raises(Refusal, match=r"at most 0\.0 GB, estimated 0\.0 GB"):
        budget.run(lambda: attend(sequence, sequence, sequence, score=score, lens=lens))
    assert not computed
    budget = Budget(Limits(memory=500_000_000), Pace())
    assert budget.run(lambda: attend(sequence, sequence, sequence, score=score)).shape == (1, 3, 1001, 5)


def test_an_ordinary_search_is_within_the_limits_of_memory(bundle, monkeypatch) -> None:
    answer, _ = post(bundle, monkeypatch, Limits(memory=64_000_000), inputs=["der hund ist alt"] * 5, trace=True)
    assert answer.status_code == 200


def test_stopped_work_holds_no_tensors_although_its_error_is_kept() -> None:
    tensors: list[weakref.ref] = []

    def work() -> None:
        tensor = torch.zeros(7)
        tensors.append(weakref.ref(tensor))
        budget.abandoned = True
        report()

    budget = Budget(Limits(), Pace())
    with pytest.raises(Refusal) as kept:
        budget.run(work)
    gc.disable()
    assert kept.value.status == 499 and tensors[0]() is None
    gc.enable()
