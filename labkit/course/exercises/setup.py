"""Setup: an honest timer, the reason why no GPU is seen, and rates out of measured times."""

from collections.abc import Callable, Iterator
from typing import Any

import torch

from labkit.course.exercise import Evidence, Exercise, Hint, Rng

NOTEBOOK = "1_fundamentals/2_setup"


# honest_timer


class QueueDevice:
    """A device with a queue and a clock of its own: no second of it takes a second.

    The host puts work into the queue and goes on; the device works it off in order. Nothing but
    `now`, `synchronize`, `read_back` and `sleep` is there for a timer to use.
    """

    def __init__(
        self, launch: float, work: float, start_up: float, earlier: float, copy: float
    ) -> None:
        self.__parts = launch, work, copy
        self.__start_up = start_up
        self.__host = 0.0
        self.__busy_until = earlier

    def now(self) -> float:
        """Microseconds on the host's clock."""
        return self.__host

    def synchronize(self) -> None:
        """Return when the queue is empty."""
        self.__host = max(self.__host, self.__busy_until)

    def read_back(self) -> None:
        """Copy one element to the host, behind everything queued, and wait for it."""
        self.synchronize()
        self.__host += self.__parts[2]

    def sleep(self, microseconds: float) -> None:
        """The host does nothing for a while; the device goes on."""
        self.__host += max(0.0, microseconds)

    def launch(self) -> None:
        """What the function to be timed does: queue one piece of work and return."""
        launch, work, _ = self.__parts
        self.__host += launch + self.__start_up
        self.__start_up = 0.0
        self.__busy_until = max(self.__busy_until, self.__host) + work


def _a_script(rng: Rng, size: int) -> tuple[dict[str, float]]:
    """Durations in microseconds; at size 0 only the launch and the work are not zero."""

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** rng.random())

    launch = between(3, 20)
    work = launch * (between(0.2, 3) if rng.chance(0.4) else between(3, 3000))
    steady = max(launch, work)
    return (
        {
            "launch": launch,
            "work": work,
            "start_up": 0.0 if size == 0 else steady * between(300, 30_000),
            "earlier": 0.0 if size < 2 or rng.chance(0.2) else steady * between(100, 10_000),
            "copy": steady * between(30, 3000),
        },
    )


def _as_script(script: dict[str, float]) -> str:
    return "a device with " + ", ".join(f"{name} {value:.5g}" for name, value in script.items())


def _drive_timer(answer: Any, script: dict[str, float]) -> Any:
    device = QueueDevice(**script)
    return answer(device.launch, device)


def _honest(script: dict[str, float]) -> tuple[float, list[tuple[str, float]]]:
    steady = max(script["launch"], script["work"])
    first = script["start_up"] + script["launch"] + script["work"]
    return steady, [("earlier work", script["earlier"]), ("first call", first)]


def _per_call(evidence: Evidence) -> float:
    """What the answer took for the time of a call; -1 where it gave none."""
    value = evidence.value
    return float(value[0]) if isinstance(value, (tuple, list)) and value else -1.0


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= 0.05 * abs(other)


def _is_launch(evidence: Evidence) -> bool:
    script = evidence.inputs[0]
    return _near(_per_call(evidence), script["launch"]) and script["work"] > script["launch"]


