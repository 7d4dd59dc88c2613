"""Results that show the memory of an argument: linked to their base, and how they came to be.

Source   torch/csrc/autograd/VariableTypeUtils.h  as_view
"""

from collections.abc import Callable, Sequence

from labkit.autograd.node import Node
from labkit.autograd.state import STATE
from labkit.autograd.variables.meta import CreationMeta, ViewMeta
from labkit.autograd.variables.variable import add_input, geometry
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.aten import aten

OTHER_ELEMENTS = {
    "aten::view_as_real", "aten::view_as_complex", "aten::view.dtype", "aten::_conj",
    "aten::_neg_view", "aten::real", "aten::imag",
}  # fmt: skip
"""Views whose elements are not the base's: `as_strided` cannot make them again."""

ViewFn = Callable[[TensorImpl], TensorImpl]


def link(
    parent: TensorImpl, view: TensorImpl, node: Node | None, again: ViewFn | None = None
) -> None:
    """The result is a view of the parent, made by the node (None: nothing was recorded).

    again   makes the view again from the parent, where `as_strided` could not
    """
    creation = CreationMeta.DEFAULT if STATE.grad else _unrecorded()
    _link(parent, view, node, creation, again)


def link_list(parent: TensorImpl, result: Sequence[TensorImpl], node: Node | None) -> None:
    """The results are views of the parent, made together: none may be written while recorded."""
    creation = CreationMeta.MULTI_OUTPUT_NODE if STATE.grad else _unrecorded()
    for view in result:
        _link(parent, view, node, creation, None)


def _unrecorded() -> CreationMeta:
    return CreationMeta.INFERENCE_MODE if STATE.inference else CreationMeta.NO_GRAD_MODE


def propagated(before: CreationMeta, own: CreationMeta) -> CreationMeta:
    """What a view of a view carries: it may be written no sooner than the view it was made of.

    before  what that one carries; own: how this one came to be

    Source   torch/csrc/autograd/variable.h  propagate_creation_meta
    """
    kept = own is CreationMeta.DEFAULT or before is CreationMeta.INFERENCE_MODE
    return before if kept else own


def _link(
    parent: TensorImpl,
    view: TensorImpl,
    node: Node | None,
    creation: CreationMeta,
    again: ViewFn | None,
) -> None:
    if view is parent or view.base is None:  # a view as another element type is nobody's view
        return
    meta = ViewMeta()
    above = parent.autograd_meta
    if above is not None and above.is_view:
        creation = propagated(above.creation, creation)
        if above.view_fn is not None or again is not None:
            meta.view_fn = _chained(parent, view, above.view_fn, again)
    else:
        meta.view_fn = again
    meta.creation = creation
    meta.attr_version = view.version
    if node is not None:
        meta.view_edge = (node, add_input(node, view))
    view.autograd_meta = meta


def _chained(
    parent: TensorImpl, view: TensorImpl, before: ViewFn | None, again: ViewFn | None
) -> ViewFn:
    """Base -> view, through the parent.

    Source   torch/csrc/autograd/variable.cpp  ViewInfo::chain
    """
    if before is None:
        sizes, strides, offset = geometry(parent)

        def before(base: TensorImpl) -> TensorImpl:
            return aten.as_strided.default(base, sizes, strides, offset)

    first = before
    if again is not None:
        second = again
        return lambda base: second(first(base))
    shape = geometry(view)
    return lambda base: aten.as_strided.default(first(base), *shape)
