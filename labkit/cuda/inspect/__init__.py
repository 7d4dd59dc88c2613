"""What NVIDIA's own compiler makes of a kernel, with no GPU: PTX, SASS, registers, spills."""

from labkit.cuda.inspect.compiled import AsmLine, Compiled, Resources
from labkit.cuda.inspect.nvrtc import compile_source, is_available, supported_archs, version

__all__ = [
    "AsmLine", "Compiled", "Resources", "compile_source", "is_available", "supported_archs",
    "version",
]  # fmt: skip
