"""A tensor as autograd sees it: does it require grad, what made it, where its gradient goes.

Source   torch/csrc/autograd/variable.cpp
"""

import weakref
from collections.abc import Iterable
from typing import Any, cast

from labkit.autograd.accumulate_grad import AccumulateGrad
from labkit.autograd.grad_mode import enable_grad
from labkit.autograd.node import Edge, InputMetadata, Node
from labkit.autograd.variables.meta import AutogradMeta, CreationMeta, ViewMeta
from labkit.autograd.variables.view_errors import view_modified
from labkit.core.dispatch_key import DispatchKey
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.core.memory_format import Ints
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten

NOWHERE: tuple[()] = ()
"""The edge of a tensor that requires grad only because its base does: false, but not None."""

_AD_INPLACE_OR_VIEW = DispatchKeySet("ADInplaceOrView").raw


Geometry = tuple[Ints, Ints, int]


def geometry(tensor: TensorImpl) -> Geometry:
    """Sizes, strides and offset.

    Source   aten/src/ATen/TensorGeometry.h  TensorGeometry
    """
    return tensor.sizes, tensor.strides, tensor.storage_offset()


def is_inference(tensor: TensorImpl) -> bool:
    """True for a tensor made in inference mode: it has no autograd keys.

    Source   c10/core/TensorImpl.h  TensorImpl::is_inference
    """
    return not tensor._key_set.raw & _AD_INPLACE_OR_VIEW


def meta_of(tensor: TensorImpl) -> AutogradMeta:
    """The tensor's autograd meta, made if it has none yet.

    Source   torch/csrc/autograd/variable.cpp  impl::materialize_autograd_meta
    """
    meta: AutogradMeta | None = tensor.autograd_meta
    if meta is None:
        if tensor.base is None:
            meta = AutogradMeta()
        else:  # only in inference mode do views escape the Autograd kernels
            meta = make_view_meta(tensor, CreationMeta.INFERENCE_MODE)
        tensor.autograd_meta = meta
    return meta


def make_view_meta(tensor: TensorImpl, creation: CreationMeta) -> ViewMeta:
    """The meta of a view, right for the elements as they are now."""
    meta = ViewMeta()
    meta.creation = creation
    meta.attr_version = tensor.version
    return meta


def requires_grad(tensor: TensorImpl | None) -> bool:
    """True when gradients flow to this tensor: asked for, computed, or a view of one that does.

    Source   torch/csrc/autograd/variable.h  AutogradMeta::requires_grad
    """
    if tensor is None:
        return False
    meta = tensor.autograd_meta
    if meta is None:
        return tensor.base is not None and requires_grad(tensor.base)
    if meta.requires_grad or meta.edge is not None:
        return True
    if not meta.is_view:
        return False
    return meta.view_edge is not None or requires_grad(tensor.base)


def edge_of_history(tensor: TensorImpl) -> Edge | None:
    """(grad_fn, output number) of a computed tensor; None for a leaf.

    A view whose elements were written through another view gets a new one first.

    Source   torch/csrc/autograd/variable.cpp  VariableHooks::grad_fn
    """
    meta = tensor.autograd_meta
    if meta is None and tensor.base is not None:
        meta = meta_of(tensor)
    if meta is None:
        return None
    if not meta.is_view:
        edge: Edge | None = meta.edge
        return edge
    base = tensor.base
    assert base is not None
    if (meta.view_edge is None and not requires_grad(base)) or (
        meta.attr_version == tensor.version
    ):
        return meta.view_edge
    view_modified(meta, was_written=True)
    old = meta.view_edge
    meta.view_edge = _regenerated_edge(tensor, base, meta)
    meta.attr_version = tensor.version
    move_hooks(tensor, old, meta.view_edge)
    return meta.view_edge


def _regenerated_edge(tensor: TensorImpl, base: TensorImpl, meta: ViewMeta) -> Edge | None:
    """The history of a view whose base was written: the view, taken again from the base.

    Source   torch/csrc/autograd/variable.cpp  VariableHooks::grad_fn
    """
    if meta.view_fn is None:
        node = _as_strided_node(base, tensor)
        return node, add_input(node, tensor)
    with enable_grad():  # it may be asked for where nothing is recorded
        return edge_of_history(meta.view_fn(base))


def _as_strided_node(base: TensorImpl, view: TensorImpl) -> Node:
    """The node of `base.as_strided(...)`, made without the call: the base may need no gradient.

    What makes such nodes is the operator's own kernel, which knows this module and not the reverse.
    """
    kernel: Any = aten.as_strided.default.active_kernels[DispatchKey.Autograd].function
    node = kernel.node_class.after([base])
    node.save_inputs((base, *geometry(view)))
    return cast(Node, node)


