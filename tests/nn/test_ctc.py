"""CTC's probabilities of prefixes and of whole texts, against the sum over every alignment."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from saccade.nn import ctc
from saccade.nn.ctc import BLANK, certain_blanks, ctc_loss, loss_by_labels

V, END = 5, 2
LENGTHS = (5, 3, 1)
LABELS = (1, 3, 4)  # neither the blank nor the end


def drawn(dtype: torch.dtype = torch.float64, sharp: float = 1.0) -> Tensor:
    logits = torch.randn(3, 5, V, generator=torch.Generator().manual_seed(7), dtype=torch.float64) * sharp
    real = torch.arange(5) < torch.tensor(LENGTHS).unsqueeze(1)
    return certain_blanks(torch.log_softmax(logits.to(dtype), -1), real)


def by_text(log_probs: Tensor) -> dict[tuple[int, ...], float]:
    """p(text) of every text: the sum over all V^L alignments."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(V), repeat=len(log_probs)):
        text = tuple(label for label, _ in itertools.groupby(path) if label != BLANK)
        found[text] = found.get(text, 0.0) + math.exp(
            sum(float(row[label]) for row, label in zip(log_probs, path, strict=True))
        )
    return found


@pytest.mark.parametrize("sharp", [1.0, 4.0])
def test_prefixes_and_ends_have_the_probability_of_all_their_alignments(sharp: float) -> None:
    log_probs = drawn(sharp=sharp)
    texts = [by_text(log_probs[row, :length]) for row, length in enumerate(LENGTHS)]
    assert all(sum(known.values()) == pytest.approx(1.0) for known in texts)
    for prefix in itertools.chain.from_iterable(itertools.product(LABELS, repeat=size) for size in range(4)):
        state = ctc.empty_prefix(log_probs)
        for label in prefix:
            state = ctc.extended(state, torch.full((3,), label), log_probs)
        following = ctc.next_log_probs(state, log_probs, END)
        for row, known in enumerate(texts):
            begins = sum(p for text, p in known.items() if text[: len(prefix)] == prefix)
            if not begins:
                assert float(state.total[row]) < -1e29 and not following[row].exp().any()
                continue
            assert float(state.total[row]) == pytest.approx(math.log(begins), abs=1e-9)
            assert float(following[row, END].exp()) == pytest.approx(known.get(prefix, 0.0) / begins, abs=1e-9)
            for label in LABELS:
                expected = sum(p for text, p in known.items() if text[: len(prefix) + 1] == (*prefix, label)) / begins
                assert float(following[row, label].exp()) == pytest.approx(expected, abs=1e-9)
            assert following[row, BLANK] == -math.inf


def test_the_loss_label_by_label_is_pytorchs_and_so_are_its_gradients() -> None:
    generator = torch.Generator().manual_seed(2)
    lengths, counts = torch.tensor([17, 9, 4, 1, 30]), torch.tensor([5, 4, 4, 0, 7])
    texts = torch.randint(1, V, (5, 9), generator=generator)
    texts[1, :4] = texts[2, :4] = torch.tensor([3, 3, 1, 1])  # the third needs six annotations and has four
    for dtype, close in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        logits = (3 * torch.randn(5, 30, V, generator=generator)).to(dtype).requires_grad_()
        losses, gradients = [], []
        for function in (ctc_loss, loss_by_labels):
            nll = function(torch.log_softmax(logits, -1), lengths, texts, counts)
            losses.append(nll.detach())
            gradients.append(torch.autograd.grad((nll * torch.tensor([1.0, 2.0, 1.0, 0.5, 3.0])).sum(), logits)[0])
        torch.testing.assert_close(losses[1], losses[0], rtol=close, atol=close)
        torch.testing.assert_close(gradients[1], gradients[0], rtol=close, atol=close)
        assert losses[1][2] == 0 and not gradients[1][2].any()


def test_the_loss_is_the_probability_of_all_alignments_and_a_text_too_long_has_none() -> None:
    log_probs = drawn().requires_grad_()
    texts = torch.tensor([[3, 3, 1], [4, 1, 0], [4, 3, 0]])
    lengths = torch.tensor([3, 2, 2])
    nll = ctc_loss(log_probs, torch.tensor(LENGTHS), texts, lengths)
    known = [by_text(log_probs[row, :size].detach()) for row, size in enumerate(LENGTHS)]
    for row in (0, 1):
        assert float(nll[row].detach()) == pytest.approx(
            -math.log(known[row][tuple(texts[row, : lengths[row]].tolist())])
        )
    assert nll[2] == 0, "two labels in one annotation"
    nll.sum().backward()
    assert bool(log_probs.grad.isfinite().all()) and not log_probs.grad[2].any()


def test_a_long_recording_keeps_its_precision_in_single() -> None:
    L = 2000
    log_probs = torch.log_softmax(torch.randn(1, L, V, generator=torch.Generator().manual_seed(1)) * 3, -1)
    state = ctc.empty_prefix(log_probs)
    text = [3, 3, 4, 1] * 60
    for label in text:
        state = ctc.extended(state, torch.tensor([label]), log_probs)
    end = ctc.next_log_probs(state, log_probs, END)[0, END] + state.total[0]
    exact = ctc_loss(log_probs.double(), torch.tensor([L]), torch.tensor([text]), torch.tensor([len(text)]))
    assert float(end) == pytest.approx(-float(exact), rel=1e-6)
