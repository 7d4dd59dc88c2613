"""Turns labkit, torch and NumPy objects into the plain data that widgets draw."""

from labkit.show.broadcast import broadcast
from labkit.show.memory import memory
from labkit.show.strides import strides

__all__ = ["broadcast", "memory", "strides"]
