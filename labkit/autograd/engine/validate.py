"""A gradient fits the input it goes to: shape, element type, device.

Source   torch/csrc/autograd/engine.cpp  validate_outputs
         torch/csrc/autograd/input_metadata.cpp  InputMetadata
"""

from collections.abc import Sequence
from typing import Any

from labkit.autograd.formulas.basics import sum_to
from labkit.autograd.node import InputMetadata, Node
from labkit.core.strides import is_expandable_to
from labkit.ops.aten import aten


def validate_outputs(edges: Sequence[Any], grads: Any, node: Node | None) -> Any:
    """The gradients, those that do not fit their edge reduced or cast.

    node  who returned them, for the error; None for the roots of a backward call

    Raises   RuntimeError   one cannot be made to fit, or their number is not that of the edges
    """
    if len(grads) != len(edges):
        who = f"Function {node.name()} returned an " if node is not None else ""
        raise RuntimeError(
            f"{who}invalid number of gradients - got {len(grads)}, but expected {len(edges)}"
        )
    for i, (edge, grad) in enumerate(zip(edges, grads, strict=True)):
        if grad is None or not edge:
            continue
        metadata = edge[0].input_metadata[edge[1]]
        if not metadata.fits(grad):
            grads = list(grads)
            grads[i] = reduced(grad, metadata, i, node)
    return grads


def reduced(grad: Any, metadata: InputMetadata, index: int, node: Node | None) -> Any:
    """The gradient summed over the dimensions that forward had stretched, and cast.

    Differs  PyTorch's formulas take the real part for a real argument one by one
             (`handle_r_to_c`); here it is done once, for all.
    """
    who = f"Function {node.name()} returned an " if node is not None else ""
    sizes, dtype, device = metadata.shape, metadata.dtype, metadata.device
    if grad.sizes != sizes:
        if sizes is None or not is_expandable_to(sizes, grad.sizes):
            raise RuntimeError(
                f"{who}invalid gradient at index {index} - got {list(grad.sizes)} but expected "
                f"shape compatible with {None if sizes is None else list(sizes)}"
            )
        grad = sum_to(grad, sizes)
    if grad.dtype is not dtype:
        if grad.dtype.is_complex and not dtype.is_complex:
            grad = aten.real.default(grad)  # a real argument moves along the real axis only
        if grad.dtype is not dtype:
            grad = aten._to_copy.default(grad, dtype=dtype)
    if grad.device != device:
        if grad.dim() == 0:
            return aten._to_copy.default(grad, device=device)
        raise RuntimeError(
            f"{who}invalid gradient at index {index} - expected device {device} but got "
            f"{grad.device}"
        )
    return grad
