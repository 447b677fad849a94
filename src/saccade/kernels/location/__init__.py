"""Location-aware scores, vᵀ tanh(q + k + L (F ∗ α)): the formula (reference.py) and one step in one launch (fused.py)."""
