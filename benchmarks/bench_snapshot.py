"""Opening memory snapshots: labkit against pickle.loads, and against PyTorch's MemoryViz.

    python benchmarks/bench_snapshot.py                        # loading only
    python benchmarks/bench_snapshot.py --entries 450000 1500000 \\
        --memory-viz MemoryViz.js --d3 d3.bundle.mjs           # and the viewers, side by side

MemoryViz.js is torch/utils/viz/MemoryViz.js of PyTorch's repository; d3.bundle.mjs is d3 5 as one
module (esbuild --bundle --format=esm of a file that says: export * from "d3"). Both are read
from where they are and never become part of this project. Snapshots are made in a temporary folder.
`results/memory_viewers.json` keeps what was measured.
"""

import argparse
import gc
import json
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from labkit.memory.snapshots.snapshot import columns, load, load_columns

VIEWS = ("Active Memory Timeline", "Allocator State History")
CHROMIUM_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-precise-memory-info",
    "--js-flags=--max-old-space-size=8000",
]  # fmt: skip
GIB = 1 << 30


def timed(run: Any) -> float:
    """Seconds of processor time: the machine is shared."""
    began = time.process_time()
    run()
    return time.process_time() - began


def bench_load(path: Path, repeats: int = 5) -> dict[str, float]:
    """Columns against what users do (pickle.loads, collector on), its limit (collector off), and
    the columns made from a dict of every row.
    """

    def plain() -> None:
        pickle.loads(path.read_bytes())

    def without_collector() -> None:
        gc.disable()
        plain()
        gc.enable()

    runs: dict[str, list[float]] = {
        "columns": [], "every_row": [], "pickle_gc_on": [], "pickle_gc_off": [],
    }  # fmt: skip
    for _ in range(repeats):  # interleaved, so that a busy moment hits all of them
        runs["columns"].append(timed(lambda: load_columns(path)))
        runs["every_row"].append(timed(lambda: columns(load(path))))
        runs["pickle_gc_off"].append(timed(without_collector))
        runs["pickle_gc_on"].append(timed(plain))
    found = {name: statistics.median(values) for name, values in runs.items()}
    return {**found, "ratio": found["pickle_gc_on"] / found["columns"]}


def peak_memory(path: Path) -> float:
    """GiB a fresh process needs to load the columns, above what it has after its imports."""
    code = (
        "import sys; from labkit.memory.snapshots.snapshot import load_columns;"
        "most = lambda: int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]);"
        "before = most(); load_columns(sys.argv[1]); print(most() - before)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    ).stdout
    return int(output) * 1024 / GIB


def processor_ms(system: Any) -> float:
    """Of every process of the browser, and of this one, which serves the pages."""
    processes = system.send("SystemInfo.getProcessInfo")["processInfo"]
    return 1000 * (time.process_time() + sum(process["cpuTime"] for process in processes))


def bench_viewers(
    path: Path, memory_viz: Path, d3: Path, chromium: str, repeats: int
) -> dict[str, Any]:
    """Milliseconds to open and to step in both viewers, each in a page of its own."""
    from memory_viewer_page import Pages
    from playwright.sync_api import sync_playwright

    found: dict[str, Any] = {}
    files = {"snapshot": path, "memory_viz": memory_viz, "d3": d3}
    with Pages(files) as pages, sync_playwright() as playwright:

        def measure(name: str, function: str, argument: Any, steps: str, count: int) -> None:
            browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.set_default_timeout(600_000)
            page.goto(pages.url)
            call = "async ([name, argument]) => (await import('/viewers.js'))[name](argument)"
            system = browser.new_browser_cdp_session()
            before = processor_ms(system)
            opened = page.evaluate(call, [function, argument])
            opened["cpu"] = processor_ms(system) - before
            heap = page.context.new_cdp_session(page).send("Runtime.getHeapUsage")
            opened["heap"] = heap["usedSize"] + heap.get("backingStorageSize", 0)
            result = found.setdefault(name, {key: [] for key in opened})
            for key, value in opened.items():
                result[key].append(value)
            if steps:
                result["steps"] = page.evaluate(call, [steps, count])
            browser.close()

        for _ in range(repeats):
            measure("memory_map", "openMemoryMap", None, "stepMemoryMap", 24)
            for view in VIEWS:
                steps = "stepMemoryViz" if view == VIEWS[1] else ""
                measure(view, "openMemoryViz", view, steps, 5)
    return found


def report(size: int, entries: int, found: dict[str, Any]) -> None:
    """A line per viewer, and the ratios."""
    middle = {
        name: {k: statistics.median(v) for k, v in result.items() if k != "steps"}
        for name, result in found.items()
    }
    ours = middle["memory_map"]
    print(f"\n{size / 1e6:.0f} MB, {entries:,} entries ({len(found['memory_map']['total'])} runs)")
    for name, row in middle.items():
        python = f", of it Python {row['python']:.0f}" if "python" in row else ""
        print(
            f"  {name:26} end to end {row['total']:7.0f} ms{python}; in the browser "
            f"{row['browser']:6.0f} ms; CPU {row['cpu']:.0f} ms; heap {row['heap'] / 1e6:.0f} MB"
        )
    for view in VIEWS:
        print(
            f"  against {view}: {middle[view]['total'] / ours['total']:.1f} x end to end, "
            f"{middle[view]['browser'] / ours['browser']:.1f} x in the browser, "
            f"{middle[view]['cpu'] / ours['cpu']:.1f} x of processor time"
        )
    for name in ("memory_map", VIEWS[1]):
        for kind, times in found[name]["steps"].items():
            ran, painted = ([time[key] for time in times] for key in ("ran", "painted"))
            print(
                f"  {name} {kind}: {statistics.median(ran):.1f} ms, worst {max(ran):.1f}; "
                f"until painted {statistics.median(painted):.0f}, worst {max(painted):.0f} "
                f"({len(times)} times)"
            )


def main() -> None:
    """Measure and print; --json writes the figures too."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[450_000])
    parser.add_argument("--memory-viz", type=Path)
    parser.add_argument("--d3", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        for entries in arguments.entries:
            path = Path(folder) / "snapshot.pickle"
            maker = Path(__file__).with_name("synthetic_snapshot.py")
            subprocess.run(  # a process of its own: its memory must not count here
                [sys.executable, str(maker), str(entries), str(path)],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            size = path.stat().st_size
            timings = bench_load(path, arguments.repeats)
            memory = peak_memory(path)
            print(
                f"{size / 1e6:.0f} MB, {entries:,} entries: columns {timings['columns']:.2f} s "
                f"({timings['every_row']:.2f} s by way of every row), "
                f"pickle.loads {timings['pickle_gc_on']:.2f} s with the collector "
                f"({timings['pickle_gc_off']:.2f} s without): {timings['ratio']:.1f} x; "
                f"{memory:.2f} GiB at most"
            )
            results[entries] = {"bytes": size, "load": timings, "peak_gib": memory}
            if arguments.memory_viz and arguments.d3:
                viewers = bench_viewers(
                    path, arguments.memory_viz, arguments.d3, arguments.chromium, arguments.repeats
                )
                report(size, entries, viewers)
                results[entries]["viewers"] = viewers
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
