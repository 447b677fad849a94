"""Training: the loop, its exact state, optimisers and schedules, losses."""
