"""Pictures with captions or labels: read, framed, batched, augmented, and their features kept."""
