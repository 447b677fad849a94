"""Runs JoeyNMT 2.3 with today's PyTorch: ``python peer.py train|test CONFIG``.

Nothing of JoeyNMT is changed. Packages that it imports and this comparison never uses are replaced by empty stand-ins where
they are missing, TensorBoard by a writer that writes nothing (which costs JoeyNMT less time, not more), and one argument
that PyTorch has dropped (``verbose`` of the plateau schedule) is left out. At the end it says how much CPU time its
searches took.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import sys
import time
import types
from typing import Any


class Nothing(types.ModuleType):
    """A module whose every name is itself, to be imported and never used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class SilentWriter:
    """A TensorBoard writer that writes nothing."""

    def __init__(self, **_: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def stand_in() -> None:
    never_used = {"sentencepiece": [], "subword_nmt": [], "plotly": ["plotly.express"]}
    for name, parts in never_used.items():
        if importlib.util.find_spec(name) is None:
            sys.modules |= {each: Nothing(each) for each in (name, *parts)}
    if importlib.util.find_spec("importlib_metadata") is None:
        sys.modules["importlib_metadata"] = importlib.metadata
    writer = types.ModuleType("torch.utils.tensorboard")
    writer.SummaryWriter = SilentWriter  # type: ignore[attr-defined]
    sys.modules["torch.utils.tensorboard"] = writer

    import torch.optim.lr_scheduler as schedules

    class Plateau(schedules.ReduceLROnPlateau):
        def __init__(self, *args: Any, verbose: bool = False, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)

    schedules.ReduceLROnPlateau = Plateau  # type: ignore[misc]


class Clock:
    """A function, and the CPU time of all its calls together."""

    def __init__(self, function: Any) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        begin = time.process_time()
        try:
            return self.function(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - begin


if __name__ == "__main__":
    stand_in()
    import joeynmt.prediction
    from joeynmt.__main__ import main

    clock = joeynmt.prediction.search = Clock(joeynmt.prediction.search)
    main()
    print(f"Search took {clock.seconds:.4f} CPU seconds")
