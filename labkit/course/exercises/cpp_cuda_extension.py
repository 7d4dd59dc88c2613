"""A step of a small recurrent network as an operator: its fake kernel, gradient and CUDA kernel.

Per element of a row, with the three gates a, b, x side by side in `gates`:

    cell = old + sigmoid(a) * elu(x)
    h    = tanh(cell) * sigmoid(b)
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from labkit.course.benches import kernel_bench
from labkit.course.benches.kernel_bench import Found
from labkit.course.exercise import Evidence, Exercise, Hint, Rng, Stage, handed_out
from labkit.course.exercises._fake_cell import fake_kernel
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._registration import registration

NOTEBOOK = "2_core_code/11_cpp_cuda_extension"

# --- gate_places


def _a_place(rng: Rng, size: int) -> tuple[int, int]:
    width = rng.randint(1, 3 + 2 * size)
    return rng.randint(0, width * rng.randint(1, 4) - 1), width


def _smaller_place(i: int, width: int) -> Iterator[tuple[int, int]]:
    if i:
        yield i - 1, width
    if width > 1:
        yield i, width - 1


def _places(i: int, width: int) -> tuple[int, int, int]:
    row, j = divmod(i, width)
    first = row * 3 * width + j
    return first, first + width, first + 2 * width


gate_places = Exercise(
    id="cpp_cuda_extension.gate_places",
    rung="warm-up",
    case=_a_place,
    expected=_places,
    show=lambda i, width: f"element {i}, width {width}",
    smaller=_smaller_place,
    cases=80,
    minutes=3,
    hints=(
        Hint(
            "The first is right, and the others are not: a gate is width numbers wide.",
            when=lambda e: isinstance(e.value, tuple) and e.value[:1] == e.right[:1],
        ),
        "Which row is element i in, and which place of the row? A row of gates has 3 * width.",
        "row, j = divmod(i, width): the first of the three is at row * 3 * width + j.",
    ),
    must_fail=(
        "takes the gates for three whole arrays",
        "puts the three side by side",
        "takes a row of gates for width long",
        FIRST,
    ),
)

# --- lltm_backward

Four = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _a_step(which: str) -> Any:
    def case(rng: Rng, size: int) -> Four:
        batch = rng.choice((1, rng.randint(1, 3), 0 if size > 3 else 2))
        width = rng.randint(1, 2 + size // 2)
        made = rng.generator()

        def numbers(columns: int, scale: float = 1.5) -> torch.Tensor:
            return scale * torch.randn(batch, columns, dtype=torch.float64, generator=made)

        grads = {
            "h": (numbers(width), torch.zeros(batch, width, dtype=torch.float64)),
            "cell": (torch.zeros(batch, width, dtype=torch.float64), numbers(width)),
        }.get(which, (numbers(width), numbers(width)))
        return *grads, numbers(3 * width), numbers(width)

    return case


def _gradients(grad_h: Any, grad_cell: Any, gates: Any, old: Any) -> Any:
    gates, old = gates.detach().requires_grad_(), old.detach().requires_grad_()
    with torch.enable_grad():
        first, second, third = gates.chunk(3, 1)
        cell = old + first.sigmoid() * torch.nn.functional.elu(third)
        h = cell.tanh() * second.sigmoid()
    return _named(torch.autograd.grad((h, cell), (gates, old), (grad_h, grad_cell)), old)


@handed_out
def _named(answer: Any, old: torch.Tensor) -> Any:
    """The gradients by name, that of gates in its three parts; or what came back instead."""
    if not (isinstance(answer, tuple) and len(answer) == 2):
        return answer
    d_gates, d_old = answer
    if not isinstance(d_gates, torch.Tensor) or d_gates.shape[1:] != (3 * old.shape[1],):
        return {"d_gates": d_gates, "d_old": d_old}
    parts = (part.contiguous() for part in d_gates.chunk(3, 1))
    names = ("d_gates, part a", "d_gates, part b", "d_gates, part x")
    return dict(zip(names, parts, strict=True)) | {"d_old": d_old}


def _drive_backward(answer: Any, *given: torch.Tensor) -> Any:
    return _named(answer(*given), given[3])


def _only(name: str) -> Any:
    """Whether this gradient, and only it, is wrong."""

    def wrong(evidence: Evidence) -> bool:
        yours, right = evidence.value, evidence.right
        return [key for key in right if not torch.allclose(yours[key], right[key])] == [name]

    return wrong


def _several(evidence: Evidence) -> bool:
    """Whether more than one gradient is wrong: then it is the gradient of the cell, most likely."""
    return evidence.kind == "value" and not any(_only(name)(evidence) for name in evidence.right)


def _rounded(x: torch.Tensor) -> Any:
    return [[round(number, 3) for number in row] for row in x.tolist()]


lltm_backward = Exercise(
    id="cpp_cuda_extension.lltm_backward",
    case=_a_step("both"),
    expected=_gradients,
    drive=_drive_backward,
    show=lambda grad_h, grad_cell, gates, old: (
        f"grad_h {_rounded(grad_h)}, grad_cell {_rounded(grad_cell)}, gates {_rounded(gates)}, "
        f"old {_rounded(old)}"
    ),
    stages=(
        Stage("grad_cell", case=_a_step("cell")),
        Stage("grad_h", case=_a_step("h")),
        Stage("both"),
    ),
    cases=60,
    tolerance=1e-9,
    minutes=15,
    banned=("torch.autograd.grad", "torch.autograd.backward", "torch.Tensor.backward"),
    hints=(
        Hint(
            "You wrote into what you were given. `d = grad_cell; d += …` writes into grad_cell: d "
            "is only another name for it. `d = grad_cell + …` makes a new tensor.",
            when=lambda e: e.kind == "mutated",
        ),
        Hint(
            "Only part b is wrong. The gate b has part in h alone: h = tanh(cell) * sigmoid(b).",
            when=_only("d_gates, part b"),
        ),
        Hint(
            "Only part a is wrong. The slope of a sigmoid s is s * (1 - s).",
            when=_only("d_gates, part a"),
        ),
        Hint(
            "Only part x is wrong. elu has slope 1 above 0, and exp(x) below.",
            when=_only("d_gates, part x"),
        ),
        Hint(
            "Only d_old is wrong. cell = old + ...: old gets what the cell gets, unchanged.",
            when=_only("d_old"),
        ),
        Hint(
            "Return two tensors: d_gates is as wide as gates, and torch.cat([...], 1) puts its "
            "three parts side by side.",
            when=lambda e: not isinstance(e.value, dict) or "d_gates" in e.value,
        ),
        Hint(
            "Here grad_h is 0. What comes in for the cell goes on to old as it is, and to a and x "
            "through their product.",
            when=_several,
            stage="grad_cell",
        ),
        Hint(
            "h is made of the cell too. So two gradients meet in the cell: grad_cell, and what "
            "comes back from h through tanh.",
            when=_several,
            stage="grad_h",
        ),
        "First the gradient of the cell: a sum of two. Then that of each gate: the gradient of "
        "what it is multiplied into, times the other factor, times its own slope.",
    ),
    must_fail=(
        "forgets the gradient through the old cell state",
        "leaves grad_cell out",
        "leaves out what comes from h",
        "gives elu the slope 1 everywhere",
        "computes in float32",
        "mixes up two gates",
        "calls autograd",
        "takes the first row for all",
        "drops a batch of 1",
        "is right only for a batch as large as its width",
        "returns NaN where it computed nothing",
    ),
)

# --- lltm_cuda_rung

RIGHT = {
    "the launch": "runs",
    "h and cell": "right everywhere",
    "findings": [],
    "bytes around the arrays": "untouched",
    "reads of gates from memory, for each number": 1.0,
    "sectors": "as few as neighbours need",
}
CLOSE = 1e-5
WARP, SECTOR = 32, 32  # lanes, bytes


def _a_launch(rng: Rng, size: int) -> tuple[int, int, int, Any, int]:
    batch, width = (1, 4) if size == 0 else (rng.randint(1, 3), rng.randint(1, 20 * size))
    block = 32 if size == 0 else rng.choice((32, 64, 96))
    return batch, width, block, rng.choice(("forward", "reverse")), rng.randint(0, 999)


def _one_row(rng: Rng, size: int) -> tuple[int, int, int, Any, int]:
    _, width, block, order, seed = _a_launch(rng, size)
    return 1, width, block, order, seed


def _smaller_launch(
    batch: int, width: int, block: int, order: Any, seed: int
) -> Iterator[tuple[int, int, int, Any, int]]:
    for rows, columns in ((1, width), (batch - 1, width), (batch, width // 2), (batch, width - 1)):
        if rows > 0 and columns > 0 and (rows, columns) != (batch, width):
            yield rows, columns, block, order, seed
    if block > WARP:
        yield batch, width, block - WARP, order, seed


@handed_out
def _values(gates: Any, old: Any) -> tuple[Any, Any]:
    width = old.shape[1]
    first, second, third = (gates[:, k * width : (k + 1) * width] for k in range(3))
    elu = np.where(third > 0, third, np.expm1(np.minimum(third, 0)))
    cell = old + elu / (1 + np.exp(-first))
    return np.tanh(cell) / (1 + np.exp(-second)), cell


def _drive_rung(answer: Any, batch: int, width: int, block: int, order: Any, seed: int) -> Found:
    rng = np.random.default_rng(seed)
    gates = rng.standard_normal((batch, 3 * width)).astype(np.float32)
    old = rng.standard_normal((batch, width)).astype(np.float32)
    results = [np.full((batch, width), np.nan, np.float32) for _ in range(2)]
    done = kernel_bench.launch(
        answer(), "lltm", math.ceil(batch * width / block), block,
        (gates, old, *results, batch, width), order=order, trace=True,
    )  # fmt: skip
    if done.report is None:
        return Found({"the launch": done.failure})
    got = [np.reshape(one, old.shape) for one in done.arrays[2:4]]
    values = _values(gates.astype(float), old.astype(float))
    every = [*done.report.select(space="global")]
    wasted = sum(one.sectors - one.ideal_sectors for one in every)
    reads = [*done.report.select(access="read", array=done.names[0])]
    found = {
        "the launch": "runs",
        "h and cell": _judged(got, values),
        "findings": done.findings[:2],
        "bytes around the arrays": done.outside or "untouched",
        "reads of gates from memory, for each number": sum(one.lanes for one in reads) / gates.size,
        "sectors": f"{wasted} more than neighbours need"
        if wasted > sum(one.requests for one in every) + _between_rows(batch, width)
        else RIGHT["sectors"],
    }
    return Found(found).seen_in(done.report)


@handed_out
def _judged(got: Any, right: Any) -> str:
    """Which of h and cell are wrong."""
    if all(_close(*pair) for pair in zip(got, right[::-1], strict=True)):
        return "swapped, so both wrong"
    pairs = zip(("h", "cell"), got, right, strict=True)
    wrong = [name for name, mine, theirs in pairs if not _close(mine, theirs)]
    return f"{' and '.join(wrong)} wrong" if wrong else str(RIGHT["h and cell"])


@handed_out
def _close(mine: Any, theirs: Any) -> bool:
    return bool(np.allclose(mine, theirs, atol=CLOSE))


@handed_out
def _between_rows(batch: int, width: int) -> int:
    """Sectors beyond the ideal that neighbours need, too: a warp's places may lie in several rows,
    and the pieces of three rows that are 3 * width apart begin and end in sectors of their own.
    """
    places = np.arange(batch * width)
    beyond = 0
    for first in range(0, batch * width, WARP):
        row, place = np.divmod(places[first : first + WARP], width)
        for gate in range(3):
            bytes_at = 4 * (row * 3 * width + gate * width + place)
            beyond += len(np.unique(bytes_at // SECTOR)) - -(-4 * len(row) // SECTOR)
    return beyond


def _counts_one_block(evidence: Evidence) -> bool:
    """Whether every block seems to have done the work of the first."""
    batch, width, block, *_ = evidence.inputs
    found = evidence.value
    return (
        batch * width > block
        and "wrong" in found["h and cell"]
        and found["bytes around the arrays"] == "untouched"
        and not found["findings"]
        and found["reads of gates from memory, for each number"] != 1.0
    )


def _about(*words: str) -> Any:
    return lambda evidence: any(word in f"{evidence.property} {evidence.got}" for word in words)


lltm_cuda_rung = Exercise(
    id="cpp_cuda_extension.lltm_cuda_rung",
    case=_a_launch,
    expected=lambda *_: RIGHT,
    drive=_drive_rung,
    returns=(Found,),
    picture=kernel_bench.drawn,
    show=lambda batch, width, block, order, seed: (
        f"batch {batch}, width {width}, started as {math.ceil(batch * width / block)} blocks of "
        f"{block} threads, {'first' if order == 'forward' else 'last'} thread first"
    ),
    smaller=_smaller_launch,
    stages=(Stage("one row", case=_one_row, cases=6), Stage("any batch")),
    cases=16,
    seconds=60.0,
    processes=True,
    minutes=14,
    hints=(
        Hint(
            "No header is included, so there is no std:: here. CUDA's own for floats end in "
            "f: expf(x) - 1, tanhf(x).",
            when=lambda e: "of 'std'" in e.value["the launch"] or "std::" in e.value["the launch"],
        ),
        Hint(
            "It did not run: the table says why, and where it does not compile the line. The text "
            'needs a kernel that begins extern "C" __global__ void lltm(',
            when=lambda e: e.value["the launch"] != "runs",
        ),
        Hint(
            "threadIdx.x begins at 0 again in every block, and more than one block was started. "
            "Count through all of them: blockIdx.x * blockDim.x + threadIdx.x.",
            when=_counts_one_block,
        ),
        Hint(
            "A thread touched memory outside the arrays: one beyond batch * width, or one whose "
            "place is computed wrongly. The table names the line.",
            when=_about("out of bounds", "written around"),
        ),
        Hint(
            "The compiled kernel reads a number of gates from memory more than once. Keep it in a "
            "variable. Or have two threads the same i? The size of a block is blockDim.x.",
            when=lambda e: (
                e.value["h and cell"] == RIGHT["h and cell"]
                and e.value["reads of gates from memory, for each number"] > 1
            ),
        ),
        Hint(
            "Neighbouring threads read places that lie far apart. Which index varies with "
            "threadIdx.x? Let the place in the row be the one.",
            when=lambda e: "more than" in e.value["sectors"],
        ),
        Hint(
            "With more than one row: a row of gates has 3 * width numbers. Where does row 1 begin?",
            when=lambda e: e.inputs[0] > 1,
            stage="any batch",
        ),
        Hint(
            "cell is right, and h is not: h = tanh(cell) * sigmoid(b).",
            when=lambda e: e.value["h and cell"] == "h wrong",
        ),
        Hint(
            "h and cell hold each other's numbers: the order is gates, old, h, cell, batch, width.",
            when=lambda e: e.value["h and cell"].startswith("swapped"),
        ),
        Hint(
            "With one row, the gates of element i are at i, width + i and 2 * width + i. "
            "sigmoid(a) is 1 / (1 + expf(-a)), and below 0 elu(x) is expf(x) - 1.",
            when=lambda e: "wrong" in e.value["h and cell"],
        ),
    ),
    must_fail=(
        "one thread per row",
        "reads gates four times",
        "unguarded tail",
        "block size baked to the test width",
        "takes the gates for three whole arrays",
        "elu without its lower half",
        "h from the old cell",
        "h and cell swapped",
        "correct only in forward thread order",
        "leaves a part of h unwritten",
    ),
)

EXERCISES = (gate_places, registration, fake_kernel, lltm_backward, lltm_cuda_rung)
