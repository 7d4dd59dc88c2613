"""Hold the emulator's counters against Nsight Compute's, launch by launch, on a real GPU.

    python benchmarks/check_counters.py [--json FILE]

Needs a GPU, CuPy and `ncu`. The launches: every rung of the shelf on its probe, and shared memory
read at many strides with 4, 8 and 16 bytes per lane.
"""

import argparse
import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import labkit.cuda as cuda
from labkit.cuda.shelf import LADDERS

METRICS = {
    "global read requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global read sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global write requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global write sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared read wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared write wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
INDICES = (
    "t * 0", "t", "t * 2", "t * 3", "t * 4", "t * 5", "t * 8", "t * 16", "t * 32", "t * 33",
    "t / 2", "t / 4", "t / 8", "t / 16", "t % 2", "t % 4", "t % 8", "t % 16", "t / 2 * 2",
    "t / 4 * 4 + t % 2", "t ^ 1", "(t ^ 3) * 2", "t % 16 * 2", "t / 16 * 8", "t * 7 % 32",
    "t / 2 * 16",
)  # fmt: skip
"""What lane t reads of a shared array: broadcasts, strides, pairs, turns."""
PATTERN = r"""
template <class T, int which> __global__ void pattern(float* out) {
    __shared__ T s[34 * 32];
    const int t = threadIdx.x, floats = 34 * 32 * sizeof(T) / 4;
    for (int i = t; i < floats; i += 32) ((float*)s)[i] = i;
    __syncwarp();
    int index = 0;
%s
    if (which < 100 || t % 3) ((T*)out)[t] = s[index];
}
"""


def launches():
    """(name, what runs it with the options it is given) of every launch, in order."""
    for rungs in LADDERS.values():
        for rung in (rung for rung in rungs if not rung.gpu_only):
            problem = rung.problem(np.random.default_rng(0), rung.probe_shape)
            problem.launches = problem.launches[:1]
            yield rung.name, lambda rung=rung, problem=problem, **o: rung.run(problem, **o)[0]
    cases = "\n".join(f"    if (which % 100 == {i}) index = {e};" for i, e in enumerate(INDICES))
    names = [
        f"pattern<{t}, {i + masked}>"
        for t in ("float", "float2", "float4") for masked in (0, 100) for i in range(len(INDICES))
    ]  # fmt: skip
    module = cuda.RawModule(PATTERN.replace("%s", cases), name_expressions=names)
    for name in names:
        out = np.zeros(128, np.float32)
        kernel = module.get_function(name)
        yield name, lambda kernel=kernel, out=out, **o: kernel(1, 32, (out,), **o)


def emulated():
    """The same counters, from traces."""
    rows = []
    for name, run in launches():
        report = run(trace=cuda.Trace(races=False, requests=1))
        row = {"launch": name}
        for access in ("read", "write"):
            for counter in ("requests", "sectors"):
                row[f"global {access} {counter}"] = report.total(
                    counter, space="global", access=access
                )
            row[f"shared {access} wavefronts"] = report.total(
                "wavefronts", space="shared", access=access
            )
        rows.append(row)
    return rows


def measured():
    """One row per launch, read by ncu while this script runs them on the GPU."""
    told = subprocess.run(
        ["ncu", "--csv", "--clock-control", "none", "--metrics", ",".join(METRICS.values()),
         sys.executable, __file__, "--launch"],
        capture_output=True, text=True, check=False, env={**os.environ, "LABKIT_CUDA": "gpu"},
    )  # fmt: skip
    start = told.stdout.find('"ID"')
    if start < 0:
        raise SystemExit(f"ncu gave no table:\n{told.stdout[-2000:]}\n{told.stderr[-2000:]}")
    names = {metric: name for name, metric in METRICS.items()}
    rows: dict[str, dict[str, float]] = {}
    for line in csv.DictReader(io.StringIO(told.stdout[start:])):
        if line["Metric Name"] in names:
            value = float(line["Metric Value"].replace(",", ""))
            rows.setdefault(line["ID"], {})[names[line["Metric Name"]]] = value
    return [rows[key] for key in sorted(rows, key=int)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launch", action="store_true", help="only launch (what ncu watches)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.launch:
        for _, run in launches():
            run()
        return
    card = measured()
    os.environ["LABKIT_CUDA"] = "emulator"
    rows, equal, compared = [], 0, 0
    for ours, theirs in zip(emulated(), card, strict=True):
        for counter in METRICS:
            pair = ours[counter], theirs[counter]
            compared += 1
            equal += pair[0] == pair[1]
            if pair[0] != pair[1]:
                print(f"{ours['launch']}: {counter}: emulator {pair[0]}, card {pair[1]:g}")
        rows.append({"launch": ours["launch"], "emulator": ours, "card": theirs})
    print(f"{len(rows)} launches, {compared} counters, {equal} equal")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
