"""Which vector instructions a compiler may use, and which of its loops PyTorch takes."""

import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from labkit.core import host_compiler

LOOP = """
void add(float *a, const float *b, int n) {
    for (int i = 0; i < n; i++) a[i] += b[i];
}
"""
BITS = {"xmm": 128, "ymm": 256, "zmm": 512}
"""The width of a processor's registers for vectors, by the name they have in its instructions."""
RECORDED_BY = "gcc 12.2 on x86-64 (recorded)"
RECORDED_MACROS = {
    (): ["__SSE2__", "__SSE__"],
    ("-O3",): ["__SSE2__", "__SSE__"],
    ("-mavx2", "-mfma"): [
        "__AVX2__", "__AVX__", "__FMA__", "__SSE2__", "__SSE3__", "__SSE4_1__", "__SSE4_2__",
        "__SSE__",
    ],
}  # fmt: skip
RECORDED_WIDTHS = {("-O3",): 128, ("-O3", "-mavx2"): 256}


@dataclass(frozen=True)
class Said:
    """What a compiler says: of this machine, or one that was asked before."""

    value: Any
    by: str

    def __str__(self) -> str:
        return f"{self.value}, says {self.by}"


def macros(*flags: str) -> Said:
    """The sets of vector instructions that the compiler may use, as the macros it defines.

    Where there is no compiler for x86-64, those that gcc defined elsewhere, for the flags asked for
    in the course.
    """
    if (text := _compiled(["-dM", "-E", *flags], "")) is None:
        return Said(RECORDED_MACROS[flags], RECORDED_BY)
    found = re.findall(r"#define (__(?:SSE|AVX|FMA)\w*?__) ", text)
    return Said(sorted(name for name in found if "MATH" not in name), _by())


def widest(*flags: str) -> Said:
    """Bits of the widest registers in the instructions of a loop that adds floats.

    Where there is no compiler for x86-64: as `macros`.
    """
    if (text := _compiled(["-S", "-o", "-", *flags], LOOP)) is None:
        return Said(RECORDED_WIDTHS[flags], RECORDED_BY)
    used = Counter(re.findall(r"%([xyz]mm)\d", text))
    return Said(max((BITS[name] for name in used), default=0), _by())


def at_level(level: str | None, program: str) -> Any:
    """What a program for PyTorch prints as JSON, in a process that takes the loops of this level.

    level   "default", "avx2" or "avx512"; None leaves the choice to PyTorch
    Source  aten/src/ATen/native/DispatchStub.cpp  compute_cpu_capability
    """
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": level or ""}
    if level is None:
        del environment["ATEN_CPU_CAPABILITY"]
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def _compiled(flags: Sequence[str], source: str) -> str | None:
    """What the compiler writes; None where it is none for x86-64."""
    if platform.machine() not in ("x86_64", "AMD64") or not host_compiler.installed("c"):
        return None
    command = [host_compiler.compiler("c"), *flags, "-x", "c", "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else None


def _by() -> str:
    command = [host_compiler.compiler("c"), "--version"]
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]
