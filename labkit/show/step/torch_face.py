"""A step of PyTorch's: what its modes, its hooks and labkit's device tell of it.

Observed are the functions of the Python interface that are called, the operators as they arrive
below autograd, the nodes that are recorded and run, the gradients between them, and, on
device="lab", the kernel that was entered. The hops in between follow from the operator's table.

Source   torch/overrides.py  TorchFunctionMode
         torch/utils/_python_dispatch.py  TorchDispatchMode
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from labkit.core.alias_keys import AUTOCAST_SET
from labkit.core.dispatch_key_set import DispatchKeySet
from labkit.dispatch import torch_operator
from labkit.dispatch.arguments import key_set_of
from labkit.dispatch.explain.predict import predict
from labkit.dispatch.situation import Situation
from labkit.show.backward.autograd_walk import short_name
from labkit.show.backward.torch_backward import gradient_edges
from labkit.show.dispatch.paths import shortened
from labkit.show.step.gradients import Gradients
from labkit.show.step.record import Hop, Recording

INCLUDED = DispatchKeySet("BackendSelect", "ADInplaceOrView")
"""What PyTorch includes on every thread; what it excludes is autocast."""
DEVICE = "PrivateUse1"
NOT_SHOWN = ("profiler", "prim")
"""Namespaces of operators that compute nothing."""
RUN_THE_ENGINE = ("backward", "grad")
"""Functions whose operators are called by the engine, for the nodes it runs."""


class PythonCalls(TorchFunctionMode):  # type: ignore[misc]
    """The outermost function of PyTorch's that a line calls, if any operator runs for it."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording
        self.waiting: list[str] = []
        """The function that was called, until an operator shows that it is worth telling."""
        self.entered: list[int] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call the function."""
        if self.waiting:
            return func(*args, **(kwargs or {}))
        self.waiting.append(getattr(func, "__name__", str(func)))
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.waiting.clear()
            for place in self.entered:
                self.recording.leave(place)
            self.entered.clear()

    def begin(self) -> None:
        """An operator runs on the thread of the program: so did the function around it."""
        if self.waiting and not self.entered and self.waiting[0] not in RUN_THE_ENGINE:
            self.entered.append(self.recording.enter(f"torch {self.waiting[0]}"))


class OperatorCalls(TorchDispatchMode):  # type: ignore[misc]
    """Operators as they arrive below autograd, on any thread."""

    def __init__(self, recording: Recording, python: PythonCalls) -> None:
        super().__init__()
        self.recording, self.python = recording, python
        self._last = torch.autograd._get_sequence_nr() - 1

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator.

        A node takes its number before its operator runs, so while the operator runs the number of
        the newest node is the one before the counter's.
        """
        kwargs = kwargs or {}
        if func.namespace in NOT_SHOWN:
            return func(*args, **kwargs)
        recording = self.recording
        if recording.call < 0:
            self.python.begin()
        place = recording.enter(func.name())
        recording.calls[place].hops += [
            Hop(slot, kernel, observed=False) for slot, kernel in way_of(func, args, kwargs)
        ]
        try:
            newest = torch.autograd._get_sequence_nr() - 1
            if newest > self._last:
                self._last = newest
                recording.made_by[newest] = recording.tick("node recorded", "a node is recorded")
            return func(*args, **kwargs)
        finally:
            recording.leave(place)


