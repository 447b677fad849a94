"""Show, Attend and Tell with soft attention as a tutorial writes it in PyTorch: an LSTM cell in a loop over the words, eager.

The same model as ``show_attend_tell``, of the same sizes: additive attention over f(a) = tanh(linear(linear)), a gate β, the
output with dropout, and the doubly stochastic penalty. ``copied`` gives it the parameters of such a network, with which it
computes the same loss.

Legend: B batch, T words, L cells, D width of a cell, n state, m embedding, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PAD = -100  # what cross_entropy leaves out


class Plain(nn.Module):
    def __init__(self, config: Any, vocabulary: int, D: int, start: int) -> None:
        super().__init__()
        n, m = config.hidden, config.embedding
        self.dropout, self.penalty = nn.Dropout(config.dropout), config.penalty
        self.embedding = nn.Embedding(vocabulary, m, padding_idx=start)
        self.start_layer, self.start_hidden, self.start_cell = nn.Linear(D, D), nn.Linear(D, n), nn.Linear(D, n)
        self.first_key, self.second_key = nn.Linear(D, D), nn.Linear(D, D)
        self.query, self.v = nn.Linear(n, D, bias=False), nn.Linear(D, 1, bias=False)
        self.gate = nn.Linear(n, 1)
        self.cell = nn.LSTMCell(m + D, n)
        self.from_state, self.from_context = nn.Linear(n, m), nn.Linear(D, m, bias=False)
        self.output = nn.Linear(m, vocabulary)

    def forward(self, cells: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Cells [B, L, D] and words [B, T] → logits [B, T, V], weights [B, T, L]."""
        mean = torch.relu(self.start_layer(cells.mean(1)))
        hidden, cell = torch.tanh(self.start_hidden(mean)), torch.tanh(self.start_cell(mean))
        keys, embedded = torch.tanh(self.second_key(self.first_key(cells))), self.embedding(words)
        logits, looked = [], []
        for step in range(words.shape[1]):
            scores = self.v(torch.tanh(keys + self.query(hidden).unsqueeze(1))).squeeze(-1)  # [B, L]
            weights = scores.softmax(-1)
            context = (weights.unsqueeze(-1) * cells).sum(1) * torch.sigmoid(self.gate(hidden))
            hidden, cell = self.cell(torch.cat([embedded[:, step], context], dim=-1), (hidden, cell))
            known = self.from_state(self.dropout(hidden)) + embedded[:, step] + self.from_context(context)
            logits.append(self.output(self.dropout(torch.tanh(known))))
            looked.append(weights)
        return torch.stack(logits, dim=1), torch.stack(looked, dim=1)

    def loss(self, cells: Tensor, words: Tensor, targets: Tensor) -> Tensor:
        """Per word: −log p(y), and the penalty Σᵢ (1 − Σₜ αₜᵢ)² of each caption."""
        logits, weights = self(cells, words)
        real = targets != PAD
        total = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
        attended = (weights * real.unsqueeze(-1)).sum(1)
        return (total + self.penalty * (1 - attended).square().sum()) / real.sum()


def copied(network: Any, D: int, start: int) -> Plain:
    """The plain model with the parameters of a ``show_attend_tell`` network."""
    given = network.state_dict()
    names = {
        "key_layers.0": "first_key", "key_layers.1": "second_key", "start_layers.0": "start_layer",
        "cell.forwards.0.unit": "cell",
    }  # fmt: skip
    tensors = {"query.weight": given.pop("query_weight"), "v.weight": given.pop("v").unsqueeze(0)}
    for name, tensor in given.items():
        module, _, parameter = name.rpartition(".")
        tensors[f"{names.get(module, module)}.{parameter.removesuffix('_l0')}"] = tensor
    made = Plain(network.config, network.output.out_features, D, start)
    made.load_state_dict(tensors)
    return made


class Captions(Dataset[tuple[Tensor, Tensor]]):
    """The features of a picture, widened to float32, and the ids of one of its captions."""

    def __init__(self, features: Tensor, rows: Sequence[tuple[int, Sequence[int]]]) -> None:
        self.features, self.rows = features, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        picture, ids = self.rows[number]
        return self.features[picture].float(), torch.tensor(ids)


def collate(items: Sequence[tuple[Tensor, Tensor]], bos: int, eos: int) -> tuple[Tensor, Tensor, Tensor]:
    """Cells, the words that are read, and those that are to be predicted, PAD after their end."""
    cells, captions = zip(*items, strict=True)
    words = pad_sequence([functional.pad(ids, (1, 0), value=bos) for ids in captions], batch_first=True)
    targets = [functional.pad(ids, (0, 1), value=eos) for ids in captions]
    return torch.stack(cells), words, pad_sequence(targets, batch_first=True, padding_value=PAD)


def train(
    model: Plain, loader: DataLoader[Any], *, device: str, lr: float, clip: float, warm: int
) -> tuple[float, int, int]:
    """One pass over the batches; the seconds, captions and words of those after the first ``warm``."""
    model.to(device).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=lr)
    seconds, captions, tokens, started = 0.0, 0, 0, time.perf_counter()
    for number, batch in enumerate(loader):
        if number == warm:
            captions, tokens, started = 0, 0, time.perf_counter()
        cells, words, targets = (part.to(device, non_blocking=True) for part in batch)
        loss = model.loss(cells, words, targets)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()
        loss.item()  # for the log
        captions, tokens = captions + len(words), tokens + int((batch[2] != PAD).sum())
        seconds = time.perf_counter() - started
    return seconds, captions, tokens
