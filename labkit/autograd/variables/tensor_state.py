"""What a user asks of or tells a tensor about gradients.

Source   torch/csrc/autograd/python_variable.cpp
         torch/_tensor.py
"""

import warnings
from collections.abc import Callable
from typing import Any

from labkit.autograd.handles import Hooks, RemovableHandle
from labkit.autograd.node import next_sequence_nr
from labkit.autograd.state import STATE
from labkit.autograd.variables import variable
from labkit.core.tensor_impl import TensorImpl


def set_requires_grad(tensor: TensorImpl, flag: Any) -> None:
    """The leaf takes gradients from now on, or does not.

    Raises   RuntimeError   not a leaf; a type without derivatives; made in inference mode
    Source   torch/csrc/autograd/python_variable.cpp  THPVariable_set_requires_grad
    """
    if not isinstance(flag, bool):
        raise RuntimeError("requires_grad must be a bool")
    if variable.has_history(tensor):
        if flag:
            return
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach()."
        )
    if flag and not tensor.dtype.is_inexact:
        raise RuntimeError("only Tensors of floating point dtype can require gradients")
    if flag and variable.is_inference(tensor) and not STATE.inference:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    if flag or tensor.autograd_meta is not None:
        variable.meta_of(tensor).requires_grad = flag


def gradient_of(tensor: TensorImpl) -> Any:
    """The tensor's `grad`; a warning for a computed tensor that does not keep its own.

    Source   aten/src/ATen/core/TensorBody.h  Tensor::grad
    """
    meta = tensor.autograd_meta
    if meta is None:
        return None
    if meta.grad is None and not meta.retains_grad and variable.has_history(tensor):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
            ".grad attribute won't be populated during autograd.backward(). If you indeed want "
            "the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the "
            "non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access "
            "the leaf Tensor instead.",
            UserWarning,
            stacklevel=3,
        )
    return meta.grad


def set_gradient(tensor: TensorImpl, grad: Any) -> None:
    """The tensor's `grad` is this, or nothing.

    Raises   TypeError      not a tensor
             RuntimeError   another shape, element type or device; or the tensor itself
    Source   torch/csrc/autograd/python_variable.cpp  THPVariable_set_grad
    """
    if grad is None:
        if tensor.autograd_meta is not None:
            tensor.autograd_meta.grad = None
        return
    if not isinstance(grad, TensorImpl):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(grad).__name__}"
        )
    if grad is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if grad.dtype is not tensor.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{grad.dtype}' to a tensor with "
            f"grad_dtype '{tensor.dtype}'. The gradient must match the tensor's grad_dtype "
            "(defaults to the tensor's dtype)."
        )
    if grad.device != tensor.device:
        raise RuntimeError(
            f"attempting to assign a gradient located on device '{grad.device}' to a tensor "
            f"located on device '{tensor.device}'. Please ensure that the gradient and the tensor "
            "are on the same device"
        )
    if grad.sizes != tensor.sizes:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(grad.sizes)}' to a tensor of size "
            f"'{list(tensor.sizes)}'. Please ensure that the gradient and the tensor are the same "
            "size"
        )
    variable.meta_of(tensor).grad = grad


def register_hook(tensor: TensorImpl, hook: Callable[[Any], Any]) -> RemovableHandle:
    """`hook(grad)` fires when the tensor's gradient is computed, and may replace it.

    Raises   RuntimeError   it does not require grad
    Source   torch/_tensor.py  Tensor.register_hook
    """
    if not variable.requires_grad(tensor):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    edge = variable.edge_of_history(tensor)
    meta = variable.meta_of(tensor)
    if meta.hooks is None:
        meta.hooks = Hooks()
        if edge is not None:
            node, number = edge
            if node.tensor_pre_hooks is None:
                node.tensor_pre_hooks = []
            node.tensor_pre_hooks.append((meta.hooks, number))
    return RemovableHandle(meta.hooks, hook)


def register_post_accumulate_grad_hook(
    tensor: TensorImpl, hook: Callable[[Any], None]
) -> RemovableHandle:
    """`hook(tensor)` fires after the leaf's `grad` was set or has grown.

    Raises   RuntimeError   it does not require grad, or is no leaf
    Source   torch/_tensor.py  Tensor.register_post_accumulate_grad_hook
    """
    if not variable.requires_grad(tensor):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not variable.is_leaf(tensor):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    meta = variable.meta_of(tensor)
    if meta.post_accumulate_hooks is None:
        meta.post_accumulate_hooks = Hooks()
    return RemovableHandle(meta.post_accumulate_hooks, hook)


def detach_(tensor: TensorImpl) -> TensorImpl:
    """The tensor has no history any more, and takes no gradients.

    Raises   RuntimeError   a view
    Source   torch/csrc/autograd/VariableTypeManual.cpp  detach_
    """
    if tensor.base is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using "
            "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
            "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
            "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
            "function in torch/optim/optimizer.py as the solution."
        )
    meta = tensor.autograd_meta
    if meta is not None:
        if meta.edge is not None:
            meta.detached_at = next_sequence_nr()
        meta.requires_grad, meta.edge = False, None
    return tensor
