"""C++ functions over a matrix of any layout, compiled and called; memory around it is watched."""

import ctypes
from typing import Any

import torch

from labkit.core.host_compiler import shared_library
from labkit.course.compare import difference
from labkit.course.exercise import Case, Rng, handed_out

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


def first_wrong_matrix(case: Case, got: Any, right: Any) -> Any:
    """The first matrix of the answer's dict that is wrong, beside the right one."""
    from labkit import show

    if not isinstance(got, dict):
        return None
    wrong = (name for name in right if difference(got.get(name), right[name], 1e-12))
    name = next(wrong, "")
    if not (name and isinstance(right[name], list) and isinstance(got.get(name), list)):
        return None
    mine, theirs = (torch.tensor(each[name], dtype=torch.float64) for each in (got, right))
    return show.strides(mine, theirs, names=["yours", "right"], compare=True, simple=True)
