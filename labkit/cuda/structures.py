"""Structures of `kernels/` that are passed by value, as launches write them."""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple


class Axis(ctypes.Structure):
    """`struct Axis` of `kernels/pooling.cuh`: one dimension."""

    _fields_ = (
        ("in_", ctypes.c_longlong),
        ("out", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("kernel", "stride", "padding", "dilation")),
    )


class Pool(ctypes.Structure):
    """`struct Pool` of `kernels/pooling.cuh`: the whole pooling."""

    _fields_ = (
        ("planes", ctypes.c_longlong),
        ("h", Axis),
        ("w", Axis),
        ("count_include_pad", ctypes.c_bool),
        ("divisor", ctypes.c_int),
    )


class Conv2d(ctypes.Structure):
    """`struct Conv2d` of `kernels/conv.cuh`: the sizes of a convolution."""

    _fields_ = tuple(
        (name, ctypes.c_int)
        for name in (
            "batch", "in_channels", "height", "width", "out_channels", "out_height", "out_width",
            "kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w",
            "dilation_h", "dilation_w", "groups",
        )
    )  # fmt: skip

    @property
    def letters(self) -> dict[str, int]:
        """The sizes by their letters in the headers of `kernels/`."""
        names = {
            "N": "batch", "C": "in_channels", "H": "height", "W": "width", "K": "out_channels",
            "P": "out_height", "Q": "out_width", "R": "kernel_h", "S": "kernel_w",
            "groups": "groups",
        }  # fmt: skip
        return {letter: getattr(self, name) for letter, name in names.items()}

    @property
    def is_depthwise(self) -> bool:
        """Whether each filter reads one channel: an implicit product would have a row of one."""
        return bool(1 < self.groups == self.in_channels)


class Dim(NamedTuple):
    """One dimension of what is copied; strides in elements."""

    size: int
    x_stride: int
    y_stride: int


class Layout(ctypes.Structure):
    """`struct Layout` of `kernels/strided_copy`: sizes, and strides of x and y in elements."""

    MAX_DIMS = 8
    _fields_ = (
        ("dims", ctypes.c_int),
        ("sizes", ctypes.c_longlong * MAX_DIMS),
        ("x_strides", ctypes.c_longlong * MAX_DIMS),
        ("y_strides", ctypes.c_longlong * MAX_DIMS),
    )

    @classmethod
    def of(cls, dims: Sequence[Dim]) -> "Layout":
        """The layout with these dimensions, in this order."""
        layout = cls(dims=len(dims))
        for i, dim in enumerate(dims):
            layout.sizes[i], layout.x_strides[i], layout.y_strides[i] = dim
        return layout


def fast_first(dims: list[Dim]) -> tuple[list[Dim], bool]:
    """Y's fastest dimension, x's fastest, the rest, and whether the two differ; at least two.

    Both sides of a tile are then read and written along a fast dimension of their own.

    dims  y's fastest first
    """
    moving = [dim for dim in dims if dim.x_stride]
    across = min(moving, key=lambda dim: dim.x_stride, default=None)
    if across is None or across is dims[0]:
        return dims + [Dim(1, 0, 0)] * (2 - len(dims)), False
    return [dims[0], across, *(dim for dim in dims[1:] if dim is not across)], True
