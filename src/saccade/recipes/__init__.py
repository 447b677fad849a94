"""Reads recipes: one YAML file per experiment, checked by types before torch is loaded."""
