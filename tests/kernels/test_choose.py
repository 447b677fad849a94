from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from saccade.errors import SaccadeError
from saccade.kernels.additive import blocked, reference
from saccade.kernels.choose import BLOCKED_PAYS_FROM, BLOCKED_PAYS_FROM_WITH_GRADIENT, Request, choose

TRAINING = Request("additive", "cpu", torch.float32, shape=(8, 256, 256, 256), needs_grad=True)


def test_a_long_sequence_on_a_cpu_goes_through_tiles_and_the_reason_has_the_numbers() -> None:
    choice = choose(TRAINING)
    assert choice.kernel == "additive.blocked"
    assert choice.function is blocked.additive_scores
    assert "134,217,728 numbers (512 MiB)" in str(choice)
    assert "524,288" in str(choice)


def test_a_short_sequence_on_a_cpu_is_quicker_whole_and_the_choice_says_why_not_in_tiles() -> None:
    choice = choose(replace(TRAINING, shape=(8, 5, 7, 16)))
    assert choice.kernel == "additive.reference"
    assert choice.function is reference.additive_scores
    assert str(choice) == (
        "additive.reference: q + k is 4,480 numbers (18 KiB); "
        "additive.blocked, with gradients, is faster only from 524,288 on."
    )


@pytest.mark.parametrize(("needs_grad", "least"), [(False, BLOCKED_PAYS_FROM), (True, BLOCKED_PAYS_FROM_WITH_GRADIENT)])
def test_tiles_begin_exactly_at_the_measured_size(needs_grad: bool, least: int) -> None:
    at = replace(TRAINING, shape=(1, 2, least // 2, 1), needs_grad=needs_grad)
    below = replace(at, shape=(1, 2, least // 2 - 1, 1))
    assert choose(at).kernel == "additive.blocked"
    assert choose(below).kernel == "additive.reference"


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_decoders_step_is_always_the_reference(device: str) -> None:
    choice = choose(replace(TRAINING, device=device, shape=(512, 1, 10_000, 1024)))
    assert choice.kernel == "additive.reference"
    assert "single query" in str(choice)


def test_recorded_code_is_always_the_reference() -> None:
    choice = choose(replace(TRAINING, capturing=True))
    assert choice.kernel == "additive.reference"
    assert "recording" in str(choice)


def test_another_device_takes_the_reference_until_its_memory_limit() -> None:
    fits, too_large = (16, 256, 256, 512), (16, 512, 1024, 512)
    assert choose(replace(TRAINING, device="cuda", shape=fits)).kernel == "additive.reference"
    choice = choose(replace(TRAINING, device="cuda", shape=too_large))
    assert choice.kernel == "additive.blocked"
    assert "16.0 GiB" in str(choice)
    assert "4.0 GiB" in str(choice)
    # Half the bytes a number, half the memory: the limit is one of bytes.
    assert choose(replace(TRAINING, device="cuda", shape=(16, 512, 512, 512))).kernel == "additive.blocked"
    half = replace(TRAINING, device="cuda", shape=(16, 512, 512, 512), dtype=torch.bfloat16)
    assert choose(half).kernel == "additive.reference"


@pytest.mark.parametrize("op", ["dot", "sparsemax", "entmax15"])
def test_an_operation_with_one_kernel_says_so(op: str) -> None:
    choice = choose(replace(TRAINING, op=op))
    assert str(choice) == f"{op}.reference: it is the only kernel for {op}."


def test_an_unknown_operation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SaccadeError, match="additive, dot, entmax15, sparsemax, found 'cosine'"):
        choose(replace(TRAINING, op="cosine"))


@pytest.mark.parametrize("shape", [(2, 5, 7, 3), (1, 64, 64, 128)])
def test_the_function_chosen_computes_the_scores(shape: tuple[int, int, int, int]) -> None:
    B, T, S, D = shape
    query, key, v = torch.randn(B, T, D), torch.randn(B, S, D), torch.randn(D)
    found = choose(replace(TRAINING, shape=shape, needs_grad=False)).function(query, key, v)
    torch.testing.assert_close(found, reference.additive_scores(query, key, v), atol=1e-5, rtol=1e-5)
