"""Attention over the edges of a sparse graph: the formula (reference.py), the same without a number for each edge and
feature on any device (blocked.py) and on a GPU (fused.py), both with gradients (differentiable.py), and the graph itself
(graph.py)."""
