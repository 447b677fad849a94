"""How each kind of file gives its pairs: one module a format. ``saccade.data.pairs.records`` chooses among them."""
