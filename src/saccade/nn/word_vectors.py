"""Initialises embeddings with given word vectors; words without one keep their random initial values."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from saccade.errors import InputError


@runtime_checkable
class Known(Protocol):
    """A vocabulary's vectors [V, D], a mask of the words that have one [V] (numpy arrays), and their origin."""

    @property
    def matrix(self) -> Any: ...

    @property
    def known(self) -> Any: ...

    @property
    def where(self) -> str: ...


def begin_words(network: nn.Module, found: Known | None, frozen: bool = False) -> None:
    """Copy the vectors into ``network.embedding`` [V, D]; ``frozen`` embeddings are not trained.

    Without ``found`` the embeddings stay as they are: the network's weights are about to be loaded.
    """
    if found is None and not frozen:
        return
    embedding = getattr(network, "embedding", None)
    if not isinstance(embedding, nn.Embedding):
        expected = "a network with an embedding of words, for data.vectors to begin"
        raise InputError("recipe", field="model.name", expected=expected, found=type(network).__name__)
    if found is not None:
        _put(embedding, found)
    embedding.weight.requires_grad_(not frozen)


@torch.no_grad()
def _put(embedding: nn.Embedding, found: Known) -> None:
    if found.matrix.shape[1] != embedding.embedding_dim:
        expected = f"{found.matrix.shape[1]}, as many numbers as the vectors of {found.where} have"
        raise InputError("recipe", field="model.embedding", expected=expected, found=str(embedding.embedding_dim))
    known = torch.from_numpy(found.known)
    rows = torch.from_numpy(found.matrix)[known]
    embedding.weight[known.to(embedding.weight.device)] = rows.to(embedding.weight)
