"""`labkit workshop elsewhere`: files for a room larger than one machine holds."""

from labkit.workshop.elsewhere.write import Room, write

__all__ = ["Room", "write"]
