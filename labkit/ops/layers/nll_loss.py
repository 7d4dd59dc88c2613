"""The loss of log-probabilities against the numbers of the right classes.

Source   aten/src/ATen/native/LossNLL.cpp
         aten/src/ATen/native/LossNLL2d.cpp
"""

# mypy: disable-error-code="no-any-return"

from functools import partial
from typing import NamedTuple

import numpy as np

from labkit.core import dtype as dtypes
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.arrays import Array, new_tensor, refuse_mixed, refuse_unless, wide
from labkit.ops.aten import aten
from labkit.ops.layers.loss import MEAN, NONE, SUM
from labkit.ops.registration import composite, kernel
from labkit.ops.tensors import copy

Optional = TensorImpl | None
Pair = tuple[TensorImpl, TensorImpl]


class Picked(NamedTuple):
    """Where the log-probability of each target lies, and how much it counts.

    classes  [...] the class, 0 where the target is ignored
    weights  [...] 0 where the target is ignored
    """

    classes: Array
    weights: Array


def _picked(
    target: TensorImpl, weight: Optional, ignore_index: int, classes: int, like: Array
) -> Picked:
    if target.dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(f"expected scalar type Long or Byte for targets, got {target.dtype}")
    wanted = copy.values(target).astype(np.int64)
    ignored = wanted == ignore_index
    outside = ~ignored & ((wanted < 0) | (wanted >= classes))
    if outside.any():
        raise IndexError(
            f"Target {wanted[outside].flat[0]} is out of bounds for {classes} classes."
        )
    chosen = np.where(ignored, 0, wanted)
    each = np.ones(classes, like.dtype) if weight is None else wide(weight)
    weights = each[chosen] if classes else np.zeros(chosen.shape, like.dtype)
    return Picked(chosen, np.where(ignored, like.dtype.type(0), weights))


def _forward(x: Array, picked: Picked, reduction: int, self: TensorImpl) -> Pair:
    """X  [N, C, ...]"""
    with np.errstate(all="ignore"):
        chosen = picked.classes[:, None]
        found = np.take_along_axis(x, chosen, 1)[:, 0] if x.size else np.zeros(picked.classes.shape)
        losses = np.where(picked.weights == 0, 0, -found * picked.weights).astype(x.dtype)
        total = picked.weights.sum(dtype=x.dtype)
        if reduction == NONE:
            return new_tensor(losses, self.dtype), new_tensor(np.zeros((), x.dtype), self.dtype)
        result = losses.sum(dtype=x.dtype)
        if reduction == MEAN:
            result = result / total
    return new_tensor(result, self.dtype), new_tensor(total, self.dtype)


def _backward(
    grad_output: TensorImpl,
    x: Array,
    picked: Picked,
    reduction: int,
    total_weight: TensorImpl,
) -> Array:
    """[N, C, ...]: at each target the weight, negative, times the gradient of its loss."""
    result = np.zeros_like(x)
    if not x.size:
        return result
    with np.errstate(all="ignore"):
        g = wide(grad_output)
        if reduction == MEAN:
            g = g / wide(total_weight)
        values = np.where(picked.weights == 0, 0, -picked.weights * g).astype(x.dtype)
        np.put_along_axis(result, picked.classes[:, None], values[:, None], 1)
    return result


def check(self: TensorImpl, target: TensorImpl, weight: Optional, images: bool) -> None:
    """Pass for [N, C] against [N] and [C] against one class; or for [N, C, H, W] against images.

    Raises   RuntimeError          sizes that do not fit, or element types
             NotImplementedError   not a floating type
    """
    (_check_images if images else _check_rows)(self, target)
    refuse_unless("nll_loss_out_frame", self.dtype, ("floating",))
    classes = self.sizes[0 if self.dim() == 1 else 1]
    if weight is not None and weight.sizes != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.sizes)}"
        )
    refuse_mixed("nll_loss", self, weight)


def _check_rows(self: TensorImpl, target: TensorImpl) -> None:
    if self.dim() not in (1, 2):
        raise RuntimeError(f"input tensor should be 1D or 2D, got {list(self.sizes)}")
    if target.dim() > 1:
        raise RuntimeError(
            f"0D or 1D target tensor expected, multi-target not supported, got {list(target.sizes)}"
        )
    single = self.dim() == 1 and target.dim() == 0
    if not single and self.sizes[0] != target.sizes[0]:
        raise RuntimeError(
            f"size mismatch (got input: {list(self.sizes)}, target: {list(target.sizes)})"
        )


