"""`show.backward`: a backward call of labkit's engine or torch's, step by step."""

from labkit.show.backward.picture import backward

__all__ = ["backward"]
