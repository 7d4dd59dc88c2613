"""A step run once, with everybody listening who can tell something of it."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Any

from labkit.cuda.stream import current_stream
from labkit.show.backward.autograd_walk import Walk, sequence_nr
from labkit.show.module_scopes import Scopes
from labkit.show.names import tensor_names
from labkit.show.step.gradients import Array, Gradients
from labkit.show.step.on_device import DeviceWatch
from labkit.show.step.record import Recording


@dataclass
class StepRecord:
    """What one step was.

    recording  events, calls, launches
    walk       the autograd graph
    heats      event -> a heat map of the gradient it is about
    snapshot   the device's memory at the end, with the entries of the step
    outside    addresses of memory that the caching allocator did not hand out
    names      address -> the parameter or buffer that lay there when the step began
    remarks    what was inferred, and what was arranged for the step
    error      what left the engine, or empty
    """

    recording: Recording
    walk: Walk
    heats: dict[int, dict[str, Any]]
    snapshot: dict[str, Any]
    outside: list[int]
    names: dict[int, str]
    remarks: list[str]
    error: str


def record(
    step: Callable[[], Any], module: Any = None, caller: FrameType | None = None
) -> StepRecord:
    """The step has run, and this is what happened.

    An error of a backward call ends the record; it is not raised.

    caller  the frame whose variables name tensors

    Raises   ValueError   the step ran no backward
    """
    scopes = Scopes(module)
    walk = Walk({**tensor_names(caller), **scopes.parameter_names()}, scopes.group)
    recording = Recording()
    watch = DeviceWatch(recording)
    names = _names_by_address(module)
    gradients = Gradients(recording, walk, _reading(watch))
    with ExitStack() as stack:
        for manager in (scopes, watch.watching(), *_faces(recording, gradients)):
            stack.enter_context(manager)
        recording.lines.begin()
        try:
            step()
        except Exception:
            if not gradients.error:
                raise
        watch.driver.synchronize()  # what is still queued runs, and is seen to
        snapshot = watch.snapshot()
    if not walk.order:
        raise ValueError("the step ran no backward: call loss.backward() inside it")
    places = {sequence_nr(node): place for place, node in enumerate(walk.order)}
    recording.finish(places, walk.names())
    return StepRecord(
        recording, walk, gradients.heats(), snapshot, list(watch.outside), names, watch.remarks,
        gradients.error,
    )  # fmt: skip


def _faces(recording: Recording, gradients: Gradients) -> list[Any]:
    """Everybody who tells of operators and gradients: labkit, and PyTorch where it is loaded."""
    from labkit.show.step import labkit_face  # its import makes every operator

    faces = [labkit_face.watching(recording, gradients)]
    if "torch" in sys.modules:
        from labkit.show.step import torch_face

        faces.append(torch_face.watching(recording, gradients))
    return faces


def _reading(watch: DeviceWatch) -> Callable[[int, int], Array]:
    """Reads device memory, in its turn on the stream that is current."""

    def read(address: int, nbytes: int) -> Array:
        start = sys.modules.get("labkit.torch_device.start")
        stream = current_stream(watch.driver).handle
        if start is not None:
            stream = start.kernels().devices.shim.current_stream(0)
        return watch.read_later(address, nbytes, stream)

    return read


def _names_by_address(module: Any) -> dict[int, str]:
    if module is None:
        return {}
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return {value.data_ptr(): name for name, value in tensors}
