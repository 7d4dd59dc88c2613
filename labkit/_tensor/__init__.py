"""The Python face of the rebuilt tensor."""

from labkit._tensor.tensor import Size, Tensor

__all__ = ["Size", "Tensor"]
