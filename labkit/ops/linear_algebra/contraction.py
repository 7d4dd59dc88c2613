"""Products summed over named or numbered dimensions: `einsum`, `tensordot`, `bilinear`, `kron`.

Each is permuted and folded until one batched matrix product does the work.

Source   aten/src/ATen/native/Linear.cpp  sumproduct_pair, einsum, _trilinear, bilinear, tensordot
         aten/src/ATen/native/LinearAlgebra.cpp  kron, inner
"""
# mypy: disable-error-code="no-any-return"

import math
from collections.abc import Sequence

import numpy as np

from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_tensor, wide
from labkit.ops.aten import aten
from labkit.ops.linear_algebra.einsum_equation import ELLIPSIS, parse
from labkit.ops.registration import composite, kernel


def sumproduct_pair(left: TensorImpl, right: TensorImpl, sum_dims: Sequence[int]) -> TensorImpl:
    """The product of two tensors of one rank, summed over some dimensions, which stay with size 1.

    A dimension of size 1 broadcasts. With nothing to sum it is a plain product, else one `bmm`.
    """
    if not sum_dims:
        return aten.mul.Tensor(left, right)
    both: list[int] = []
    only_left: list[int] = []
    rest: list[int] = []
    contracted = 1
    for dim in range(left.dim()):
        in_left, in_right = left.sizes[dim] != 1, right.sizes[dim] != 1
        if dim in sum_dims:
            if in_left and in_right:
                contracted *= left.sizes[dim]
            elif in_left:
                left = aten.sum.dim_IntList(left, (dim,), True)
            elif in_right:
                right = aten.sum.dim_IntList(right, (dim,), True)
        elif in_left and in_right:
            both.append(dim)
        else:
            (only_left if in_left else rest).append(dim)
    if only_left and rest and rest[-1] < only_left[0]:  # then bmm writes in the wanted order
        left, right, only_left, rest = right, left, rest, only_left
    batch = math.prod(left.sizes[dim] for dim in both)
    rows = math.prod(left.sizes[dim] for dim in only_left)
    columns = math.prod(right.sizes[dim] for dim in rest)
    out_sizes = [left.sizes[dim] for dim in both + only_left] + [1] * len(sum_dims)
    out_sizes += [right.sizes[dim] for dim in rest]
    made = [*both, *only_left, *sum_dims, *rest]
    a = aten.permute.default(left, made)
    a = aten.reshape.default(a, (batch, rows, contracted))
    b = aten.permute.default(right, [*both, *sum_dims, *rest, *only_left])
    b = aten.reshape.default(b, (batch, contracted, columns))
    product = aten.view.default(aten.bmm.default(a, b), out_sizes)
    return aten.permute.default(product, [made.index(dim) for dim in range(len(made))])


def _arranged(
    operand: TensorImpl, tokens: Sequence[str], order: Sequence[str], hidden: int
) -> TensorImpl:
    """The operand with its dimensions in the order of the labels; size 1 where it has none.

    hidden  how many dimensions the ellipsis stands for in the widest operand
    """
    place_of: dict[str, int] = {}
    missing = hidden - (operand.dim() - (len(tokens) - 1))
    dim = 0
    for token in tokens:
        if token == ELLIPSIS:
            for _ in range(missing):
                operand = aten.unsqueeze.default(operand, dim)
            for number in range(hidden):
                place_of[f"{ELLIPSIS}{number}"] = dim
                dim += 1
        elif token not in place_of:
            place_of[token] = dim
            dim += 1
        else:
            first = place_of[token]
            operand = aten.diagonal.default(operand, 0, first, dim)
            operand = aten.movedim.int(operand, -1, first)
    for label in order:
        if label not in place_of:
            operand = aten.unsqueeze.default(operand, -1)
            place_of[label] = dim
            dim += 1
    return aten.permute.default(operand, [place_of[label] for label in order])


def _pair_summed(a: TensorImpl, b: TensorImpl, kept: int, users: list[int]) -> TensorImpl:
    """Two operands as one; what no later operand needs is summed on the way.

    kept   how many leading dimensions stay
    users  per dimension, how many operands have it with a size other than 1; updated
    """
    together: list[int] = []
    alone_a: list[int] = []
    alone_b: list[int] = []
    for dim in range(kept, a.dim()):
        in_a, in_b = a.sizes[dim] != 1, b.sizes[dim] != 1
        if in_a and in_b:
            users[dim] -= 1
            if users[dim] == 1:
                together.append(dim)
                users[dim] = 0
        elif users[dim] == 1 and (in_a or in_b):
            (alone_a if in_a else alone_b).append(dim)
            users[dim] = 0
    if alone_a:
        a = aten.sum.dim_IntList(a, alone_a, True)
    if alone_b:
        b = aten.sum.dim_IntList(b, alone_b, True)
    return sumproduct_pair(a, b, together)


