"""Two baselines for RETAIN: a GRU over the visits, and logistic regression on the counts of codes.

    visit_gru        v_j = Σ_{k ∈ visit j} E[k]      h_1 … h_i = GRU(v_1 … v_i)      logit_i = W h_i + b
    visit_logistic   x_i[k] = in how many of the visits 1 … i code k stands          logit_i = W x_i + b

The GRU reads forwards and has no attention: its logit is not a sum over codes. The regression's is, ω_d(j, k) = W_d[k], but it
knows neither the order of the visits nor their times.

Legend: B batch, T visits, K codes per visit, C outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.nn.config import check
from saccade.nn.recurrent import Recurrent
from saccade.nn.visit_network import NO_CODE, VisitNetwork, intervals, last_of, record_contributions, record_risk
from saccade.trace.lens import Lens


@dataclass(frozen=True)
class GruConfig:
    embedding: int = 128
    hidden: int = 128
    time: Literal["none", "log"] = "none"  # what the GRU reads of the times of visits
    dropout: float = 0.5  # of the vectors of visits and of the last state

    def __post_init__(self) -> None:
        check(self, "embedding", "hidden")


class VisitGru(VisitNetwork):
    """p(outcomes | visits) of the last state of a GRU."""

    config_class = GruConfig

    def __init__(self, config: GruConfig, codes: int, outcomes: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(codes, config.embedding, padding_idx=NO_CODE)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        with torch.no_grad():
            self.embedding.weight[NO_CODE] = 0.0
        self.encoder = Recurrent("gru", config.embedding + (config.time == "log"), config.hidden)
        self.output = nn.Linear(config.hidden, outcomes)

    def forward(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B T C"]:
        visits = self._drop(self.embedding(codes).sum(2))  # [B, T, m]
        inputs = torch.cat([visits, intervals(times)], dim=-1) if self.config.time == "log" else visits
        states, _ = self.encoder(inputs, lengths)
        logits: Tensor = self.output(self._drop(states))  # [B, T, C]
        if lens is not None:
            record_risk(lens, logits)
        return logits if every else last_of(logits, lengths, self.output.bias)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.config.dropout, self.training)


@dataclass(frozen=True)
class LogisticConfig:
    """No settings: ``train.weight_decay`` is the L2 penalty."""


class VisitLogistic(VisitNetwork):
    """p(outcomes | visits) from the counts of codes: one weight per code, and a bias."""

    config_class = LogisticConfig

    def __init__(self, config: LogisticConfig, codes: int, outcomes: int) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(codes, outcomes, padding_idx=NO_CODE)  # W
        self.bias = nn.Parameter(torch.zeros(outcomes))
        nn.init.zeros_(self.embedding.weight)

    def forward(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B T C"]:
        weights = self.embedding(codes)  # [B, T, K, C]
        logits = weights.sum(2).cumsum(1) + self.bias  # [B, T, C]
        if lens is not None:
            record_contributions(lens, weights, codes, lengths)
            record_risk(lens, logits)
        return logits if every else last_of(logits, lengths, self.bias)

    def contributions(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
    ) -> Float[Tensor, "B T K C"] | Float[Tensor, "B Q T K C"]:
        places = torch.arange(codes.shape[1], device=codes.device)
        weights: Tensor = self.embedding(codes)
        if not every:
            return weights * (places < lengths.unsqueeze(-1))[:, :, None, None]
        seen = (places <= places.unsqueeze(-1)) & (places < lengths[:, None, None])  # [B, Q, T]
        return weights.unsqueeze(1) * seen[..., None, None]
