"""Sparse relatives of softmax: sparsemax and entmax-1.5 (reference.py)."""
