"""The first race of the course: 64 threads reverse 64 numbers, and one line is missing."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.course.benches import kernel_bench
from labkit.course.exercise import (
    Case,
    Evidence,
    Exercise,
    Hint,
    Raised,
    Rng,
    Stage,
    Wrong,
    handed_out,
)

TURN = """extern "C" __global__ void turn(const float* x, float* out) {
    __shared__ float s[64];  // one array for all 64 threads
    int i = threadIdx.x;     // the number of this thread: 0 to 63
    s[i] = x[i];             // write my number
    out[i] = s[63 - i];      // read the number of another thread
}
"""
"""As the chapter shows it."""
BARRIER = "__syncthreads();"
THREADS = 64
ORDERS = 60

RIGHT = {
    "numbers": "64 of 64 right",
    "findings": "no finding",
    "lines": "one barrier, all other lines as they were",
}
"""What is asked of the kernel -> what is said of one without fault."""


@dataclass(frozen=True, repr=False)
class Turned:
    """A kernel's text, and what was found out about it."""

    code: str
    said: str

    def __repr__(self) -> str:
        return self.said


def _a_launch(rng: Rng, size: int) -> Case:
    asked = rng.choice(tuple(RIGHT))
    order = "forward" if size == 0 else rng.choice(("forward", "reverse", rng.randint(1, 999)))
    numbers = [float(n) for n in range(THREADS)]
    if size:
        rng.shuffle(numbers)
    return Case((asked, numbers, order), RIGHT[asked])


def _drive(answer: Any, asked: str, numbers: list[float], order: str | int) -> Turned:
    code = str(answer())
    if asked == "lines":
        return Turned(code, _changed_lines(code))
    done = _launched(code, numbers, order, trace=asked == "findings")
    if done.failure:
        return Turned(code, done.failure)
    if asked == "findings":
        return Turned(code, (done.findings or [RIGHT["findings"]])[0])
    return Turned(code, f"{_count_right(done, numbers)} of {THREADS} right")


@handed_out
def _launched(
    code: str, numbers: list[float], order: str | int, trace: bool = False
) -> kernel_bench.Launched:
    x, out = np.array(numbers, "f"), np.zeros(THREADS, "f")
    return kernel_bench.launch(code, "turn", 1, THREADS, (x, out), order=order, trace=trace)


@handed_out
def _count_right(done: kernel_bench.Launched, numbers: list[float]) -> int:
    return int((done.arrays[1] == np.array(numbers[::-1], "f")).sum())


@handed_out
def _changed_lines(code: str) -> str:
    """What was changed in the kernel beside the barrier, which may stand on any line."""
    lines = _lines(code.replace(BARRIER, f"\n{BARRIER}\n"))
    others = [line for line in lines if line != BARRIER]
    if others != _lines(TURN):
        return "other lines were changed"
    count = len(lines) - len(others)
    return RIGHT["lines"] if count == 1 else f"{count} barriers"


@handed_out
def _lines(code: str) -> list[str]:
    """The lines without comments and outer blanks, empty ones left out."""
    stripped = (line.partition("//")[0].strip() for line in code.splitlines())
    return [line for line in stripped if line]


def _judge(case: Case, got: Any) -> Wrong | None:
    right = Turned("", RIGHT[case.inputs[0]])
    if isinstance(got, Raised) or not isinstance(got, Turned):
        return Wrong("the answer returns the text of the kernel", right)
    return None if got.said == right.said else Wrong("", right)


def _show_launch(asked: str, numbers: list[float], order: str | int) -> str:
    if asked == "lines":
        return "the text of your kernel"
    some = ", ".join(f"{n:g}" for n in numbers[:3])
    return f"64 threads, order {order}, x = [{some}, ..., {numbers[-1]:g}]"


def _race_played(case: Case, got: Any, right: Any) -> Any:
    """The learner's kernel with an order of threads that gives a wrong result."""
    from labkit import show
    from labkit.cuda.module import RawModule
    from labkit.cuda.trace import Trace
    from labkit.cuda.witness import find_witness

    kernel = RawModule(got.code, driver=kernel_bench.device()).get_function("turn")
    x, out = np.arange(THREADS, dtype="f"), np.zeros(THREADS, "f")
    report = kernel(1, THREADS, (x, out), trace=Trace())
    race = next((one for one in report.findings if one.kind == "race"), None)
    if race is None:
        return None
    witness = find_witness(kernel, 1, THREADS, (x, out), race, expected=[None, x[::-1]])
    return show.kernel(report, witness=witness or ())


def _score(answer: Any) -> str:
    code, numbers = answer(), [float(n) for n in range(THREADS)]
    right = [_count_right(_launched(code, numbers, order), numbers) for order in range(1, ORDERS)]
    right.append(_count_right(_launched(code, numbers, "reverse"), numbers))
    return f"{min(right)} of {THREADS} right, in {len(right)} orders of the threads"


def _says(*words: str) -> Any:
    def when(evidence: Evidence) -> bool:
        return any(word in evidence.got for word in words)

    return when


repair_the_race = Exercise(
    id="start_here.repair_the_race",
    rung="warm-up",
    stages=(
        Stage("right numbers", only=lambda asked, *_: asked == "numbers"),
        Stage("no finding", only=lambda asked, *_: asked == "findings"),
        Stage("one barrier"),
    ),
    case=_a_launch,
    drive=_drive,
    judge=_judge,
    returns=(Turned,),
    picture=_race_played,
    score=_score,
    show=_show_launch,
    cases=30,
    seconds=60.0,
    processes=True,
    minutes=4,
    hints=(
        Hint(
            "The compiler names the line where it noticed. Each line of CUDA ends with a "
            "semicolon: look at the line before it, too.",
            when=_says("does not compile"),
        ),
        Hint(
            "A barrier must be reached by all 64 threads: put it on a line of its own, in no if.",
            when=_says("diverge", "deadlock"),
        ),
        Hint(
            "Your kernel works. Now keep its five lines as they were, and add nothing but "
            "__syncthreads(); once.",
            stage="one barrier",
        ),
        Hint(
            "One warp still reads a place of s before the other warp has written it. Which line "
            "writes, and which line reads?",
            when=_says("of 64 right", "race"),
        ),
        "__syncthreads(); makes every thread of the block wait until all have come to this line.",
        "All writes of s have to lie before the barrier, all reads behind it.",
    ),
    must_fail=(
        "returns the kernel as it was",
        "waits before the write",
        "waits after the read",
        "waits for the own warp only",
        "makes one warp wait",
        "lets one thread do all the work",
        "leaves shared memory out",
        "waits twice",
    ),
)
