"""Windows that are narrow beside their keys are served by local attention, with the same contexts and gradients."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from saccade.attention.core import attend, explain_choice, look
from saccade.attention.scores import Score, additive, cosine, general, scaled_dot
from saccade.attention.windows import Window, band, causal, gaussian, padding

B, H, S, D, E = 2, 3, 41, 6, 5
LENGTHS = torch.tensor([41, 23])
SCORES = {
    "scaled dot": lambda: scaled_dot,
    "general": lambda: general(torch.randn(D, D)),
    "cosine": lambda: cosine(3.0),
    "additive": lambda: additive(torch.randn(D), torch.randn(D, D), torch.randn(D, D)),
}


def windows(T: int) -> dict[str, Window]:
    centre = torch.rand(B, T) * 30
    return {
        "band": band(2),
        "causal band": causal("top-left") & band(3),
        "band & lengths": band(2) & padding(LENGTHS),
        "gaussian": gaussian(centre, 2) & padding(LENGTHS),
    }


@pytest.mark.parametrize("T", [1, 7])
@pytest.mark.parametrize("heads", [True, False])
@pytest.mark.parametrize("window", ["band", "causal band", "band & lengths", "gaussian"])
@pytest.mark.parametrize("name", SCORES)
def test_local_attention_serves_with_the_same_contexts_and_gradients(
    name: str, window: str, heads: bool, T: int
) -> None:
    score: Score = SCORES[name]()
    batch = (B, H) if heads else (B,)
    query, key, value = (torch.randn(*batch, *each).requires_grad_() for each in ((T, D), (S, D), (S, E)))
    options = {"score": score, "window": windows(T)[window], "offset": 4}
    assert explain_choice(query, key, value, **options).startswith("local.blocked: a query sees ")  # type: ignore[arg-type]
    found = attend(query, key, value, **options)  # type: ignore[arg-type]
    _, expected = look(query, key, value, **options)  # type: ignore[arg-type]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(
        *(torch.autograd.grad(each.pow(2).sum(), (query, key, value)) for each in (found, expected)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_other_windows_and_few_keys_are_served_otherwise() -> None:
    x = torch.randn(2, 12, D)
    real = torch.ones(2, 12, dtype=torch.bool)
    centre = torch.full((2, 12), 3.0)
    for window in (band(2, centre) & causal, band(5), band(1) & band(2), band(1) & padding(real)):
        assert not explain_choice(x, x, x, score=scaled_dot, window=window).startswith("local")


COMPILED = """
import torch
from saccade import attend
from saccade.attention.scores import additive, scaled_dot
from saccade.attention.windows import band, gaussian, padding
from torch._dynamo.testing import CompileCounter

torch.manual_seed(1)
T, lengths, v, seen = 7, torch.tensor([41, 23]), torch.randn(6), []

def record(graph, example):
    seen.append([str(node.target) for node in graph.graph.nodes if "saccade" in str(node.target)])
    return graph

def local_m(query, key, value, centre):
    return attend(query, key, value, score=scaled_dot, window=band(2) & padding(lengths), offset=4)

def local_p(query, key, value, centre):
    return attend(query, key, value, score=additive(v), window=gaussian(centre, 2) & padding(lengths))

for look, heads in ((local_m, ()), (local_p, (3,))):
    shapes = ((2, *heads, T, 6), (2, *heads, 41, 6), (2, *heads, 41, 5), (2, T))
    inputs = [torch.randn(shape).requires_grad_() for shape in shapes]
    inputs[3] = (torch.rand(2, T) * 30).requires_grad_()
    found, expected = torch.compile(look, backend=record, fullgraph=True)(*inputs), look(*inputs)
    assert seen.pop() == ["saccade.local_attention"], seen
    torch.testing.assert_close(found, expected)
    wanted = inputs if look is local_p else inputs[:3]
    for ours, theirs in zip(*(torch.autograd.grad(each.pow(2).sum(), wanted) for each in (found, expected))):
        torch.testing.assert_close(ours, theirs)

counter = CompileCounter()
compiled = torch.compile(local_m, backend=counter, fullgraph=True, dynamic=True)
for S in (41, 43, 57):
    inputs = [torch.randn(2, size, 6) for size in (T, S, S)]
    torch.testing.assert_close(compiled(*inputs, None), local_m(*inputs, None))
assert counter.frame_count == 1, counter.frame_count

class Look(torch.nn.Module):
    def forward(self, query, key, value):
        return local_m(query, key, value, None)

graph = torch.export.export(Look(), tuple(inputs))
assert not any("saccade" in str(node.target) for node in graph.graph.nodes), graph.graph
"""


def test_torch_compile_takes_a_local_window_as_one_operator_and_export_as_plain_ones() -> None:
    # In a process of its own: torch.compile cannot record through the checks of shapes that every test runs under.
    done = subprocess.run([sys.executable, "-W", "error", "-c", COMPILED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
