"""Attention layers with parameters: ``Attention`` (one head, any score), ``MultiHead``, ``AttentionPool``.

Legend: B batch, H heads, T queries, S keys, D width, E width of values.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.attention.checks import (
    check_dropout,
    check_flag,
    check_given_size,
    check_one_of,
    check_parts,
    check_size,
    check_states,
)
from saccade.attention.core import attend
from saccade.attention.normalise import Normaliser, softmax
from saccade.attention.own import OwnScore
from saccade.attention.scores import Prepared, Score, additive, cosine, dot, general, location, scaled_dot
from saccade.attention.windows import Window, everywhere
from saccade.errors import SaccadeError
from saccade.kernels.beam_kv.attention import cached_attention
from saccade.plugins import is_own
from saccade.trace.lens import Lens, Site

ScoreName = Literal["dot", "scaled_dot", "general", "additive", "concat", "location", "cosine"]


class Attention(nn.Module):
    """Attention with one head: context = Σₛ normalise(score(query, keyₛ)) valueₛ, with the score's parameters.

    | score | parameters |
    |---|---|
    | ``dot``, ``scaled_dot`` | none (``query_width`` = ``key_width``) |
    | ``general`` | W [query_width, key_width] |
    | ``additive`` (= ``concat``) | v [width], W [width, query_width], U [width, key_width] |
    | ``location`` | W [places, query_width] |
    | ``cosine`` | none: ``beta`` is learned, kept positive by a softplus |
    | your own: a module, or its class's name ``package.module:Name`` | its own (:mod:`saccade.attention.own`) |

    Shapes: query [B, T, query_width], key [B, S, key_width], value [B, S, E] → context [B, T, E]. Without ``value``, the
    keys are the values.
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        *,
        score: str | nn.Module = "additive",
        width: int | None = None,
        places: int | None = None,
        normalise: Normaliser = softmax,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_size(query_width=query_width, key_width=key_width)
        check_given_size(width=width, places=places)
        check_parts(normalise=normalise)
        check_dropout(dropout)
        own = not isinstance(score, str) or is_own(score)
        if not own and score in ("dot", "scaled_dot", "cosine") and query_width != key_width:
            raise SaccadeError(
                f"score {score!r} needs equal widths: got query_width={query_width}, key_width={key_width}"
            )
        if not own and score == "location" and not places:
            raise SaccadeError("score 'location' needs places=, the longest input it can look at")
        width = width or query_width
        self.normalise, self.dropout = normalise, dropout
        self.kind = "own" if own else score
        if own:
            self.own = OwnScore(score, query_width, key_width)
        elif score == "general":
            self.weight = nn.Parameter(torch.empty(query_width, key_width))
        elif score in ("additive", "concat"):
            self.v = nn.Parameter(torch.empty(width))
            self.query_weight = nn.Parameter(torch.empty(width, query_width))
            self.key_weight = nn.Parameter(torch.empty(width, key_width))
        elif score == "location":
            self.weight = nn.Parameter(torch.empty(places or 0, query_width))
        elif score == "cosine":
            self.raw_beta = nn.Parameter(torch.zeros(()))
        elif score not in ("dot", "scaled_dot"):
            raise SaccadeError(f"unknown score {score!r}: expected one of {', '.join(get_args(ScoreName))}")
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for name, parameter in self.named_parameters(recurse=False):  # a user's score initialises itself
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            elif name == "v":
                nn.init.uniform_(parameter, -(parameter.numel() ** -0.5), parameter.numel() ** -0.5)

    @property
    def score(self) -> Score:
        """The score as a value over this layer's parameters."""
        match self.kind:
            case "own":
                return self.own
            case "general":
                return general(self.weight)
            case "additive" | "concat":
                return additive(self.v, self.query_weight, self.key_weight)
            case "location":
                return location(self.weight)
            case "cosine":
                return cosine(nn.functional.softplus(self.raw_beta))
            case "scaled_dot":
                return scaled_dot
            case _:
                return dot

    def prepare(self, key: Float[Tensor, "B S Dk"]) -> Prepared:
        """The part of the score that depends on the keys alone, computed once for all steps of a decoder."""
        return self.score.prepare(key)

    def forward(
        self,
        query: Float[Tensor, "B T Dq"],
        key: Float[Tensor, "B S Dk"] | Prepared,
        value: Float[Tensor, "B S E"] | None = None,
        *,
        window: Window = everywhere,
        offset: int | None = None,
        lens: Lens | None = None,
        site: str | Site = "attention",
    ) -> Float[Tensor, "B T E"]:
        if value is None:
            if isinstance(key, Prepared):
                raise SaccadeError("prepared keys cannot serve as values; pass value= too")
            value = key
        return attend(
            query,
            key,
            value,
            score=self.score,
            normalise=self.normalise,
            window=window,
            dropout=self.dropout if self.training else 0.0,
            offset=offset,
            lens=lens,
            site=site,
        )


