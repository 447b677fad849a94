"""Parts of our own, named in recipes: ``mine.looking:Clipped``."""
