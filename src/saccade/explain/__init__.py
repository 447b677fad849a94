"""How far what a model looked at explains what it did."""