def way_of(op: Any, args: Any, kwargs: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """(slot, kernel) of every hop that the operator's table gives a call with these arguments.

    The thread is taken to be as it is where a program calls an operator.
    """
    with _disable_current_modes():
        met = torch_operator.situation(op, args, kwargs).tensors
        words = tuple([(path, key_set_of(tensor)) for path, tensor in met])
        known = (op.name(), tuple([keys for _, keys in words]))
        if known not in _ways:
            tensors = tuple([(path, _Keys(keys)) for path, keys in words])
            thread = Situation(tensors, INCLUDED, AUTOCAST_SET)
            hops = predict(torch_operator.view(op, args, kwargs), thread)
            _ways[known] = tuple(
                [(hop.slot.name, shortened(hop.cell.kernel.debug) if hop.cell.kernel else "")
                 for hop in hops]
            )  # fmt: skip
    return _ways[known]


_ways: dict[Any, tuple[tuple[str, str], ...]] = {}


class _Keys:
    """A tensor of which only the key set matters."""

    def __init__(self, keys: DispatchKeySet | None) -> None:
        self._key_set = keys


class TorchBackward:
    """Backward calls of PyTorch's engine, through hooks that every node calls before it runs.

    Hooks after a node would keep its gradients alive for longer, and change what is freed when; so
    a gradient is told of when the node it came to is about to run.
    """

    def __init__(self, gradients: Gradients, grad_of: Callable[[torch.Tensor], Any]) -> None:
        self._gradients, self._grad_of = gradients, grad_of
        self._ran: set[int] = set()
        self._into: dict[tuple[int, int], list[tuple[int, int]]] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, backward calls become events."""
        run = torch.autograd._engine_run_backward

        def watched(outputs: Any, *args: Any, **options: Any) -> Any:
            with ExitStack() as hooks:
                self._begin(outputs, hooks)
                try:
                    result = run(outputs, *args, **options)
                except BaseException as error:
                    self._gradients.fails(f"{type(error).__name__}: {error}")
                    raise
            self._gradients.ends()
            return result

        torch.autograd._engine_run_backward = watched
        try:
            yield
        finally:
            torch.autograd._engine_run_backward = run

    def _begin(self, outputs: Sequence[Any], hooks: ExitStack) -> None:
        walk = self._gradients.walk
        with _disable_current_modes():
            walk.add([edge.node for edge in gradient_edges(outputs)])
        self._ran.clear()
        self._into.clear()
        for (source, result), edge in walk.slots.items():
            target, slot = walk.order[source].next_functions[result]
            self._into.setdefault((walk.place[target], slot), []).append((source, edge))
        for place, node in enumerate(walk.order):
            hooks.callback(node.register_prehook(self._before(place)).remove)
            if short_name(node) == "AccumulateGrad":
                leaf = node.variable
                after = self._after(place, leaf.grad is not None)
                hooks.callback(leaf.register_post_accumulate_grad_hook(after).remove)
        self._gradients.begins()

    def _before(self, place: int) -> Callable[[Any], None]:
        def before(grads: Any) -> None:
            gradients = self._gradients
            with _disable_current_modes():
                for slot, grad in enumerate(grads):
                    if grad is not None:
                        self._arrive(place, slot, grad)
            self._ran.add(place)
            gradients.runs(place)

        return before

    def _arrive(self, place: int, slot: int, grad: torch.Tensor) -> None:
        value = self._grad_of(grad)
        for source, edge in self._into.get((place, slot), ()):
            if source in self._ran:
                self._gradients.arrives(edge, place, value)

    def _after(self, place: int, had_grad: bool) -> Callable[[torch.Tensor], None]:
        how = ["added" if had_grad else "set"]

        def after(leaf: torch.Tensor) -> None:
            with _disable_current_modes():
                self._gradients.accumulated(place, self._grad_of(leaf.grad), how[0])
            how[0] = "added"

        return after


@contextmanager
def _device_kernels(entered: Callable[[str, str], None]) -> Iterator[None]:
    """Kernels of device="lab" tell when they are entered, where the device is there."""
    fallback = sys.modules.get("labkit.torch_device.fallback")
    observers = [] if fallback is None else fallback.OBSERVERS
    observers.append(entered)
    try:
        yield
    finally:
        observers.remove(entered)


@contextmanager
def watching(recording: Recording, gradients: Gradients) -> Iterator[None]:
    """What PyTorch does inside becomes events."""

    def entered(operator: str, kernel: str) -> None:
        place = recording.call
        if place < 0:
            return
        hops = recording.calls[place].hops
        if hops and not hops[-1].observed and operator == recording.calls[place].operator:
            hops.pop()  # what was expected is here
        recording.hop(place, Hop(DEVICE, kernel), f"{recording.calls[place].operator}: {kernel}")

    def grad_of(grad: Any) -> Any:
        return gradients.gradient(
            grad.data_ptr(), grad.shape, grad.stride(), str(grad.dtype), grad.device.type
        )

    python = PythonCalls(recording)
    with ExitStack() as stack:
        stack.enter_context(TorchBackward(gradients, grad_of).watching())
        stack.enter_context(_device_kernels(entered))
        stack.enter_context(python)
        stack.enter_context(OperatorCalls(recording, python))
        yield
