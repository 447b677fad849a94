"""A trace made visible: in the terminal (:mod:`.terminal`) and as PNG, SVG or PDF (:mod:`.figure`).

Views choose themselves by the kinds of a map's axes, never by a model's class.
"""
