"""`labkit bench`: two things side by side in one run, and the ratio between them.

Nothing here is a time to be proud of: machines differ, and a loaded one differs from itself. What
is kept is the ratio of two things measured in turns, A B A B, in the same seconds.
"""

import argparse
import gc
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
Clock = Literal["cpu", "process", "wall"]
CLOCKS: dict[Clock, Callable[[], int]] = {
    "cpu": time.thread_time_ns,
    "process": time.process_time_ns,
    "wall": time.perf_counter_ns,
}


@dataclass(frozen=True)
class Bench:
    """One question: how long does `mine` take beside `other`?

    name      what is compared, in a few words
    mine, other  functions without arguments, doing the same amount of work per call
    goal      the ratio mine / other should be at most this; None: only reported
    calls     calls per sample; enough that one sample takes a millisecond
    work      how many operations one call of mine does: times, and the ratio, are per operation
    of_other  how many one call of other does, where it is another number
    clock     one of CLOCKS: "cpu" leaves out the time other programs take, for work on one thread
              alone, "process" is the processor time of all threads; "wall" is for everything
              that waits
    """

    name: str
    mine: Callable[[], Any]
    other: Callable[[], Any]
    goal: float | None = None
    calls: int = 2_000
    work: int = 1
    clock: Clock = "wall"
    of_other: int | None = None


@dataclass(frozen=True)
class Total:
    """One question with a limit in seconds: how long does `mine` take once?

    clock  as Bench's
    """

    name: str
    mine: Callable[[], Any]
    limit_s: float
    clock: Clock = "wall"


@dataclass(frozen=True)
class Count:
    """One question about what comes out, not how long it takes: two numbers and their ratio.

    mine, other  functions that return what is counted; a ratio to 0 is taken to 1
    goal         the ratio mine / other should be at most this
    """

    name: str
    mine: Callable[[], float]
    other: Callable[[], float]
    goal: float


@dataclass(frozen=True)
class Result:
    """What one question gave.

    mine_ns, other_ns  medians per operation; of a Count, what was counted
    unit               "ns", or nothing for a Count
    ratio              median over the samples of mine / other, taken in turns
    spread             smallest and largest of those ratios
    """

    name: str
    mine_ns: float
    other_ns: float | None
    ratio: float | None
    spread: tuple[float, float] | None
    goal: float
    met: bool
    samples: int = field(default=0)
    unit: str = "ns"

    def __str__(self) -> str:
        verdict = "" if self.goal == float("inf") else "met" if self.met else "MISSED"
        if self.ratio is None or self.spread is None or self.other_ns is None:
            return f"{self.name}: {self.mine_ns / 1e9:.2f} s, goal {self.goal:.2f} s {verdict}"
        low, high = self.spread
        unit = f" {self.unit}" if self.unit else ""
        goal = "" if self.goal == float("inf") else f", goal {self.goal:.3g}"
        return (
            f"{self.name}: {self.mine_ns:,.0f}{unit} beside {self.other_ns:,.0f}{unit}, "
            f"ratio {self.ratio:.3g} ({low:.3g} to {high:.3g}{goal}) {verdict}"
        )


def check_samples(samples: int) -> None:
    """Pass for nine and more.

    Raises   ValueError   fewer
    """
    if samples < 9:
        raise ValueError(f"a median of {samples} samples says little; take at least 9")


def measure(bench: Bench | Total | Count, samples: int = 9) -> Result:
    """The medians of `samples` turns; both sides run once first.

    Raises   ValueError   fewer than nine samples
    """
    check_samples(samples)
    if isinstance(bench, Count):
        mine, other = bench.mine(), bench.other()
        share = mine / max(other, 1)
        return Result(
            bench.name, mine, other, share, (share, share), bench.goal, share <= bench.goal, 1, ""
        )
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()  # a collection would land on whichever side is running
    try:
        if isinstance(bench, Total):
            clock = CLOCKS[bench.clock]
            taken = statistics.median(_time(bench.mine, 1, clock) for _ in range(3))
            return Result(
                bench.name, taken, None, None, None, bench.limit_s, taken / 1e9 <= bench.limit_s, 3
            )
        bench.mine(), bench.other()
        clock = CLOCKS[bench.clock]
        of_other = bench.of_other or bench.work
        pairs = [
            (
                _time(bench.mine, bench.calls, clock) / bench.work,
                _time(bench.other, bench.calls, clock) / of_other,
            )
            for _ in range(samples)
        ]
    finally:
        if was_enabled:
            gc.enable()
    ratios = [mine / other for mine, other in pairs]
    ratio = statistics.median(ratios)
    goal = float("inf") if bench.goal is None else bench.goal
    mine_ns = statistics.median(mine for mine, _ in pairs)
    other_ns = statistics.median(other for _, other in pairs)
    spread = (min(ratios), max(ratios))
    return Result(bench.name, mine_ns, other_ns, ratio, spread, goal, ratio <= goal, samples)


def _time(function: Callable[[], Any], calls: int, clock: Callable[[], int]) -> float:
    turns = range(calls)
    start = clock()
    for _ in turns:
        function()
    return (clock() - start) / calls


def discover(names: Sequence[str] = ()) -> dict[str, Callable[[], Iterable[Bench | Total | Count]]]:
    """Bench name -> what makes its questions, from every `bench_<name>.py` that offers BENCHES.

    Raises   ValueError   a name without a file
    """
    files = {
        path.stem.removeprefix("bench_"): path for path in sorted(BENCHMARKS.glob("bench_*.py"))
    }
    unknown = [name for name in names if name not in files]
    if unknown:
        raise ValueError(f"no benchmark called {unknown[0]!r}; there are {', '.join(files)}")
    found = {}
    for name in names or files:
        spec = importlib.util.spec_from_file_location(f"labkit_bench_{name}", files[name])
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        if hasattr(module, "BENCHES"):
            found[name] = module.BENCHES
    return found


def machine() -> dict[str, Any]:
    """What a ratio must be read with: processor, versions, load."""
    import torch

    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("names", nargs="*", help="benchmarks to run, default all")
    parser.add_argument("--samples", type=int, default=21, help="turns per question (default 21)")
    parser.add_argument("--json", metavar="FILE", help="write the results here as well")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, and return 1 when a goal was missed."""
    import torch

    torch.set_num_threads(1)
    try:
        check_samples(arguments.samples)
        found = discover(arguments.names)
    except ValueError as error:
        raise SystemExit(f"labkit bench: {error}") from None
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores, load {about['load'][0]:.1f}")
    print(f"Python {about['python']}, torch {about['torch']}, one thread", flush=True)
    results: dict[str, list[Result]] = {}
    for name, benches in found.items():
        print(f"== {name}", flush=True)
        for bench in benches():
            result = measure(bench, arguments.samples)
            results.setdefault(name, []).append(result)
            print(f"  {result}", flush=True)
    if arguments.json:
        plain = {name: [asdict(one) for one in many] for name, many in results.items()}
        text = json.dumps({"machine": about, "results": plain}, indent=1)
        Path(arguments.json).write_text(text.replace("Infinity", "null") + "\n", encoding="utf-8")
    return int(any(not one.met for many in results.values() for one in many))
