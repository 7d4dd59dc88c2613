"""NVRTC through ctypes: CUDA C++ to PTX and machine code on a machine without a GPU."""

import ctypes
import functools
import re
from collections.abc import Sequence
from pathlib import Path

from labkit.cuda import source as cuda_source
from labkit.cuda.errors import CompileError, InvalidValueError, NvrtcMissingError
from labkit.cuda.inspect import libraries
from labkit.cuda.inspect.compiled import Compiled, resources_in
from labkit.cuda.source import KERNELS


class _Nvrtc:
    """The library, loaded; each call checked."""

    def __init__(self) -> None:
        path, self.root = libraries.nvrtc()
        for builtins in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)  # NVRTC does not look beside itself
        self.library = ctypes.CDLL(str(path))
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def status(self, function: str, *args: object) -> int:
        return int(getattr(self.library, function)(*args))

    def call(self, function: str, *args: object) -> None:
        status = self.status(function, *args)
        if status:
            reason = self.library.nvrtcGetErrorString(status).decode()
            raise CompileError(f"{function}: {reason}", reason)

    def text(self, what: str, program: ctypes.c_void_p) -> bytes:
        """What `nvrtcGet<what>` leaves, such as "PTX"."""
        size = ctypes.c_size_t()
        self.call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        self.call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw[: size.value]


@functools.cache
def _nvrtc() -> _Nvrtc:
    return _Nvrtc()


def is_available() -> bool:
    """True when `compile_source` can compile here."""
    try:
        _nvrtc()
    except NvrtcMissingError:
        return False
    return True


def version() -> str:
    """NVRTC's, such as "13.0".

    Raises   NvrtcMissingError
    """
    major, minor = ctypes.c_int(), ctypes.c_int()
    _nvrtc().call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def supported_archs() -> list[str]:
    """The GPU generations this NVRTC compiles for: ["sm_75", "sm_80", ...].

    Raises   NvrtcMissingError
    """
    nvrtc, count = _nvrtc(), ctypes.c_int()
    nvrtc.call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
    numbers = (ctypes.c_int * count.value)()
    nvrtc.call("nvrtcGetSupportedArchs", numbers)
    return [f"sm_{number}" for number in numbers]


def compile_source(
    source: str,
    arch: str = "sm_90",
    name_expressions: Sequence[str] = (),
    *,
    path: str | Path = "kernel.cu",
    options: Sequence[str] = (),
) -> Compiled:
    """CUDA C++ compiled for one GPU generation, as a driver would get it.

    arch              "sm_80", or with a suffix for what only that chip has: "sm_90a"
    name_expressions  template instances to compile, such as "add<float>"; `Compiled.kernels` then
                      has them under these very names
    path              the file the lines are reported as; its folder is searched for includes
    options           further compiler options, such as "-DTILE=32"

    Raises   CompileError        NVRTC or ptxas refused the source; its words are passed on
             InvalidValueError   this NVRTC does not know the arch
             NvrtcMissingError   NVRTC is not installed; says how to install it
    """
    nvrtc = _nvrtc()
    if re.sub(r"[af]$", "", arch) not in supported_archs():
        raise InvalidValueError(f"NVRTC {version()} compiles for {supported_archs()}, not {arch!r}")
    path = Path(path)
    folders = [*([path.resolve().parent] if path.exists() else []), KERNELS]
    given = [f"--gpu-architecture={arch}", "-lineinfo", "--ptxas-options=-v"]
    if int(version().partition(".")[0]) >= 13:  # beside a driver: what comes from it has no log
        given.append("--no-cache")
    given += [f"-I{folder}" for folder in (*folders, *libraries.headers(nvrtc.root))]
    if not any(option.startswith(("-std", "--std")) for option in options):
        given.append("-std=c++17")
    encoded = [option.encode() for option in (*given, *options)]
    program = ctypes.c_void_p()
    created = (source.encode(), str(path).encode(), 0, None, None)
    nvrtc.call("nvrtcCreateProgram", ctypes.byref(program), *created)
    try:
        for name in name_expressions:
            nvrtc.call("nvrtcAddNameExpression", program, name.encode())
        array = (ctypes.c_char_p * len(encoded))(*encoded)
        refused = nvrtc.status("nvrtcCompileProgram", program, len(encoded), array)
        log = nvrtc.text("ProgramLog", program).rstrip(b"\0").decode()
        if refused:
            raise CompileError(f"{path} does not compile for {arch}:\n{log.strip()}")
        shown = {_lowered(nvrtc, program, name): name for name in name_expressions}
        kernels = resources_in(log)
        for entry in kernels.keys() - shown.keys():
            shown[entry] = _short(entry, source)
        return Compiled(
            arch=arch,
            path=str(path),
            ptx=nvrtc.text("PTX", program).rstrip(b"\0").decode(),
            cubin=nvrtc.text("CUBIN", program),
            log=log,
            kernels={shown[entry]: found for entry, found in kernels.items()},
            entries={name: entry for entry, name in shown.items()},
        )
    finally:
        nvrtc.call("nvrtcDestroyProgram", ctypes.byref(program))


def _lowered(nvrtc: _Nvrtc, program: ctypes.c_void_p, name: str) -> str:
    lowered = ctypes.c_char_p()
    nvrtc.call("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(lowered))
    return (lowered.value or b"").decode()


def _short(entry: str, source: str) -> str:
    """A mangled entry under its kernel's own name, where the file has just one of that name."""
    kernels = [kernel.name for kernel in cuda_source.parse(source).kernels]
    mangled = [
        name for name in kernels if re.search(rf"(?<!\d){len(name)}{name}(?![a-z0-9_])", entry)
    ]
    unique = entry.startswith("_Z") and len(mangled) == 1 and kernels.count(mangled[0]) == 1
    return mangled[0] if unique and "I" not in entry.partition(mangled[0])[2][:1] else entry
