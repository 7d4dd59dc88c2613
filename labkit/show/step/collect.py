"""A step run once, with everybody listening who can tell something of it."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import FrameType
from typing import Any

from labkit.show.backward.autograd_walk import Walk
from labkit.show.step.gradients import Gradients
from labkit.show.step.on_device import DeviceWatch
from labkit.show.step.record import Recording
from labkit.show.step.tensor_names import named_tensors


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

    module  an nn.Module whose parameters are named; by default those that the step's own code names
    caller  the frame whose variables name other tensors

    Raises   TypeError    `step` cannot be called, or `module` is no nn.Module
             ValueError   the step ran no backward
    """
    if not callable(step):
        raise TypeError(f"a step is a function without arguments, got {type(step).__name__}")
    named = named_tensors(step, module, caller)
    walk = Walk({id(tensor): name for name, tensor in named.items()})
    recording = Recording()
    watch = DeviceWatch(recording)
    names = {
        tensor.data_ptr(): name for name, tensor in named.items() if tensor.device.type != "cpu"
    }
    gradients = Gradients(recording, walk, watch.read_later)
    with ExitStack() as stack:
        for manager in (watch.watching(), *_faces(recording, gradients)):
            stack.enter_context(manager)
        recording.lines.begin()
        try:
            step()
        except Exception:
            if not gradients.error:
                raise
        snapshot = watch.snapshot()
    if not walk.order:
        raise ValueError("the step ran no backward: call loss.backward() inside it")
    places = {node._sequence_nr(): place for place, node in enumerate(walk.order)}
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
