"""Trains networks: the loop, its checkpoints, optimisers, schedules and losses."""