honest_timer = Exercise(
    id="setup.honest_timer",
    statement=(
        "Write time_op(fn, device) -> (time per call, excluded), times in microseconds. fn() "
        "queues one piece of work and returns. device has now(), synchronize(), read_back() of one "
        "element, and sleep(microseconds); the queue may hold earlier work when you come, and the "
        "first call of fn may start something up. The time is that of one call among many, within "
        "1 %. excluded is [('earlier work', time), ('first call', time)]: how long you waited for "
        "the queue you found, and how long the first call took until the queue was empty. Example: "
        "(60.0, [('earlier work', 0.0), ('first call', 905.0)])."
    ),
    rules=("wait through the device, not by sleeping; its clock is the only one",),
    case=_a_script,
    expected=_honest,
    drive=_drive_timer,
    show=_as_script,
    tolerance=0.01,
    cases=60,
    sizes=3,
    minutes=20,
    difficulty=3,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Warm up, drain, start, n calls, drain, stop, divide. One call is launched while another "
        "one runs, so n must be large: more than a hundred.",
        Hint(
            "Your number equals the launch cost in case {number}: the host was asked, not the "
            "device.",
            when=_is_launch,
        ),
        Hint(
            "Something was still running when your clock started: there was earlier work in the "
            "queue, or your own warm-up was still in it.",
            when=lambda evidence: (
                evidence.inputs[0]["earlier"] > 0 and _per_call(evidence) > evidence.right[0]
            ),
        ),
        Hint(
            "The first call starts things up: time it by itself, up to an empty queue, and then "
            "start a second clock for the others.",
            when=lambda evidence: (
                evidence.inputs[0]["start_up"] > 0 and _per_call(evidence) > evidence.right[0]
            ),
        ),
        Hint(
            "A little too much. Was the queue empty when your clock started, of your own warm-up "
            "too? And what ends the interval should only wait, as synchronize() does.",
            when=lambda evidence: _per_call(evidence) > evidence.right[0],
        ),
        "Three intervals in all: the wait for the queue you found, the first call up to an empty "
        "queue, and n further calls up to an empty queue.",
    ),
    must_fail=(
        "no synchronisation",
        "synchronises before stop but not before start",
        "includes the first call",
        "takes the minimum of one run",
        "reads back one element to wait (times the copy too)",
        "sleeps",
        "remembers the answer of the first random case and returns it for all later cases",
        "returns the literal answer of the example in the statement",
    ),
)


# why_not_available

QUESTIONS = ("build", "variable", "driver", "cards")
BUILDS = ("+cpu", "+cpu", "+cu118", "+cu126", "+cu126", "+cu130", "+cu130", "+rocm7.0", "+xpu")
VARIABLES = (None, None, None, "", "0", "1", "0,1", "-1", "-1,0", "0,-1", "3", "7,0")
DRIVERS = (None, "11.4", "11.8", "12.2", "12.6", "12.9", "13.0", "13.0")


def _a_machine(rng: Rng, size: int) -> tuple[dict[str, Any]]:
    machine = {
        "build": "2." + rng.choice(("7.1", "9.0", "13.0")) + rng.choice(BUILDS),
        "variable": rng.choice(VARIABLES),
        "driver": rng.choice(DRIVERS),
        "cards": rng.choice((0, 1, 1, 1, 2, 4)),
    }
    if rng.chance(0.4):  # one cause alone, so that each is met with everything else in order
        machine |= {"build": "2.13.0+cu126", "variable": None, "driver": "12.9", "cards": 2}
        part = rng.choice(QUESTIONS)
        machine[part] = {
            "build": "2.13.0+cpu",
            "variable": rng.choice(("", "-1", "2", "1", "0,-1")),
            "driver": rng.choice((None, "11.8", "12.0", "13.0")),
            "cards": rng.choice((0, 1)),
        }[part]
    for question in QUESTIONS:
        if size > 0 and rng.chance(0.15):
            del machine[question]
    order = list(machine)
    rng.shuffle(order)
    return ({name: machine[name] for name in order},)


def _diagnosed(seen: dict[str, Any]) -> tuple[str, str]:
    for place, question in enumerate(QUESTIONS):
        if question not in seen:
            return "unknown", question
        if _is_to_blame(question, seen):
            later = [name for name in QUESTIONS[place + 1 :] if name not in seen]
            return question, later[0] if later else "is_available"
    return "none", "is_available"


def _is_to_blame(question: str, seen: dict[str, Any]) -> bool:
    tag = seen["build"].partition("+")[2]
    if question == "build":
        return not tag.startswith("cu")
    if question == "variable":
        if seen["variable"] is None:
            return False
        first = seen["variable"].partition(",")[0]
        outside = first != "" and 0 < seen.get("cards", 0) <= int(first)
        return first in ("", "-1") or outside
    if question == "driver":
        return seen["driver"] is None or int(seen["driver"].partition(".")[0]) < int(tag[2:4])
    return bool(seen["cards"] == 0)


