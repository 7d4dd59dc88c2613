"""Pooling, padding and resizing.

Source   torch/nn/functional.py
"""

# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Sequence
from typing import Any

from labkit.nn.functional.faces import Size, Tensor, face, spread

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


def adaptive_max_pool1d(
    input: Tensor,  # noqa: A002
    output_size: Size,
    return_indices: bool = False,
) -> Any:
    """The largest element of each of L nearly equal cells."""
    found = face("adaptive_max_pool1d")(input, output_size)
    return found if return_indices else found[0]


def adaptive_max_pool2d(
    input: Tensor,  # noqa: A002
    output_size: Any,
    return_indices: bool = False,
) -> Any:
    """The largest element of each of H by W nearly equal cells."""
    found = face("adaptive_max_pool2d")(input, _cells(output_size, input.shape, 2))
    return found if return_indices else found[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor,  # noqa: A002
    output_size: Size,
    return_indices: bool = False,
) -> Any:
    """`adaptive_max_pool1d` with where the elements lie."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(
    input: Tensor,  # noqa: A002
    output_size: Any,
    return_indices: bool = False,
) -> Any:
    """`adaptive_max_pool2d` with where the elements lie."""
    return adaptive_max_pool2d(input, output_size, True)


def lp_pool1d(
    input: Tensor,  # noqa: A002
    norm_type: float,
    kernel_size: int,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window."""
    mean = avg_pool1d(
        input.pow(norm_type), kernel_size, [] if stride is None else stride, 0, ceil_mode
    )
    return (mean.sign() * face("relu")(mean.abs())).mul(kernel_size).pow(1.0 / norm_type)


def lp_pool2d(
    input: Tensor,  # noqa: A002
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window."""
    height, width = spread(kernel_size, 2)
    mean = avg_pool2d(
        input.pow(norm_type), kernel_size, [] if stride is None else stride, 0, ceil_mode
    )
    return (mean.sign() * face("relu")(mean.abs())).mul(height * width).pow(1.0 / norm_type)


def pad(
    input: Tensor,  # noqa: A002
    pad: Sequence[int],
    mode: str = "constant",
    value: float | None = None,
) -> Tensor:
    """The tensor continued at its ends: "constant", "reflect", "replicate" or "circular".

    pad  amounts before and behind the last dimension, then of the one before it, ...
    """
    return face("pad")(input, list(pad), mode, value)


_RESIZERS = {
    ("nearest", 3): "upsample_nearest1d", ("nearest", 4): "upsample_nearest2d",
    ("nearest", 5): "upsample_nearest3d", ("linear", 3): "upsample_linear1d",
    ("bilinear", 4): "upsample_bilinear2d", ("trilinear", 5): "upsample_trilinear3d",
}  # fmt: skip


def _sizes_and_factors(
    input_: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[Any, Any]:
    rank = input_.dim() - 2
    if (size is None) == (scale_factor is None):
        raise ValueError("exactly one of size and scale_factor should be defined")
    for name, given in (("size", size), ("scale_factor", scale_factor)):
        if isinstance(given, list | tuple) and len(given) != rank:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got "
                f"{rank} and {name} of {list(given)}"
            )
    if size is not None:
        return [size] * rank if isinstance(size, int) else list(size), None
    factors = (
        list(scale_factor) if isinstance(scale_factor, list | tuple) else [scale_factor] * rank
    )
    if recompute:
        return [math.floor(s * f) for s, f in zip(input_.shape[2:], factors, strict=True)], None
    return None, [float(factor) for factor in factors]


def interpolate(
    input: Tensor,  # noqa: A002
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The spatial dimensions resized, to a size or by a factor.

    mode  "nearest", "linear", "bilinear", "trilinear", or "area" (adaptive average pooling)

    Raises   ValueError            sizes and factors that do not fit, or corners without a grid
             NotImplementedError   another mode, or one for another rank
    """
    if mode in ("nearest", "area") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            f"| bicubic | trilinear, got mode {mode!r}"
        )
    if antialias:
        raise NotImplementedError("interpolate(antialias=True) is not supported")
    sizes, factors = _sizes_and_factors(input, size, scale_factor, recompute_scale_factor)
    rank = input.dim() - 2
    if mode == "area" and rank in (1, 2, 3):
        if sizes is None:
            sizes = [math.floor(s * f) for s, f in zip(input.shape[2:], factors, strict=True)]
        return face(f"adaptive_avg_pool{rank}d")(input, sizes)
    name = _RESIZERS.get((mode, input.dim()))
    if name is None:
        raise NotImplementedError(
            f"Input of {input.dim()} dimensions is not supported in mode {mode!r}; there are "
            f"{sorted(_RESIZERS)}"
        )
    corners = () if mode == "nearest" else (bool(align_corners),)
    return face(name)(input, sizes, *corners, factors)


def upsample(
    input: Tensor,  # noqa: A002
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate` under its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)
