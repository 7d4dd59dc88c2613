"""What really runs in PyTorch, one operator at a time, on any build.

PyTorch can print its dispatch trace in debug builds only. Here every filled slot of one operator
gets a kernel that notes itself down and then runs the kernel it stands for, with the same key
set; taking the kernels away again restores the table. Fallthroughs are left alone, so the masks
are as before.

Source   torch._C._dispatch_library, torch._C._dispatch_get_computed_kernel_for_dispatch_key
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from labkit.core.dispatch_key import DispatchKey
from labkit.dispatch import torch_keys, torch_tables
from labkit.dispatch.recorder import KernelRun, Recorder, tensors_in
from labkit.dispatch.torch_operator import is_stale

_C: Any = torch._C


@contextmanager
def recording_torch(name: str, *, backends: tuple[str, ...] = ()) -> Iterator[list[KernelRun]]:
    """Inside the `with`, the list grows by one for every kernel of the operator that is entered.

    name      "aten::add.Tensor"
    backends  record these backends' slots too; CPU and Meta always are

    Raises   RuntimeError   the operator's stored table is stale, so its kernels cannot be had
    Differs  `via` is None: a kernel cannot know how it was reached. Kernels run boxed.
    """
    if is_stale(name):
        raise RuntimeError(
            f"{name}: PyTorch's stored table differs from the recomputed one, and asking for a "
            "stale cell's kernel crashes it; nothing is recorded"
        )
    recorder = Recorder()
    namespace, _, base = name.partition("::")
    library = _C._dispatch_library("IMPL", namespace, "", "labkit recording", 0)
    stand_ins = [
        (slot, _stand_in(recorder, name, slot, debug, kernel))
        for slot, debug, kernel in _kernels(name, {"CPU", "Meta", *backends})
    ]  # all kernels are fetched before the first is replaced
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a kernel is overridden is the point
        for slot, stand_in in stand_ins:
            library.impl(base, torch_keys.torch_key(slot), stand_in, True)
    try:
        yield recorder.runs
    finally:
        library.reset()
        _give_back(name, [slot for slot, _ in stand_ins])


def _give_back(name: str, slots: list[DispatchKey]) -> None:
    """Fake tensors find the operator's Python kernels again, of which most are for Meta.

    Below a dispatch mode PyTorch looks a Python kernel up by operator and key. That list keeps the
    latest function for ever, also of a library that is gone, so the first one is put there anew.

    Source   torch/csrc/utils/python_dispatch.cpp python_op_registration_trampoline_impl
    """
    namespace, _, base = name.partition("::")
    packet, _, overload = base.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")
    library = _C._dispatch_library("IMPL", namespace, "", "labkit recording", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for slot in slots:
            if function := op.py_kernels.get(getattr(_C.DispatchKey, slot.name, None)):
                library.impl(base, torch_keys.torch_key(slot), function, False)
    library.reset()


def _kernels(name: str, backends: set[str]) -> Iterator[tuple[DispatchKey, str, Any]]:
    for slot, cell in torch_tables.table_of(name).items():
        elsewhere = (
            slot.backend_bit >= 0
            and slot.name.removeprefix(slot.functionality.name.removesuffix("Functionality"))
            not in backends
        )
        if slot is DispatchKey.Undefined or cell.fallthrough or elsewhere:
            continue
        key = torch_keys.torch_key(slot)
        yield slot, cell.debug, _C._dispatch_get_computed_kernel_for_dispatch_key(name, key)


def _stand_in(
    recorder: Recorder, name: str, slot: DispatchKey, debug: str, kernel: Any
) -> Callable[..., Any]:
    def stand_in(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if not recorder.is_on_its_thread:
            return kernel.call_boxed(keys, *args, **kwargs)
        run = KernelRun(
            name, None, slot, torch_keys.from_torch(keys), debug, recorder.depth,
            torch_keys.included(), torch_keys.excluded(),
            *tensors_in((*args, *kwargs.values())),
        )  # fmt: skip
        with recorder.note(run):
            return kernel.call_boxed(keys, *args, **kwargs)

    return stand_in


def noting_operators_below(made: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """The call, which also leaves in `made.below` the operators it called, with their depth.

    Differs  PyTorch's profiler reports base names: aten::transpose, without the overload.
    """

    def noted() -> Any:
        autograd = torch.autograd
        config = autograd.ProfilerConfig(
            autograd.ProfilerState.CPU, False, False, False, False, False,
            _C._profiler._ExperimentalConfig(),
        )  # fmt: skip
        try:
            autograd._enable_profiler_legacy(config)
        except RuntimeError:  # somebody is profiling already
            return call()
        try:
            return call()
        finally:
            made.below = _below(autograd._disable_profiler_legacy(), made.operator)

    return noted


def _below(threads: Any, operator: str) -> list[dict[str, Any]]:
    """Operators inside the outermost calls of `operator` itself, depth 0 being called by it."""
    found = []
    base = operator.partition(".")[0]
    for events in threads:
        depth = 0
        for event in events:
            if event.kind() == "push":
                if depth > 0 or event.name() != base:
                    found.append({"operator": event.name(), "depth": max(depth - 1, 0)})
                depth += 1
            elif event.kind() == "pop":
                depth -= 1
    return found
