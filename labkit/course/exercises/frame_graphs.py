"""CUDA graphs in a job: two clocks, what a replay takes away, and when it gains nothing."""

from typing import Any

from labkit.course.exercise import Exercise, Hint, Rng, Stage
from labkit.course.exercises._limits import LIBRARIES, NO_LIBRARIES
from labkit.course.exercises._never_right import FIRST

NOTEBOOK = "5_optimization/2_frame_graphs"

Log = list[tuple[str, float]]

# --- frame_time


def _kernels(rng: Rng, size: int) -> list[float]:
    return [rng.choice((0.5, 1, 2, 4.25, 9, 20)) for _ in range(rng.randint(0, 2 + 3 * size))]


def _frame_time(asks: float, kernels: list[float]) -> float:
    device = 0.0
    for number, kernel in enumerate(kernels, 1):
        device = max(device, number * asks) + kernel
    return float(device)  # always: 0 and 0.0 are equally right


frame_time = Exercise(
    id="frame_graphs.frame_time",
    case=lambda rng, size: (rng.choice((0, 1, 2.5, 4, 7, 9)), _kernels(rng, size)),
    expected=lambda asks, kernels: _frame_time(asks, kernels),
    rung="warm-up",
    minutes=4,
    cases=80,
    tolerance=1e-6,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("The caller's list stays as it is: go through it with `for`.",
             when=lambda e: e.kind == "mutated"),
        Hint("Host and device do not wait for each other after every kernel: while the device "
             "works, the host asks for the next one.",
             when=lambda e: e.value == e.inputs[0] * len(e.inputs[1]) + sum(e.inputs[1])),
        Hint("The device cannot begin a kernel that has not been asked for yet.",
             when=lambda e: e.value < e.right),
        "A kernel begins when it has been asked for and the one before it has ended: max of both.",
        "host += asks; device = max(host, device) + kernel",
    ),
    must_fail=(
        "one after the other",
        "the kernels and one ask",
        "the asks and the last kernel",
        "the longer of the two sums",
        "whole µs only",
        "an ask takes time",
        "stops after thirteen kernels",
        FIRST,
    ),
)  # fmt: skip

# --- smallest_batch


def _a_network(rng: Rng, size: int) -> tuple[int, list[float]]:
    return rng.randint(2, 40), [rng.randint(1, 12) for _ in range(rng.randint(1, 2 + size))]


def _smallest_batch(asks: int, kernels: list[float]) -> int:
    batch = 1
    while True:
        longer = [batch * kernel for kernel in kernels]
        if _frame_time(asks, longer) == asks + sum(longer):
            return batch
        batch += 1


smallest_batch = Exercise(
    id="frame_graphs.smallest_batch",
    case=_a_network,
    expected=lambda asks, kernels: _smallest_batch(asks, kernels),
    rung="warm-up",
    minutes=4,
    cases=80,
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("A smaller batch gains nothing either.", when=lambda e: e.value > e.right),
        Hint("With this batch a kernel still has to wait for its ask, so the graph gains "
             "something.", when=lambda e: e.value < e.right),
        "Try 1, 2, 3 ...: make the kernels so many times longer, and compare one by one with a "
        "replay.",
        "[batch * kernel for kernel in kernels]; one replay takes asks + their sum.",
    ),
    must_fail=(
        "asks for the shortest kernel to cover an ask",
        "compares the sums only",
        "one too many",
        "looks at the first kernel",
        "doubles the batch",
        FIRST,
    ),
)  # fmt: skip

# --- graph_benchmark


