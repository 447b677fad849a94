"""Recordings and their transcripts: reading, features, batches."""
