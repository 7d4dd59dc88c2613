"""Pooling.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

from typing import Any

from labkit.nn.functional.faces import Size, Tensor, face

avg_pool2d = face("avg_pool2d")


def max_pool2d(
    input: Tensor,  # noqa: A002  PyTorch's name for it
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window, and with `return_indices` where it lies."""
    step = [] if stride is None else stride
    pool = face("max_pool2d_with_indices" if return_indices else "max_pool2d")
    return pool(input, kernel_size, step, padding, dilation, ceil_mode)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:  # noqa: A002
    """The mean of each of H by W nearly equal cells; None keeps the input's size."""
    wanted = (output_size, output_size) if isinstance(output_size, int) else output_size
    cells = [
        size if cells is None else cells
        for cells, size in zip(wanted, input.shape[-2:], strict=True)
    ]
    return face("adaptive_avg_pool2d")(input, cells)
