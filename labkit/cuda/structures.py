"""Structures of `kernels/` that are passed by value, as launches write them."""

import ctypes


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
