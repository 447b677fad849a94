"""Statistics of attention weights: from all weights (reference.py), and without ever holding them: for any score, a block
of queries at a time (blocked.py), and for dot scores on a GPU, a tile at a time (fused.py)."""
