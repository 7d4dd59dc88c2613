"""Where NVRTC, its headers and the disassembler lie: in wheels, or in a CUDA toolkit."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from labkit.cuda.errors import NvrtcMissingError
from labkit.cuda.source import KERNELS

HOW = (
    "It needs no GPU and no driver. Install it with\n"
    f"  {sys.executable} -m pip install -e '{KERNELS.parent}[inspect]'\n"
    "(NVIDIA's wheels for Linux: 101 MB to download, 255 MB on disk), or set CUDA_PATH to a CUDA "
    "toolkit of version 12.8 or newer."
)

HEADERS = ("cuda_fp16.h", "crt/mma.h", "nv/target")
"""One from each of the packages that kernels include from."""


def roots() -> Iterator[Path]:
    """Folders that may hold `lib`, `include` and `bin` of CUDA, the wheels' first."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        yield from sorted(Path(folder).glob("cu[0-9]*"), reverse=True)
    for toolkit in (os.environ.get("CUDA_PATH"), "/usr/local/cuda", sys.prefix):
        if toolkit:
            yield Path(toolkit)


def nvrtc() -> tuple[Path, Path]:
    """The NVRTC library, and the root it came from; PyTorch alone may bring it without headers.

    Raises   NvrtcMissingError   there is none with its headers, with what to install
    """
    incomplete = ""
    for root in roots():
        for folder in (root / "lib", root / "lib64"):
            found = sorted(p for p in folder.glob("libnvrtc.so.*") if p.suffix[1:].isdigit())
            lacking = [name for name in HEADERS if not has_header(root, name)]
            if found and not lacking:
                return found[-1], root
            if found:
                incomplete = f": {found[-1]} lacks its headers {', '.join(lacking)}"
    raise NvrtcMissingError(
        f"NVRTC, NVIDIA's compiler as a library, is not installed{incomplete}. {HOW}"
    )


def has_header(root: Path, name: str) -> bool:
    """True when that root brings the header."""
    return any((folder / name).is_file() for folder in headers(root))


def headers(root: Path) -> list[Path]:
    """Include folders of a root: CUDA's own, and libcu++'s that they need."""
    wanted = (root / "include", root / "include" / "cccl")
    return [folder for folder in wanted if folder.is_dir()]


def kernel_headers() -> list[Path]:
    """Include folders of the first root that brings all headers; PyTorch alone may bring some."""
    whole = (root for root in roots() if all(has_header(root, name) for name in HEADERS))
    return next(map(headers, whole), [])


def nvdisasm() -> str | None:
    """Path of the disassembler, None where it is not installed."""
    for root in roots():
        program = root / "bin" / "nvdisasm"
        if os.access(program, os.X_OK):
            return str(program)
    return shutil.which("nvdisasm")
