"""`show.memory`: an allocator, a snapshot or a recording, as a map to step through."""

from labkit.show.memory.picture import WHAT_IF, memory

__all__ = ["WHAT_IF", "memory"]
