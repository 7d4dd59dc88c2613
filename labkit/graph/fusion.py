"""`fuse`: all that may share a kernel does."""

from torch.fx import GraphModule

from labkit.graph.folding import fold_batch_norm
from labkit.graph.pointwise import fuse_pointwise
from labkit.graph.shelf_kernels import use_shelf_kernels

FUSIONS = (use_shelf_kernels, fold_batch_norm, fuse_pointwise)
"""The passes, in order: what the first leaves of a norm goes into weights, and what element-wise
operators are left then share kernels."""


def fuse(graph: GraphModule) -> GraphModule:
    """The graph after all of `FUSIONS`; each of them can be asked by itself what it refused."""
    for each in FUSIONS:
        graph = each(graph).graph
    return graph
