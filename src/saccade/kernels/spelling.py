"""Sizes in the words that say why a kernel serves."""

from __future__ import annotations

import torch


def spelled(number: int) -> str:
    """1234567 as "1,234,567". While torch.compile records, sizes may be left open, and nobody reads: then "so many"."""
    return "so many" if torch.compiler.is_compiling() else f"{number:,}"
