"""`out=` overloads of products, joins and indexing: computed first, then written where told.

Source   aten/src/ATen/native/Resize.cpp  resize_output
Differs  PyTorch computes into `out`; here a temporary holds the result in between
"""

from collections.abc import Callable
from typing import Any

from labkit.core import promotion
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, assert_writable, new_tensor, refuse_mixed, wide
from labkit.ops.indexing import index_along, masked, scatter
from labkit.ops.linear_algebra import blas
from labkit.ops.reduction import softmax
from labkit.ops.registration import kernel
from labkit.ops.shape import joining
from labkit.ops.tensors import copy
from labkit.ops.tensors.resize import resize_output

Functional = Callable[..., TensorImpl]


def _matmul(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    refuse_mixed("matmul", self, other)
    if self.dim() == 0 or other.dim() == 0:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{self.dim()}D and {other.dim()}D"
        )
    a: Array = wide(self)
    try:
        return new_tensor(a @ wide(other), self.dtype)
    except ValueError as mismatch:
        raise RuntimeError(
            f"matmul: sizes {list(self.sizes)} and {list(other.sizes)} do not meet"
        ) from mismatch


def _softmax(self: TensorImpl, dim: int, dtype: DType | None = None) -> TensorImpl:
    return softmax._softmax(_converted(self, dtype), dim, False)


def _log_softmax(self: TensorImpl, dim: int, dtype: DType | None = None) -> TensorImpl:
    return softmax._log_softmax(_converted(self, dtype), dim, False)


def _converted(self: TensorImpl, dtype: DType | None) -> TensorImpl:
    return self if dtype is None else copy.to_copy(self, dtype, self.device)


def _define(schema: str, functional: Functional, casts: bool) -> None:
    """Register the overload.

    casts   the result may be converted to the type of `out`
    """
    name = schema.partition("(")[0]
    base = name.partition(".")[0]

    @kernel(f"{schema}, Tensor(a!) out) -> Tensor(a!)", variants="function")
    def write(*args: Any, out: TensorImpl, **options: Any) -> TensorImpl:
        if base in APART:
            assert_writable(out, args)
        elif base in MAY_BE_SELF:
            assert_writable(out, args, same=args[0])
        result = functional(*args, **options)
        if result.dtype is not out.dtype:
            if not casts:
                raise RuntimeError(
                    f"Expected out tensor to have dtype {result.dtype.name}, but got "
                    f"{out.dtype.name} instead"
                )
            if not promotion.can_cast(result.dtype, out.dtype):
                raise TypeError(
                    f"{name}(): input types can't be cast to the desired output type "
                    f"{out.dtype.name}"
                )
        resize_output(out, result.sizes)
        return copy.copy_(out, result)


APART = ("gather", "index_select", "take", "masked_select", "cat", "stack")
"""Operators whose output shares no memory with what they read."""
MAY_BE_SELF = ("index_add", "scatter_add")
"""Those whose output may be their first argument, as in place."""
_SCALES = "Scalar beta=1, Scalar alpha=1"
EXACT: tuple[tuple[str, Functional], ...] = (
    ("mm.out(Tensor self, Tensor mat2, *", blas.mm),
    ("bmm.out(Tensor self, Tensor mat2, *", blas.bmm),
    ("mv.out(Tensor self, Tensor vec, *", blas.mv),
    ("dot.out(Tensor self, Tensor tensor, *", blas.dot),
    (f"addmm.out(Tensor self, Tensor mat1, Tensor mat2, *, {_SCALES}", blas.addmm),
    (f"baddbmm.out(Tensor self, Tensor batch1, Tensor batch2, *, {_SCALES}", blas.baddbmm),
    ("matmul.out(Tensor self, Tensor other, *", _matmul),
    ("softmax.int_out(Tensor self, int dim, ScalarType? dtype=None, *", _softmax),
    ("log_softmax.int_out(Tensor self, int dim, ScalarType? dtype=None, *", _log_softmax),
    ("gather.out(Tensor self, int dim, Tensor index, *, bool sparse_grad=False", scatter.gather),
    ("scatter_add.out(Tensor self, int dim, Tensor index, Tensor src, *", scatter.scatter_add),
    ("index_select.out(Tensor self, int dim, Tensor index, *", index_along.index_select),
    (
        "index_add.out(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1",
        index_along.index_add,
    ),
    ("take.out(Tensor self, Tensor index, *", index_along.take),
    ("masked_select.out(Tensor self, Tensor mask, *", masked.masked_select),
)
CASTING: tuple[tuple[str, Functional], ...] = (
    ("cat.out(Tensor[] tensors, int dim=0, *", joining.cat),
    ("stack.out(Tensor[] tensors, int dim=0, *", joining.stack),
)
for _schema, _functional in EXACT:
    _define(_schema, _functional, casts=False)
for _schema, _functional in CASTING:
    _define(_schema, _functional, casts=True)
