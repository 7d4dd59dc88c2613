"""Functions and modules whose forward and backward are each one replay of a graph.

Source   torch/cuda/graphs.py  make_graphed_callables
"""

from collections.abc import Callable, Sequence
from typing import Any

import labkit as lab
from labkit._tensor import Tensor
from labkit.amp.autocast_mode import is_autocast_enabled
from labkit.amp.casting import CACHE
from labkit.autograd import Function, grad, once_differentiable
from labkit.cuda.select import current_driver
from labkit.cuda.stream import Stream
from labkit.graphed.cuda_graph import CUDAGraph, graph, graph_pool_handle
from labkit.memory.history import MempoolId
from labkit.nn import Module

Tensors = tuple[Any, ...]


class ReplayError(RuntimeError):
    """The graph was captured for another argument than this one."""


class _Captured:
    """A callable, its static tensors, and the graphs of its two passes."""

    def __init__(self, function: Callable[..., Any], sample_args: Tensors) -> None:
        self.function, self.args = function, sample_args
        self.parameters = tuple(function.parameters()) if isinstance(function, Module) else ()
        self.surface = (*sample_args, *self.parameters)
        self.forward_graph, self.backward_graph = CUDAGraph(), CUDAGraph()
        self.outputs: Tensors = ()
        self.is_tuple = False
        self.grad_outputs: Tensors = ()
        self.grad_inputs: Tensors = ()

    def run(self) -> Tensors:
        """The static outputs of one eager call."""
        result = self.function(*self.args)
        self.is_tuple = isinstance(result, tuple | list)
        return tuple(result) if self.is_tuple else (result,)

    def gradients(self, outputs: Tensors, grads: Tensors, allow_unused: bool) -> Tensors:
        """Of each tensor of the surface, None where it needs none."""
        wanted = [one for one in self.surface if one.requires_grad]
        roots = [one for one in outputs if one.requires_grad]
        if not roots:
            return (None,) * len(self.surface)
        given = [one for one in grads if one is not None]
        found = iter(grad(roots, wanted, given, allow_unused=allow_unused))
        return tuple(next(found) if one.requires_grad else None for one in self.surface)

    def warm_up(self, iterations: int, allow_unused: bool) -> None:
        """What only a first call does has been done."""
        for _ in range(iterations):
            outputs = self.run()
            self.gradients(outputs, _like(outputs), allow_unused)

    def capture_forward(self, pool: MempoolId) -> None:
        """The forward graph writes `outputs`."""
        with graph(self.forward_graph, pool):
            self.outputs = self.run()

    def capture_backward(self, pool: MempoolId, allow_unused: bool) -> None:
        """The backward graph reads `grad_outputs` and writes `grad_inputs`."""
        self.grad_outputs = _like(self.outputs)
        if not any(one.requires_grad for one in self.outputs):
            self.grad_inputs = (None,) * len(self.surface)
            return
        with graph(self.backward_graph, pool):
            self.grad_inputs = self.gradients(self.outputs, self.grad_outputs, allow_unused)


def _like(outputs: Tensors) -> Tensors:
    return tuple(lab.empty_like(one) if one.requires_grad else None for one in outputs)


def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: MempoolId | None = None,
) -> Any:
    """The callables with their passes replayed, each inside one node of the autograd graph.

    callables         a function or a module, or a tuple of them in the order in which they will run
    sample_args       for each a tuple of tensors, which stay: replays read their addresses
    num_warmup_iters  eager calls on a side stream first, so that what is lazy happens there

    What a call returns is overwritten by the next call. A module becomes graphed itself, and runs
    eagerly when it is not in the mode, training or not, that it was captured in.

    Raises   ReplayError      a later argument of another shape, element type or device
             AssertionError   arguments that are no tensors, modules with hooks, trainable buffers
             RuntimeError     autocast with its cache, which would keep casts made in a capture
    Differs  another shape is refused, where PyTorch's copy broadcasts it; arguments are tensors,
             results a tensor or a tuple of them, where PyTorch takes nested ones
    """
    if is_autocast_enabled("cuda") and CACHE.enabled:
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set "
            "`cache_enabled=False`."
        )
    one_alone = not isinstance(callables, tuple)
    functions = (callables,) if one_alone else callables
    samples = (sample_args,) if one_alone else sample_args
    for function, args in zip(functions, samples, strict=True):
        _check(function, args)
    parts = [_Captured(*each) for each in zip(functions, samples, strict=True)]
    driver = current_driver()
    driver.synchronize()
    with Stream(driver=driver):
        for part in parts:
            part.warm_up(num_warmup_iters, allow_unused_input)
    driver.synchronize()
    shared = pool or graph_pool_handle()
    for part in parts:
        part.capture_forward(shared)
    for part in reversed(parts):
        part.capture_backward(shared, allow_unused_input)
    graphed = tuple(_graphed(part) for part in parts)
    return graphed[0] if one_alone else graphed


def _check(function: Any, args: Sequence[Any]) -> None:
    if isinstance(function, Module):
        if function._forward_hooks or function._forward_pre_hooks:
            raise AssertionError(
                "Modules must not have hooks registered at the time they are passed. However, "
                "registering hooks on modules after passing them through make_graphed_callables is "
                "allowed."
            )
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise AssertionError(
                "In any :class:`~torch.nn.Module` passed to :func:`~make_graphed_callables`, only "
                "parameters may be trainable. All buffers must have ``requires_grad=False``."
            )
    if not all(isinstance(arg, Tensor) for arg in args):
        raise AssertionError(
            "In the beta API, sample_args for each callable must contain only Tensors. Other types "
            "are not allowed."
        )


def _graphed(part: _Captured) -> Any:
    """The callable that replays; a module is changed in place."""
    function = part.function
    replayed = _replaying(part)
    if not isinstance(function, Module):
        return replayed
    captured_training, eager = function.training, function.forward

    def forward(*args: Any) -> Any:
        return (replayed if function.training == captured_training else eager)(*args)

    function.__dict__["forward"] = forward
    return function


def _replaying(part: _Captured) -> Callable[..., Any]:
    class Graphed(Function):
        """Copy in, replay, hand the static tensors out."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensors:
            for static, given in zip(part.args, inputs, strict=False):
                if static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            part.forward_graph.replay()
            return tuple(output.detach() for output in part.outputs)

        @staticmethod
        @once_differentiable
        def backward(ctx: Any, *grads: Any) -> Tensors:
            for static, given in zip(part.grad_outputs, grads, strict=True):
                if static is not None and static.data_ptr() != given.data_ptr():
                    static.copy_(given)
            part.backward_graph.replay()
            return tuple(one if one is None else one.detach() for one in part.grad_inputs)

    def call(*args: Any) -> Any:
        _check_replay(part.args, args)
        outputs = Graphed.apply(*args, *part.parameters)
        return outputs if part.is_tuple else outputs[0]

    return call


def _check_replay(static: Tensors, given: Tensors) -> None:
    if len(static) != len(given):
        raise ReplayError(f"the graph was captured with {len(static)} arguments, not {len(given)}")
    for place, (one, other) in enumerate(zip(static, given, strict=True)):
        for what in ("shape", "dtype", "device"):
            captured, now = getattr(one, what), getattr(other, what)
            if captured != now:
                shown = [tuple(each) if what == "shape" else each for each in (captured, now)]
                raise ReplayError(
                    f"argument {place} has {what} {shown[1]}, and the graph was captured with "
                    f"{shown[0]}: a replay runs the captured kernels with the captured sizes. "
                    "Capture another graph for it"
                )
