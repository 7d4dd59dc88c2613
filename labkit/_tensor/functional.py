"""Functions that PyTorch writes in Python over its operators.

Source   torch/functional.py
"""

from typing import Any

from labkit._tensor.arguments import integers
from labkit.core.dtype import DType
from labkit.ops.aten import aten


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
