"""What a search is made of: how the next hypotheses are chosen, what they may write, where they looked, how they came about."""
