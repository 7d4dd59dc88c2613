"""Pooling and padding.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence
from typing import Any

from labkit.nn.functional.faces import Size, Tensor, face

avg_pool1d = face("avg_pool1d")
avg_pool2d = face("avg_pool2d")
avg_pool3d = face("avg_pool3d")
adaptive_avg_pool1d = face("adaptive_avg_pool1d")


def _max_pool(
    rank: int,
    input_: Tensor,
    window: Sequence[Any],
    return_indices: bool,
) -> Any:
    if return_indices:
        return face(f"max_pool{rank}d_with_indices")(input_, *window)
    return face(f"max_pool{rank}d")(input_, *window)


def max_pool1d(
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
    return _max_pool(1, input, (kernel_size, step, padding, dilation, ceil_mode), return_indices)


def max_pool2d(
    input: Tensor,  # noqa: A002
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window, and with `return_indices` where it lies."""
    step = [] if stride is None else stride
    return _max_pool(2, input, (kernel_size, step, padding, dilation, ceil_mode), return_indices)


def max_pool3d(
    input: Tensor,  # noqa: A002
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window, and with `return_indices` where it lies."""
    step = [] if stride is None else stride
    return _max_pool(3, input, (kernel_size, step, padding, dilation, ceil_mode), return_indices)


def max_pool1d_with_indices(
    input: Tensor,  # noqa: A002
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool1d` with where the elements lie."""
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,  # noqa: A002
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` with where the elements lie."""
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor,  # noqa: A002
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool3d` with where the elements lie."""
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def _cells(output_size: Any, sizes: Sequence[int], rank: int) -> list[int]:
    """The number of cells per dimension; None keeps the input's size."""
    wanted = [output_size] * rank if isinstance(output_size, int) else list(output_size)
    return [
        size if cells is None else cells
        for cells, size in zip(wanted, sizes[len(sizes) - rank :], strict=True)
    ]


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:  # noqa: A002
    """The mean of each of H by W nearly equal cells."""
    return face("adaptive_avg_pool2d")(input, _cells(output_size, input.shape, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:  # noqa: A002
    """The mean of each of D by H by W nearly equal cells."""
    return face("adaptive_avg_pool3d")(input, _cells(output_size, input.shape, 3))


def pad(
    input: Tensor,  # noqa: A002
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Tensor:
    """The tensor continued at its ends by a constant.

    pad  amounts before and behind the last dimension, then of the one before it, ...
    """
    return face("pad")(input, list(pad), mode, value)
