from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from saccade.kernels.hard import gathered, reference

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def drawn(dtype: torch.dtype, *batch: int) -> tuple[Tensor, Tensor]:
    """Values of 7 keys, 5 wide, and the choices of 3 queries, one of which sees nothing."""
    value = torch.randn(*batch, 7, 5, dtype=torch.float64).to(dtype).requires_grad_()
    index = torch.randint(0, 7, (*batch, 3))
    index[..., 1] = -1
    return value, index


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_gathering_is_the_product_with_rows_of_one_in_values_and_gradients(
    dtype: torch.dtype, batch: tuple[int, ...]
) -> None:
    value, index = drawn(dtype, *batch)
    results = []
    for take in (reference.take, gathered.take):
        value.grad = None
        taken = take(value, index)
        (taken * torch.arange(5, dtype=dtype)).sum().backward()
        results.append((taken.detach(), value.grad.clone()))
    (product, by_product), (read, by_reading) = results
    assert read.dtype is dtype
    assert read.shape == (*batch, 3, 5)
    torch.testing.assert_close(read, product, rtol=0, atol=0)
    torch.testing.assert_close(by_reading, by_product, rtol=0, atol=0)


@pytest.mark.parametrize("take", [reference.take, gathered.take])
def test_a_query_that_sees_nothing_gets_zeros_even_beside_values_that_are_no_numbers(
    take: Callable[[Tensor, Tensor], Tensor],
) -> None:
    value = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]])
    assert take(value, torch.tensor([[-1, 1]])).tolist() == [[[0.0, 0.0], [3.0, 4.0]]]
    if take is gathered.take:
        value[0, 0] = torch.nan
        assert take(value, torch.tensor([[-1, 1]])).tolist() == [[[0.0, 0.0], [3.0, 4.0]]]


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)])
def test_one_item_serves_all_as_in_the_product(sizes: tuple[int, int]) -> None:
    index, value = torch.randint(-1, 7, (sizes[0], 3)), torch.randn(sizes[1], 7, 5, dtype=torch.float64)
    value.requires_grad_()
    results = [take(value, index) for take in (reference.take, gathered.take)]
    assert results[1].shape == (2, 3, 5)
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    one, other = (torch.autograd.grad((result * torch.arange(5)).sum(), value)[0] for result in results)
    torch.testing.assert_close(other, one)


@pytest.mark.parametrize("take", [reference.take, gathered.take])
def test_without_keys_every_query_gets_zeros(take: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert take(torch.zeros(2, 0, 5), torch.full((2, 3), -1)).tolist() == torch.zeros(2, 3, 5).tolist()


def test_two_queries_that_choose_one_value_add_their_gradients() -> None:
    value = torch.zeros(1, 4, 2, requires_grad=True)
    gathered.take(value, torch.tensor([[2, 2, 0]])).sum().backward()
    assert value.grad is not None
    assert value.grad[0, :, 0].tolist() == [1.0, 0.0, 2.0, 0.0]
