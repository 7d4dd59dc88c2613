"""Views that read the same bytes as another element type.

Source   aten/src/ATen/native/TensorConversions.cpp  view_dtype
         aten/src/ATen/native/ComplexHelper.h  view_as_real, view_as_complex
"""

from labkit.core.dtype import DType, to_complex, to_real
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.registration import kernel


@kernel(
    "view.dtype(Tensor(a) self, ScalarType dtype) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def view_dtype(self: TensorImpl, dtype: DType) -> TensorImpl:
    """The same bytes as elements of `dtype`; the last dimension grows or shrinks to fit.

    Raises   RuntimeError   item sizes differ and the last dimension cannot be cut that way

    Differs  the result shares the version counter but is nobody's view, as in PyTorch, where
             this view has no derivative.
    """
    sizes, strides, offset = self.sizes, self.strides, self.storage_offset()
    old, new = self.itemsize, dtype.itemsize
    described = f"to view {self.dtype.name} as {dtype.name} (different element sizes)"
    if old != new:
        if not sizes:
            raise RuntimeError(f"self.dim() cannot be 0 {described}")
        if strides[-1] != 1:
            raise RuntimeError(f"self.stride(-1) must be 1 {described}, but got {strides[-1]}")
    if old > new:
        ratio = old // new
        sizes = (*sizes[:-1], sizes[-1] * ratio)
        strides = (*[stride * ratio for stride in strides[:-1]], 1)
        offset *= ratio
    elif old < new:
        ratio = new // old
        if sizes[-1] % ratio:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {ratio} {described}, but got {sizes[-1]}"
            )
        if offset % ratio:
            raise RuntimeError(
                f"self.storage_offset() must be divisible by {ratio} {described}, but got {offset}"
            )
        for dim, stride in enumerate(strides[:-1]):
            if stride % ratio:
                raise RuntimeError(
                    f"self.stride({dim}) must be divisible by {ratio} {described}, but got {stride}"
                )
        sizes = (*sizes[:-1], sizes[-1] // ratio)
        strides = (*[stride // ratio for stride in strides[:-1]], 1)
        offset //= ratio
    result = self.alias(sizes, strides, offset, dtype)
    result.base = None
    return result


@kernel(
    "view_as_real(Tensor(a) self) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def view_as_real(self: TensorImpl) -> TensorImpl:
    """Complex numbers as pairs: a last dimension of size 2 is added.

    Raises   RuntimeError   not a complex tensor
    """
    if not self.dtype.is_complex:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {self.dtype}")
    return self.alias(
        (*self.sizes, 2),
        (*[stride * 2 for stride in self.strides], 1),
        self.storage_offset() * 2,
        to_real(self.dtype),
    )


@kernel(
    "view_as_complex(Tensor(a) self) -> Tensor(a)",
    "CompositeExplicitAutograd",
)
def view_as_complex(self: TensorImpl) -> TensorImpl:
    """Pairs in the last dimension as complex numbers.

    Raises   RuntimeError   not floating, no last dimension of size 2 and stride 1, or the pairs
                            do not start at even places
    """
    if self.dtype.name not in ("float16", "float32", "float64"):
        raise RuntimeError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of {self.dtype}"
        )
    if not self.sizes:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if self.sizes[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got {list(self.sizes)}")
    if self.strides[-1] != 1:
        raise RuntimeError(f"Tensor must have a last dimension with stride 1, got {self.strides}")
    pairs = zip(self.sizes[:-1], self.strides[:-1], strict=True)
    if any(size != 1 and stride % 2 for size, stride in pairs):
        raise RuntimeError(
            "Tensor must have a stride divisible by 2 for all but last dimension, got "
            f"{list(self.strides)}"
        )
    if self.storage_offset() % 2:
        raise RuntimeError(
            f"Tensor must have a storage_offset divisible by 2, got {self.storage_offset()}"
        )
    return self.alias(
        self.sizes[:-1],
        tuple([stride // 2 for stride in self.strides[:-1]]),
        self.storage_offset() // 2,
        to_complex(self.dtype),
    )
