"""Code beside code, drawn."""
