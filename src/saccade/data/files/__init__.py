"""Reads files, one module per format; :mod:`saccade.data.files.fields` chooses among those with columns."""