class MultiHead(nn.Module):
    """H heads in parallel (Vaswani et al. 2017): concat(head₁ … head_H) W_O, headᵢ = attend(x W_Qⁱ, y W_Kⁱ, y W_Vⁱ).

    Shapes: query [B, T, width], key [B, S, key_width], value [B, S, value_width] → [B, T, width]. ``key_width`` is ``width``,
    and ``value_width`` is ``key_width``, unless given.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_width: int | None = None,
        value_width: int | None = None,
        score: Literal["scaled_dot", "dot", "additive", "cosine"] = "scaled_dot",
        normalise: Normaliser = softmax,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        check_size(width=width, heads=heads)
        check_given_size(key_width=key_width, value_width=value_width)
        check_flag(bias=bias)
        check_parts(normalise=normalise)
        check_dropout(dropout)
        if width % heads:
            raise SaccadeError(f"heads must divide width: got heads={heads}, width={width}")
        check_one_of(("scaled_dot", "dot", "additive", "cosine"), score=score)
        key_width = key_width or width
        value_width = value_width or key_width
        self.heads, self.kind, self.normalise, self.dropout = heads, score, normalise, dropout
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(key_width, width, bias=bias)
        self.value = nn.Linear(value_width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        if score == "additive":
            self.v = nn.Parameter(torch.empty(heads, width // heads))
        self.reset_parameters()

    @classmethod
    def from_torch(cls, layer: nn.MultiheadAttention) -> MultiHead:
        """The same layer as a ``torch.nn.MultiheadAttention``, with copies of its weights, in its dtype and on its device.

        Outputs and gradients are those of ``layer``; batches come first here, whatever its ``batch_first``. Masks become
        windows: ``key_padding_mask`` is ``padding(~key_padding_mask)``, a boolean ``attn_mask`` is ``mask(~attn_mask)``. Layers
        with ``add_bias_kv`` or ``add_zero_attn`` are refused: they attend to positions that no key has.

        >>> layer = nn.MultiheadAttention(6, 3, batch_first=True)
        >>> x = torch.randn(2, 5, 6)
        >>> bool(torch.allclose(MultiHead.from_torch(layer)(x), layer(x, x, x)[0], atol=1e-6))
        True
        """
        if not isinstance(layer, nn.MultiheadAttention):
            raise SaccadeError(f"expected a torch.nn.MultiheadAttention, found {type(layer).__name__}")
        for name, there in (("add_bias_kv", layer.bias_k is not None), ("add_zero_attn", layer.add_zero_attn)):
            if there:
                raise SaccadeError(
                    f"{name}: expected a layer without it, found {name}=True: MultiHead has no such position"
                )
        width, bias = layer.embed_dim, layer.in_proj_bias is not None
        widths = {"key_width": layer.kdim, "value_width": layer.vdim}
        made = cls(width, layer.num_heads, **widths, dropout=layer.dropout, bias=bias)
        output = layer.out_proj.weight
        made.to(device=output.device, dtype=output.dtype).train(layer.training)
        whole = layer.in_proj_weight
        parts = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight) if whole is None else whole.chunk(3)
        biases = (*layer.in_proj_bias.chunk(3), layer.out_proj.bias) if bias else ()
        linears = (made.query, made.key, made.value, made.output)
        copies = [(own.weight, weight) for own, weight in zip(linears, (*parts, output), strict=True)]
        copies += [(own.bias, part) for own, part in zip(linears, biases, strict=bool(bias))]
        with torch.no_grad():
            for own, given in copies:
                own.copy_(given)
        for own, given in copies:
            own.requires_grad_(given.requires_grad)  # what is frozen stays frozen
        return made

    def reset_parameters(self) -> None:
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        if self.kind == "additive":
            nn.init.xavier_uniform_(self.v)

    @property
    def score(self) -> Score:
        match self.kind:
            case "additive":
                return additive(self.v)
            case "cosine":
                return cosine()
            case "dot":
                return dot
            case _:
                return scaled_dot

    def forward(
        self,
        query: Float[Tensor, "B T D"],
        key: Float[Tensor, "B S Dk"] | None = None,
        value: Float[Tensor, "B S Dk"] | None = None,
        *,
        window: Window = everywhere,
        offset: int | None = None,
        lens: Lens | None = None,
        site: str | Site = "attention",
    ) -> Float[Tensor, "B T D"]:
        key = query if key is None else key
        return self.look(
            self.queries(query), *self.keys_and_values(key, value), window=window, offset=offset, lens=lens, site=site
        )

    def queries(self, query: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T d"]:
        """x W_Q, split into heads."""
        check_states(self.query.in_features, query=query)
        return self._split(self.query(query))

    def keys_and_values(
        self, key: Float[Tensor, "B S Dk"], value: Float[Tensor, "B S Dk"] | None = None
    ) -> tuple[Float[Tensor, "B H S d"], Float[Tensor, "B H S d"]]:
        """y W_K and y W_V, split into heads; compute them once for keys that many queries attend to."""
        value = key if value is None else value
        check_states(self.key.in_features, key=key)
        check_states(self.value.in_features, value=value)
        return self._split(self.key(key)), self._split(self.value(value))

    def look(
        self,
        queries: Float[Tensor, "B H T d"],
        keys: Float[Tensor, "B H S d"],
        values: Float[Tensor, "B H S d"],
        *,
        window: Window = everywhere,
        offset: int | None = None,
        lens: Lens | None = None,
        site: str | Site = "attention",
    ) -> Float[Tensor, "B T D"]:
        """concat(attend(queryᵢ, keyᵢ, valueᵢ)) W_O over the results of :meth:`queries` and :meth:`keys_and_values`."""
        context = attend(
            queries,
            keys,
            values,
            score=self.score,
            normalise=self.normalise,
            window=window,
            dropout=self.dropout if self.training else 0.0,
            offset=offset,
            lens=lens,
            site=site,
        )  # [B, H, T, d]
        joined: Tensor = self.output(context.transpose(1, 2).flatten(2))
        return joined

    @property
    def looks_once(self) -> bool:
        """Whether :meth:`look_once` computes the same as :meth:`look`."""
        plain = self.kind == "scaled_dot" and self.normalise is softmax and type(self).look is MultiHead.look
        return plain and not (self.training and self.dropout)

    def look_once(
        self,
        queries: Float[Tensor, "R H 1 d"],
        keys: Float[Tensor, "N H P d"],
        values: Float[Tensor, "N H P d"],
        counts: Int[Tensor, " N"],
        line: Int[Tensor, "R P"] | None = None,
    ) -> Float[Tensor, "R 1 D"]:
        """A decoder's step over cached keys, the first ``counts`` positions of each item, without weights: R / N rows share an
        item, or each has its line of descent (:mod:`saccade.kernels.beam_kv.reference`)."""
        if not self.looks_once:
            raise SaccadeError("look_once supports only scaled_dot with softmax and no dropout: use look")
        context = cached_attention(queries.squeeze(2), keys, values, counts, line, scale=queries.shape[-1] ** -0.5)
        joined: Tensor = self.output(context.flatten(1)).unsqueeze(1)
        return joined

    def _split(self, x: Float[Tensor, "B N D"]) -> Float[Tensor, "B H N d"]:
        if x.dim() != 3:
            raise SaccadeError(f"expected [batch, positions, {x.shape[-1]}], found {list(x.shape)}")
        B, N, D = x.shape
        return x.view(B, N, self.heads, D // self.heads).transpose(1, 2)


class AttentionPool(nn.Module):
    """Pools a sequence to one vector by attention with a learned query: pooled = Σₛ αₛ hₛ.

    | score | weights | parameters |
    |---|---|---|
    | ``additive`` (Yang et al. 2016) | αₛ = softmaxₛ(uᵀ tanh(W hₛ + b)); b is the query | u, b [hidden], W [hidden, width] |
    | ``dot`` | αₛ = softmaxₛ(uᵀ hₛ) | u [width] |
    | ``scaled_dot`` | αₛ = softmaxₛ(uᵀ hₛ / √width) | u [width] |

    Shapes: states [B, S, E] → pooled [B, E]. A row that sees nothing is pooled to zeros.

    >>> AttentionPool(5)(torch.randn(2, 7, 5)).shape
    torch.Size([2, 5])
    """

    def __init__(
        self,
        width: int,
        *,
        score: Literal["additive", "dot", "scaled_dot"] = "additive",
        hidden: int | None = None,
        normalise: Normaliser = softmax,
    ) -> None:
        super().__init__()
        check_size(width=width)
        check_given_size(hidden=hidden)
        check_parts(normalise=normalise)
        check_one_of(("additive", "dot", "scaled_dot"), score=score)
        if score != "additive" and hidden is not None:
            raise SaccadeError(f"hidden has no meaning with score={score!r}: got {hidden}")
        self.width, self.kind, self.normalise = width, score, normalise
        if score == "additive":
            hidden = hidden or width
            self.key_weight = nn.Parameter(torch.empty(hidden, width))
            self.bias = nn.Parameter(torch.zeros(hidden))
            self.v = nn.Parameter(torch.empty(hidden))
            nn.init.xavier_uniform_(self.key_weight)
            nn.init.uniform_(self.v, -(hidden**-0.5), hidden**-0.5)
        else:
            self.query = nn.Parameter(torch.empty(width))
            nn.init.uniform_(self.query, -(width**-0.5), width**-0.5)

    @property
    def score(self) -> Score:
        """The score as a value over this layer's parameters."""
        if self.kind == "additive":
            return additive(self.v, key_weight=self.key_weight)
        return scaled_dot if self.kind == "scaled_dot" else dot

    def forward(
        self,
        states: Float[Tensor, "B S E"],
        *,
        window: Window = everywhere,
        lens: Lens | None = None,
        site: str | Site = "pool",
    ) -> Float[Tensor, "B E"]:
        if not isinstance(states, Tensor):
            check_states(states=states)
        if states.dim() != 3 or states.shape[2] != self.width:
            raise SaccadeError(f"expected states [B, S, {self.width}], found {list(states.shape)}")
        learned = self.bias if self.kind == "additive" else self.query
        query = learned.expand(states.shape[0], 1, -1)  # [B, 1, hidden or E]
        pooled = attend(
            query, states, states, score=self.score, normalise=self.normalise, window=window, lens=lens, site=site
        )
        return pooled.squeeze(1)
