"""Metrics of outputs, with confidence intervals and significance tests."""
