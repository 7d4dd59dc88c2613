"""Segments, blocks and requests of an allocator, drawn."""
