"""The recogniser of Chorowski et al. (2015) as a tutorial writes it in PyTorch: packed GRUs, a GRU cell in a loop, eager.

The same network as ``listen_attend`` with hybrid attention, of the same sizes. ``attention`` is the module that looks: the one
of this file, or ESPnet's ``AttLoc`` where that is installed, which computes the same.

Legend: B batch, T symbols, L frames, D width of a frame, H hidden per direction, n state, a alignment, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PAD = -100  # what cross_entropy leaves out


class LocationAware(nn.Module):
    """wᵀ tanh(W s + V hⱼ + U fⱼ + b) with f = F ∗ α, the weights of the step before."""

    def __init__(self, annotation: int, state: int, alignment: int, filters: int, width: int) -> None:
        super().__init__()
        self.key, self.query = nn.Linear(annotation, alignment), nn.Linear(state, alignment, bias=False)
        self.convolution = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)
        self.location, self.v = nn.Linear(filters, alignment, bias=False), nn.Linear(alignment, 1, bias=False)

    def prepare(self, annotations: Tensor, lengths: Tensor) -> None:
        self.annotations, self.keys = annotations, self.key(annotations)
        self.hidden = torch.arange(annotations.shape[1], device=lengths.device) >= lengths.unsqueeze(1)  # [B, L]

    def forward(self, state: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        located = self.location(self.convolution(previous.unsqueeze(1)).transpose(1, 2))  # [B, L, a]
        scores = self.v(torch.tanh(self.query(state).unsqueeze(1) + self.keys + located)).squeeze(-1)
        weights = scores.masked_fill(self.hidden, -torch.inf).softmax(-1)
        return (weights.unsqueeze(1) @ self.annotations).squeeze(1), weights


class EspnetLocationAware(nn.Module):
    """ESPnet's module with the parameters of :class:`LocationAware`."""

    def __init__(self, given: LocationAware) -> None:
        super().__init__()
        from espnet.nets.pytorch_backend.rnn.attentions import AttLoc

        (alignment, annotation), (filters, _, width) = given.key.weight.shape, given.convolution.weight.shape
        self.module = AttLoc(annotation, given.query.in_features, alignment, filters, width // 2)
        parts = {"mlp_enc": given.key, "mlp_dec": given.query, "mlp_att": given.location}
        with torch.no_grad():
            for name, part in parts.items():
                self.module.get_submodule(name).load_state_dict(part.state_dict())
            self.module.loc_conv.weight.copy_(given.convolution.weight.unsqueeze(2))
            self.module.gvec.weight.copy_(given.v.weight)
            self.module.gvec.bias.zero_()  # the same for all frames: it changes no weight

    def prepare(self, annotations: Tensor, lengths: Tensor) -> None:
        self.module.reset()
        self.annotations, self.lengths = annotations, lengths.tolist()

    def forward(self, state: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
        context, weights = self.module(self.annotations, self.lengths, state, previous, scaling=1.0)
        return context, weights


class Plain(nn.Module):
    def __init__(self, config: Any, vocabulary: int, D: int) -> None:
        super().__init__()
        H, n, m = config.hidden, config.state, config.embedding
        self.steps = tuple(config.pooling) + (1,) * (config.layers - len(config.pooling))
        self.encoder = nn.ModuleList(
            nn.GRU(2 * H if layer else D, H, batch_first=True, bidirectional=True) for layer in range(config.layers)
        )
        self.initial = nn.Parameter(torch.zeros(n))
        self.embedding, self.cell = nn.Embedding(vocabulary, m), nn.GRUCell(m + 2 * H, n)
        self.attention: nn.Module = LocationAware(2 * H, n, config.alignment, config.filters, 2 * config.reach + 1)
        self.readout, self.output = nn.Linear(n + 2 * H, 2 * config.maxout), nn.Linear(config.maxout, vocabulary)

    def encode(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [B, N, D] → annotations [B, L, 2H] and their numbers."""
        states = frames
        for layer, step in zip(self.encoder, self.steps, strict=True):
            packed = pack_padded_sequence(states, lengths.cpu(), batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(layer(packed)[0], batch_first=True)
            states, lengths = states[:, ::step], -(-lengths // step)
        return states, lengths

    def begin(self, frames: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The first state, context and weights."""
        annotations, lengths = self.encode(frames, lengths)
        self.attention.prepare(annotations, lengths)  # type: ignore[operator]
        B, L, E = annotations.shape
        weights = annotations.new_zeros(B, L)
        weights[:, 0] = 1
        return self.initial.expand(B, -1), annotations.new_zeros(B, E), weights

    def step(self, token: Tensor | None, hidden: Tensor, context: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        """Logits, and the next state, context and weights; the first step has no token."""
        if token is not None:
            hidden = self.cell(torch.cat([self.embedding(token), context], dim=-1), hidden)
        context, weights = self.attention(hidden, weights)
        known = self.readout(torch.cat([hidden, context], dim=-1))
        return self.output(known.unflatten(-1, (-1, 2)).amax(-1)), hidden, context, weights

    def forward(self, frames: Tensor, lengths: Tensor, tokens: Tensor) -> Tensor:
        """Logits [B, T, V] of the tokens after <bos> [B, T]."""
        state, logits = self.begin(frames, lengths), []
        for number, token in enumerate(tokens.unbind(1)):
            output, *state = self.step(token if number else None, *state)
            logits.append(output)
        return torch.stack(logits, dim=1)

    def loss(self, frames: Tensor, lengths: Tensor, tokens: Tensor, targets: Tensor) -> Tensor:
        """−log p(y) per token."""
        logits = self(frames, lengths, tokens)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)

    @torch.no_grad()
    def greedy(self, frames: Tensor, lengths: Tensor, longest: int, eos: int) -> list[list[int]]:
        """The likeliest token of every step until <eos>, for each recording."""
        state, token, ended = self.begin(frames, lengths), None, torch.zeros(len(frames), dtype=torch.bool)
        written: list[Tensor] = []
        while len(written) < longest and not ended.all():
            output, *state = self.step(token, *state)
            token = output.argmax(-1)
            written.append(token.cpu())
            ended |= token.cpu() == eos
        rows = torch.stack(written, dim=1).tolist()
        return [row[: row.index(eos)] if eos in row else row for row in rows]


def copied(network: Any, vocabulary: int, D: int, *, espnet: bool = False) -> Plain:
    """The plain network with the parameters of a ``listen_attend`` network with hybrid attention."""
    names = {
        "query_weight": "attention.query.weight", "key_weight": "attention.key.weight", "bias": "attention.key.bias",
        "v": "attention.v.weight", "filters": "attention.convolution.weight", "location_weight": "attention.location.weight",
    }  # fmt: skip
    tensors = {}
    for name, tensor in network.state_dict().items():
        if name.startswith("encoder.layers."):
            _, _, layer, direction, _, _, parameter = name.split(".")
            name = f"encoder.{layer}.{parameter}" + ("_reverse" if direction == "backwards" else "")
        elif name.startswith("cell."):
            name = f"cell.{name.rpartition('.')[2].removesuffix('_l0')}"
        name = names.get(name, name)
        if name.endswith(".v.weight"):
            tensor = tensor.unsqueeze(0)
        tensors[name] = tensor.unsqueeze(1) if name.endswith("convolution.weight") else tensor
    made = Plain(network.config, vocabulary, D)
    made.load_state_dict(tensors)
    if espnet:
        made.attention = EspnetLocationAware(made.attention)  # type: ignore[arg-type]
    return made


def train(
    model: Plain,
    batches: Sequence[tuple[Tensor, ...]],
    *,
    device: str,
    lr: float,
    clip: float,
    clock: Callable[[], float],
) -> tuple[float, int]:
    """One pass over batches of frames, lengths, tokens and targets; the seconds and the frames of those after the first."""
    model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    started = clock()
    for number, batch in enumerate(batches):
        frames, lengths, tokens, targets = (part.to(device) for part in batch)
        loss = model.loss(frames, lengths, tokens, targets)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        loss.item()  # for the log
        if not number:
            started = clock()
    return clock() - started, sum(int(batch[1].sum()) for batch in batches[1:])