def _fewer_observations(seen: dict[str, Any]) -> Iterator[tuple[dict[str, Any]]]:
    for gone in seen:
        yield ({name: value for name, value in seen.items() if name != gone},)


def _cause_is(cause: str) -> Callable[[Evidence], bool]:
    return lambda evidence: isinstance(evidence.right, tuple) and evidence.right[0] == cause


why_not_available = Exercise(
    id="setup.why_not_available",
    statement=(
        "torch.cuda.is_available() is False. Write why_not_available(seen) -> (cause, next). seen "
        "holds some of: 'build' (torch.__version__ with its tag), 'variable' "
        "(os.environ.get('CUDA_VISIBLE_DEVICES'), None when unset), 'driver' (the highest CUDA "
        "version it serves, None when there is none), 'cards' (NVIDIA cards on the bus). Ask in "
        "this order: build, variable, driver, cards. The cause is the name of the first one to "
        "blame; 'unknown' when you come to one that was not observed, 'none' when none is. next is "
        "the first one after the cause (for 'unknown': the one you came to) that was not observed, "
        "or 'is_available' when there is none left. Example: {'build': '2.13.0+cpu', 'driver': "
        "'13.0'} gives ('build', 'variable')."
    ),
    rules=("decide from the dictionary alone: no torch, no labkit",),
    case=_a_machine,
    expected=_diagnosed,
    smaller=_fewer_observations,
    cases=300,
    sizes=4,
    minutes=15,
    difficulty=2,
    banned=("torch.*", "numpy.*", "labkit.*"),
    hints=(
        "Order the questions: build, variable, driver, cards. Stop at the first that is to blame, "
        "or was not asked yet.",
        Hint(
            "In the failing case the build string has a tag that does not start with cu: such a "
            "build holds no CUDA code, however good the driver is.",
            when=_cause_is("build"),
        ),
        Hint(
            "An empty variable hides everything, and so does one whose first entry names no card. "
            "Unset is something else: None.",
            when=lambda evidence: (
                _cause_is("variable")(evidence) or evidence.inputs[0].get("variable") is not None
            ),
        ),
        Hint(
            "A driver serves builds of its own major version and of older ones: 12.2 runs cu126, "
            "11.8 does not.",
            when=lambda evidence: evidence.inputs[0].get("driver") is not None,
        ),
        Hint(
            "Here nothing that was asked is to blame, and a question is left open: which is the "
            "first?",
            when=_cause_is("unknown"),
        ),
        "One loop over the four names: not in seen -> unknown; to blame -> the cause.",
    ),
    must_fail=(
        "always blames the driver",
        "always says reinstall",
        "ignores the build string",
        "treats an empty visible-devices variable as unset",
        "remembers the answer of the first random case and returns it for all later cases",
        "reads the expected value out of the checker (module globals, frames or closure)",
        "returns the literal answer of the example in the statement",
    ),
)


# gflops_of_a_matmul

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
        return any(_near(got["GFLOP/s"], factor * right["GFLOP/s"]) for got, right in pairs if got)

    return judge


gflops_of_a_matmul = Exercise(
    id="setup.gflops_of_a_matmul",
    statement=(
        "Write gflops_of_a_matmul(kinds, dtypes, sizes, times), one row per measurement: kinds "
        "'product' or 'transfer', dtypes a name, sizes an int32 tensor [rows, 3] of (M, N, K), "
        "times a float64 tensor [rows] of microseconds. A product takes a start-up plus its "
        "operations over a rate; both are the same for all sizes of a dtype. Leave transfers out. "
        "Return, for every dtype that occurs, {'GFLOP/s': rate, 'start-up': microseconds, "
        "'limited': [(M, N, K), ...]} with the rows, in order, whose start-up is longer than their "
        "work; or None when its products do not have two different amounts of work."
    ),
    rules=("rate and start-up within 2 %",),
    case=_measurements,
    expected=_rates,
    smaller=_fewer_rows,
    show=_as_rows,
    tolerance=0.02,
    cases=150,
    sizes=7,
    minutes=20,
    difficulty=3,
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
        "remembers the answer of the first random case and returns it for all later cases",
    ),
)

EXERCISES = (honest_timer, why_not_available, gflops_of_a_matmul)
