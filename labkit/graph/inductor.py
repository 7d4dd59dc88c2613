"""What torch.compile makes of the same graph: its kernels, what each fuses, and their bytes.

Source   torch/_inductor/scheduler.py  Scheduler, BaseSchedulerNode.get_read_write_buffers_sizes
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.scheduler import ExternKernelSchedulerNode, NopKernelSchedulerNode
from torch.fx import GraphModule

from labkit.graph.storages import operator_name


@dataclass(frozen=True)
class PlannedKernel:
    """One kernel of torch.compile's schedule.

    operators     the last of each that went into it, by name
    is_library    whether it calls a library; else its code is generated
    tensor_bytes  of every tensor that it reads or writes, once, as the scheduler estimates them
    """

    operators: tuple[str, ...]
    is_library: bool
    tensor_bytes: int


class _DecidedError(Exception):
    """The schedule is known, and nothing is to be compiled."""


def planned_by_torch_compile(
    graph: GraphModule, *inputs: torch.Tensor, layouts: bool = False
) -> list[PlannedKernel]:
    """The schedule for this machine's processor, in order. Nothing is compiled or run.

    layouts   let it turn images and weights of convolutions to channels last, as it does by
              default: in every call, unless the weights are frozen

    Differs  the compiler may put several kernels of its schedule into one C++ function
    """
    found: list[PlannedKernel] = []

    def look(nodes: list[Any]) -> list[Any]:
        made = [node for node in nodes if not isinstance(node, NopKernelSchedulerNode)]
        found.extend(map(_planned, made))
        raise _DecidedError

    torch.compiler.reset()
    settings = {"_post_fusion_custom_pass": look, "layout_optimization": layouts}
    with torch.no_grad(), config.patch(settings):
        try:
            torch.compile(graph)(*inputs)
        except Exception:
            if not found:
                raise
    torch.compiler.reset()
    return found


def _planned(node: Any) -> PlannedKernel:
    origins = [part.node.get_origin_node() for part in node.get_nodes()]
    return PlannedKernel(
        tuple(operator_name(one) for one in origins if one is not None),
        isinstance(node, ExternKernelSchedulerNode),
        node.get_read_write_buffers_sizes(),
    )
