"""Tools around a graph: hooks on saved tensors, hooks on several gradients, edges as objects.

Source   torch/autograd/graph.py
"""

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

from labkit.autograd.backward import GradientEdge
from labkit.autograd.engine.exec_info import ExecInfo
from labkit.autograd.handles import RemovableHandle
from labkit.autograd.node import Node
from labkit.autograd.state import STATE
from labkit.autograd.variables import tensor_state, variable
from labkit.core.device import CPU
from labkit.core.tensor_impl import TensorImpl
from labkit.ops.tensors import copy


class saved_tensors_hooks:
    """Inside the `with`, `pack(tensor)` is kept for backward; `unpack` gives the tensor back.

    Source   torch/autograd/graph.py  saved_tensors_hooks
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        STATE.saved_hooks = (*STATE.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *_exception: object) -> None:
        STATE.saved_hooks = STATE.saved_hooks[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Inside the `with`, saved tensors wait for backward in host memory.

    pin_memory   accepted; host memory of the lab is as it is

    Source   torch/autograd/graph.py  save_on_cpu
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: TensorImpl) -> tuple[Any, TensorImpl]:
            return tensor.device, copy.to_copy(tensor, tensor.dtype, CPU)

        def unpack(packed: tuple[Any, TensorImpl]) -> TensorImpl:
            device, tensor = packed
            if tensor.device == device:
                return tensor
            return copy.to_copy(tensor, tensor.dtype, device)

        super().__init__(pack, unpack)


def get_gradient_edge(tensor: TensorImpl) -> GradientEdge:
    """Where the tensor's gradient goes.

    Raises   RuntimeError   it does not require grad
    Source   torch/autograd/graph.py  get_gradient_edge
    """
    edge = variable.gradient_edge(tensor)
    if not edge:
        raise RuntimeError("Cannot get gradient edge for Tensor that does not require grad")
    return GradientEdge(edge[0], edge[1], tensor)


class _Handles:
    """The handles of one multi-gradient hook."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """The hook does not fire again."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> "_Handles":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[TensorImpl],
    fn: Callable[..., None],
    *,
    mode: Literal["all", "any"] = "all",
) -> _Handles:
    """`fn` fires once per backward call, when the gradients of these tensors are there.

    mode   all   fn(list of gradients), when the last of those that will come has come; None for
                 a tensor that this backward does not reach
           any   fn(gradient), when the first has come

    Raises   ValueError     another mode
             RuntimeError   a tensor does not require grad
    Source   torch/autograd/graph.py  register_multi_grad_hook
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    lock = threading.Lock()
    if mode == "any":
        return _any_hook(tensors, fn, lock)
    counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    expected: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
    arrived: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
    nodes = [get_gradient_edge(tensor).node for tensor in tensors]

    def hook(grad: Any, index: int) -> None:
        task = STATE.task
        if task is None:
            raise RuntimeError("a multi-gradient hook fired outside of backward")
        with lock:
            grads = arrived.setdefault(task, [None] * len(nodes))
            if task not in expected:
                expected[task] = sum(will_execute(node) for node in nodes)
            counts[task] = counts.get(task, 0) + 1
            grads[index] = grad
            is_last = counts[task] == expected[task]
        if is_last:
            fn(grads)
            del counts[task], expected[task], arrived[task]

    return _Handles(
        [
            tensor_state.register_hook(tensor, functools.partial(hook, index=i))
            for i, tensor in enumerate(tensors)
        ]
    )


def _any_hook(
    tensors: Sequence[TensorImpl], fn: Callable[..., None], lock: threading.Lock
) -> _Handles:
    fired: weakref.WeakSet[Any] = weakref.WeakSet()

    @functools.wraps(fn)
    def hook(grad: Any) -> None:
        with lock:
            if STATE.task in fired:
                return
            fired.add(STATE.task)
        fn(grad)

    return _Handles([tensor_state.register_hook(tensor, hook) for tensor in tensors])


def will_execute(node: Node) -> bool:
    """True when the running backward call runs the node, or captures a gradient at it.

    Source   torch/csrc/autograd/init.cpp  _will_engine_execute_node
    """
    task = STATE.task
    if task is None:
        raise RuntimeError("will_execute() is for hooks and backward functions")
    if node not in task.dependencies:  # PyTorch leaves out the node where backward starts
        return False
    if task.exec_info is None:
        return True
    info: ExecInfo | None = task.exec_info.get(node)
    return info is not None and info.should_execute


__all__ = [
    "GradientEdge",
    "Node",
    "get_gradient_edge",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "will_execute",
]
