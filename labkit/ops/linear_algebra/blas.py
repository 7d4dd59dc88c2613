"""Products of matrices and vectors: `mm`, `bmm`, `mv`, `dot` and what adds one to a tensor.

The operators with a fixed number of dimensions; `matmul.py` chooses among them.

Source   aten/src/ATen/native/LinearAlgebra.cpp
         aten/src/ATen/native/Blas.cpp
"""

from typing import Any

import numpy as np

from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import (
    Array,
    adopted,
    refuse_mixed,
    refuse_unless,
    wide,
)
from labkit.ops.registration import kernel
from labkit.ops.shape import view

NUMBERS = ("unsigned", "signed", "floating", "complex")


def _check_rank(name: str, tensor: TensorImpl, rank: int) -> None:
    if len(tensor.sizes) != rank:
        kind = {1: "a vector", 2: "a matrix", 3: "a batch of matrices"}[rank]
        raise RuntimeError(f"{name} must be {kind}, got sizes {list(tensor.sizes)}")


def _product(a: TensorImpl, b: TensorImpl) -> Array:
    if len(a.sizes) == len(b.sizes) == 2 and a.dtype.numpy is not None and a.dtype.itemsize > 2:
        plain: Array = np.dot(a.raw(), b.raw())  # as matmul, without looking for warnings
        return plain
    with np.errstate(all="ignore"):
        product: Array = np.matmul(wide(a), wide(b))
    return product


def check_mm(mat1: TensorImpl, mat2: TensorImpl) -> None:
    """Pass for two matrices that can be multiplied.

    Raises   RuntimeError   they cannot
    """
    _check_rank("mat1", mat1, 2)
    _check_rank("mat2", mat2, 2)
    (M, K), (K2, N) = mat1.sizes, mat2.sizes
    if K != K2:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({M}x{K} and {K2}x{N})")


@kernel("mm(Tensor self, Tensor mat2) -> Tensor")
def mm(self: TensorImpl, mat2: TensorImpl) -> TensorImpl:
    """[M, K] by [K, N] is [M, N].

    Raises   RuntimeError          not two matrices, sizes that do not meet, two element types
             NotImplementedError   bool
    """
    check_mm(self, mat2)
    refuse_mixed("mm", self, mat2)
    refuse_unless("addmm_impl_cpu_", self.dtype, NUMBERS)
    return adopted(_product(self, mat2), self.dtype)


def check_bmm(batch1: TensorImpl, batch2: TensorImpl) -> None:
    """Pass for two batches of as many matrices that can be multiplied.

    Raises   RuntimeError   they cannot
    """
    _check_rank("batch1", batch1, 3)
    _check_rank("batch2", batch2, 3)
    expected = [batch1.sizes[0], batch1.sizes[2]]
    if list(batch2.sizes[:2]) != expected:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: {expected} but got: "
            f"{list(batch2.sizes[:2])}."
        )


@kernel("bmm(Tensor self, Tensor mat2) -> Tensor")
def bmm(self: TensorImpl, mat2: TensorImpl) -> TensorImpl:
    """[B, M, K] by [B, K, N] is [B, M, N]."""
    check_bmm(self, mat2)
    refuse_mixed("bmm", self, mat2)
    refuse_unless("bmm", self.dtype, NUMBERS)
    return adopted(_product(self, mat2), self.dtype)


@kernel("mv(Tensor self, Tensor vec) -> Tensor", "CompositeExplicitAutograd")
def mv(self: TensorImpl, vec: TensorImpl) -> TensorImpl:
    """[M, K] by [K] is [M]."""
    _check_mv(self, vec)
    refuse_mixed("addmv", self, vec)
    refuse_unless("addmv_impl_cpu", self.dtype, NUMBERS)
    return adopted(_product(self, vec), self.dtype)


def _check_mv(mat: TensorImpl, vec: TensorImpl) -> None:
    if mat.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(f"matrix @ vector expected, got {mat.dim()}, {vec.dim()} dimensions")
    if mat.sizes[1] != vec.sizes[0]:
        raise RuntimeError(
            f"size mismatch, got mat ({mat.sizes[0]}x{mat.sizes[1]}), vec ({vec.sizes[0]})"
        )


def _check_dot(a: TensorImpl, b: TensorImpl) -> None:
    if a.dim() != 1 or b.dim() != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.dim()}D and {b.dim()}D tensors")
    refuse_mixed("dot", a, b)
    if a.sizes != b.sizes:
        raise RuntimeError(
            "inconsistent tensor size, expected both vectors to have the same number of elements, "
            f"but got {a.sizes[0]} and {b.sizes[0]}"
        )
    refuse_unless("dot", a.dtype, NUMBERS)


@kernel("dot(Tensor self, Tensor tensor) -> Tensor")
def dot(self: TensorImpl, tensor: TensorImpl) -> TensorImpl:
    """The sum of the products, without conjugation, as a 0-dim tensor."""
    _check_dot(self, tensor)
    return adopted(_product(self, tensor), self.dtype)


def _scale(number: Any, dtype: DType) -> Any:
    """A coefficient as the kernel sees it: cut to a whole number for whole numbers."""
    if dtype.is_integral:
        return int(number.real)
    return number if dtype.is_complex else float(number.real)


def _added(self: TensorImpl, product: Array, beta: Any, alpha: Any) -> Array:
    """`beta * self + alpha * product`; with beta 0 not even a NaN of `self` is seen."""
    dtype = self.dtype
    alpha, beta = _scale(alpha, dtype), _scale(beta, dtype)
    with np.errstate(all="ignore"):
        result = product if alpha == 1 else product * np.asarray(alpha, product.dtype)
        if beta == 0:
            return result
        own = wide(self)
        total: Array = (own if beta == 1 else own * np.asarray(beta, own.dtype)) + result
    return total


@kernel("addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def addmm(
    self: TensorImpl, mat1: TensorImpl, mat2: TensorImpl, *, beta: Any = 1, alpha: Any = 1
) -> TensorImpl:
    """`beta * self + alpha * (mat1 @ mat2)`; `self` broadcasts to [M, N]."""
    check_mm(mat1, mat2)
    expanded = view.expand(self, (mat1.sizes[0], mat2.sizes[1]))
    refuse_mixed("addmm", self, mat1, mat2)
    refuse_unless("addmm_impl_cpu_", self.dtype, NUMBERS)
    return adopted(_added(expanded, _product(mat1, mat2), beta, alpha), self.dtype)


@kernel(
    "baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor"
)
def baddbmm(
    self: TensorImpl, batch1: TensorImpl, batch2: TensorImpl, *, beta: Any = 1, alpha: Any = 1
) -> TensorImpl:
    """`beta * self + alpha * (batch1 @ batch2)`; `self` broadcasts to [B, M, N]."""
    check_bmm(batch1, batch2)
    expanded = view.expand(self, (*batch1.sizes[:2], batch2.sizes[2]))
    refuse_mixed("baddbmm", self, batch1, batch2)
    refuse_unless("baddbmm", self.dtype, NUMBERS)
    return adopted(_added(expanded, _product(batch1, batch2), beta, alpha), self.dtype)
