"""Small parts as a user writes them: a score and a normaliser that learn, a window that moves, a function, a value."""

from __future__ import annotations

import torch
from torch import nn

from saccade.attention.normalise import softmax
from saccade.attention.windows import band, gaussian

narrow = band(1)


class Score(nn.Module):
    def __init__(self, query_width, key_width):
        super().__init__()
        self.weight = nn.Parameter(torch.full((key_width, query_width), 3.0))

    def prepare(self, key):
        return key @ self.weight

    def forward(self, query, key):
        return torch.tanh(query @ key.mT)


class Normaliser(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = nn.Parameter(torch.tensor(3.0))

    def forward(self, scores):
        hidden = scores == -torch.inf
        return softmax((scores.masked_fill(hidden, 0) * self.beta).masked_fill(hidden, -torch.inf))


class Centred(nn.Module):
    def __init__(self, query_width):
        super().__init__()
        self.where = nn.Parameter(torch.full((query_width,), 3.0))

    def forward(self, query, lengths):
        return gaussian(lengths.unsqueeze(-1) * torch.sigmoid(query @ self.where), 2)


def even(scores):
    return softmax(scores * 0.1)


class Nowhere(nn.Module):
    def __init__(self, query_width):
        super().__init__()

    def forward(self, query, lengths):
        return lengths


class Raising(nn.Module):
    def __init__(self, query_width, key_width):
        super().__init__()
        raise OSError("no licence")
