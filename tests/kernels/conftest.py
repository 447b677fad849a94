"""Where these tests run: on the GPU if there is one; else Triton's kernels run in its interpreter, on the CPU.

The interpreter must be asked for before triton is first imported.
"""

import os
from collections.abc import Iterator

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def on_the_gpu_if_there_is_one() -> Iterator[None]:
    if not torch.cuda.is_available():
        yield
        return
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)
