"""The arithmetic of attention: one folder an operation, torch alone beneath it.

`reference.py` is the operation as its formula reads; the other files give the same result faster or in less memory.
`choose.py` picks one for a request and says why.
"""
