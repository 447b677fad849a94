"""How much memory the tensors of some code hold together, for the tests that bound it."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class LiveMemory(TorchDispatchMode):
    """Counts what tensors that operations made and nobody has freed hold, and the most that they ever held together.

    Numbers, or bytes with ``unit="bytes"``. Views of what is ``given`` are not made by anybody.
    """

    def __init__(self, given: Iterable[Tensor] = (), *, unit: str = "numbers") -> None:
        super().__init__()
        self.given = {tensor.untyped_storage()._cdata for tensor in given}
        self.live: dict[int, int] = {}
        self.peak = 0
        self.unit = unit

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, Tensor) and tensor.numel():
                storage = tensor.untyped_storage()
                if storage._cdata not in self.live and storage._cdata not in self.given:
                    size = 1 if self.unit == "bytes" else tensor.element_size()
                    self.live[storage._cdata] = storage.nbytes() // size
                    weakref.finalize(storage, self.live.pop, storage._cdata, None)
        self.peak = max(self.peak, sum(self.live.values()))
        return result
