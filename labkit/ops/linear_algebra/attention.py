"""Scaled dot-product attention: as one operator where its gradient is one, else step by step.

Source   aten/src/ATen/native/transformers/attention.cpp
         aten/src/ATen/native/transformers/sdp_utils_cpp.cpp
"""

# mypy: disable-error-code="no-any-return"

import math

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.dtype import DType
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, wide
from labkit.ops.aten import aten
from labkit.ops.linear_algebra.matmul import requires_grad
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Optional = TensorImpl | None


def _factor(query: TensorImpl, scale: float | None) -> float:
    return 1 / math.sqrt(query.sizes[-1]) if scale is None else scale


def _scores(q: Array, k: Array, mask: Array | None, is_causal: bool, factor: float) -> Array:
    scores: Array = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(factor)
    if mask is not None:
        scores = scores + mask
    if is_causal:
        L, S = scores.shape[-2:]
        scores = np.where(np.tri(L, S, dtype=bool), scores, q.dtype.type(-np.inf))
    return scores


def _heads(array: Array, heads: int) -> Array:
    """Key and value heads repeated for every query head that shares one."""
    return np.repeat(array, heads // array.shape[1], axis=1) if array.shape[1] else array


@kernel(
    "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, "
    "float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None) "
    "-> (Tensor output, Tensor logsumexp)",
    variants="",
)
def _scaled_dot_product_flash_attention_for_cpu(
    query: TensorImpl,
    key: TensorImpl,
    value: TensorImpl,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Optional = None,
    scale: float | None = None,
) -> tuple[TensorImpl, TensorImpl]:
    """Weighted means of the values, [N, H, L, E], laid out as the query; and the logarithm of
    each row's sum, [N, H, L], laid out as [N, L, H].
    """
    q, k, v = wide(query), wide(key), wide(value)
    k, v = _heads(k, q.shape[1]), _heads(v, q.shape[1])
    mask = None if attn_mask is None else wide(attn_mask)
    with np.errstate(all="ignore"):
        scores = _scores(q, k, mask, is_causal, _factor(query, scale))
        largest = scores.max(-1, keepdims=True)
        largest = np.where(np.isinf(largest), 0, largest)
        powers = np.exp(scores - largest)
        total = powers.sum(-1, keepdims=True)
        result = np.matmul(np.where(total == 0, 0, powers / total), v)
        sums = (largest + np.log(total))[..., 0]
    _, H, L, _ = result.shape
    kept = query.dtype if query.dtype.itemsize > 2 else dtypes.float32
    return (
        new_tensor(result, query.dtype, copy.empty_like(query).strides),
        new_tensor(sums, kept, (H * L, 1, H)),
    )


@kernel(
    "_scaled_dot_product_flash_attention_for_cpu_backward(Tensor grad_out, Tensor query, "
    "Tensor key, Tensor value, Tensor out, Tensor logsumexp, float dropout_p, bool is_causal, *, "
    "Tensor? attn_mask=None, float? scale=None) "
    "-> (Tensor grad_query, Tensor grad_key, Tensor grad_value)",
    variants="",
)
def _scaled_dot_product_flash_attention_for_cpu_backward(
    grad_out: TensorImpl,
    query: TensorImpl,
    key: TensorImpl,
    value: TensorImpl,
    out: TensorImpl,
    logsumexp: TensorImpl,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Optional = None,
    scale: float | None = None,
) -> tuple[TensorImpl, TensorImpl, TensorImpl]:
    """Gradients of query, key and value."""
    g, q, k, v = wide(grad_out), wide(query), wide(key), wide(value)
    shared = q.shape[1] // k.shape[1]
    wide_k, wide_v = _heads(k, q.shape[1]), _heads(v, q.shape[1])
    mask = None if attn_mask is None else wide(attn_mask)
    factor = q.dtype.type(_factor(query, scale))
    with np.errstate(all="ignore"):
        scores = _scores(q, wide_k, mask, is_causal, float(factor))
        weights = np.exp(scores - wide(logsumexp)[..., None])
        weights = np.where(np.isnan(weights), 0, weights)
        grad_weights = np.matmul(g, np.swapaxes(wide_v, -1, -2))
        row = (g * wide(out)).sum(-1, keepdims=True)
        grad_scores = weights * (grad_weights - row) * factor
        grad_q = np.matmul(grad_scores, wide_k)
        grad_k = np.matmul(np.swapaxes(grad_scores, -1, -2), q)
        grad_v = np.matmul(np.swapaxes(weights, -1, -2), g)
    if shared > 1:
        N, H, S, E = k.shape
        grad_k = grad_k.reshape(N, H, shared, S, E).sum(2)
        grad_v = grad_v.reshape(N, H, shared, S, E).sum(2)
    made = [
        new_tensor(each, query.dtype, _rows_of_heads(each.shape))
        for each in (grad_q, grad_k, grad_v)
    ]
    return made[0], made[1], made[2]


def _rows_of_heads(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of [N, H, L, E] laid out as [N, L, H, E]."""
    _, H, L, E = sizes
    return (H * L * E, E, H * E, 1)


def _additive(mask: Optional, dtype: DType) -> Optional:
    """A mask of bools as numbers to add: 0 where it is true, else minus infinity."""
    if mask is None or mask.dtype is not dtypes.bool_:
        return mask
    numbers = aten.zeros_like.default(mask, dtype=dtype)
    return aten.masked_fill_.Scalar(numbers, aten.logical_not.default(mask), -math.inf)


def _check(
    query: TensorImpl, key: TensorImpl, value: TensorImpl, mask: Optional, is_causal: bool
) -> None:
    types = (query.dtype, key.dtype, value.dtype)
    if len(set(types)) > 1:
        raise RuntimeError(
            f"Expected query, key, and value to have the same dtype, but got {types}"
        )
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{query.dim()}, {key.dim()}, {value.dim()}"
        )
    if mask is None:
        return
    if mask.dtype not in (dtypes.bool_, query.dtype, dtypes.float32):
        raise RuntimeError(
            f"Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"{mask.dtype} and query.dtype: {query.dtype}"
        )
    if is_causal:
        raise RuntimeError(
            "scaled_dot_product_attention: no attn_mask may be given when is_causal=True"
        )


def _is_one_operator(
    query: TensorImpl,
    key: TensorImpl,
    value: TensorImpl,
    mask: Optional,
    dropout_p: float,
    enable_gqa: bool,
) -> bool:
    """True when PyTorch takes the fused operator on the host.

    Source   aten/src/ATen/native/transformers/sdp_utils_cpp.cpp  use_flash_attention_cpp
    """  # fmt: skip
    operands = (query, key, value)
    if dropout_p > 0 or any(each.dim() != 4 for each in operands):
        return False
    if query.dtype.kind != "floating" or query.dtype.is_float8:
        return False
    if mask is not None and (requires_grad(mask) or mask.dim() not in (2, 4)):
        return False
    if len({each.sizes[-1] for each in operands}) > 1 or len({e.sizes[0] for e in operands}) > 1:
        return False
    heads = [each.sizes[1] for each in operands]
    same = heads[1] == heads[2] and (
        heads[0] == heads[1] or (enable_gqa and heads[1] > 0 and heads[0] % heads[1] == 0)
    )
    lengths = (query.sizes[-2], key.sizes[-2], query.sizes[0], query.sizes[1])
    dense = all(each.strides[-1] == 1 or each.sizes[-1] == 1 for each in operands)
    return same and 0 not in lengths and dense


@composite(
    "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, "
    "float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) "
    "-> Tensor",
    variants="",
)
def scaled_dot_product_attention(
    query: TensorImpl,
    key: TensorImpl,
    value: TensorImpl,
    attn_mask: Optional = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> TensorImpl:
    """Means of the values, weighted by the softmax of query times key.

    query  [..., L, E]
    key    [..., S, E]
    value  [..., S, Ev]
    mask   bool (True takes part) or numbers to add, broadcastable to [..., L, S]

    Raises   RuntimeError   element types or ranks that do not fit, a mask together with `is_causal`
    """
    _check(query, key, value, attn_mask, is_causal)
    mask = _additive(attn_mask, query.dtype)
    if _is_one_operator(query, key, value, mask, dropout_p, enable_gqa):
        return aten._scaled_dot_product_flash_attention_for_cpu.default(
            query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale
        )[0]
    return aten._scaled_dot_product_attention_math.default(
        query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )[0]


@composite(
    "_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, "
    "Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, Tensor? dropout_mask=None, "
    "*, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)",
    variants="",
)
def _scaled_dot_product_attention_math(
    query: TensorImpl,
    key: TensorImpl,
    value: TensorImpl,
    attn_mask: Optional = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Optional = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[TensorImpl, TensorImpl]:
    """Attention step by step, and its weights. Query and key each take the root of the scale."""
    factor = _factor(query, scale)
    root = math.sqrt(abs(factor))
    q = aten.mul.Scalar(query, -root if factor < 0 else root)
    mask = attn_mask
    if is_causal:
        L, S = query.sizes[-2], key.sizes[-2]
        lower = aten.tril.default(aten.ones.default((L, S), dtype=dtypes.bool_))
        mask = _additive(lower, query.dtype)
    if enable_gqa:
        key = aten.repeat_interleave.self_int(key, query.sizes[-3] // key.sizes[-3], -3)
        value = aten.repeat_interleave.self_int(value, query.sizes[-3] // value.sizes[-3], -3)
    k = aten.mul.Scalar(aten.transpose.int(key, -2, -1), root)
    scores = aten.matmul.default(q, k)
    if mask is not None:
        scores = aten.add_.Tensor(scores, mask)
    weights = aten._safe_softmax.default(scores, -1)
    if dropout_p > 0 and dropout_mask is None:
        weights = aten.dropout.default(weights, dropout_p, True)
    elif dropout_p > 0:
        raise NotImplementedError("a dropout mask of one's own is not supported")
    return aten.matmul.default(weights, value), weights
