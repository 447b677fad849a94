"""Finds likely outputs of a network: greedy search, beam search, diverse beams, sampling, with constraints."""

from saccade.nn.search.beam_search import Hypothesis, Search, search
from saccade.nn.search.constraints import Constraints
from saccade.nn.search.selection import Diverse, Sampling

__all__ = ["Constraints", "Diverse", "Hypothesis", "Sampling", "Search", "search"]
