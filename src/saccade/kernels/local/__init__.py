"""Local attention (Luong et al. 2015): each query sees the few keys around its centre, and costs no more than those.

The formula over all keys (reference.py); the same over the visible ones, on any device (blocked.py) and in Triton (fused.py),
both with gradients (differentiable.py).
"""
