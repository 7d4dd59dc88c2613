"""Rates out of measured times: a start-up and a rate per dtype, fitted to products."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng
from labkit.course.exercises._never_right import FIRST
from labkit.course.exercises._setup_steps import near

Row = tuple[str, str, tuple[int, int, int], float]
ITEMSIZES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def _measurements(rng: Rng, size: int) -> tuple[list[str], list[str], torch.Tensor, torch.Tensor]:
    """(kinds, dtypes, sizes [rows, 3] int32, microseconds [rows] float64)."""
    rows: list[Row] = []
    for dtype in rng.sample(list(ITEMSIZES), 1 + min(3, size // 2)):
        rows += _of_one_dtype(rng, dtype, size)
    rng.shuffle(rows)
    kinds, dtypes, sizes, times = ([row[part] for row in rows] for part in range(4))
    return (
        [str(kind) for kind in kinds],
        [str(dtype) for dtype in dtypes],
        torch.tensor(sizes, dtype=torch.int32).reshape(-1, 3),
        torch.tensor(times, dtype=torch.float64),
    )


def _of_one_dtype(rng: Rng, dtype: str, size: int) -> list[Row]:
    rate = 1e3 * rng.choice((40, 300, 15_000, 60_000, 700_000)) * (1 + rng.random())  # per us
    start_up = rng.choice((4, 8, 30, 100)) * (1 + rng.random())
    if rng.chance(0.1):
        count = rng.randint(0, 2)  # too few different sizes to tell two unknowns apart
        same = tuple(rng.choice((32, 100, 512)) for _ in range(3))
        shapes = [tuple(rng.sample(same, 3)) for _ in range(count)]
    else:
        count = rng.randint(2, 3 + size)
        small = tuple(rng.choice((8, 16, 40)) for _ in range(3))
        large = tuple(rng.choice((2048, 4096, 6000)) for _ in range(3))
        shapes = [small, large, *[_a_shape(rng) for _ in range(count - 2)]]
    rows: list[Row] = []
    for M, N, K in shapes:
        work = 2 * M * N * K / rate
        if not 0.8 < work / start_up < 1.25:  # no row on the fence
            rows.append(("product", dtype, (M, N, K), start_up + work))
        if not rows or rng.chance(0.3):
            moved = (M * K + K * N) * ITEMSIZES[dtype]
            rows.append(("transfer", dtype, (M, N, K), 20 + moved / 2e4))
    return rows


def _a_shape(rng: Rng) -> tuple[int, ...]:
    if rng.chance(0.05):
        return 0, 64, 32
    base = rng.choice((16, 64, 128, 384, 1024, 3000))
    return tuple(max(1, base * rng.choice((1, 1, 2, 3)) // 2) for _ in range(3))


def _rates(
    kinds: list[str], dtypes: list[str], sizes: torch.Tensor, times: torch.Tensor
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for dtype in dict.fromkeys(dtypes):
        rows = [
            (tuple(shape), time)
            for kind, name, shape, time in zip(
                kinds, dtypes, sizes.tolist(), times.tolist(), strict=True
            )
            if kind == "product" and name == dtype
        ]
        work = {shape: 2 * shape[0] * shape[1] * shape[2] for shape, _ in rows}
        if len(set(work.values())) < 2:
            found[dtype] = None
            continue
        (least, first), (most, last) = (
            (work[shape], time)
            for shape, time in (pick(rows, key=lambda r: work[r[0]]) for pick in (min, max))
        )
        per_operation = (last - first) / (most - least)
        start_up = first - least * per_operation
        found[dtype] = {
            "GFLOP/s": 1e-3 / per_operation,
            "start-up": start_up,
            "limited": [shape for shape, _ in rows if start_up > work[shape] * per_operation],
        }
    return found


def _as_rows(kinds: list[str], dtypes: list[str], sizes: torch.Tensor, times: Any) -> str:
    rows = zip(kinds, dtypes, sizes.tolist(), times.tolist(), strict=True)
    return " ; ".join(f"{k} {d} {tuple(s)} {t:.3f} us" for k, d, s, t in rows)


def _fewer_rows(
    kinds: list[str], dtypes: list[str], sizes: torch.Tensor, times: torch.Tensor
) -> Iterator[tuple[Any, ...]]:
    for gone in range(len(kinds)):
        kept = [row for row in range(len(kinds)) if row != gone]
        yield (
            [kinds[row] for row in kept],
            [dtypes[row] for row in kept],
            sizes[kept],
            times[kept],
        )


def _off_by(factor: float) -> Callable[[Evidence], bool]:
    """Whether some rate of the answer is this factor times the right one."""

    def judge(evidence: Evidence) -> bool:
        pairs = [(evidence.value[name], right) for name, right in evidence.right.items() if right]
        return any(near(got["GFLOP/s"], factor * right["GFLOP/s"]) for got, right in pairs if got)

    return judge


gflops_of_a_matmul = Exercise(
    id="setup.gflops_of_a_matmul",
    rung="boss",
    rules=("rate and start-up within 2 %",),
    case=_measurements,
    expected=_rates,
    smaller=_fewer_rows,
    show=_as_rows,
    tolerance=0.02,
    cases=150,
    sizes=7,
    minutes=20,
    banned=("labkit.*",),
    hints=(
        "Time is a constant plus work over rate: two unknowns, so two rows with different work "
        "decide.",
        Hint(
            "You are off by exactly two: a product is a multiplication and an addition, M*N*K "
            "times.",
            when=_off_by(0.5),
        ),
        Hint(
            "2*M*N*K does not fit into 32 bits: make Python integers, or float64, before you "
            "multiply.",
            when=lambda evidence: bool(
                (evidence.inputs[2].double().prod(1) * 2 > 2**31 - 1).any()
                and evidence.right is not None
            ),
        ),
        Hint(
            "Two different shapes can be the same amount of work, and one point fixes no line: "
            "that dtype is None.",
            when=lambda evidence: (
                isinstance(evidence.right, dict) and None in evidence.right.values()
            ),
        ),
        Hint(
            "There is a transfer among the rows: it is a copy, and multiplies nothing.",
            when=lambda evidence: "transfer" in evidence.inputs[0],
        ),
        "Fit a line through time against 2*M*N*K: its slope is the time of one operation, its "
        "value at zero the start-up.",
    ),
    must_fail=(
        "uses n**3 without the factor two",
        "divides by total bytes",
        "includes the transfer row",
        "fits through the largest size only",
        "is right in float32 and overflows, truncates or returns the wrong dtype elsewhere",
        "returns NaN or an uninitialised buffer where a value is expected",
        FIRST,
    ),
)
