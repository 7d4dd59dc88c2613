"""Rows of a table looked up by their numbers, and rows that have a 1 in that place.

Source   aten/src/ATen/native/Embedding.cpp, Onehot.cpp
"""

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import new_raw, new_tensor, wide
from labkit.ops.registration import kernel
from labkit.ops.tensors import copy


def _check_indices(name: str, indices: TensorImpl) -> None:
    if indices.dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError(
            f"{name}: Expected indices to be int32 or int64, but got {indices.dtype}"
        )


@kernel(
    "embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, "
    "bool scale_grad_by_freq=False, bool sparse=False) -> Tensor",
    variants="function",
)
def embedding(
    weight: TensorImpl,
    indices: TensorImpl,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> TensorImpl:
    """[*, D]: the row of `weight` [K, D] that each element of `indices` [*] names.

    Raises   RuntimeError   not a matrix, or indices of another type
             IndexError     an index out of range
    """
    if weight.dim() != 2:
        raise RuntimeError(f"'weight' must be 2-D, got {list(weight.sizes)}")
    _check_indices("embedding", indices)
    rows = copy.values(indices)
    wrong = (rows < 0) | (rows >= weight.sizes[0])
    if wrong.any():
        raise IndexError(
            f"index out of range in self: {rows[wrong].flat[0]} of {weight.sizes[0]} rows"
        )
    return new_raw(weight.raw()[rows], weight.dtype)


@kernel(
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, "
    "SymInt padding_idx, bool scale_grad_by_freq) -> Tensor",
    variants="",
)
def embedding_dense_backward(
    grad_output: TensorImpl,
    indices: TensorImpl,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> TensorImpl:
    """[K, D]: each gradient added to the row that was looked up, but for the padding row.

    scale_grad_by_freq  divide by how often the row was looked up
    """
    _check_indices("embedding_backward", indices)
    rows = copy.values(indices).reshape(-1)
    width = grad_output.sizes[-1]
    g = wide(grad_output).reshape(rows.size, width)
    if scale_grad_by_freq:
        counts = np.bincount(rows, minlength=max(num_weights, 1))
        g = g / counts[rows][:, None].astype(g.dtype)
    kept = rows != padding_idx
    result = np.zeros((num_weights, width), g.dtype)
    np.add.at(result, rows[kept], g[kept])
    return new_tensor(result, grad_output.dtype)
