"""A step's look at what is kept: the keys and values of what was written, and of the source."""
