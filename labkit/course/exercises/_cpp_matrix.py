"""C++ functions over a matrix of any layout, compiled and called; memory around it is watched."""

import ctypes
from typing import Any

import torch

from labkit.core.host_compiler import shared_library
from labkit.course.exercise import Rng, handed_out

NAN = float("nan")
LONG, POINTER = ctypes.c_long, ctypes.c_void_p
SIGNATURE = (POINTER, LONG, LONG, LONG, LONG, POINTER)


def a_matrix(kinds: tuple[str, ...]) -> Any:
    def case(rng: Rng, size: int) -> tuple[str, int, int, int]:
        least = 2 if size > 1 else 1  # one row, or one column, has no layout to be wrong about
        rows, cols = rng.randint(least, 1 + size), rng.randint(least, 2 + size)
        return kinds[size % len(kinds)], rows, cols, size

    return case


@handed_out
def laid_out(kind: str, rows: int, cols: int, seed: int) -> Any:
    """A matrix of this layout in the middle of memory full of NaN."""
    shape = {"transposed": (cols, rows), "gaps": (rows, 2 * cols)}.get(kind, (rows, cols))
    around = torch.full((shape[0] * shape[1] + 64,), NAN, dtype=torch.float64)
    inside = around[32:-32].view(shape)
    made = torch.Generator().manual_seed(seed)
    x = {"transposed": lambda: inside.t(), "gaps": lambda: inside[:, ::2]}.get(
        kind, lambda: inside
    )()
    return x.copy_(torch.rand(rows, cols, dtype=torch.float64, generator=made))


RUNNING_MAX = """
extern "C" void running_max(const double* x, long rows, long cols, long row_step, long col_step,
                            double* out) {
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < cols; j++) {
            double now = x[i * row_step + j * col_step];
            double best = j > 0 ? out[i * cols + j - 1] : now;
            out[i * cols + j] = best != best || best > now ? best : now;
        }
}
"""
"""The largest number of each row up to every place; nan from the first nan on."""


@handed_out
def compiled(source: str, name: str) -> Any:
    """The C++ function of this name, as (x) -> a new matrix, or why it does not compile."""
    library = ctypes.CDLL(str(shared_library(name, source, "c++")))
    function = getattr(library, name)
    function.argtypes, function.restype = SIGNATURE, None

    def call(x: Any) -> Any:
        around = torch.full((x.numel() + 64,), NAN, dtype=torch.float64)
        out = around[32:-32]
        function(x.data_ptr(), *x.shape, *x.stride(), out.data_ptr())
        if not (around[:32].isnan().all() and around[-32:].isnan().all()):
            raise IndexError(f"{name} writes outside of its result")
        return out.view(x.shape).clone()

    return call
