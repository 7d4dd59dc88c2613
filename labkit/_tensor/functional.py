"""Functions that PyTorch writes in Python over its operators.

Source   torch/functional.py
"""

from typing import Any

from labkit._tensor.arguments import integers
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten


def _list(tensors: tuple[Any, ...]) -> list[Any]:
    """Tensors given one by one, or as one sequence."""
    if len(tensors) == 1 and isinstance(tensors[0], tuple | list):
        return list(tensors[0])
    return list(tensors)


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Pieces of one size, or of stated sizes."""
    return tensor.split(split_size_or_sections, dim)


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:  # noqa: A002
    """The positions of the elements that are not zero; see `Tensor.nonzero`."""
    return input.nonzero(as_tuple=as_tuple)


def norm(
    input: Any,  # noqa: A002  PyTorch's name for it
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: DType | None = None,
) -> Any:
    """The p-norm over dimensions, all when None; "fro" is the square root of the sum of squares.

    Raises   NotImplementedError   the nuclear norm, which needs a singular value decomposition
    """
    if out is not None:
        raise NotImplementedError("norm(out=...) is not there; use linalg_vector_norm")
    if isinstance(p, str) and p != "fro":
        raise NotImplementedError(f"norm with p={p!r}: labkit has 'fro' and numbers")
    dims = None if dim is None else list(integers((dim,), "norm"))
    order = 2 if p is None or p == "fro" else p
    return aten.linalg_vector_norm.default(input, order, dims, keepdim, dtype=dtype)


def _at_least(dims: int, tensors: tuple[Any, ...]) -> Any:
    op = getattr(aten, f"atleast_{dims}d").default
    if len(tensors) == 1 and isinstance(tensors[0], TensorImpl):
        return op(tensors[0])
    return tuple([op(tensor) for tensor in _list(tensors)])


def atleast_1d(*tensors: Any) -> Any:
    """Tensors of one dimension at least; one for one, a tuple for several."""
    return _at_least(1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors of two dimensions at least."""
    return _at_least(2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors of three dimensions at least."""
    return _at_least(3, tensors)


def unique(
    input: Any,  # noqa: A002
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements without repetitions, in order; then inverse positions and counts if asked.

    Raises   NotImplementedError   a `dim`: whole slices are not compared here
    """
    if dim is not None:
        raise NotImplementedError(f"unique(dim={dim}): whole slices are not compared here")
    values, places, counts = aten._unique2.default(input, sorted, return_inverse, return_counts)
    chosen = [values, *([places] if return_inverse else []), *([counts] if return_counts else [])]
    return chosen[0] if len(chosen) == 1 else tuple(chosen)
