"""The shim as a library of this very PyTorch: compiled once, kept in labkit's compile cache.

Its four files are one translation unit. A binary serves one version of PyTorch alone, and any
Python: the key of the cache names the version, and no Python symbol is used.
"""

import ctypes
from pathlib import Path

import torch

from labkit.core import host_compiler

HERE = Path(__file__).parent
FILES = ("device.cpp", "operators.cpp", "profiler.cpp", "tracing.cpp")


def library() -> Path:
    """The compiled shim, built unless it lies in the cache.

    Raises   CompilerMissing   no C++ compiler is installed
             RuntimeError      it refuses; its words are passed on
    """
    source = "".join(
        f'#line 1 "{HERE / name}"\n{(HERE / name).read_text(encoding="utf-8")}' for name in FILES
    )
    root = Path(torch.__file__).parent
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    flags = [
        "-std=c++20", f'-DLABKIT_TORCH="{torch.__version__}"', f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
        f"-I{root / 'include'}", f"-I{root / 'include/torch/csrc/api/include'}",
        f"-I{root / 'include/kineto'}",
    ]  # fmt: skip
    libraries = [f"-L{root / 'lib'}", "-ltorch_cpu", "-lc10"]
    return host_compiler.shared_library("torch-device", source, "c++", flags, libraries)


def load() -> ctypes.CDLL:
    """The shim in this process. It stays: PyTorch keeps what it registers."""
    return host_compiler.load_library(library)
