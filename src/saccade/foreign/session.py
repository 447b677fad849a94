"""One call of ``look``: which attention modules ran, under which site names and over which axes they are recorded.

A site is named after the module's path: ``decoder.3.cross`` is the cross-attention of the fourth decoder layer. If two
modules would get the same name (two towers, nested layers), the full path is the name.

In a forward pass each site is recorded as it runs. During generation each step adds a row: the row that wrote output token
i is row i of the axis ``output``; reading the prompt is recorded separately, at ``<site>.prompt``.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from saccade.errors import SaccadeError
from saccade.foreign.attention import OURS, Call, attend_under
from saccade.trace.lens import Lens, Site

CROSS = re.compile(r"cross|enc_?dec|encoder_att|multihead_attn", re.IGNORECASE)
VISION = re.compile(r"vision|visual|image|pixel", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """One attention module: its path in the model, the name of its site, and its role."""

    path: str
    name: str
    decodes: bool  # it is part of a decoder, which runs token by token
    crosses: bool  # its keys are another sequence
    sees_image: bool


def places_of(model: nn.Module, *, vision: bool = False) -> dict[nn.Module, Place]:
    """The attention modules of a model. ``vision``: its input is an image."""
    found = {path: module for path, module in model.named_modules() if _is_attention(module)}
    stacks = {path: _stack(path, module) for path, module in found.items()}
    for layer, each in model.named_modules():  # the path of a bare decoder does not contain "decoder"
        if isinstance(each, nn.TransformerDecoderLayer):
            stacks |= {path: "decoder" for path in found if not layer or path.startswith(f"{layer}.")}
    shortened = {path: _short(path, module, stacks[path]) for path, module in found.items()}
    counts = Counter(shortened.values())
    return {
        module: place_of(
            path,
            module,
            shortened[path] if counts[shortened[path]] == 1 else path,
            vision=vision,
            writes=stacks[path] == "decoder",
        )
        for path, module in found.items()
    }


def place_of(path: str, module: nn.Module, name: str, *, vision: bool, writes: bool | None = None) -> Place:
    writes = _stack(path, module) == "decoder" if writes is None else writes
    named = bool(VISION.search(path))
    return Place(
        path, name, writes, _crosses(path, module), named or (vision and (not writes or _crosses(path, module)))
    )


def unseen(places: Mapping[nn.Module, Place], ran: set[nn.Module], recorded: set[nn.Module]) -> list[str]:
    """The paths of modules that ran but were not recorded."""
    return sorted(places[module].path for module in ran - recorded)


def _is_attention(module: nn.Module) -> bool:
    """Whether the name of its class says so and no submodule is attention itself."""
    if not _named_so(module):
        return False
    return not any(_named_so(part) for part in module.modules() if part is not module)


def _named_so(module: nn.Module) -> bool:
    return bool(re.search(r"Attention|Attn(?!\w*Norm)", type(module).__name__)) and hasattr(module, "forward")


def _short(path: str, module: nn.Module, stack: str) -> str:
    numbers = [part for part in path.split(".") if part.isdigit()]
    # Further numbers count the parts of one layer (T5).
    return ".".join([stack, *numbers[:1], "cross" if _crosses(path, module) else "self"])


def _stack(path: str, module: nn.Module) -> str:
    named = [part for part in path.split(".") if part in ("encoder", "decoder")]
    if named:
        return named[-1]
    writes = getattr(module, "is_causal", False) or getattr(module, "is_decoder", False)
    return "decoder" if writes else "encoder"


def _crosses(path: str, module: nn.Module) -> bool:
    if getattr(module, "is_cross_attention", False):
        return True
    return bool(CROSS.search(path.rpartition(".")[2]) or CROSS.search(type(module).__name__))


class LookSession:
    """Records every attention call of one ``look``.

    Args:
        lens: keeps and edits the weights.
        model: the model whose modules call.
        places: its attention modules.
        writes: whether the model generates, and so calls once per token.
        pairs: whether it has an encoder and a decoder.
        shifted: whether decoder rows are labelled by outputs and keys by the tokens read.
        options: the model's keyword arguments, for error messages.
    """

    def __init__(
        self,
        lens: Lens,
        model: nn.Module,
        places: Mapping[nn.Module, Place],
        *,
        writes: bool = False,
        pairs: bool = False,
        shifted: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.lens, self.model, self.places = lens, model, dict(places)
        self.writes, self.pairs, self.shifted = writes, pairs, shifted
        self.options = options or {}
        self.name = type(model).__name__
        self.ran: set[nn.Module] = set()
        self.recorded: set[nn.Module] = set()
        self.checked: set[type] = set()
        self.calls: Counter[str] = Counter()
        self.prompts: dict[str, int] = {}

    def see(self, module: nn.Module, call: Call, before: int | None = None) -> Tensor:
        """The contexts [B, H, T, E] of this call. ``before``: the number of earlier queries, if known."""
        place = self.place(module)
        self.recorded.add(module)
        site = Site(place.name, *self._axes(place))
        if self.writes and place.decodes:
            return self._step(call, site, place, before)
        self.calls[place.name] += 1
        passes = self.calls[place.name]
        kept = site if passes == 1 else Site(f"{site.name}#{passes}", site.query, site.key)
        return attend_under(self.lens, call, site, kept)

    def place(self, module: nn.Module) -> Place:
        if module not in self.places:
            path = next((path for path, each in self.model.named_modules() if each is module), type(module).__name__)
            self.places[module] = place_of(path, module, path, vision=False)
        return self.places[module]

    def _step(self, call: Call, site: Site, place: Place, before: int | None) -> Tensor:
        T, S = call.query.shape[-2], call.behind + call.key.shape[-2]
        step = self.calls[place.name]
        self.calls[place.name] += 1
        if step == 0:
            self.prompts[place.name] = T
            if T == 1:
                return attend_under(self.lens, call, site, site, offset=0)
            prompt = Site(f"{site.name}.prompt", "prompt", site.key if place.crosses else "prompt")
            context = attend_under(self.lens, call, site, prompt)
            # The last row of the prompt wrote the first token, so it is also the first row of the output.
            attend_under(self.lens, call.of(T - 1, T), site, site, offset=T - 1)
            return context
        offset = self.prompts[place.name] - 1 + step
        fits = T == 1 and (place.crosses or (before in (None, offset) and offset < S))
        if not fits:
            raise SaccadeError(
                f"{self.name}: tracing generate() needs one new token per step and a cache of keys and values: at step {step} "
                f"{place.name} got {T} queries (leave out use_cache=False, assistant models and the like)"
            )
        return attend_under(self.lens, call, site, site, offset=offset, shown=step)

    def _axes(self, place: Place) -> tuple[str, str]:
        read = "image" if place.sees_image else "input"
        if self.writes and place.decodes:
            return "output", read if place.crosses else "prefix"
        if place.decodes and self.pairs:
            return "target", read if place.crosses else "prefix" if self.shifted else "target"
        return (read, "memory") if place.crosses else (read, read)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Track which attention modules run, and raise at the end if one was not recorded."""

        def note(module: nn.Module, _: object) -> None:
            self.ran.add(module)

        hooks = [module.register_forward_pre_hook(note) for module in self.places]
        try:
            with _Strays(self.name):
                yield
        finally:
            for hook in hooks:
                hook.remove()
        self.check()

    def check(self) -> None:
        """Raise if attention ran unrecorded, if none ran, or if an edit never applied."""
        missing = unseen(self.places, self.ran, self.recorded)
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            kinds = ", ".join(sorted({type(self.model.get_submodule(path)).__name__ for path in missing}))
            raise SaccadeError(
                f"{self.name}: {len(missing)} of its attention modules cannot be traced ({', '.join(missing[:3])}{more}): "
                f"{kinds} does not use the attention interface of transformers"
            )
        if not self.lens.records:
            raise SaccadeError(
                f"{self.name}: no attention ran: expected attention of transformers or nn.MultiheadAttention"
            )
        self.lens.check()


class _Strays(TorchFunctionMode):
    """Refuses direct calls of PyTorch's attention, which bypass the session."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is functional.scaled_dot_product_attention and not OURS.get():
            raise SaccadeError(
                f"{self.name}: it calls scaled_dot_product_attention directly, where it cannot be traced: expected all "
                "attention in nn.MultiheadAttention, or through the attention interface of transformers"
            )
        return function(*args, **(kwargs or {}))