def _check_images(self: TensorImpl, target: TensorImpl) -> None:
    if target.dim() != 3 or self.dim() != 4:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) against 4D inputs, but got "
            f"{list(target.sizes)} and {list(self.sizes)}"
        )
    N, _, H, W = self.sizes
    if target.sizes != (N, H, W):
        raise RuntimeError(f"size mismatch (got input: {self.sizes}, target: {target.sizes})")


def _as_batch(self: TensorImpl, target: TensorImpl) -> tuple[Array, TensorImpl]:
    x = wide(self)
    if self.dim() > 1:
        return x, target
    return x[None], target if target.dim() else target.alias((1,), (1,), target.storage_offset())


def _nll_loss_forward(
    images: bool,
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional,
    reduction: int,
    ignore_index: int,
) -> Pair:
    """The losses of rows or of images against their classes; and the sum of the weights used.

    Raises   IndexError     a target that is no class
             RuntimeError   sizes that do not fit, or element types
    """
    check(self, target, weight, images)
    x, targets = _as_batch(self, target)
    picked = _picked(targets, weight, ignore_index, x.shape[1], x)
    if self.dim() == 1 and reduction == NONE:
        reduction = SUM  # of one
    return _forward(x, picked, reduction, self)


def _nll_loss_backward(
    images: bool,
    grad_output: TensorImpl,
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional,
    reduction: int,
    ignore_index: int,
    total_weight: TensorImpl,
) -> TensorImpl:
    """The gradient of `self`."""
    check(self, target, weight, images)
    x, targets = _as_batch(self, target)
    picked = _picked(targets, weight, ignore_index, x.shape[1], x)
    result = _backward(grad_output, x, picked, reduction, total_weight)
    return new_tensor(result.reshape(self.sizes), self.dtype)


def _define(name: str, images: bool) -> None:
    """The operators of rows, or those of images, which PyTorch names apart."""
    options = "int reduction, SymInt ignore_index"
    kernel(
        f"{name}_forward(Tensor self, Tensor target, Tensor? weight, {options}) "
        "-> (Tensor output, Tensor total_weight)",
        variants="",
    )(partial(_nll_loss_forward, images))
    kernel(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
        f"{options}, Tensor total_weight) -> Tensor",
        variants="",
    )(partial(_nll_loss_backward, images))

    @composite(
        f"{name}(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
        "SymInt ignore_index=-100) -> Tensor",
        variants="",
    )
    def loss(
        self: TensorImpl,
        target: TensorImpl,
        weight: Optional = None,
        reduction: int = MEAN,
        ignore_index: int = -100,
    ) -> TensorImpl:
        forward = getattr(aten, f"{name}_forward").default
        return forward(self, target, weight, reduction, ignore_index)[0]


_define("nll_loss", False)
_define("nll_loss2d", True)


@composite(
    "nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, "
    "SymInt ignore_index=-100) -> Tensor",
    variants="",
)
def nll_loss_nd(
    self: TensorImpl,
    target: TensorImpl,
    weight: Optional = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> TensorImpl:
    """The losses of [N, C, ...] against [N, ...], or of [C] against one class.

    Raises   ValueError     no dimension, or batches of two sizes
             RuntimeError   other sizes that do not fit
    """
    if self.dim() < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {self.dim()})")
    if self.dim() != 1 and (not target.sizes or self.sizes[0] != target.sizes[0]):
        raise ValueError(
            f"Expected input batch_size ({self.sizes[0]}) to match target batch_size "
            f"({target.sizes[0] if target.sizes else 'none'})."
        )
    options = (weight, reduction, ignore_index)
    if self.dim() <= 2:
        return aten.nll_loss.default(self, target, *options)
    if self.dim() == 4:
        return aten.nll_loss2d.default(self, target, *options)
    N, C, *rest = self.sizes
    if list(target.sizes[1:]) != rest:
        raise RuntimeError(f"Expected target size {[N, *rest]}, got {list(target.sizes)}")
    inside = (1, -1) if self.numel() else (0, 0)
    image = aten.view.default(aten.contiguous.default(self), (N, C, *inside))
    inside = (1, -1) if target.numel() else (0, 0)
    wanted = aten.view.default(aten.contiguous.default(target), (N, *inside))
    result = aten.nll_loss2d.default(image, wanted, *options)
    return aten.view.default(result, (N, *rest)) if reduction == NONE else result
