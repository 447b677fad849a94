"""A decoder's step, score, softmax and read for one query an item: as the formula reads (reference.py), without a tanh for
each pair (blocked.py), in one launch (fused.py, its Triton in programs.py); and a loop of steps over one memory (loop.py)."""
