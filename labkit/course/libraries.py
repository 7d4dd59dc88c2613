"""Which compiled libraries of PyTorch are loaded, and which of them holds a function.

The loader of the operating system is asked, on Linux and on macOS; no file is searched for a word.
"""

import ctypes
import functools
import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

METHOD: Any = type(str.join)
POINTER = ctypes.sizeof(ctypes.c_void_p)
DESCRIBED = 3 * POINTER
"""What stands between a method's head and its function: its class, its name, its full name."""


class _Found(ctypes.Structure):
    """What `dladdr` says: the library's file and address, and the nearest name before the asked."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("at", ctypes.c_void_p),
    )


@functools.cache
def folder() -> Path:
    """The folder with the libraries of the installed torch; torch is found, not imported."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("torch is not installed")
    return Path(spec.origin).parent / "lib"


def file_of(name: str) -> Path:
    """The file of a library: "c10" is libc10.so, or libc10.dylib on macOS.

    Raises   FileNotFoundError   the installed torch has no such library
    """
    found = sorted(folder().glob(f"lib{name}.so*")) + sorted(folder().glob(f"lib{name}.dylib"))
    if not found:
        raise FileNotFoundError(f"no library {name!r} in {folder()}")
    return found[0]


def short(path: str | Path) -> str:
    """The name of a library without what depends on the system: "c10" for ".../libc10.so"."""
    return Path(path).name.removeprefix("lib").split(".")[0]


def loaded_files() -> list[str]:
    """The files of all libraries that this process has loaded."""
    import ctypes
    import sys
    from pathlib import Path

    if sys.platform == "linux":
        lines = Path("/proc/self/maps").read_text().splitlines()
        return sorted({line.split(maxsplit=5)[5] for line in lines if "/" in line})
    system = ctypes.CDLL(None)
    system._dyld_get_image_name.restype = ctypes.c_char_p
    count = system._dyld_image_count()
    return sorted(system._dyld_get_image_name(i).decode() for i in range(count))


def loaded() -> list[str]:
    """The libraries of PyTorch's folder that this process has loaded, by their short names."""
    return _ours(loaded_files())


def _ours(files: list[str]) -> list[str]:
    return sorted({short(file) for file in files if Path(file).parent == folder()})


def fresh(code: str) -> list[str] | str:
    """PyTorch's libraries that are loaded after these lines ran in a new Python, or its error.

    Of the error the last line is returned.
    """
    asks = textwrap.dedent(inspect.getsource(loaded_files))
    program = f"{asks}\n{code}\nimport json\nprint(json.dumps(loaded_files()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr.strip().rpartition("\n")[2]
    return _ours(json.loads(done.stdout.splitlines()[-1]))


def address_of(function: Callable[..., Any]) -> int:
    """Where the C function behind a built-in function or method begins.

    Raises   TypeError   there is none: it is written in Python
    """
    kind: Any = type(function)
    head = object.__basicsize__
    if kind is METHOD:
        head += DESCRIBED
    elif not inspect.isbuiltin(function):
        raise TypeError(f"{function!r} is not a built-in function or method")
    described = ctypes.c_void_p.from_address(id(function) + head).value
    assert described is not None
    address = ctypes.c_void_p.from_address(described + POINTER).value
    assert address is not None
    return address


def holder_of(address: int) -> str:
    """The file of the library that this address lies in.

    Raises   ValueError   it lies in none
    """
    found = _Found()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(found)):
        raise ValueError(f"no library holds address {address:#x}")
    return bytes(found.file).decode()
