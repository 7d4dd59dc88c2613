"""A user's own differentiable function: `forward` computes, `backward` is its node.

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * grad * x

    y = Square.apply(x)

Source   torch/autograd/function.py
         torch/csrc/autograd/python_function.cpp
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from labkit.autograd import function_outputs
from labkit.autograd.anomaly import note_forward
from labkit.autograd.formulas.basics import zeros
from labkit.autograd.grad_mode import no_grad
from labkit.autograd.node import Node, next_sequence_nr
from labkit.autograd.state import ANOMALY, STATE
from labkit.autograd.variables.saved_variable import (
    BACKWARD_TWICE,
    SavedVariable,
    save,
    save_output,
)
from labkit.autograd.variables.variable import (
    collect_next_edges,
    compute_requires_grad,
    edge_of_history,
    requires_grad,
    set_history,
)
from labkit.core.missing import missing
from labkit.core.tensor_impl import TensorImpl

LEFT_OUT = ("setup_context", "vjp", "jvp")


class FunctionCtx(Node):
    """The node of one `apply`, and what `forward` and `backward` share.

    Source   torch/autograd/function.py  FunctionCtx
    """

    has_saved = True
    function: type["Function"]
    needs_input_grad: tuple[bool, ...] = ()
    """Per argument of `forward`: a gradient is wanted."""
    is_tensor_input: tuple[bool, ...] = ()
    materialize_grads = True
    to_save: tuple[Any, ...] | None = None
    saved: list[SavedVariable | None] | None = None
    _released = False

    def save_for_backward(self, *tensors: Any) -> None:
        """These tensors (or Nones) come back as `saved_tensors` in backward, versions checked.

        Source   torch/autograd/function.py  FunctionCtx.save_for_backward
        """
        self.to_save = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, instead of zeros, for an output nobody used.

        Source   torch/autograd/function.py  FunctionCtx.set_materialize_grads
        """
        self.materialize_grads = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` was given.

        Raises   RuntimeError   released already, or written since
        """
        if self._released:
            raise RuntimeError(BACKWARD_TWICE)
        if self.saved is None:
            return tuple(self.to_save or ())
        return tuple(None if each is None else each.unpack(self) for each in self.saved)

    def __getattr__(self, name: str) -> NoReturn:
        raise missing(f"{type(self).__name__!r} object", name)

    _raw_saved_tensors = property(lambda self: tuple(self.saved or ()))

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> Any:
        """The user's `backward`, its arguments made whole and its results checked.

        Source   torch/csrc/autograd/python_function.cpp  PyNode::apply
        """
        if self.materialize_grads:
            grads = [self._whole(i, grad) for i, grad in enumerate(grads)]
        results = self.function.backward(self, *grads)
        if not isinstance(results, tuple):
            results = (results,)
        return self._per_edge(results)

    def _whole(self, number: int, grad: Any) -> Any:
        """Zeros where no gradient came."""
        metadata = self.input_metadata[number]
        if grad is not None or metadata.is_undefined:
            return grad
        return zeros(metadata.shape, metadata.dtype, metadata.device)

    def _per_edge(self, results: tuple[Any, ...]) -> list[Any]:
        name, expected = self.name(), len(self.is_tensor_input)
        while len(results) > expected and results[-1] is None:
            results = results[:-1]
        if len(results) != expected:
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {expected}, "
                f"got {len(results)})"
            )
        kept = []
        for i, (result, is_tensor) in enumerate(zip(results, self.is_tensor_input, strict=True)):
            if not is_tensor:
                if result is not None:
                    raise RuntimeError(
                        f"function {name} returned a gradient different than None at position "
                        f"{i + 1}, but the corresponding forward input was not a Variable"
                    )
                continue
            if result is not None and not isinstance(result, TensorImpl):
                raise RuntimeError(f"expected Variable or None (got {type(result).__name__})")
            kept.append(result)
        return kept

    def release_variables(self) -> None:
        """What was saved is gone."""
        if self.saved is not None:
            for each in self.saved:
                if each is not None:
                    each.release()
            self._released = bool(self.saved)

    def keep_saved(self) -> None:
        """What `save_for_backward` was given is kept, with versions.

        Source   torch/csrc/autograd/python_function.cpp  _save_variables
        """
        if self.to_save is None:
            return
        saved: list[SavedVariable | None] = []
        for i, tensor in enumerate(self.to_save):
            if tensor is not None and not isinstance(tensor, TensorImpl):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type "
                    f"{type(tensor).__name__}"
                )
            edge = None if tensor is None else edge_of_history(tensor)
            is_output = edge is not None and edge[0] is self
            saved.append(save_output(tensor) if is_output else save(tensor))
        self.saved, self.to_save = saved, None


class Function:
    """Subclass with static `forward` and `backward`.

    Source   torch/autograd/function.py  Function
    Differs  setup_context, vjp and jvp are left out, and so are mark_dirty and
             mark_non_differentiable: `forward` gives new tensors
    """

    _context_class: type[FunctionCtx]

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute; the first argument is ctx."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """One gradient per argument of `forward`, None for those without."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in LEFT_OUT:
            if name in vars(cls):
                raise missing("class 'Function'", name)
        cls._context_class = type(f"{cls.__name__}Backward", (FunctionCtx,), {"function": cls})

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`; the outputs' `grad_fn` is a node that runs `backward`.

        Source   torch/csrc/autograd/python_function.cpp  THPFunction_apply
        """
        ctx = cls._context_class()
        ctx.sequence_nr = next_sequence_nr()
        tensors = [arg for arg in args if isinstance(arg, TensorImpl)]
        ctx.is_tensor_input = tuple(isinstance(arg, TensorImpl) for arg in args)
        records = STATE.grad and compute_requires_grad(tensors)
        if records:
            ctx.next_edges = collect_next_edges(tensors)
        if ANOMALY.enabled:
            note_forward(ctx)
        ctx.needs_input_grad = tuple(
            isinstance(arg, TensorImpl) and requires_grad(arg) for arg in args
        )
        with no_grad():
            outputs = cls.forward(ctx, *args, **kwargs)
        is_tuple = isinstance(outputs, tuple)
        results = function_outputs.wrap(ctx, outputs if is_tuple else (outputs,), tensors, records)
        if records:
            ctx.keep_saved()
        if not records:
            ctx.to_save = None
        return tuple(results) if is_tuple else results[0]


class _DelayedError(Node):
    """An error for whoever differentiates a second time.

    Source   torch/csrc/autograd/functions/basic_ops.h  DelayedError, Error
    """

    def __init__(self, message: str, tensors: Sequence[TensorImpl]) -> None:
        self.sequence_nr = next_sequence_nr()
        self.message = message
        self.next_edges = collect_next_edges(tensors)

    @classmethod
    def name(cls) -> str:
        """As C++ prints it."""
        return "torch::autograd::Error"

    def apply(self, grads: list[Any], needs: tuple[Any, ...]) -> Any:
        """Raises."""
        raise RuntimeError(self.message)


def once_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """The backward cannot be differentiated: trying to is an error instead of a wrong result.

    Source   torch/autograd/function.py  once_differentiable
    """

    @functools.wraps(function)
    def wrapper(ctx: Any, *args: Any) -> Any:
        with no_grad():
            outputs = function(ctx, *args)
        tensors = [arg for arg in args if isinstance(arg, TensorImpl)]
        if not STATE.grad or not compute_requires_grad(tensors):
            return outputs
        several = isinstance(outputs, tuple)
        node = _DelayedError(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            tensors,
        )
        marked = []
        for output in outputs if several else (outputs,):
            if output is not None:
                output = output.shallow_copy_and_detach(output.version_counter)
                set_history(output, node)
            marked.append(output)
        return tuple(marked) if several else marked[0]

    return wrapper
