"""Recipes: one YAML file a result, read by types and checked before anything heavy is loaded."""
