"""Statistics of attention weights: from all weights (reference.py), in blocks of queries for any score (blocked.py), and
in Triton for dot scores (fused.py); the last two never hold all weights."""
