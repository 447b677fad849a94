"""Reading data: files, vocabularies, batches, and the built-in task that needs no download."""
