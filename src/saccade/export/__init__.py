"""Converts networks to and from the formats of other libraries."""
