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


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Any, ...]:
    """Every combination of coordinates; `indexing` is "ij" or "xy"."""
    given = _list(tensors)
    if indexing is None:
        return tuple(aten.meshgrid.default(given))
    return tuple(aten.meshgrid.indexing(given, indexing=indexing))


def cartesian_prod(*tensors: Any) -> Any:
    """Every combination of elements of vectors, a row each."""
    return aten.cartesian_prod.default(_list(tensors))


def block_diag(*tensors: Any) -> Any:
    """Matrices along a diagonal, zeros elsewhere."""
    return aten.block_diag.default(_list(tensors))


def einsum(equation: str, *operands: Any) -> Any:
    """A sum of products, written in Einstein's notation."""
    return aten.einsum.default(equation, _list(operands))


def nonzero(input: Any, *, as_tuple: bool = False) -> Any:  # noqa: A002
    """The positions of the elements that are not zero; see `Tensor.nonzero`."""
    return input.nonzero(as_tuple=as_tuple)


def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Products summed over the last dims of `a` and the first of `b`, or over stated ones.

    dims   how many; or two lists, of `a` and of `b`

    Raises   RuntimeError   a negative number, or not two lists
    """
    if out is not None:
        raise NotImplementedError("tensordot(out=...) is not there")
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims} for "
                f"{a.dim()} and {b.dim()} dimensions"
            )
        return aten.tensordot.default(a, b, list(range(-dims, 0)), list(range(dims)))
    if isinstance(dims, TensorImpl):
        dims = dims.raw().tolist()
    if len(dims) != 2:
        raise RuntimeError(f"tensordot expects two lists of dims, got {dims}")
    first, second = ([each] if isinstance(each, int) else list(each) for each in dims)
    return aten.tensordot.default(a, b, first, second)


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


def unique_consecutive(
    input: Any,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements without repetitions side by side; then inverse positions and counts if asked."""
    found = aten.unique_consecutive.default(input, return_inverse, return_counts, dim)
    return _asked_for(found, return_inverse, return_counts)


def unique(
    input: Any,  # noqa: A002
    sorted: bool = True,  # noqa: A002
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements without repetitions, in order; then inverse positions and counts if asked."""
    if dim is None:
        found = aten._unique2.default(input, sorted, return_inverse, return_counts)
    else:
        found = aten.unique_dim.default(input, dim, sorted, return_inverse, return_counts)
    return _asked_for(found, return_inverse, return_counts)


def _asked_for(found: Any, inverse: bool, counts: bool) -> Any:
    values, positions, times = found
    chosen = [values, *([positions] if inverse else []), *([times] if counts else [])]
    return chosen[0] if len(chosen) == 1 else tuple(chosen)
