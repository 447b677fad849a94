"""Whether torch.export is at work: an exported graph runs where this package's operators are not known."""

from __future__ import annotations

import torch

TELLS_APART = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 12)
"""PyTorch 2.11 says that it exports whenever torch.compile traces."""


def is_exporting() -> bool:
    """True under torch.export. Before PyTorch 2.12, not where it is strict, which looks like torch.compile there."""
    if TELLS_APART:
        return torch.compiler.is_exporting()
    return torch.compiler.is_exporting() and not torch.compiler.is_dynamo_compiling()
