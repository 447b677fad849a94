"""Tests how far attention explains the outputs of a model."""