@composite("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor")
def einsum(
    equation: str, tensors: Sequence[TensorImpl], *, path: Sequence[int] | None = None
) -> TensorImpl:
    """The sum over products that the equation names, such as "bij,bjk->bik".

    path  pairs of positions in the list of what is left, contracted in turn; None goes from the
          left

    Raises   RuntimeError   an equation that is none, or does not fit the tensors
    """
    parsed = parse(equation, [tensor.sizes for tensor in tensors])
    kept = parsed.kept
    left = [
        _arranged(tensor, tokens, parsed.order, parsed.hidden)
        for tensor, tokens in zip(tensors, parsed.operands, strict=True)
    ]
    if path is not None and len(path) != 2 * (len(left) - 1) and len(left) > 1:
        raise RuntimeError(
            f"einsum(): expected contraction path of length {2 * (len(left) - 1)}, got {len(path)}"
        )
    users = [sum(each.sizes[dim] != 1 for each in left) for dim in range(len(parsed.order))]
    steps = iter(path or ())
    while len(left) > 1:
        first, second = (next(steps), next(steps)) if path is not None else (0, 1)
        first, second = min(first, second), max(first, second)
        b, a = left.pop(second), left.pop(first)
        pair = _pair_summed(a, b, kept, users)
        left.insert(0 if path is None else len(left), pair)
    (result,) = left
    if len(parsed.order) == kept:
        return result
    if len(tensors) > 1:  # all that is to be summed has size 1 by now
        return aten.view.default(result, result.sizes[:kept])
    return aten.sum.dim_IntList(result, tuple(range(kept, result.dim())))


