"""What `Function.apply` returns: the outputs of `forward`, made outputs of the node.

Source   torch/csrc/autograd/custom_function.cpp  _wrap_outputs, _process_backward_mode_ad
"""

from typing import Any

from labkit.autograd.node import Node
from labkit.autograd.variables import variable
from labkit.autograd.variables.meta import CreationMeta, ViewMeta
from labkit.autograd.variables.rebase import rebase_base
from labkit.core.tensor_impl import TensorImpl


def wrap(ctx: Any, outputs: tuple[Any, ...], inputs: list[TensorImpl], records: bool) -> list[Any]:
    """The outputs, each with the history the rules give it; what is no tensor stays as it is.

    Raises   RuntimeError   something was marked dirty that is no output
    """
    given = {id(tensor) for tensor in inputs}
    dirty = {id(tensor) for tensor in ctx.dirty_tensors}
    excluded = {id(tensor) for tensor in ctx.non_differentiable}
    results: list[Any] = []
    made: list[Any] = []
    for output in outputs:
        if not isinstance(output, TensorImpl):
            variable.add_undefined_input(ctx)
            results.append(output)
            continue
        is_input, is_dirty = id(output) in given, id(output) in dirty
        differentiable = (
            records and id(output) not in excluded and variable.can_require_grad(output.dtype)
        )
        number = variable.add_input(ctx, output)
        result = _one(ctx, output, number, is_input, is_dirty, differentiable)
        if differentiable:
            made.append(result)
        if isinstance(result.autograd_meta, ViewMeta) and not (is_input and is_dirty):
            result.autograd_meta.creation = CreationMeta.IN_CUSTOM_FUNCTION
        results.append(result)
    _check_dirty(dirty, outputs)
    if len(made) > 1:
        for result in made:
            if isinstance(result.autograd_meta, ViewMeta):
                result.autograd_meta.creation = CreationMeta.MULTI_OUTPUT_NODE
    return results


def _one(
    ctx: Node,
    output: TensorImpl,
    number: int,
    is_input: bool,
    is_dirty: bool,
    differentiable: bool,
) -> TensorImpl:
    if not differentiable:
        if is_input and not is_dirty:
            return _viewed(output)
        if not is_input and variable.requires_grad(output) and output.base is None:
            output.autograd_meta = None
        return output
    if is_dirty:
        if variable.is_leaf(output) and variable.requires_grad(output):
            raise RuntimeError(
                "a leaf Variable that requires grad has been used in an in-place operation."
            )
        _rebase(ctx, output, number)
        return output
    if is_input:
        output = _viewed(output)
    variable.set_gradient_edge(output, (ctx, number))
    return output


def _viewed(tensor: TensorImpl) -> TensorImpl:
    """The input as a view of itself, so that it can have another history.

    Source   torch/csrc/autograd/python_function.cpp  _view_as_self_with_no_grad
    """
    view = tensor.alias(tensor.sizes, tensor.strides, tensor.storage_offset())
    view.autograd_meta = variable.make_view_meta(view, CreationMeta.IN_CUSTOM_FUNCTION)
    return view


def _rebase(ctx: Node, output: TensorImpl, number: int) -> None:
    output.bump_version()
    if output.base is not None and isinstance(output.autograd_meta, ViewMeta):
        rebase_base(output, ctx)
        return
    old = variable.edge_of_history(output)
    variable.set_gradient_edge(output, (ctx, number))
    variable.move_hooks(output, old, (ctx, number))


def _check_dirty(dirty: set[int], outputs: tuple[Any, ...]) -> None:
    if not dirty <= {id(output) for output in outputs}:
        raise RuntimeError(
            "Some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
