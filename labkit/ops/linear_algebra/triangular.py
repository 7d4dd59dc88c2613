"""Triangles of matrices.

Source   aten/src/ATen/native/TriangularOps.cpp
"""

from typing import Any

import numpy as np

from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


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
