"""Attention over the edges of a sparse graph: the formula (reference.py), the same in bounded memory on any device (blocked.py)
and in Triton (fused.py), both with gradients (differentiable.py), and the graph itself (graph.py)."""
