"""A decoder's step over one memory: formula and loop (steps.py), in plain PyTorch (blocked.py), in Triton (fused.py)."""
