"""What the emulator costs: barrier, SGEMM against threads in Python, compile, trace.

    python benchmarks/bench_emulator.py [--json FILE]

Ratios and medians of one run on this machine; beside numba's simulator where numba is installed.
None of these numbers says anything about a GPU.
"""

import argparse
import importlib.util
import itertools
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import labkit.cuda as cuda
from labkit.bench import Bench, Total
from labkit.cuda.emulator import build
from labkit.cuda.emulator.driver import EmulatorDriver
from labkit.cuda.shelf import LADDERS, rung

BARRIERS = r"""
extern "C" __global__ void barriers(int* x, int rounds) {
    for (int i = 0; i < rounds; ++i) __syncthreads();
    if (threadIdx.x == 0) *x = rounds;
}
extern "C" __global__ void shuffles(int* x, int rounds) {
    int v = threadIdx.x;
    for (int i = 0; i < rounds; ++i) v += __shfl_xor_sync(0xffffffffu, v, 1);
    if (threadIdx.x == 0) *x = v;
}
extern "C" __global__ void nothing() { }
"""


def median_s(function, repeats=7):
    """Median seconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def barrier_ns():
    """Nanoseconds per thread and block barrier, and per lane and shuffle, one OS thread."""
    driver = EmulatorDriver(threads=1)
    module = cuda.RawModule(BARRIERS, driver=driver)
    x = np.zeros(1, np.int32)
    results, rounds, threads = {}, 2000, 256
    for name in ("barriers", "shuffles"):
        kernel = module.get_function(name)
        empty = median_s(lambda kernel=kernel: kernel(1, threads, (x, 0)))
        full = median_s(lambda kernel=kernel: kernel(1, threads, (x, rounds)))
        results[name] = (full - empty) / rounds / threads * 1e9
    kernel = module.get_function("nothing")

    def launch():
        kernel(1, 32, ())
        driver.synchronize()

    results["launch_us"] = median_s(launch, 300) * 1e6
    driver.worker.stop()
    return results


def sgemm_with_generators(a, b, tile):
    """Tiled SGEMM on NumPy arrays, one Python generator per CUDA thread, `yield` as the barrier."""
    size = len(a)
    c = np.zeros_like(a)

    def thread(row0, col0, ty, tx, shared_a, shared_b):
        total = 0.0
        for first in range(0, size, tile):
            shared_a[ty, tx] = a[row0 + ty, first + tx]
            shared_b[ty, tx] = b[first + ty, col0 + tx]
            yield
            for k in range(tile):
                total += shared_a[ty, k] * shared_b[k, tx]
            yield
        c[row0 + ty, col0 + tx] = total

    for row0 in range(0, size, tile):
        for col0 in range(0, size, tile):
            shared_a, shared_b = np.zeros((2, tile, tile), a.dtype)
            threads = [
                thread(row0, col0, y, x, shared_a, shared_b)
                for y in range(tile) for x in range(tile)
            ]  # fmt: skip
            while threads:
                threads = [one for one in threads if next(one, "done") != "done"]
    return c


def sgemm_ratio():
    """How many times faster tiled SGEMM is than with generators, per multiplication."""
    small, large = 64, 512
    a, b = np.random.default_rng(0).standard_normal((2, small, small)).astype(np.float32)
    generators = median_s(lambda: sgemm_with_generators(a, b, 32), 3) / small**3
    tiled = rung("sgemm_2_tiled")
    problem = tiled.problem(np.random.default_rng(0), (large, large, large))
    kernel, one = tiled.kernel(), problem.launches[0]
    emulator = median_s(lambda: kernel(one.grid, one.block, one.args)) / large**3
    return {
        "generators_ns_per_multiplication": generators * 1e9,
        "emulator_ns_per_multiplication": emulator * 1e9,
        "ratio": generators / emulator,
    }


def compile_s():
    """Median seconds to compile a rung, fast and traced, with an empty cache."""
    paths = [one.path for rungs in LADDERS.values() for one in rungs if not one.gpu_only]
    with tempfile.TemporaryDirectory() as cache:
        before = os.environ.get("LABKIT_CACHE")
        os.environ["LABKIT_CACHE"] = cache
        times = {
            trace: [
                median_s(lambda p=p, t=trace: build.compile_cuda(p.read_text(), str(p), trace=t), 1)
                for p in paths
            ]
            for trace in (False, True)
        }
        os.environ.pop("LABKIT_CACHE")
        if before:
            os.environ["LABKIT_CACHE"] = before
    return {
        "fast_median": statistics.median(times[False]), "fast_max": max(times[False]),
        "trace_median": statistics.median(times[True]), "trace_max": max(times[True]),
    }  # fmt: skip


def trace_ns():
    """Nanoseconds per event with everything on, per rung, and seconds of the whole call."""
    results = {}
    for rungs in LADDERS.values():
        for one in rungs:
            if one.gpu_only:
                continue
            problem = one.problem(np.random.default_rng(0), one.probe_shape)
            launch, kernel = problem.launches[0], one.kernel()

            def traced(kernel=kernel, launch=launch):
                return kernel(launch.grid, launch.block, launch.args, trace=cuda.Trace())

            events = traced().events
            seconds = median_s(traced, 5)
            results[one.name] = {"events": events, "seconds": seconds, "ns": seconds / events * 1e9}
    return results


def BENCHES():
    """For `labkit bench`: each goal is a ratio or a limit of one run."""
    driver = EmulatorDriver(why="measuring")
    a, b = np.random.default_rng(0).standard_normal((2, 128, 128)).astype(np.float32)
    c = np.zeros_like(a)
    with cuda.use(driver):
        kernel = rung("sgemm_2_tiled").kernel()
    path = rung("sgemm_4_vectorised").path
    counter = itertools.count()

    def compile_afresh():
        build.compile_cuda(f"{path.read_text()}\n// {os.getpid()} {next(counter)}", str(path))

    yield Bench(
        "tiled SGEMM of 128: emulator beside Python generators",
        lambda: kernel((4, 4), (32, 32), (a, b, c, 128, 128, 128)),
        lambda: sgemm_with_generators(a, b, 32),
        goal=1 / 1000,
        calls=1,
    )
    if importlib.util.find_spec("numba"):
        sys.path.append(str(Path(__file__).parent))
        import numba_sgemm

        few = [matrix[:32, :32].copy() for matrix in (a, b, c)]
        yield Bench(
            "tiled SGEMM of 32: emulator beside numba's simulator",
            lambda: kernel((1, 1), (32, 32), (*few, 32, 32, 32)),
            lambda: numba_sgemm.sgemm(few[0], few[1]),
            goal=1 / 1000,
            calls=1,
        )
    yield Total("compile the longest kernel of the shelf, not cached", compile_afresh, limit_s=0.6)
    with cuda.use(driver):
        one = rung("transpose_2_tiled")
        launch = one.problem(np.random.default_rng(0), one.probe_shape).launches[0]
        tiled = one.kernel()
        product = rung("sgemm_2_tiled")
        many = product.problem(np.random.default_rng(0), product.probe_shape).launches[0]
        watched = product.kernel()
        module = cuda.RawModule(BARRIERS)
        barriers, nothing = map(module.get_function, ("barriers", "nothing"))
    launches, rounds, threads, x = 200, 4000, 256, np.zeros(1, np.int32)
    yield Total(
        f"{launches} launches of an empty kernel, 100 us each",
        lambda: [nothing(1, 1, ()) for _ in range(launches)],
        limit_s=launches * 100e-6,
    )
    yield Total(
        f"{rounds} barriers of {threads} threads, 25 ns each",
        lambda: barriers(1, threads, (x, rounds)),
        limit_s=rounds * threads * 25e-9,
    )

    def watch():
        return watched(many.grid, many.block, many.args, trace=cuda.Trace())

    events = watch().events
    yield Total(f"a trace of {events} events, 30 ns each", watch, limit_s=events * 30e-9)
    yield Total(
        "a lesson-sized trace with everything on",
        lambda: tiled(launch.grid, launch.block, launch.args, trace=cuda.Trace()),
        limit_s=0.2,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with cuda.use(EmulatorDriver(why="measuring")):
        result = {
            "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores",
            "compiler": build.find_compiler().version,
            "barrier_ns": barrier_ns(), "sgemm": sgemm_ratio(), "compile_s": compile_s(),
            "trace": trace_ns(),
        }  # fmt: skip
    print(json.dumps(result, indent=1))
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
