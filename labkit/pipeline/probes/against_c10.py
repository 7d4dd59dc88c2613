"""A few lines of C++ against the headers that ship with PyTorch: built once, or asked."""

import ctypes
import sysconfig
from pathlib import Path

import torch

from labkit.core.host_compiler import compiles, load_library, shared_library

PACKAGE = Path(torch.__file__).parent
FLAGS = ("-std=c++20", f"-I{PACKAGE / 'include'}", f"-I{sysconfig.get_path('include')}")


def against_c10(name: str, source: str) -> ctypes.CDLL:
    """The library of this source, linked with the c10 of the installed PyTorch.

    Raises   CompilerMissing   no host compiler
             RuntimeError      the compiler refuses; its words are passed on
    """
    flags = [*FLAGS, f"-L{PACKAGE / 'lib'}", f"-Wl,-rpath,{PACKAGE / 'lib'}"]
    return load_library(lambda: shared_library(name, source, "c++", flags, libraries=["-lc10"]))


def is_there(header: str) -> bool:
    """Whether a source can include the header: PyTorch ships it, and all that it includes."""
    return compiles(f"#include <{header}>", *FLAGS, "-E")


def defines(header: str, macro: str) -> bool:
    """Whether a macro of that name is there once the header is included."""
    source = f"#include <{header}>\n#ifndef {macro}\n#error no macro\n#endif"
    return compiles(source, *FLAGS, "-E")
