"""Gradients unscaled in place and checked for infinities, and the scale that follows."""

from typing import NamedTuple

import numpy as np
import torch

from labkit.cuda.shelf.rung import Output, Problem, Rung, random, rungs_of

GRID = 3
FACTOR = 0.3
"""No power of two, so that every product is rounded."""
GROWTH, BACKOFF, INTERVAL = 2.0, 0.5, 3


class Case(NamedTuple):
    """n gradients, `offset` elements into their memory; the one at `bad` is an infinity or NaN."""

    n: int
    bad: int | None = None
    value: float = np.inf
    scale: float = 2.0**16
    tracker: int = 2
    offset: int = 0


def make(rung: Rung, generator: np.random.Generator, case: Case) -> Problem:
    """The same numbers as float32, float16 and bfloat16, and what torch's own operators leave."""
    wide = random(generator, case.n + case.offset)[case.offset :]
    if case.bad is not None:
        wide[case.bad] = case.value
    factor, found = np.array([FACTOR], np.float32), np.zeros(1, np.float32)
    flag = torch.zeros(())
    launches, outputs = [], []
    for step, dtype in (("", torch.float32), ("half", torch.half), ("bfloat16", torch.bfloat16)):
        grad = torch.from_numpy(wide.copy()).to(dtype)
        expected = grad.clone()
        torch._amp_foreach_non_finite_check_and_unscale_([expected], flag, torch.tensor(FACTOR))
        launches.append(rung.launch((grad, found, factor, case.n), step, grid=GRID, block=64))
        outputs.append(Output(grad, expected.double().numpy(), 0.0, 0.0))
    scale, tracker = torch.tensor(case.scale), torch.tensor(case.tracker, dtype=torch.int32)
    ours = (scale.clone().reshape(1), tracker.clone().reshape(1))
    torch._amp_update_scale_(scale, tracker, flag, GROWTH, BACKOFF, INTERVAL)
    args = (*ours, found, GROWTH, BACKOFF, INTERVAL)
    launches.append(rung.launch(args, "update"))
    for own, after in zip((found, *ours), (flag, scale, tracker), strict=True):
        outputs.append(Output(own, after.double().reshape(1).numpy(), 0.0, 0.0))
    return Problem.of([wide], outputs, launches)


RUNGS = rungs_of(
    "unscale", make, Case(4096),
    [
        Case(0), Case(1, bad=0, value=np.nan), Case(1025, offset=1, tracker=0),
        Case(333, scale=3e38), Case(777, bad=776, value=-np.inf), Case(777, bad=700),
    ],
)  # fmt: skip
