"""The CUDA device: a real GPU through CuPy, or the emulator, behind one interface."""

from labkit.cuda import tensor_memory  # noqa: F401  (device="cuda" works once this is imported)
from labkit.cuda.arguments import DevicePointer
from labkit.cuda.graph import Graph, GraphExec, capture
from labkit.cuda.module import RawKernel, RawModule, kernel
from labkit.cuda.report import Finding, Report
from labkit.cuda.select import current_driver, device, is_available, use
from labkit.cuda.stream import Event, Stream, current_stream, default_stream, set_stream
from labkit.cuda.trace import Trace

__all__ = [
    "DevicePointer", "Event", "Finding", "Graph", "GraphExec", "RawKernel", "RawModule", "Report",
    "Stream", "Trace", "capture", "current_driver", "current_stream", "default_stream", "device",
    "is_available", "kernel", "set_stream", "use",
]  # fmt: skip
