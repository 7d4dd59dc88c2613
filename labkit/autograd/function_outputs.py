"""What `Function.apply` returns: the outputs of `forward`, made outputs of the node.

Source   torch/csrc/autograd/custom_function.cpp  _wrap_outputs, _process_backward_mode_ad
"""

from typing import Any

from labkit.autograd.node import Node
from labkit.autograd.variables import variable
from labkit.autograd.variables.meta import CreationMeta, ViewMeta
from labkit.core.tensor_impl import TensorImpl


def wrap(ctx: Any, outputs: tuple[Any, ...], inputs: list[TensorImpl], records: bool) -> list[Any]:
    """The outputs, each with the history the rules give it; what is no tensor stays as it is."""
    given = {id(tensor) for tensor in inputs}
    results: list[Any] = []
    made: list[Any] = []
    for output in outputs:
        if not isinstance(output, TensorImpl):
            variable.add_undefined_input(ctx)
            results.append(output)
            continue
        differentiable = records and output.dtype.is_inexact
        number = variable.add_input(ctx, output)
        result = _one(ctx, output, number, id(output) in given, differentiable)
        if differentiable:
            made.append(result)
        if isinstance(result.autograd_meta, ViewMeta):
            result.autograd_meta.creation = CreationMeta.IN_CUSTOM_FUNCTION
        results.append(result)
    if len(made) > 1:
        for result in made:
            if isinstance(result.autograd_meta, ViewMeta):
                result.autograd_meta.creation = CreationMeta.MULTI_OUTPUT_NODE
    return results


def _one(
    ctx: Node, output: TensorImpl, number: int, is_input: bool, differentiable: bool
) -> TensorImpl:
    if not differentiable:
        if is_input:
            return _viewed(output)
        if variable.requires_grad(output) and output.base is None:
            output.autograd_meta = None
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
