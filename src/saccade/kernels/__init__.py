"""The arithmetic of attention: one folder per operation, on torch (and Triton) alone.

`reference.py` is the formula; the other files compute the same result faster or in less memory. `choose.py` picks one for a
call and says why.
"""
