"""Computes metrics of outputs, with confidence intervals and significance tests."""
