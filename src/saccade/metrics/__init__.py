"""How good an output is, by the measures people publish."""