def _a_log(rng: Rng, size: int, waits: bool = True, host: bool = True) -> tuple[Log, int, int]:
    """Frames of a job: something on the host, kernels, perhaps a wait; no two frames alike."""
    log: Log = []
    long = rng.chance(0.4)
    for _ in range(rng.randint(1, 1 + size // 2)):
        if host and rng.chance(0.6):
            log.append(("host", rng.choice((0, rng.randint(1, 40)))))
        for _ in range(rng.randint(0, 2 + size)):
            log.append(("kernel", rng.randint(10, 60) if long else rng.randint(1, 9)))
            if host and rng.chance(0.1):
                log.append(("host", rng.choice((0, rng.randint(1, 9)))))
        if waits and rng.chance(0.5):
            log.append(("wait", 0))
    asks = rng.randint(1, 9)
    return log, asks, asks + rng.randint(0, 9)


def _benchmark(log: Log, asks: int, replay: int) -> tuple[float, float]:
    return _eager(log, asks), _graphed(log, replay)


def _eager(log: Log, asks: int) -> float:
    host = device = 0.0
    for kind, microseconds in log:
        if kind == "kernel":
            host += asks
            device = max(host, device) + microseconds
        elif kind == "host":
            host += microseconds
        else:
            host = max(host, device)
    return float(max(host, device))


def _graphed(log: Log, replay: int) -> float:
    host = device = 0.0
    before = ""
    for kind, microseconds in log:
        if kind == "kernel":
            host += replay if before != "kernel" else 0
            device = max(host, device) + microseconds
        elif kind == "host":
            host += microseconds
        else:
            host = max(host, device)
        before = kind
    return float(max(host, device))


def _told(log: Log, asks: int, replay: int) -> str:
    rows = ", ".join(kind if kind == "wait" else f"{kind} {us}" for kind, us in log)
    return f"log [{rows}], asks {asks}, replay {replay}"


def _pair(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) == 2


def _fewer(log: Log, asks: int, replay: int) -> Any:
    for at in range(len(log)):
        yield log[:at] + log[at + 1 :], asks, replay


def _drawn(case: Any, got: Any, right: Any) -> Any:
    """The right two clocks: one by one, and with graphs."""
    from labkit import show  # drawing is for whoever looks

    log, asks, replay = case.inputs
    if len(log) > 40:
        return None
    spans = []
    for way, each in (("one by one", asks), ("graphs", replay)):
        host, device, before = 0.0, 0.0, ""
        for number, (kind, microseconds) in enumerate(log):
            begin = host
            if kind == "wait":
                host = max(host, device)
            elif kind == "host":
                host += microseconds
            elif way == "one by one" or before != "kernel":
                host += each
            name = "asks" if kind == "kernel" else kind
            if host > begin:
                spans.append(_span(f"{way}: host", name, begin, host))
            if kind == "kernel":
                begin = max(host, device)
                device = begin + microseconds
                spans.append(_span(f"{way}: device", str(number), begin, device))
            before = kind
    return show.timeline(spans, unit="us", title="what is right; numbers are rows of the log")


def _span(lane: str, name: str, start: float, end: float) -> dict[str, Any]:
    return {"lane": lane, "name": name, "start": start, "end": end}


graph_benchmark = Exercise(
    id="frame_graphs.graph_benchmark",
    case=_a_log,
    expected=_benchmark,
    minutes=15,
    cases=150,
    tolerance=1e-6,
    smaller=_fewer,
    show=_told,
    picture=_drawn,
    stages=(
        Stage("kernels alone", case=lambda rng, size: _a_log(rng, size, False, False)),
        Stage("the host works too", case=lambda rng, size: _a_log(rng, size, False)),
        Stage("waits"),
    ),
    rules=NO_LIBRARIES,
    banned=LIBRARIES,
    hints=(
        Hint("The caller's log stays as it is: go through it with `for`.",
             when=lambda e: e.kind == "mutated"),
        Hint("The answer is a pair: (one by one, with graphs).", when=lambda e: not _pair(e.value)),
        Hint("One by one, the first number, is too small. A kernel begins when it has been asked "
             "for, and the job ends when the last one has run.", stage="kernels alone",
             when=lambda e: e.value[0] < e.right[0]),
        Hint("With graphs there is one replay, and then all kernels without a gap.",
             stage="kernels alone", when=lambda e: e.value[0] == e.right[0]),
        Hint("At the end the device may still work, or the host may: the job ends with the later "
             "of the two.", when=lambda e: e.value[0] < e.right[0]),
        Hint("One by one, the first number, is too large: while the device works, the host "
             "goes on. Only a wait holds it back.", when=lambda e: e.value[0] > e.right[0]),
        Hint("With graphs, the second number, is too small. A host row or a wait ends a graph: the "
             "next kernel costs a replay again. And a wait stays a wait.",
             when=lambda e: e.value[0] == e.right[0] and e.value[1] < e.right[1]),
        Hint("With graphs, the second number, is too large. Only the first kernel of an unbroken "
             "run costs the host a replay; the others cost nothing.",
             when=lambda e: e.value[0] == e.right[0]),
        "Two clocks, host and device; go through the rows. At a kernel: first the host asks, then "
        "device = max(host, device) + microseconds.",
        "A wait: host = max(host, device). It stays in both ways.",
    ),
    must_fail=(
        "constant 20 percent",
        "ignores overlap of launch and execution",
        "counts synchronisation",
        "ignores how many launches there are",
        "one graph for the whole log",
        "one graph per kernel",
        "ends with the host",
        "ends with the device",
        "waits that reset the clocks",
        "a host row of 0 ends no run",
        "returns the literal answer of the example in the statement",
        FIRST,
    ),
)  # fmt: skip

EXERCISES = (frame_time, smallest_batch, graph_benchmark)
