"""A trace made visible: in the terminal (:mod:`.terminal`), as PNG, SVG or PDF (:mod:`.figure`), as a page to explore
(:mod:`.html`, of what :mod:`.payload` holds), in a notebook (:mod:`.notebook`).

Views choose themselves by the kinds of a map's axes, never by a model's class.
"""