def move_hooks(tensor: TensorImpl, old: Any, new: Any) -> None:
    """Hooks that were registered stay with the old value; a retained gradient is the new one's.

    Source   torch/csrc/autograd/variable.cpp  update_tensor_hooks_on_new_gradient
    """
    meta = meta_of(tensor)
    meta.hooks = None
    if meta.retains_grad and old is not None:
        retain = old[0].retains_grad_hooks.pop(old[1])
        if new[0].retains_grad_hooks is None:
            new[0].retains_grad_hooks = {}
        new[0].retains_grad_hooks[new[1]] = retain


def grad_fn(tensor: TensorImpl) -> Node | None:
    """The node that stands for the call that made the tensor; None for a leaf."""
    edge = edge_of_history(tensor)
    return None if edge is None else edge[0]


def output_nr(tensor: TensorImpl) -> int:
    """Which output of its `grad_fn` the tensor is; 0 for a leaf."""
    edge = edge_of_history(tensor)
    return 0 if edge is None else edge[1]


def has_history(tensor: TensorImpl) -> bool:
    """True for what a recorded call made; a view's node may be out of date, and stays so.

    Source   torch/csrc/autograd/variable.cpp  VariableHooks::is_leaf
    """
    meta = tensor.autograd_meta
    if meta is None:
        return False
    return (meta.view_edge if meta.is_view else meta.edge) is not None


def is_leaf(tensor: TensorImpl) -> bool:
    """True for a tensor that no recorded call made."""
    return tensor.autograd_meta is None or edge_of_history(tensor) is None


def gradient_edge(tensor: TensorImpl | None) -> Any:
    """Where a gradient of this tensor goes: its `grad_fn`, or the accumulator of a leaf.

    None when it needs none; `NOWHERE` when it requires grad and yet nothing takes one (a view
    made in no_grad mode).

    Source   torch/csrc/autograd/variable.cpp  impl::gradient_edge
    """
    if tensor is None or (tensor.autograd_meta is None and tensor.base is None):
        return None
    edge = edge_of_history(tensor)
    if edge is not None:
        return edge
    if tensor.autograd_meta.requires_grad:
        return grad_accumulator(tensor), 0
    return NOWHERE if requires_grad(tensor) else None


def compute_requires_grad(tensors: Iterable[TensorImpl | None]) -> bool:
    """True when a call of these tensors is recorded.

    Source   torch/csrc/autograd/functions/utils.h  compute_requires_grad
    """
    return any(map(requires_grad, tensors))


def collect_next_edges(tensors: Iterable[TensorImpl | None]) -> tuple[Any, ...]:
    """Where the node of a call sends the gradients of these tensors.

    Source   torch/csrc/autograd/function.h  collect_next_edges
    """
    return tuple(map(gradient_edge, tensors))


def grad_accumulator(tensor: TensorImpl) -> AccumulateGrad:
    """The node that adds to the leaf's `grad`: one as long as any graph holds it.

    Source   torch/csrc/autograd/variable.cpp  impl::grad_accumulator
    """
    meta = tensor.autograd_meta
    held = None if meta.accumulator is None else meta.accumulator()
    if held is None:
        held = AccumulateGrad(tensor, edge_of_history)
        meta.accumulator = weakref.ref(held)
    assert isinstance(held, AccumulateGrad)
    return held


def try_get_grad_accumulator(tensor: TensorImpl) -> Node | None:
    """The leaf's accumulator if some graph holds it.

    Source   torch/csrc/autograd/variable.cpp  impl::try_get_grad_accumulator
    """
    meta = tensor.autograd_meta
    return None if meta is None or meta.accumulator is None else meta.accumulator()


def set_gradient_edge(tensor: TensorImpl, edge: Edge) -> None:
    """The tensor was made by this node; a view's edge is right from now on.

    Source   torch/csrc/autograd/variable.cpp  impl::set_gradient_edge
    """
    meta = meta_of(tensor)
    if isinstance(meta, ViewMeta):
        meta.view_edge = edge
        meta.attr_version = tensor.version
    else:
        meta.edge = edge


def add_input(node: Node, tensor: TensorImpl) -> int:
    """The node takes gradients of one more tensor; which number that input has.

    Source   torch/csrc/autograd/node.h  Node::add_input_metadata
    """
    metadata = InputMetadata(tensor.sizes, tensor.dtype, tensor.device)
    node.input_metadata = (*node.input_metadata, metadata)
    return len(node.input_metadata) - 1


def add_undefined_input(node: Node) -> int:
    """The node has one more input, for which no gradient will ever come."""
    node.input_metadata = (*node.input_metadata, InputMetadata(None, None, None))
    return len(node.input_metadata) - 1


def set_history(tensor: TensorImpl, node: Node) -> None:
    """The tensor is the node's next output.

    Source   torch/csrc/autograd/functions/utils.h  set_history
    """
    set_gradient_edge(tensor, (node, add_input(node, tensor)))
