"""`backward` and `grad`: what a user calls, checked, as roots and gradients for the engine.

Source   torch/autograd/__init__.py
         torch/csrc/autograd/python_engine.cpp  THPEngine_run_backward
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from labkit.autograd.engine.engine import execute
from labkit.autograd.node import Edge, InputMetadata, Node
from labkit.autograd.variables import variable
from labkit.autograd.variables.retain import retain_grad
from labkit.core.memory_format import contiguous_strides
from labkit.core.tensor_impl import TensorImpl, empty_strided
from labkit.ops.tensors import copy


class GradientEdge(NamedTuple):
    """Where a gradient goes: a node, and which of its inputs.

    ownership_token  keeps alive what would otherwise be gone with its tensor

    Source   torch/autograd/graph.py  GradientEdge
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


class _Unreachable(Node):
    """Stands for a leaf that no graph holds: nothing leads to it."""


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Every leaf the tensors were computed from has its gradient added to `grad`.

    tensors        tensors or GradientEdges
    grad_tensors   per tensor, the gradient to start from; not needed for one element
    retain_graph   the graph can be run again; default: create_graph
    create_graph   backward is itself recorded, for second derivatives
    inputs         only the gradients of these are computed

    Raises   RuntimeError   PyTorch's reasons, in its words
    Source   torch/autograd/__init__.py  backward
    """
    wanted = _inputs(inputs, "backward")
    if inputs is not None and not wanted:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _several(tensors)
    grads = make_grads(roots, _grads(grad_tensors, len(roots)))
    keep = create_graph if retain_graph is None else retain_graph
    _run(roots, grads, keep, create_graph, wanted, True, accumulate_grad=True)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    *,
    allow_unused: bool = False,
) -> Any:
    """The gradients of the outputs with respect to each input; no `grad` changes.

    inputs             tensors, GradientEdges, or a dict of them (then the result is one)
    grad_outputs       per output, the gradient to start from; not needed for one element
    allow_unused       None for an input that was not used, instead of an error

    Raises   RuntimeError   PyTorch's reasons, in its words
    Source   torch/autograd/__init__.py  grad
    Differs  no `is_grads_batched`, `only_inputs`, `materialize_grads`
    """
    roots = _several(outputs)
    wanted = _inputs(inputs, "grad")
    if not wanted:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    grads = make_grads(roots, _grads(grad_outputs, len(roots)))
    result = _run(roots, grads, keep, create_graph, wanted, allow_unused, accumulate_grad=False)
    if isinstance(inputs, dict):
        return dict(zip(inputs, result, strict=True))
    return tuple(result)


def _several(values: Any) -> tuple[Any, ...]:
    if isinstance(values, TensorImpl | GradientEdge):
        return (values,)
    return tuple(values)


def _inputs(inputs: Any, name: str) -> tuple[Any, ...]:
    if inputs is None:
        return ()
    if type(inputs) is dict:
        return tuple(inputs.values())
    if isinstance(inputs, Mapping):
        raise TypeError(
            f"`inputs` argument to `{name}()` must be a dict, not {type(inputs).__name__}. Other "
            "Mapping types are not supported."
        )
    return _several(inputs)


def _grads(grads: Any, count: int) -> tuple[Any, ...]:
    """Source   torch/autograd/__init__.py  _tensor_or_tensors_to_tuple."""
    return (None,) * count if grads is None else _several(grads)


def make_grads(roots: Sequence[Any], grads: Sequence[Any]) -> tuple[Any, ...]:
    """Per root the gradient to start from; ones for a root of one element that was given none.

    Raises   RuntimeError, TypeError   a gradient of another shape; none for several elements
    Source   torch/autograd/__init__.py  _make_grads
    """
    made: list[Any] = []
    for i, (root, grad) in enumerate(zip(roots, grads, strict=False)):
        about = _describe(root)
        if isinstance(grad, TensorImpl):
            _check_grad(i, about, grad)
            made.append(grad)
        elif grad is None:
            is_edge = isinstance(root, GradientEdge)
            if not is_edge and not variable.requires_grad(root):
                made.append(None)
                continue
            if any(size != 1 for size in about.shape):
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            if not about.dtype.is_floating_point:
                raise RuntimeError(
                    "grad can be implicitly created only for real scalar outputs but got "
                    f"{about.dtype}"
                )
            strides = contiguous_strides(about.shape) if is_edge else root.strides
            ones = empty_strided(about.shape, strides, about.dtype, about.device)
            copy.fill(ones, 1)
            made.append(ones)
        else:
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(grad).__name__}"
            )
    return tuple(made)


def _describe(root: Any) -> InputMetadata:
    if isinstance(root, GradientEdge):
        return root.node._input_metadata[root.output_nr]
    return InputMetadata(root.sizes, root.dtype, root.device)


def _check_grad(i: int, about: InputMetadata, grad: TensorImpl) -> None:
    if grad.sizes != about.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {_size(grad.sizes)} and "
            f"output[{i}] has a shape of {_size(about.shape)}."
        )
    if about.dtype.is_complex != grad.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[{i}] has a dtype of {grad.dtype} and "
            f"output[{i}] has a dtype of {about.dtype}."
        )


def _size(sizes: Sequence[int]) -> str:
    return f"torch.Size({list(sizes)})"


def _run(
    roots: tuple[Any, ...],
    grads: tuple[Any, ...],
    keep_graph: bool,
    create_graph: bool,
    inputs: tuple[Any, ...],
    allow_unreachable: bool,
    accumulate_grad: bool,
) -> list[Any]:
    """Source   torch/csrc/autograd/python_engine.cpp  THPEngine_run_backward."""
    if len(roots) != len(grads):
        raise RuntimeError(f"got {len(roots)} tensors and {len(grads)} gradients")
    edges: list[Edge] = []
    for i, root in enumerate(roots):
        if isinstance(root, GradientEdge):
            edges.append((root.node, root.output_nr))
            continue
        edge = variable.gradient_edge(root)
        if not edge:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        edges.append(edge)
    targets = [_target(each, accumulate_grad) for each in inputs]
    result = execute(edges, list(grads), keep_graph, create_graph, targets, accumulate_grad)
    if not accumulate_grad and not allow_unreachable:
        for i, gradient in enumerate(result):
            if gradient is None:
                raise RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the "
                    "graph. Set allow_unused=True if this is the desired behavior."
                )
    return result


def _target(tensor: Any, accumulate_grad: bool) -> Edge:
    if isinstance(tensor, GradientEdge):
        return tensor.node, tensor.output_nr
    if not isinstance(tensor, TensorImpl):
        raise TypeError(
            f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}"
        )
    if not variable.requires_grad(tensor):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    if accumulate_grad:
        retain_grad(tensor)
    edge = variable.edge_of_history(tensor)
    if edge is not None:
        return edge
    held = variable.try_get_grad_accumulator(tensor)
    return (held, 0) if held is not None else (_Unreachable(), 0)
