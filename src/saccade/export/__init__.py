"""Trained networks in other programs' formats, and theirs in ours."""
