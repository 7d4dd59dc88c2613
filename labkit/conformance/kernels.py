"""Layer norm's gradients by the shelf's kernels, on the emulator, beside PyTorch's in float64.

The part that can be another's is the sum down the columns, which gives the gradients of beta and of
gamma: CUDA text with a kernel `column_sum(const float* dy, float* out, int rows, int cols)`, for
ceil(cols / 32) blocks of 32 x 32 threads.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from labkit import cuda
from labkit.conformance.report import Comparison, Size
from labkit.conformance.tally import Tally
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.errors import CudaError
from labkit.cuda.module import RawKernel, RawModule
from labkit.cuda.report import Report
from labkit.cuda.shelf.layer_norm import BACKWARD, EPS, Case
from labkit.cuda.shelf.rung import Output

SYSTEM = "column_sum"
"""What the text of a kernel is called in a file that is compared in place of labkit's."""

CASES = {"small": 8, "full": 100}
SIDE = 32
MOST_PASSES = 1.05
"""Of the fewest that the addresses allow."""

NOT_MODELLED = (
    "the other operators of kernels/: `pytest tests/kernels` runs every rung",
    "speed: an emulator counts, it does not time",
)


def compare(
    seed: int, size: Size, system: str | Callable[[], str] | None = None
) -> Iterator[Comparison]:
    """The gradients of every rung; of another column sum its values, then its bank conflicts.

    system   CUDA text with a `column_sum`, or a function that returns it
    """
    draw = random.Random(f"kernels {seed}")
    cases = [_case(draw) for _ in range(CASES[size])]
    if system is None:
        for rung in BACKWARD:
            yield _rung(rung, cases, seed)
    else:
        text = system if isinstance(system, str) else system()
        yield from _column_sums(text, cases, seed)


def _case(draw: random.Random) -> Case:
    """Whole tiles and ragged ones."""
    rows = draw.choice((1, 32, draw.randint(2, 100)))
    return Case(rows, draw.choice((32, 64, draw.randint(1, 70))), offset=draw.choice((0.0, 10.0)))


def _emulator() -> EmulatorDriver:
    return EmulatorDriver(capacity=1 << 26, why="to see each access")


def _rung(rung: Any, cases: list[Case], seed: int) -> Comparison:
    tally = Tally(f"{rung.name}: dx, dgamma, dbeta")
    for number, case in enumerate(cases):
        problem = rung.make(rung, np.random.default_rng((seed, number)), case)
        rung.run(problem)
        try:
            problem.check()
            tally.note("")
        except AssertionError as error:
            tally.note(f"  {case}: {error}")
    return tally.result()


def _column_sums(text: str, cases: list[Case], seed: int) -> Iterator[Comparison]:
    driver = _emulator()
    kernel = RawModule(text, driver=driver).get_function("column_sum")
    values = Tally("sums down the columns")
    conflicts = Tally("passes of shared memory, the fewest that there can be")
    for number, case in enumerate(cases):
        problem = BACKWARD[-1].make(BACKWARD[-1], np.random.default_rng((seed, number)), case)
        x, dy = problem.inputs
        gamma, beta = problem.more
        wide = x.astype(np.float64)
        deviation = np.sqrt(wide.var(1, keepdims=True) + EPS)
        normal = ((wide - wide.mean(1, keepdims=True)) / deviation).astype(np.float32)
        for name, terms, output in (("beta", dy, beta), ("gamma", dy * normal, gamma)):
            about = f"  gradient of {name}, {case.rows} rows, {case.cols} columns: "
            trouble, report = _summed(kernel, np.ascontiguousarray(terms), output)
            values.note(trouble and f"{about}{trouble}")
            if report is not None:
                trouble = _conflict(report)
                conflicts.note(trouble and f"{about}{trouble}")
    yield values.result()
    yield conflicts.result()


def _summed(kernel: RawKernel, terms: Any, output: Output) -> tuple[str, Report | None]:
    """What is wrong with the sums, and the report of the launch; None where it did not run."""
    rows, cols = terms.shape
    out = np.full(cols, np.nan, np.float32)
    try:
        arguments = terms, out, rows, cols
        report = kernel(-(-cols // SIDE), (SIDE, SIDE), arguments, trace=cuda.Trace())
    except CudaError as error:
        return str(error).partition("\n")[0], None
    if report.findings:
        one = report.findings[0]
        return f"line {one.line}: {one.kind.replace('_', ' ')}: {one.message}", report
    near = np.isclose(out, output.expected, rtol=output.rtol, atol=output.atol)
    if near.all():
        return "", report
    column = int(np.argmin(near))
    return f"column {column} is {out[column]:g}, in PyTorch {output.expected[column]:g}", report


def _conflict(report: Report) -> str:
    taken, fewest = (report.total(n, space="shared") for n in ("wavefronts", "ideal_wavefronts"))
    if taken <= fewest * MOST_PASSES:
        return ""
    worst = max(
        report.select(space="shared"), key=lambda one: one.wavefronts - one.ideal_wavefronts
    )
    return f"{taken} passes, where {fewest} would do, most of them in line {worst.line}"
