"""Five networks of equal width that read a sequence from left to right: what a place knows comes from itself and its past.

    RNN               an LSTM (Hochreiter & Schmidhuber 1997), L layers; forget gates begin at a bias of 1 (Gers et al. 2000)
    RNN + attention   the same, and every state looks at all states so far:  h ← h + MultiHead(LN(h))
    CNN               L causal convolutions of k places, 2ˡ apart in layer l (van den Oord et al. 2016):
                      h ← LN(relu(conv(h)))
    CNN, deep enough  the same with as many layers as it takes to see the whole sequence
    self-attention    L pre-norm Transformer layers (Vaswani et al. 2017), sinusoidal positions

Legend: B batch, T places, D width, L layers, k kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.layers import MultiHead
from saccade.attention.windows import causal
from saccade.nn.positions import Sinusoidal
from saccade.nn.recurrent import Recurrent
from saccade.nn.transformer import EncoderLayer, Layout, Residual

RNN, RNN_ATTENTION, CNN, DEEP_CNN, SELF_ATTENTION = NAMES = (
    "RNN", "RNN + attention", "CNN", "CNN, deep enough", "self-attention",
)  # fmt: skip
ROLES = 3  # noise, marked, asked


@dataclass(frozen=True)
class Sizes:
    """What all networks have in common."""

    width: int = 256  # D
    layers: int = 4  # L
    kernel: int = 3  # k
    heads: int = 8

    @property
    def layout(self) -> Layout:
        return Layout(self.width, self.heads, 4 * self.width, norm="pre")


# What a layer holds, as it is written in a table; a test counts it.
FORMULAS = {
    RNN: "8 D² + 8 D",
    RNN_ATTENTION: "8 D² + 8 D; once 4 D² + 6 D for the look",
    CNN: "k D² + 3 D",
    DEEP_CNN: "k D² + 3 D; layers grow with log₂ of the length",
    SELF_ATTENTION: "12 D² + 13 D; once 2 D for the last norm",
}


def formula(name: str, sizes: Sizes, length: int) -> int:
    """How many parameters a network has, input and output layers left out."""
    D, L, k = sizes.width, sizes.layers, sizes.kernel
    recurrent, convolution = 8 * D * D + 8 * D, k * D * D + 3 * D
    match name:
        case "RNN":
            return L * recurrent
        case "RNN + attention":
            return L * recurrent + 4 * D * D + 6 * D
        case "CNN":
            return L * convolution
        case "CNN, deep enough":
            return layers_to_see(length, k) * convolution
        case _:
            return L * (12 * D * D + 13 * D) + 2 * D


def steps_seen(layers: int, kernel: int) -> int:
    """How many steps back a stack of causal convolutions sees: (k − 1) (1 + 2 + 4 + …)."""
    return (kernel - 1) * ((1 << layers) - 1)


def layers_to_see(length: int, kernel: int) -> int:
    """How many layers the last of ``length`` places needs to see the first."""
    layers = 1
    while steps_seen(layers, kernel) < length - 1:
        layers += 1
    return layers


class Lstm(nn.Module):
    """A stack of LSTMs. Shapes: [B, T, D] → [B, T, D]."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.recurrent = Recurrent("lstm", sizes.width, sizes.width, layers=sizes.layers)
        forget = slice(sizes.width, 2 * sizes.width)
        with torch.no_grad():
            for name, parameter in self.recurrent.named_parameters():
                if "bias" in name:  # two biases are added to one another
                    parameter[forget] = 1.0 if "bias_ih" in name else 0.0

    def forward(self, states: Tensor) -> Tensor:
        outputs: Tensor = self.recurrent(states)[0]
        return outputs


class LookingLstm(nn.Module):
    """An LSTM each of whose states looks at all states so far. Shapes: [B, T, D] → [B, T, D]."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.lstm = Lstm(sizes)
        self.attention, self.residual = MultiHead(sizes.width, sizes.heads), Residual(sizes.layout)

    def forward(self, states: Tensor) -> Tensor:
        states = self.lstm(states)
        context = self.attention(self.residual.enter(states), window=causal)
        looked: Tensor = self.residual.leave(states, context)
        return looked


class CausalConvolution(nn.Module):
    """LN(relu(conv(h))), whose taps stand ``apart`` and end at the place itself. Shapes: [B, T, D] → [B, T, D]."""

    def __init__(self, width: int, kernel: int, apart: int) -> None:
        super().__init__()
        self.behind = (kernel - 1) * apart
        self.convolution = nn.Conv1d(width, width, kernel, dilation=apart)
        self.norm = nn.LayerNorm(width)
        # He et al. 2015: PyTorch's own weights are smaller, and little of what is far back comes through many layers.
        nn.init.kaiming_normal_(self.convolution.weight, nonlinearity="relu")
        if self.convolution.bias is not None:
            nn.init.zeros_(self.convolution.bias)

    def forward(self, states: Tensor) -> Tensor:
        past = functional.pad(states.mT, (self.behind, 0))  # [B, D, behind + T]
        normed: Tensor = self.norm(torch.relu(self.convolution(past)).mT)
        return normed


class Convolutions(nn.Sequential):
    """Causal convolutions, each reaching twice as far as the one before. Shapes: [B, T, D] → [B, T, D].

    Nothing goes round a layer: with residuals the nearest places drowned what comes from far back, and it was not learnt.
    """

    def __init__(self, sizes: Sizes, layers: int) -> None:
        super().__init__(*(CausalConvolution(sizes.width, sizes.kernel, 2**number) for number in range(layers)))


class SelfAttention(nn.Module):
    """Transformer layers over the past. Shapes: [B, T, D] → [B, T, D]."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.positions = Sinusoidal()
        self.layers = nn.ModuleList(EncoderLayer(sizes.layout) for _ in range(sizes.layers))
        self.norm = sizes.layout.final_norm()

    def forward(self, states: Tensor) -> Tensor:
        places = torch.arange(states.shape[1], device=states.device).unsqueeze(0)
        states = self.positions.add(states, places)
        for layer in self.layers:
            states = layer(states, window=causal)
        normed: Tensor = self.norm(states)
        return normed


def network_of(name: str, sizes: Sizes, length: int) -> nn.Module:
    """A network that reads sequences of ``length``; only the CNN that is deep enough depends on it."""
    match name:
        case "RNN":
            return Lstm(sizes)
        case "RNN + attention":
            return LookingLstm(sizes)
        case "CNN":
            return Convolutions(sizes, sizes.layers)
        case "CNN, deep enough":
            return Convolutions(sizes, layers_to_see(length, sizes.kernel))
        case "self-attention":
            return SelfAttention(sizes)
        case _:
            raise ValueError(f"expected one of {'; '.join(NAMES)}, found {name!r}")


class Reader(nn.Module):
    """Symbols and their roles in, a guess at every place out; the same around each network.

    Shapes: symbols [B, T], roles [B, T] → logits [B, T, symbols].
    """

    def __init__(self, network: nn.Module, width: int, symbols: int) -> None:
        super().__init__()
        self.symbols, self.roles = nn.Embedding(symbols, width), nn.Embedding(ROLES, width)
        self.network = network
        self.output = nn.Linear(width, symbols)

    def forward(self, symbols: Tensor, roles: Tensor) -> Tensor:
        logits: Tensor = self.output(self.network(self.symbols(symbols) + self.roles(roles)))
        return logits


def parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
