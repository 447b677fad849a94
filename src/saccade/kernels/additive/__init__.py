"""Additive scores, vᵀ tanh(q + k): the formula (reference.py) and the same in bounded memory (blocked.py)."""
