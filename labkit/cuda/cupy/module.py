"""CUDA source compiled for a real GPU, and its kernels."""

import ctypes
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cupy

from labkit.cuda import source as cuda_source
from labkit.cuda.cupy.calls import told
from labkit.cuda.errors import CompileError, InvalidValueError
from labkit.cuda.inspect import libraries
from labkit.cuda.inspect.nvrtc import compile_source
from labkit.cuda.signature import Signature
from labkit.cuda.signature_text import signature_from_text
from labkit.cuda.source import KERNELS


@dataclass(frozen=True)
class Function:
    """One kernel on the GPU."""

    raw: Any
    pointer: int
    name: str
    signature: Signature
    static_shared_bytes: int
    max_threads: int
    num_regs: int


class Module:
    """CUDA source compiled by NVRTC."""

    def __init__(self, code: str, path: str, names: Sequence[str], options: Sequence[str]) -> None:
        self.code, self.path = code, path
        self.source = cuda_source.parse(code)
        arch = [o.partition("=")[2] for o in options if o.startswith("--gpu-architecture=")]
        if arch:  # CuPy compiles for the card's plain architecture, which lacks what "sm_90a" has
            self.raw = _raw_module_for(arch[-1], code, path, names, options)
            return
        folder = Path(path).parent if Path(path).exists() else Path()
        folders = [folder.resolve(), KERNELS, *libraries.kernel_headers()]
        given = ["-std=c++17", *(f"-I{each}" for each in folders), "-lineinfo", *options]
        standard = [o for o in options if o.startswith(("-std", "--std"))]
        self.raw = cupy.RawModule(
            code=code,
            options=tuple(given[1:] if standard else given),
            name_expressions=tuple(names) or None,
        )
        try:
            self.raw.compile()
        except cupy.cuda.compiler.CompileException as error:
            raise CompileError(f"{path} does not compile:\n{error}") from None

    def function(self, name: str, libcuda: ctypes.CDLL) -> Function:
        """One of its kernels, with a signature as its source tells it."""
        text = self.source.kernel(name)
        if text is None:
            names = [kernel.name for kernel in self.source.kernels]
            raise InvalidValueError(f"{self.path} has no kernel '{name}', only {names}")
        with told():
            try:
                raw = self.raw.get_function(name)
            except cupy.cuda.driver.CUDADriverError as error:
                hint = f"{self.path}: '{name}' must be extern \"C\" or in name_expressions"
                raise InvalidValueError(f"{hint} ({error})", "cudaErrorSymbolNotFound") from None
        pointer = raw.kernel.ptr
        attributes = raw.attributes
        return Function(
            raw, pointer, name,
            signature_from_text(text, name, _parameter_sizes(libcuda, pointer)),
            attributes["shared_size_bytes"], attributes["max_threads_per_block"],
            attributes["num_regs"],
        )  # fmt: skip


def _raw_module_for(
    arch: str, code: str, path: str, names: Sequence[str], options: Sequence[str]
) -> Any:
    """The source compiled by NVRTC itself, and loaded as machine code."""
    rest = [o for o in options if not o.startswith("--gpu-architecture=")]
    compiled = compile_source(code, arch, names, path=path, options=rest)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.cubin)
        file.flush()
        raw = cupy.RawModule(path=file.name)
        raw.get_function(next(iter(compiled.entries.values())))  # loads the file while it is there
    return raw


def _parameter_sizes(libcuda: ctypes.CDLL, pointer: int) -> list[int]:
    sizes: list[int] = []
    offset, size = ctypes.c_size_t(), ctypes.c_size_t()
    while not libcuda.cuFuncGetParamInfo(
        ctypes.c_void_p(pointer), ctypes.c_size_t(len(sizes)), ctypes.byref(offset),
        ctypes.byref(size),
    ):  # fmt: skip
        sizes.append(size.value)
    return sizes
