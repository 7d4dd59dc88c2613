"""Products of matrices: float32 by `kernels/sgemm`, 16-bit floats by `kernels/hgemm`.

Source   aten/src/ATen/native/cuda/Blas.cpp
Differs  operands that do not lie row by row are copied first, where cuBLAS takes either layout;
         a batch is one launch per matrix
"""

from typing import Any

from labkit.core import dtype as dtypes
from labkit.core import tensor_impl
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.cuda.launching import check_floats_or_halves, read, shelf, written
from labkit.ops.cuda.registering import device_kernel
from labkit.ops.linear_algebra import blas as host
from labkit.ops.pointwise.pointwise import OPERATORS, wrapped_number
from labkit.ops.shape import view
from labkit.ops.tensors import copy

_RUNGS = {
    dtypes.float32: ("sgemm", "4_vectorised"),
    dtypes.float16: ("hgemm", "2_wmma_tiled"),
    dtypes.bfloat16: ("hgemm", "2_wmma_tiled", "bfloat16"),
}
"""Element type -> the kernel."""


def _multiply(out: TensorImpl, a: TensorImpl, b: TensorImpl) -> None:
    """Queue `out = a b` for matrices that lie row by row."""
    (m, k), n = a.sizes, b.sizes[1]
    if out.numel():
        kernel, to = shelf(*_RUNGS[out.dtype]), written(out)
        kernel(*kernel.geometry(M=m, N=n), (read(a), read(b), to, m, n, k))


def product(a: TensorImpl, b: TensorImpl) -> TensorImpl:
    """[M, K] by [K, N], or as many pairs of them as the first dimension of both says.

    Raises   NoKernel   neither float32 nor a 16-bit float
    """
    check_floats_or_halves(a, b)
    shape = (*a.sizes[:-1], b.sizes[-1])
    out = tensor_impl.empty(shape, a.dtype, a.device)
    a, b = copy.contiguous(a), copy.contiguous(b)
    if a.dim() == 2:
        _multiply(out, a, b)
        return out
    for i in range(shape[0]):
        _multiply(view.select(out, 0, i), view.select(a, 0, i), view.select(b, 0, i))
    return out


@device_kernel("mm")
def mm(self: TensorImpl, mat2: TensorImpl) -> TensorImpl:
    """[M, K] by [K, N] is [M, N]."""
    host.check_mm(self, mat2)
    return product(self, mat2)


@device_kernel("bmm")
def bmm(self: TensorImpl, mat2: TensorImpl) -> TensorImpl:
    """[B, M, K] by [B, K, N] is [B, M, N]."""
    host.check_bmm(self, mat2)
    return product(self, mat2)


def _added(self: TensorImpl, made: TensorImpl, beta: Any, alpha: Any) -> TensorImpl:
    """`beta * self + alpha * made`; with beta 0 not even a NaN of `self` is seen."""
    multiply, add = OPERATORS["mul.Tensor"].functional, OPERATORS["add.Tensor"].functional
    if beta == 0:
        return made if alpha == 1 else multiply(made, wrapped_number(alpha))
    own = self if beta == 1 else multiply(self, wrapped_number(beta))
    return add(own, made, alpha=alpha)


@device_kernel("addmm")
def addmm(
    self: TensorImpl, mat1: TensorImpl, mat2: TensorImpl, *, beta: Any = 1, alpha: Any = 1
) -> TensorImpl:
    """`beta * self + alpha * (mat1 @ mat2)`; `self` broadcasts to [M, N]."""
    host.check_mm(mat1, mat2)
    own = view.expand(self, (mat1.sizes[0], mat2.sizes[1]))
    check_floats_or_halves(self, mat1, mat2)
    return _added(own, product(mat1, mat2), beta, alpha)


@device_kernel("baddbmm")
def baddbmm(
    self: TensorImpl, batch1: TensorImpl, batch2: TensorImpl, *, beta: Any = 1, alpha: Any = 1
) -> TensorImpl:
    """`beta * self + alpha * (batch1 @ batch2)`; `self` broadcasts to [B, M, N]."""
    host.check_bmm(batch1, batch2)
    own = view.expand(self, (*batch1.sizes[:2], batch2.sizes[2]))
    check_floats_or_halves(self, batch1, batch2)
    return _added(own, product(batch1, batch2), beta, alpha)
