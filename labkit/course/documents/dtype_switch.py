"""The other meaning of "dispatch": one source, many dtypes, and the one that fits at run time.

The dispatcher picks a kernel by key; the dtype is chosen inside the kernel. Four ways to have a
function per dtype, each a small C or C++ library built by the host compiler and called here:

    by_hand     every function written out; two dtypes
    templates   one C++ template, a table of its copies
    macros      one C body, included once per dtype, as the first PyTorch did
    switch      a lambda and a switch over the dtype code, as PyTorch does now

Source   aten/src/ATen/Dispatch.h; before 2020: aten/src/TH/generic
"""

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from labkit.core import compile_cache, host_compiler
from labkit.core.host_compiler import CompilerMissing, Language, compiler

SOURCES = Path(__file__).with_name("dtype_sources")

DTYPES = {
    0: ("Byte", np.dtype(np.uint8)),
    1: ("Char", np.dtype(np.int8)),
    2: ("Short", np.dtype(np.int16)),
    3: ("Int", np.dtype(np.int32)),
    4: ("Long", np.dtype(np.int64)),
    6: ("Float", np.dtype(np.float32)),
    7: ("Double", np.dtype(np.float64)),
    11: ("Bool", np.dtype(np.bool_)),
}
"""ScalarType code -> (PyTorch's name, NumPy's type). Source: c10/core/ScalarType.h."""

CODE_OF = {dtype: code for code, (_, dtype) in DTYPES.items()}


@dataclass(frozen=True)
class Way:
    """One way to have a function per dtype.

    language  "c" or "c++"
    source    the file that is compiled, under SOURCES
    """

    language: Language
    source: str

    @property
    def standard(self) -> str:
        """The language standard, as a compiler flag."""
        return "-std=c11" if self.language == "c" else "-std=c++17"


WAYS = {
    "by_hand": Way("c", "by_hand/add.c"),
    "templates": Way("c++", "templates/add.cpp"),
    "macros": Way("c", "macros/add.c"),
    "switch": Way("c++", "switch/add.cpp"),
}


class NoKernelForDtype(TypeError):
    """The library holds no function for these dtypes; names them."""


def source_files(way: str) -> dict[str, str]:
    """The files a way is made of, by their path under SOURCES; the compiled one first."""
    first = SOURCES / _way(way).source
    others = sorted(path for path in first.parent.rglob("*") if path.is_file() and path != first)
    if way != "macros" and way != "by_hand":
        others.append(SOURCES / "macros/dtypes.h")
    files = [first, *others]
    return {path.relative_to(SOURCES).as_posix(): path.read_text("utf-8") for path in files}


def preprocessed(way: str) -> str:
    """What the compiler really sees: macros expanded, lines of system headers left out.

    Raises   CompilerMissing   no host compiler
    """
    chosen = _way(way)
    command = [compiler(chosen.language), chosen.standard, "-E", str(SOURCES / chosen.source)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept: list[str] = []
    ours = False
    for line in text.splitlines():
        if line.startswith("# "):
            ours = str(SOURCES) in line
        elif ours and line.strip():
            kept.append(line)
    return "\n".join(kept)


def build(way: str) -> Path:
    """The shared library of a way, built unless these very sources were built before.

    Raises   CompilerMissing   no host compiler
             RuntimeError      the compiler refuses; its words are passed on
    """
    chosen = _way(way)
    path = compiler(chosen.language)
    texts = [f"{name}\n{body}" for name, body in source_files(way).items()]
    command = [path, chosen.standard, "-O2", "-fwrapv", "-fPIC", "-shared"]

    def make(target: Path) -> None:
        host_compiler.run([*command, "-o", str(target), str(SOURCES / chosen.source)])

    return compile_cache.kept(f"dtype_switch-{way}", [*command, *texts], make)


def symbols(way: str) -> list[str]:
    """The functions a way's library exports, C++ names readable.

    Raises   CompilerMissing   no host compiler, or no nm beside it
    """
    nm = shutil.which("nm")
    if nm is None:
        raise CompilerMissing("listing symbols needs nm (binutils), which was not found")
    command = [nm, "-DC", "--defined-only", str(build(way))]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = [line.split(" ", 2)[2] for line in text.splitlines() if line.split()[1] in "TtWw"]
    return sorted(name for name in names if not name.startswith(("_", "std::", "lab::")))


def add(way: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A + b in their common dtype, by the function of that dtype.

    a, b   one dimension, equal lengths, equal dtypes

    Raises   ValueError         other shapes
             NoKernelForDtype   the dtypes differ, or the way has no function for theirs
    """
    code = _check(way, a, b)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    out = np.empty_like(a)
    library = _load(way)
    if way == "switch":
        message = ctypes.create_string_buffer(256)
        if library.lab_add(code, _at(out), _at(a), _at(b), out.size, message, 256):
            raise NoKernelForDtype(message.value.decode())
        return out
    function = _function(way, library, code)
    status = function(*(ctypes.byref(_Vector(_at(x), x.size)) for x in (out, a, b)))
    if status != 0:
        raise ValueError(f"the C function refused lengths {out.size}, {a.size}, {b.size}")
    return out


def sqrt(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Square roots by the switch way, whose tag compiles floating dtypes only.

    Raises   NoKernelForDtype   any other dtype; the C++ side says so
    """
    code = _check("switch", a, a)
    a = np.ascontiguousarray(a)
    out = np.empty_like(a)
    message = ctypes.create_string_buffer(256)
    if _load("switch").lab_sqrt(code, _at(out), _at(a), out.size, message, 256):
        raise NoKernelForDtype(message.value.decode())
    return out


class _Vector(ctypes.Structure):
    """FloatVector, DoubleVector, ...: all have this layout."""

    _fields_ = (("data", ctypes.c_void_p), ("n", ctypes.c_int64))


def _way(name: str) -> Way:
    if name not in WAYS:
        raise ValueError(f"no way called {name!r}; there are {', '.join(WAYS)}")
    return WAYS[name]


def _check(way: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> int:
    _way(way)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"vectors of one length are needed, got shapes {a.shape} and {b.shape}")
    if a.dtype != b.dtype:
        raise NoKernelForDtype(f"no function adds {a.dtype} and {b.dtype}: promote first")
    if a.dtype not in CODE_OF:
        known = ", ".join(str(dtype) for dtype in CODE_OF)
        raise NoKernelForDtype(f"no function for {a.dtype}; there are {known}")
    return CODE_OF[a.dtype]


@cache
def _load(way: str) -> ctypes.CDLL:
    library = host_compiler.load_library(lambda: build(way))
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    if way == "switch":
        end = (size, ctypes.c_char_p, size)
        library.lab_add.argtypes = (ctypes.c_int, pointer, pointer, pointer, *end)
        library.lab_sqrt.argtypes = (ctypes.c_int, pointer, pointer, *end)
    elif way != "by_hand":
        library.add_for.restype = pointer
    return library


_ADD = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.POINTER(_Vector)] * 3)


def _function(way: str, library: ctypes.CDLL, code: int) -> Any:
    name = DTYPES[code][0]
    if way == "by_hand":
        found = getattr(library, f"{name}Vector_add", None)
        if found is None:
            raise NoKernelForDtype(f"nobody wrote an add for {name} by hand")
        found.argtypes = [ctypes.POINTER(_Vector)] * 3
        return found
    address = library.add_for(code)
    if not address:
        raise NoKernelForDtype(f"{way} compiled no add for {name}")
    return _ADD(address)


def _at(array: np.ndarray[Any, Any]) -> int:
    return int(array.ctypes.data)
