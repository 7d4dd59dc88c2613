"""CUDA graphs of labkit's tensors: captured with memory of their own, replayed with new inputs.

Source   torch/cuda/graphs.py; aten/src/ATen/cuda/CUDAGraph.cpp
"""

from labkit.graphed.callables import ReplayError, make_graphed_callables
from labkit.graphed.cuda_graph import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
)

__all__ = [
    "CUDAGraph", "ReplayError", "graph", "graph_pool_handle", "is_current_stream_capturing",
    "make_graphed_callables",
]  # fmt: skip
