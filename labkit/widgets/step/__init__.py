"""One training step in five lanes."""
