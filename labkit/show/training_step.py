"""`show.training_step`: one step of torch or labkit in five lanes, under one slider."""

import sys
from collections.abc import Callable
from typing import Any

from labkit.widgets.step.step_view import StepView


def training_step(
    step: Callable[[], Any], module: Any = None, title: str = "", at: int | str | None = None
) -> StepView:
    """The step has run, and every event of it can be walked to, forward and back.

    Five lanes show one event: the line of your source that runs, the dispatcher's hops of the
    operator it called, the autograd graph with the gradients in it, the work of each stream, and
    the memory map with the blocks that are read and written. A click in one leads all others to
    the event: a CUDA kernel's, a node's, a block's, a line's.

    The step may be labkit's, on any device, or PyTorch's, on the CPU or on device="lab". An error
    of a backward call is the last event of the picture; it is not raised.

    step    a function without arguments: forward, backward, and what else belongs to a step
    module  an nn.Module whose parameters are named; by default those that the step's code names
    at      the event to open at: its number, from 1, or words of its text; by default where the
            first CUDA kernel is queued

    Raises   TypeError    `step` cannot be called, or `module` is no nn.Module
             ValueError   it ran no backward of torch or of labkit, or there is no event `at`
    Differs  Of PyTorch, functions, operators below autograd, nodes, gradients and the kernels of
             device="lab" are seen; the hops between follow from the operator's table, and are
             drawn as such. A real GPU tells when work is queued, not when it has run.
    """
    from labkit.show.step.collect import record  # its import makes both autograds
    from labkit.show.step.picture import picture_of

    return picture_of(record(step, module, sys._getframe(1)), title).open_at(at)
