"""A few lines of C++, compiled against the headers that ship with PyTorch, once, and kept."""

import ctypes
from pathlib import Path

import torch

from labkit.core.host_compiler import load_library, shared_library


def against_c10(name: str, source: str) -> ctypes.CDLL:
    """The library of this source, linked with the c10 of the installed PyTorch.

    Raises   CompilerMissing   no host compiler
             RuntimeError      the compiler refuses; its words are passed on
    """
    package = Path(torch.__file__).parent
    flags = [
        "-std=c++20",
        f"-I{package / 'include'}",
        f"-L{package / 'lib'}",
        f"-Wl,-rpath,{package / 'lib'}",
    ]
    return load_library(lambda: shared_library(name, source, "c++", flags, libraries=["-lc10"]))
