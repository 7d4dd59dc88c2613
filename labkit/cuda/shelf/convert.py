"""float32 to float16 and bfloat16, and back."""

from typing import NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Output, Problem, Rung, rungs_of

GRID = 3
SPECIAL = (
    0.0, -0.0, np.inf, -np.inf, np.nan, 65519.99, 65520.0, 1e-7, 3e-8, 1e-40, 1 + 2**-11, 3e38,
)  # fmt: skip


class Case(NamedTuple):
    """n numbers, the tensors starting `offset` elements into their memory."""

    n: int
    offset: int = 0


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Floats of all sizes, the awkward ones among them, and all kinds of 16-bit patterns."""
    length = case.n + case.offset
    exponents = generator.uniform(-30, 20, length)
    x = torch.from_numpy((generator.standard_normal(length) * 2.0**exponents).astype(np.float32))
    awkward = torch.tensor(SPECIAL)[: case.n]
    x[case.offset : case.offset + len(awkward)] = awkward
    patterns = generator.integers(0, 2**16, length, np.uint16)
    patterns[case.offset : case.offset + 6] = (0, 0x8000, 1, 0x7C00, 0x7F80, 0x7FFF)[: case.n]
    bits = torch.from_numpy(patterns.view(np.int16))
    launches, outputs = [], []
    for step, source, dtype in (
        ("", x, torch.float16),
        ("from_half", bits.view(torch.float16), torch.float32),
        ("to_bfloat16", x, torch.bfloat16),
        ("from_bfloat16", bits.view(torch.bfloat16), torch.float32),
    ):
        source = source[case.offset :]
        out = torch.full((length,), torch.nan, dtype=dtype)[case.offset :]
        launches.append(rung.launch((source, out, case.n), step, grid=GRID, block=64))
        outputs.append(Output(out, source.to(dtype).double().numpy(), 0.0, 0.0))
    return Problem.of([x.numpy()], outputs, launches)


RUNGS = rungs_of(
    "convert", make, Case(4096), [Case(0), Case(1), Case(1025, 1), Case(777), Case(1537)]
)
