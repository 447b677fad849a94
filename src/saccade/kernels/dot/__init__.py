"""Dot-product scores, qᵀk (reference.py)."""
