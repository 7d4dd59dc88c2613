"""Triangles and diagonals of matrices.

Source   aten/src/ATen/native/TriangularOps.cpp, TensorShape.cpp, TensorFactories.cpp
"""

from typing import Any

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.device import Device
from labkit.core.dtype import DType
from labkit.core.formats import encode
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw, new_tensor
from labkit.ops.aten import aten
from labkit.ops.reduction.reduction import sum_dim
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy
from labkit.ops.tensors.tensor_factories import EXPLICIT, empty, scalar_type

_OPTIONS = "*, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None"


def _triangle(name: str, self: TensorImpl, diagonal: int) -> Any:
    if self.dim() < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
    rows, columns = self.sizes[-2:]
    inside = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    keep = inside <= diagonal if name == "tril" else inside >= diagonal
    raw = self.raw()
    return np.where(keep, raw, np.zeros((), raw.dtype))


def _triangular(name: str) -> None:
    def functional(self: TensorImpl, diagonal: int = 0) -> TensorImpl:
        return new_raw(_triangle(name, self, diagonal), self.dtype)

    def in_place(self: TensorImpl, diagonal: int = 0) -> TensorImpl:
        copy.store(self, _triangle(name, self, diagonal))
        self.bump_version()
        return self

    kernel(f"{name}(Tensor self, SymInt diagonal=0) -> Tensor")(functional)
    kernel(f"{name}_(Tensor(a!) self, SymInt diagonal=0) -> Tensor(a!)", variants="method")(
        in_place
    )


_triangular("tril")
_triangular("triu")


def _indices(name: str) -> None:
    """The places of a triangle, row by row, as two rows of indices."""
    places = np.tril_indices if name == "tril" else np.triu_indices

    def made(
        row: int,
        col: int,
        offset: int = 0,
        *,
        dtype: DType | None = dtypes.int64,
        layout: Any = None,
        device: Device | None = None,
        pin_memory: bool | None = None,
    ) -> TensorImpl:
        if row < 0 or col < 0:
            raise RuntimeError(f"row and col must be non-negative, got {row} and {col}")
        found = np.stack(places(row, offset, col))
        result = empty(
            found.shape, dtype=scalar_type(dtype, dtypes.int64), layout=layout, device=device,
            pin_memory=pin_memory,
        )  # fmt: skip
        if found.size:
            copy.store(result, encode(found, result.dtype))
        return result

    schema = f"{name}_indices(int row, int col, int offset=0, {_OPTIONS}) -> Tensor"
    kernel(schema, EXPLICIT, variants="function")(made)


_indices("tril")
_indices("triu")


@composite("diag(Tensor self, int diagonal=0) -> Tensor")
def diag(self: TensorImpl, diagonal: int = 0) -> Any:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix."""
    if self.dim() == 1:
        return aten.diag_embed.default(self, diagonal)
    if self.dim() != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {self.dim()}D")
    return aten.diagonal_copy.default(self, diagonal)


@kernel("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", EXPLICIT)
def diag_embed(self: TensorImpl, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TensorImpl:
    """Zeros, but for the last dimension laid along a diagonal of two new ones."""
    ndim = self.dim() + 1
    first, second = maybe_wrap_dim(dim1, ndim), maybe_wrap_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = self.sizes[-1]
    side = length + abs(offset)
    raw = copy.on_host(self).raw()
    matrix = np.zeros((*self.sizes[:-1], side, side), raw.dtype)
    rows = np.arange(length) + max(-offset, 0)
    matrix[..., rows, np.arange(length) + max(offset, 0)] = raw
    host = new_raw(np.moveaxis(matrix, (-2, -1), (first, second)), self.dtype)
    return host if self.device.type == "cpu" else copy.to_copy(host, self.dtype, self.device)


@kernel("trace(Tensor self) -> Tensor")
def trace(self: TensorImpl) -> TensorImpl:
    """The sum of a matrix's diagonal."""
    if self.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.dim()}")
    if self.dtype.kind == "bool" or self.dtype.is_float8:
        raise NotImplementedError(f"'trace' not implemented for {self.dtype.name}")
    return sum_dim(new_tensor(np.diagonal(copy.values(self)), self.dtype), None)
