"""Seats of the kernels that work on whole matrices: a product, column sums, another layout."""

import math
from typing import Any

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.course.your_machine.engine import close
from labkit.course.your_machine.kernels import empty, launched, stored
from labkit.course.your_machine.seat import Ask, Place, Seat
from labkit.ops.cuda.launching import read, written

TILE = 32


def _is_matrix(*tensors: TensorImpl) -> bool:
    """Whether all hold float32 numbers, row by row, in two dimensions, and at least one."""
    return all(
        each.dtype is dtypes.float32 and each.dim() == 2 and each.is_contiguous() and each.numel()
        for each in tensors
    )


def _tiles(rows: int, columns: int) -> tuple[int, int]:
    return math.ceil(columns / TILE), math.ceil(rows / TILE)


def _product(ask: Ask, out: TensorImpl, a: TensorImpl, b: TensorImpl) -> TensorImpl:
    """What the part's kernel makes of a and b."""
    (m, k), n = a.sizes, b.sizes[1]
    made = empty(out.sizes, out)
    args = (read(a), read(b), written(made), m, n, k)
    launched(ask, made, ask(), "matmul", _tiles(m, n), (TILE // 2, TILE // 2), args)
    return made


def _labkits_product(function: Any, out: TensorImpl, a: TensorImpl, b: TensorImpl) -> TensorImpl:
    made = empty(out.sizes, out)
    function(made, a, b)
    return made


def _sum_of_columns(
    name: str, x: TensorImpl, dims: Any, keepdim: bool = False, dtype: Any = None
) -> bool:
    wanted = name == "sum" and tuple(dims) == (0,)
    return wanted and dtype in (None, dtypes.float32) and _is_matrix(x)


def _columns(
    ask: Ask, name: str, x: TensorImpl, dims: Any, keepdim: bool = False, dtype: Any = None
) -> TensorImpl:
    """The sum of each column, as the part's kernel adds them up."""
    rows, columns = x.sizes
    made = empty((1, columns) if keepdim else (columns,), x)
    args = (read(x), written(made), rows, columns)
    launched(ask, made, ask(), "column_sum", (math.ceil(columns / TILE),), (TILE, TILE), args)
    return made


def _lies_by_columns(destination: TensorImpl, source: TensorImpl) -> bool:
    if not _is_matrix(destination) or source.dtype is not dtypes.float32:
        return False
    return source.sizes == destination.sizes and source.strides == (1, source.sizes[0])


def _reordered(ask: Ask, destination: TensorImpl, source: TensorImpl) -> TensorImpl:
    """The matrix row by row: its columns are the channels of one image, its rows the pixels."""
    pixels, channels = source.sizes
    grid, block = ask(1, channels, 1, pixels, which=1)
    made = empty(destination.sizes, destination)
    args = (read(source), written(made), channels, pixels)
    text = ask.answer[0]
    launched(ask, made, text, "nchw_to_nhwc", grid, block, args, options=("-DITEM=float",))
    return made


def _labkits_copy(function: Any, destination: TensorImpl, source: TensorImpl) -> TensorImpl:
    made = empty(destination.sizes, destination)
    function(made, source)
    return made


def _copied(value: TensorImpl, destination: TensorImpl, source: TensorImpl) -> bool:
    stored(value, destination)
    return True


def _close(mine: TensorImpl, right: TensorImpl, *args: Any) -> bool:
    return close(mine, right)


SEATS = (
    Seat(
        "memory_and_cuda_practices.matmul_ladder",
        "the matrix product",
        "kernels",
        "Each element of the product is the sum over a row of one matrix and a column of another.",
        "aten/src/ATen/cuda/CUDABlas.cpp  gemm<float>",
        (
            Place(
                "labkit.ops.cuda.blas._multiply",
                _product,
                right=_labkits_product,
                same=_close,
                commit=lambda value, out, a, b: stored(value, out),
                covers=lambda out, a, b: _is_matrix(out, a, b),
            ),
        ),
    ),
    Seat(
        "bank_conflict_ladder.column_sum",
        "sums of columns",
        "kernels",
        "The gradient of a bias is the sum of each column, over all rows.",
        "aten/src/ATen/native/cuda/ReduceSumProdKernel.cu  sum_kernel_cuda",
        (
            Place(
                "labkit.ops.cuda.reduction.fold",
                _columns,
                same=_close,
                covers=_sum_of_columns,
            ),
        ),
    ),
    Seat(
        "memory_layout.reorder_kernel",
        "copy to another layout",
        "kernels",
        "A matrix that lies column by column is copied so that it lies row by row.",
        "aten/src/ATen/native/cuda/Copy.cu  copy_device_to_device",
        (
            Place(
                "labkit.ops.cuda.copying._between_layouts",
                _reordered,
                right=_labkits_copy,
                same=_close,
                commit=_copied,
                covers=_lies_by_columns,
            ),
        ),
    ),
)