@kernel(
    "_trilinear(Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, "
    "int[] sumdim, int unroll_dim=1) -> Tensor",
    variants="",
)
def _trilinear(
    i1: TensorImpl,
    i2: TensorImpl,
    i3: TensorImpl,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> TensorImpl:
    """The sum over `sumdim` of a product of three, each given new dimensions at `expand`."""
    rank = i1.dim() + len(expand1)
    letters = [chr(ord("a") + dim) for dim in range(rank)]
    named = [
        "".join(letters[dim] for dim in range(rank) if dim not in expand)
        for expand in (expand1, expand2, expand3)
    ]
    kept = "".join(letters[dim] for dim in range(rank) if dim not in sumdim)
    sizes: dict[str, int] = {}
    for letters_of, tensor in zip(named, (i1, i2, i3), strict=True):
        sizes |= dict(zip(letters_of, tensor.sizes, strict=True))
    arrays = [wide(each) for each in (i1, i2, i3)]
    missing = [letter for letter in kept if letter not in sizes]
    assert not missing, (named, kept)
    with np.errstate(all="ignore"):
        return new_tensor(np.einsum(f"{','.join(named)}->{kept}", *arrays), i1.dtype)


@composite(
    "bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor",
    variants="function",
)
def bilinear(
    input1: TensorImpl,
    input2: TensorImpl,
    weight: TensorImpl,
    bias: TensorImpl | None = None,
) -> TensorImpl:
    """`input1 @ weight[k] @ input2` for every output feature k, plus the bias.

    input1  [..., I]
    input2  [..., J], its leading sizes those of `input1`
    weight  [K, I, J]

    Raises   RuntimeError   sizes that do not fit one another
    """
    if input1.dim() != input2.dim() or input1.sizes[:-1] != input2.sizes[:-1]:
        raise RuntimeError(
            "bilinear(): input batch dimensions do not match: got "
            f"{list(input1.sizes)} and {list(input2.sizes)}"
        )
    if weight.dim() != 3 or (input1.sizes[-1], input2.sizes[-1]) != weight.sizes[1:]:
        raise RuntimeError(
            f"bilinear(): weight {list(weight.sizes)} does not fit inputs of sizes "
            f"{list(input1.sizes)} and {list(input2.sizes)}"
        )
    if bias is not None and bias.sizes != weight.sizes[:1]:
        raise RuntimeError(
            f"bilinear(): bias size {list(bias.sizes)} does not match weight {list(weight.sizes)}"
        )
    rows1 = aten.reshape.default(input1, (-1, input1.sizes[-1]))
    rows2 = aten.reshape.default(input2, (-1, input2.sizes[-1]))
    made = aten._trilinear.default(rows1, weight, rows2, [1, 3], [0], [1, 2], [2, 3])
    result = aten.reshape.default(made, (*input1.sizes[:-1], weight.sizes[0]))
    return result if bias is None else aten.add.Tensor(result, bias)


@composite(
    "tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor",
    variants="function",
)
def tensordot(
    self: TensorImpl, other: TensorImpl, dims_self: Sequence[int], dims_other: Sequence[int]
) -> TensorImpl:
    """The product summed over pairs of dimensions; what is left of `self` comes first.

    Raises   RuntimeError   lists of two lengths, or dimensions of two sizes
    """
    if len(dims_self) != len(dims_other):
        raise RuntimeError(
            f"both dimension lists should have same length, got {list(dims_self)} and "
            f"{list(dims_other)}"
        )
    a, b = self, other
    contracted = 1
    for dim_a, dim_b in zip(dims_self, dims_other, strict=True):
        size_a = self.sizes[maybe_wrap_dim(dim_a, self.dim())]
        size_b = other.sizes[maybe_wrap_dim(dim_b, other.dim())]
        if size_b == 1:
            a = aten.sum.dim_IntList(a, (dim_a,), True, dtype=a.dtype)
        elif size_a == 1:
            b = aten.sum.dim_IntList(b, (dim_b,), True, dtype=b.dtype)
        elif size_a != size_b:
            raise RuntimeError(
                "contracted dimensions need to match, but first has size "
                f"{size_a} in dim {dim_a} and second has size {size_b} in dim {dim_b}"
            )
        else:
            contracted *= size_a
    wrapped_a = [maybe_wrap_dim(dim, self.dim()) for dim in dims_self]
    wrapped_b = [maybe_wrap_dim(dim, other.dim()) for dim in dims_other]
    free_a = [dim for dim in range(self.dim()) if dim not in wrapped_a]
    free_b = [dim for dim in range(other.dim()) if dim not in wrapped_b]
    sizes_a = [a.sizes[dim] for dim in free_a]
    sizes_b = [b.sizes[dim] for dim in free_b]
    rows, columns = math.prod(sizes_a), math.prod(sizes_b)
    a = aten.permute.default(a, [*free_a, *dims_self])
    if rows == columns == 1:
        b = aten.permute.default(b, [*dims_other, *free_b])
        if a.is_contiguous() and b.is_contiguous():
            b = aten.flatten.using_ints(b)
            total = aten.dot.default(aten.flatten.using_ints(a), b)
        else:
            b = aten.squeeze.default(b)
            total = aten.sum.default(aten.mul.Tensor(aten.squeeze.default(a), b))
        return aten.reshape.default(total, sizes_a + sizes_b)
    a = aten.reshape.default(a, (rows, contracted))
    b = aten.permute.default(b, [*dims_other, *free_b])
    b = aten.reshape.default(b, (contracted, columns))
    return aten.reshape.default(aten.mm.default(a, b), sizes_a + sizes_b)


@composite("inner(Tensor self, Tensor other) -> Tensor")
def inner(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """The product summed over the last dimension of both."""
    if self.dim() == 0 or other.dim() == 0:
        return aten.mul.Tensor(self, other)
    if self.sizes[-1] != other.sizes[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(self.sizes)} and {list(other.sizes)}"
        )
    return tensordot(self, other, (-1,), (-1,))


@composite("kron(Tensor self, Tensor other) -> Tensor")
def kron(self: TensorImpl, other: TensorImpl) -> TensorImpl:
    """Every element of `self` replaced by itself times the whole of `other`."""
    rank = max(self.dim(), other.dim())
    own = (1,) * (rank - self.dim()) + self.sizes
    others = (1,) * (rank - other.dim()) + other.sizes
    spread_own = [size for each in own for size in (each, 1)]
    spread_other = [size for each in others for size in (1, each)]
    product = aten.mul.Tensor(
        aten._unsafe_view.default(self, spread_own), aten._unsafe_view.default(other, spread_other)
    )
    sizes = [a * b for a, b in zip(own, others, strict=True)]
    return aten._unsafe_view.default(product, sizes)
