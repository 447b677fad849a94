"""Draws traces: in the terminal (:mod:`.terminal`), as PNG, SVG or PDF (:mod:`.figure`), as an interactive page or in a
notebook (:mod:`.html`); and charts of metrics (:mod:`.charts`).

The kinds of a map's axes choose the view, never the model's class.
"""
