"""RETAIN (Choi et al. 2016): two GRUs read the visits backwards in time, and the logit is a sum over the codes of all visits.

    visit      v_j = Σ_{k ∈ visit j} E[k]
    backwards  g_i … g_1 = GRU_α(v_i … v_1)        e_j = w_αᵀ g_j                α = softmax(e_1 … e_i)
               h_i … h_1 = GRU_β(v_i … v_1)                                     β_j = tanh(W_β h_j + b_β)
    output     c_i = Σ_{j ≤ i} α_j β_j ⊙ v_j        logit_i = W c_i + b          p = σ(logit_i)
    codes      ω_d(j, k) = α_j W_d (β_j ⊙ E[k])     logit_d = Σ_{j, k} ω_d(j, k) + b_d, exactly

No nonlinearity stands between a code and the logit except inside α and β, which is why the sum is exact. The paper adds b_α to
e_j; the softmax cancels it, so it is left out. ``half`` multiplies the states of both GRUs by 0.5, as the authors' program
does and the paper does not. With ``time: log`` the GRUs (not the values) also read log(1 + days since the visit before).

Legend: B batch, Q predictions (1, or one per visit), T visits, K codes per visit, m embedding, n states, C outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saccade.attention.core import read, weigh
from saccade.attention.scores import Prepared
from saccade.attention.windows import mask
from saccade.errors import SaccadeError
from saccade.kernels.choose import Choice
from saccade.kernels.dot.reference import dot_scores
from saccade.nn.config import check
from saccade.nn.recurrent import Recurrent, reverse_within
from saccade.nn.visit_network import NO_CODE, VisitNetwork, intervals, record_contributions, record_risk
from saccade.trace.flow import Flow
from saccade.trace.lens import Lens, Site

FLOW = Flow(query=("w",), key="g[j]", score="w^{⊤} g[j]", output=("c[t]",))
ALPHA = Site("visits", query="visits", key="visits", flow=FLOW)


@dataclass(frozen=True)
class Config:
    """The sizes and the dropout of the authors' program."""

    embedding: int = 128
    alpha: int = 128  # states of the GRU whose states give α
    beta: int = 128  # states of the GRU whose states give β
    time: Literal["none", "log"] = "none"  # what the GRUs read of the times of visits
    half: bool = False  # states of both GRUs × 0.5
    dropout_embedding: float = 0.5  # of the vectors of visits
    dropout_context: float = 0.5  # of c

    def __post_init__(self) -> None:
        check(self, "embedding", "alpha", "beta")
        for name in ("dropout_embedding", "dropout_context"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1: got {getattr(self, name)}")


class Retain(VisitNetwork):
    """p(outcomes | visits): codes [B, T, K], times [B, T] → logits [B, C], or [B, T, C] after every visit."""

    config_class = Config
    sites = (ALPHA,)

    def __init__(self, config: Config, codes: int, outcomes: int) -> None:
        super().__init__()
        self.config = config
        width = config.embedding + (config.time == "log")
        self.embedding = nn.Embedding(codes, config.embedding, padding_idx=NO_CODE)
        self.alpha_rnn = Recurrent("gru", width, config.alpha)
        self.beta_rnn = Recurrent("gru", width, config.beta)
        self.alpha = nn.Linear(config.alpha, 1, bias=False)
        self.beta = nn.Linear(config.beta, config.embedding)
        self.output = nn.Linear(config.embedding, outcomes)
        for name, parameter in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.uniform_(parameter, -0.1, 0.1)
        with torch.no_grad():
            self.embedding.weight[NO_CODE] = 0.0

    def forward(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
        lens: Lens | None = None,
    ) -> Float[Tensor, "B C"] | Float[Tensor, "B T C"]:
        if not codes.shape[1]:
            lens = None  # there is nothing to look at
        embedded = self.embedding(codes)  # [B, T, K, m]
        visits = functional.dropout(embedded.sum(2), self.config.dropout_embedding, self.training)  # [B, T, m]
        # Under a lens the prediction is made after every visit, for the curve of the risk.
        ends = _ends(lengths, codes.shape[1]) if every or lens is not None else lengths.unsqueeze(1)  # [B, Q]
        alpha, beta = self.weights(visits, times, ends, lens=lens)
        context = read(alpha.unsqueeze(-2), beta * visits.unsqueeze(1)).squeeze(-2)  # [B, Q, m]
        logits: Tensor = self.output(functional.dropout(context, self.config.dropout_context, self.training))
        if lens is not None:
            last = (lengths - 1).clamp(min=0)
            contributions = self._contributions(embedded, _at(alpha, last), _at(beta, last))
            record_contributions(lens, contributions.squeeze(1), codes, lengths)
            record_risk(lens, logits)
        if every:
            return logits
        return logits.squeeze(1) if lens is None else _at(logits, last).squeeze(1)

    def weights(
        self,
        visits: Float[Tensor, "B T m"],
        times: Float[Tensor, "B T"],
        ends: Int[Tensor, "B Q"],
        *,
        lens: Lens | None = None,
    ) -> tuple[Float[Tensor, "B Q T"], Float[Tensor, "B Q T m"]]:
        """α and β of predictions made after the first ``ends`` visits: each reads its visits backwards, from its last one."""
        inputs = torch.cat([visits, intervals(times)], dim=-1) if self.config.time == "log" else visits
        factor = 0.5 if self.config.half else 1.0
        keys = factor * _backwards(self.alpha_rnn, inputs, ends)  # [B, Q, T, n]
        query = self.alpha.weight.expand(*ends.shape, -1)  # [B, Q, n]
        seen = torch.arange(visits.shape[1], device=ends.device) < ends.unsqueeze(-1)  # [B, Q, T]
        alpha = weigh(query, Prepared(keys), score=_own_keys, window=mask(seen), lens=lens, site=ALPHA)
        beta = torch.tanh(self.beta(factor * _backwards(self.beta_rnn, inputs, ends)))
        return alpha, beta

    def contributions(
        self,
        codes: Int[Tensor, "B T K"],
        times: Float[Tensor, "B T"],
        lengths: Int[Tensor, " B"],
        *,
        every: bool = False,
    ) -> Float[Tensor, "B T K C"] | Float[Tensor, "B Q T K C"]:
        if self.training:
            raise SaccadeError("contributions: dropout breaks the sum: call eval() first")
        embedded = self.embedding(codes)
        ends = _ends(lengths, codes.shape[1]) if every else lengths.unsqueeze(1)
        found = self._contributions(embedded, *self.weights(embedded.sum(2), times, ends))
        return found if every else found.squeeze(1)

    def _contributions(
        self, embedded: Float[Tensor, "B T K m"], alpha: Float[Tensor, "B Q T"], beta: Float[Tensor, "B Q T m"]
    ) -> Float[Tensor, "B Q T K C"]:
        """ω_d(j, k) = α_j W_d (β_j ⊙ E[k])."""
        gates = alpha.unsqueeze(-1) * beta  # [B, Q, T, m]
        return torch.einsum("bqtm,dm,btkm->bqtkd", gates, self.output.weight, embedded)


class _OwnKeys:
    """The dot product where every query has keys of its own: query [B, Q, n], keys [B, Q, T, n] → [B, Q, T]."""

    name = "dot"

    def prepare(self, key: Tensor) -> Prepared:
        return Prepared(key)

    def __call__(self, query: Tensor, key: Tensor | Prepared) -> Tensor:
        keys = key.key if isinstance(key, Prepared) else key
        return (keys @ query.unsqueeze(-1)).squeeze(-1)

    def choice(self, query: Tensor, key: Tensor | Prepared) -> Choice:
        return Choice("dot.reference", dot_scores, ("every query has keys of its own",))


_own_keys = _OwnKeys()


def _ends(lengths: Int[Tensor, " B"], size: int) -> Int[Tensor, "B T"]:
    """How many visits the prediction after each visit reads: 1, 2, …, the length, and so on in the padding."""
    return torch.minimum(torch.arange(1, size + 1, device=lengths.device), lengths.unsqueeze(-1))


def _backwards(layer: Recurrent, inputs: Float[Tensor, "B T m"], ends: Int[Tensor, "B Q"]) -> Float[Tensor, "B Q T n"]:
    """States of a recurrent layer that reads the first ``ends`` inputs from the last to the first, in the inputs' order."""
    (B, T, _), Q = inputs.shape, ends.shape[1]
    rows, lengths = inputs.unsqueeze(1).expand(B, Q, T, -1).flatten(0, 1), ends.flatten()  # [B · Q, T, m], [B · Q]
    states: Tensor = layer(reverse_within(rows, lengths), lengths)[0]
    turned: Tensor = reverse_within(states, lengths).unflatten(0, (B, Q))
    return turned


def _at(predictions: Float[Tensor, "B Q *more"], last: Int[Tensor, " B"]) -> Float[Tensor, "B 1 *more"]:
    """The prediction at one place of each row."""
    return predictions[torch.arange(len(last), device=last.device), last].unsqueeze(1)
