"""Gradients on a tensor: `backward`, `grad`, hooks, `detach`, and what made it.

Source   torch/_tensor.py; torch/csrc/autograd/python_variable.cpp
"""

from collections.abc import Callable
from typing import Any

from labkit.autograd.backward import backward
from labkit.autograd.handles import RemovableHandle
from labkit.autograd.node import Node
from labkit.autograd.variables import tensor_state, variable
from labkit.autograd.variables.retain import retain_grad
from labkit.core.tensor_impl import TensorImpl


class AutogradMethods(TensorImpl):
    """The part of `Tensor` that belongs to `labkit.autograd`."""

    __slots__ = ()

    @property
    def requires_grad(self) -> bool:
        """True when gradients flow to this tensor."""
        return variable.requires_grad(self)

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        tensor_state.set_requires_grad(self, flag)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """The leaf takes gradients from now on, or does not; the tensor itself."""
        tensor_state.set_requires_grad(self, requires_grad)
        return self

    @property
    def grad(self) -> Any:
        """The gradient that backward calls have added up here, or None."""
        return tensor_state.gradient_of(self)

    @grad.setter
    def grad(self, grad: Any) -> None:
        tensor_state.set_gradient(self, grad)

    @grad.deleter
    def grad(self) -> None:
        tensor_state.set_gradient(self, None)

    @property
    def grad_fn(self) -> Node | None:
        """The node that stands for the call that made this tensor; None for a leaf."""
        return variable.grad_fn(self)

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` this tensor is."""
        return variable.output_nr(self)

    @property
    def is_leaf(self) -> bool:
        """True when no recorded call made this tensor."""
        return variable.is_leaf(self)

    @property
    def retains_grad(self) -> bool:
        """True when this computed tensor keeps its gradient."""
        return self.autograd_meta is not None and self.autograd_meta.retains_grad

    def is_inference(self) -> bool:
        """True for a tensor made in inference mode."""
        return variable.is_inference(self)

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """The leaves this tensor was computed from have its gradient in `grad`.

        Raises   RuntimeError   see `labkit.autograd.backward`
        """
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def retain_grad(self) -> None:
        """After backward this computed tensor's `grad` is its gradient.

        Raises   RuntimeError   it does not require grad
        """
        retain_grad(self)

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """`hook(grad)` fires when this tensor's gradient is computed, and may replace it.

        Raises   RuntimeError   it does not require grad
        """
        return tensor_state.register_hook(self, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """`hook(tensor)` fires after this leaf's `grad` was set or has grown.

        Raises   RuntimeError   it does not require grad, or is no leaf
        """
        return tensor_state.register_post_accumulate_grad_hook(self, hook)

    def detach_(self) -> Any:
        """The tensor has no history any more.

        Raises   RuntimeError   a view
        """
        return tensor_state.detach_(self)
