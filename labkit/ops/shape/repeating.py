"""Elements repeated, rolled round and turned about.

Source   aten/src/ATen/native/TensorShape.cpp  repeat
         aten/src/ATen/native/Repeat.cpp
         aten/src/ATen/native/TensorTransformations.cpp
"""

# mypy: disable-error-code="no-any-return"

from collections.abc import Sequence

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.memory_format import MemoryFormat
from labkit.core.strides import maybe_wrap_dim
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw
from labkit.ops.aten import aten
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy


@kernel("repeat(Tensor self, SymInt[] repeats) -> Tensor", variants="method")
def repeat(self: TensorImpl, repeats: Sequence[int]) -> TensorImpl:
    """The whole tensor repeated along every dimension; new ones come in front.

    Raises   RuntimeError   fewer numbers than dimensions, or a negative one
    """
    if len(repeats) < self.dim():
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor, got {list(repeats)} for {self.dim()} dimensions"
        )
    padded = (1,) * (len(repeats) - self.dim()) + self.sizes
    sizes = [size * count for size, count in zip(padded, repeats, strict=True)]
    if any(size < 0 for size in sizes) or any(count < 0 for count in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {sizes}")
    return new_raw(np.tile(self.raw(), tuple(repeats)), self.dtype)


@composite("tile(Tensor self, SymInt[] dims) -> Tensor")
def tile(self: TensorImpl, dims: Sequence[int]) -> TensorImpl:
    """`repeat`, where missing numbers in front are 1."""
    missing = self.dim() - len(dims)
    return aten.repeat.default(self, [1] * max(missing, 0) + list(dims))


@kernel(
    "repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
    variants="function",
)
def repeat_interleave_positions(
    repeats: TensorImpl, *, output_size: int | None = None
) -> TensorImpl:
    """Every position as often as its element says."""
    if repeats.dim() != 1:
        raise RuntimeError(
            f"repeat_interleave only accept 1D vector as repeat, got {list(repeats.sizes)}"
        )
    if repeats.dtype not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(
            f"'repeat_interleave_cpu' not implemented for {repeats.dtype.name}"
        )
    counts = copy.values(repeats)
    if (counts < 0).any():
        raise RuntimeError(f"repeats can not be negative, got {counts.min()}")
    total = int(counts.sum())
    if output_size is not None and output_size != total:
        raise RuntimeError(f"allocated size {output_size} does not match required size {total}")
    return new_raw(np.repeat(np.arange(counts.size), counts).astype(counts.dtype), repeats.dtype)


@composite(
    "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, "
    "SymInt? output_size=None) -> Tensor"
)
def repeat_interleave(
    self: TensorImpl,
    repeats: TensorImpl,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> TensorImpl:
    """Every slice along the dimension as often as its number says.

    dim  None: of the flattened tensor
    """
    source = aten.flatten.using_ints(self) if dim is None else self
    axis = 0 if dim is None else dim
    size = source.sizes[maybe_wrap_dim(axis, source.dim())] if source.sizes else 1
    if repeats.sizes in ((), (1,)):
        repeats = aten.expand.default(aten.reshape.default(repeats, (1,)), (size,))
    elif repeats.dim() != 1:
        raise RuntimeError(f"repeats must be 0-dim or 1-dim tensor, got {list(repeats.sizes)}")
    elif repeats.sizes[0] != size:
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{repeats.sizes[0]} and input.size({axis}) = {size}"
        )
    positions = aten.repeat_interleave.Tensor(repeats, output_size=output_size)
    return aten.index_select.default(source, axis, positions)


@composite(
    "repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, "
    "SymInt? output_size=None) -> Tensor"
)
def repeat_interleave_int(
    self: TensorImpl, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> TensorImpl:
    """Every slice along the dimension the same number of times."""
    source = aten.flatten.using_ints(self) if dim is None else self
    axis = maybe_wrap_dim(0 if dim is None else dim, source.dim())
    if repeats < 0:
        raise RuntimeError(f"Repeats must be non-negative, got {repeats}")
    spread = aten.unsqueeze.default(source, axis + 1)
    sizes = list(spread.sizes)
    sizes[axis + 1] = repeats
    spread = aten.expand.default(spread, sizes)
    packed = aten.clone.default(spread, memory_format=MemoryFormat.contiguous_format)
    return aten.flatten.using_ints(packed, axis, axis + 1)


@kernel("flip(Tensor self, int[] dims) -> Tensor")
def flip(self: TensorImpl, dims: Sequence[int]) -> TensorImpl:
    """Elements in reverse order along the dimensions."""
    axes = [maybe_wrap_dim(dim, self.dim()) for dim in dims]
    for axis in axes:
        if axes.count(axis) > 1:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
    raw = np.flip(self.raw(), tuple(axes)) if self.sizes else self.raw()
    return new_raw(raw, self.dtype, copy.empty_like(self).strides)
