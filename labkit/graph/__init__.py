"""Graphs of ATen operators: captured of a torch or labkit program, rewritten by passes that prove
what they do.

Source   torch/fx, torch/_inductor/fx_passes
"""

from labkit.graph.capture import capture
from labkit.graph.cleanup import remove_dead, share_common
from labkit.graph.device import DeviceRun, run_on_device
from labkit.graph.folding import fold_batch_norm
from labkit.graph.functional import functionalise
from labkit.graph.fusion import fuse
from labkit.graph.memory_plan import MemoryPlan, plan_memory
from labkit.graph.pointwise import fuse_pointwise
from labkit.graph.proof import largest_difference
from labkit.graph.reinplace import reinplace
from labkit.graph.rewrite import Refusal, Rewrite
from labkit.graph.shelf_kernels import use_shelf_kernels

__all__ = [
    "DeviceRun", "MemoryPlan", "Refusal", "Rewrite", "capture", "fold_batch_norm",
    "functionalise", "fuse", "fuse_pointwise", "largest_difference", "plan_memory", "reinplace",
    "remove_dead", "run_on_device", "share_common", "use_shelf_kernels",
]  # fmt: skip
