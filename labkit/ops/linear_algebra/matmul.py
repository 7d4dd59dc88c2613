"""`matmul` and its kin: which of `mm`, `bmm`, `mv`, `dot` runs, on tensors folded how.

Source   aten/src/ATen/native/LinearAlgebra.cpp  _matmul_impl, should_fold
         aten/src/ATen/native/Linear.cpp  linear
"""
# mypy: disable-error-code="no-any-return"

import math
from itertools import pairwise

from labkit.core.memory_format import Ints
from labkit.core.strides import broadcast_shapes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten
from labkit.ops.registration import composite


def requires_grad(self: TensorImpl) -> bool:
    """True when autograd follows this tensor, or the one it is a view of.

    Source   torch/csrc/autograd/variable.h  AutogradMeta::requires_grad
    """
    meta = self.autograd_meta
    if meta is not None and (meta.requires_grad or meta.edge is not None):
        return True
    return self.base is not None and requires_grad(self.base)


def _should_fold(tensor1: TensorImpl, tensor2: TensorImpl) -> bool:
    """True when the larger operand becomes one tall matrix, at no cost worth naming.

    Source   aten/src/ATen/native/LinearAlgebra.cpp  should_fold
    """
    larger, smaller = tensor1, tensor2
    if tensor1.dim() < tensor2.dim():
        larger, smaller = tensor2, tensor1
    if larger.dim() < 3 or smaller.dim() > 2:
        return False
    if requires_grad(smaller):
        return True  # its gradient would otherwise be made per batch, and summed
    if tensor1.dim() == 2:
        return False
    if larger.numel() == 0:
        return True
    sizes, strides = larger.sizes, larger.strides
    if larger is tensor2:  # it is its transpose that gets folded
        sizes = (*sizes[:-2], sizes[-1], sizes[-2])
        strides = (*strides[:-2], strides[-1], strides[-2])
    outer, inner = pairwise(strides[:-1]), sizes[1:-1]
    return all(step == below * size for (step, below), size in zip(outer, inner, strict=True))


def _folded(tensor1: TensorImpl, tensor2: TensorImpl) -> TensorImpl:
    swapped = tensor2.dim() > tensor1.dim()
    tall, small = tensor1, tensor2
    if swapped:
        tall = aten.mT.default(tensor2)
        small = aten.t.default(tensor1) if tensor1.dim() == 2 else tensor1
    rows, K = tall.sizes[:-1], tall.sizes[-1]
    matrix = aten.reshape.default(tall, (math.prod(rows), K))
    if small.dim() == 1:
        return aten._unsafe_view.default(aten.mv.default(matrix, small), rows)
    product = aten.mm.default(matrix, small)
    result = aten._unsafe_view.default(product, (*rows, small.sizes[1]))
    return aten.contiguous.default(aten.mT.default(result)) if swapped else result


def _batched(tensor1: TensorImpl, tensor2: TensorImpl) -> TensorImpl:
    M = tensor1.sizes[-2:-1]  # nothing for a vector
    N = tensor2.sizes[-1:] if tensor2.dim() > 1 else ()
    batch: Ints = broadcast_shapes(tensor1.sizes[:-2], tensor2.sizes[:-2])
    left = (*(M or (1,)), tensor1.sizes[-1])
    right = tensor2.sizes[-2:]
    count = math.prod(batch)
    a = aten.expand.default(tensor1, (*batch, *left))
    a = aten.reshape.default(a, (count, *left))
    b = aten.expand.default(tensor2, (*batch, *right))
    b = aten.reshape.default(b, (count, *right))
    if tensor2.dim() > 1:
        return aten._unsafe_view.default(aten.bmm.default(a, b), (*batch, *M, *N))
    columns = aten.bmm.default(a, aten.unsqueeze.default(b, 2))
    return aten._unsafe_view.default(aten.squeeze.dim(columns, -1), (*batch, *M))


@composite("matmul(Tensor self, Tensor other) -> Tensor")
def matmul(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """The matrix product, batched over the leading dimensions, which broadcast.

    Raises   RuntimeError   a 0-dim tensor, or sizes that do not meet
    """
    ranks = self.dim(), other.dim()
    if 0 in ranks:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{ranks[0]}D and {ranks[1]}D"
        )
    if ranks == (2, 2):
        return aten.mm.default(self, other)
    if ranks == (1, 1):
        return aten.dot.default(self, other)
    if ranks == (2, 1):
        return aten.mv.default(self, other)
    if ranks == (1, 2):
        row = aten.mm.default(aten.unsqueeze.default(self, 0), other)
        return aten.squeeze_.dim(row, 0)
    if _should_fold(self, other):
        return _folded(self, other)
    if ranks == (3, 3) and self.sizes[0] != other.sizes[0]:  # a batch of one folds as well
        if self.sizes[0] == 1 and requires_grad(self):
            return matmul(aten.squeeze.dim(self, 0), other)
        if other.sizes[0] == 1 and requires_grad(other):
            return matmul(self, aten.squeeze.dim(other, 0))
    return _batched(self, other)


@composite("linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", variants="")
def linear(
    input: TensorImpl,  # noqa: A002  PyTorch's name for it
    weight: TensorImpl,
    bias: TensorImpl | None = None,
) -> TensorImpl:
    """`input @ weight.T + bias`, as one `addmm` where the input can be seen as a matrix.

    input   [..., in_features]
    weight  [out_features, in_features], or [in_features]
    """
    if input.dim() == 0 or weight.dim() == 0:
        raise RuntimeError(
            "both arguments to linear need to be at least 1D, but they are "
            f"{input.dim()}D and {weight.dim()}D"
        )
    if bias is not None and input.dim() != 2 and bias.dim() == 1 and input.is_contiguous():
        rows = input.sizes[:-1]
        matrix = aten.reshape.default(input, (math.prod(rows), input.sizes[-1]))
        result = aten.addmm.default(bias, matrix, aten.t.default(weight))
        return aten.view.default(result, (*rows, result.sizes[1]))
    transposed = aten.t.default(weight)
    if bias is None:
        return matmul(input, transposed)
    if input.dim() == 2:
        return aten.addmm.default(bias, input, transposed)
    return aten.add_.Tensor(matmul(input, transposed), bias)
