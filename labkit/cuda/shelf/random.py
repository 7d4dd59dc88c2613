"""Random numbers, and the dropout that draws its own mask."""

from typing import Any, NamedTuple

import numpy as np
import torch

from labkit.core import device_numbers as numbers
from labkit.core.device import Device
from labkit.core.device_numbers import BLOCK
from labkit.core.philox import DeviceGenerator
from labkit.cuda.shelf.rung import Output, Problem, Rung, poisoned, rungs_of

LOW, HIGH = -0.7, 2.2
MEAN, STD = 0.5, 1.7
CHANCE = 0.3
BASE = -5
FLOATS = {"": torch.float32, "double": torch.float64, "half": torch.half,
          "bfloat16": torch.bfloat16}  # fmt: skip
"""The word in which a kernel's name ends -> the type it makes, or takes."""


class Case(NamedTuple):
    """n numbers of a generator that has drawn before."""

    n: int
    seed: int = 2**40 + 7
    offset: int = 0

    @property
    def grid(self) -> int:
        """Blocks of 256 threads, as PyTorch launches them."""
        return numbers.grid_for(max(1, self.n)).threads // BLOCK

    def drawn(self, convert: Any, unroll: int = 4) -> Any:
        """The numbers that the host makes of the same seed and offset."""
        source = DeviceGenerator(Device("cuda", 0)).manual_seed(self.seed)
        source.offset = self.offset
        return numbers.draw(source, self.n, convert, unroll) if self.n else np.empty(0)


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """Every kernel of the file on the same generator; wide ones make half as many in a turn."""
    launches, outputs = [], []

    def ask(step: str, out: Any, settings: tuple[Any, ...], expected: Any, rtol: float) -> None:
        arguments = (out, case.n, case.seed, case.offset, *settings)
        launches.append(rung.launch(arguments, step, grid=case.grid))
        outputs.append(Output(out, np.asarray(expected, np.float64), rtol, rtol))

    for word, dtype in FLOATS.items():
        wide = dtype is torch.float64
        rtol = {torch.half: 1e-3, torch.bfloat16: 1e-2}.get(dtype, 0.0)
        units = torch.from_numpy(_floats(case, numbers.unit_singles, numbers.unit_doubles, wide))
        low, high = torch.tensor([LOW, HIGH], dtype=dtype)
        compute = torch.float64 if wide else torch.float32
        scaled = (units.to(compute) * (high - low).to(compute) + low.to(compute)).to(dtype)
        scaled = scaled.where(scaled != high, low).double()
        step = f"uniform_{word}" if word else ""
        ask(step, _empty(case.n, dtype), (LOW, HIGH), scaled, rtol or 1e-6)
        made = _floats(case, numbers.normal_singles, numbers.normal_doubles, wide) * STD + MEAN
        ask(f"normal_{word}".rstrip("_"), _empty(case.n, dtype), (MEAN, STD), made, rtol or 3e-6)
    for step, wide in (("bernoulli", False), ("bernoulli_double", True)):
        units = _floats(case, numbers.unit_singles, numbers.unit_doubles, wide)
        ask(step, np.full(case.n, 7, np.uint8), (CHANCE,), units < CHANCE, 0.0)
    for step, span, words, unroll in (
        ("whole", 10, numbers.words, 4), ("whole_wide", 1 << 40, numbers.long_words, 2),
    ):  # fmt: skip
        drawn = case.drawn(words, unroll).astype(np.uint64) % np.uint64(span)
        wanted = drawn.astype(np.int64) + BASE
        ask(step, poisoned((case.n,), np.int64), (BASE, span), wanted, 0.0)
    return Problem.of([np.empty(0)], outputs, launches)


def make_dropout(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The same numbers in every type: kept where a number of the host's is below the chance."""
    wide = generator.standard_normal(case.n)
    stays = case.drawn(numbers.unit_singles) < np.float32(1 - CHANCE)
    scale = 1 / (1 - CHANCE)
    launches, outputs = [], []
    for word, dtype in FLOATS.items():
        x, mask = torch.from_numpy(wide).to(dtype), np.full(case.n, 7, np.uint8)
        y = _empty(case.n, dtype)
        settings = (case.n, case.seed, case.offset, 1 - CHANCE, scale)
        launches.append(rung.launch((x, y, mask, *settings), word, grid=case.grid))
        compute = torch.promote_types(dtype, torch.float32)
        factors = torch.from_numpy(stays).to(compute) * torch.tensor(scale, dtype=compute)
        kept = (x.to(compute) * factors).to(dtype)
        outputs.append(Output(y, kept.double().numpy(), 0.0, 0.0))
        outputs.append(Output(mask, stays.astype(np.float64), 0.0, 0.0))
    return Problem.of([wide], outputs, launches)


def _floats(case: Case, singles: Any, doubles: Any, wide: bool) -> Any:
    return case.drawn(doubles, 2) if wide else case.drawn(singles).astype(np.float64)


def _empty(n: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.full((n,), torch.nan, dtype=dtype)


CASES = [Case(0), Case(1), Case(333, seed=2**64 - 1, offset=12), Case(280_000, offset=2**34)]
RUNGS = rungs_of("random", make, Case(4096), CASES)
DROPOUT = rungs_of("dropout", make_dropout, Case(4096), CASES)
