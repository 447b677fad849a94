"""Local attention (Luong et al. 2015): each query sees the few keys around its centre, and costs no more than those.

Which keys are seen (reach.py); the formula, over all keys (reference.py); the same over the seen ones, anywhere (blocked.py,
through chunks.py) and in one Triton launch (fused.py, through fused_programs.py); both with gradients (differentiable.py),
which a decoder's steps may sum in one place (memory.py).
"""
